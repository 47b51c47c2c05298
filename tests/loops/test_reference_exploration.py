"""Every run that the reference loop can reach under small limits, visited one by one.

The walks here use a world of their own, wider than the alphabet: every signal with every value that
decides, so that the alphabet itself can be judged.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from simloop.kernel import effects, signals, states
from simloop.kernel.effects import Effect, EndRun
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import IllegalSignal, Run, Transition, checked_transition
from simloop.kernel.signals import Signal
from simloop.loops.reference import LEGAL, ReferenceLoop
from simloop.messages import FinishReason, Outcome
from simloop.prove.alphabet import ENDINGS, answers

BOTH = (True, False)
MAX_STEPS_PER_ROUND = 2
TOO_MANY_RUNS = 10_000  # the largest map here has 2,116

WORLD: tuple[Signal, ...] = (
    signals.Began(),
    *(signals.ContextMeasured(over) for over in BOTH),
    *(signals.ContextCompacted(shrunk) for shrunk in BOTH),
    *(
        signals.ModelReplied(*reply)
        for reply in product(FinishReason, BOTH, BOTH, range(1, MAX_STEPS_PER_ROUND + 2))
    ),
    *(signals.ModelFailed(*failure) for failure in product(ErrorClass, BOTH)),
    *(signals.ToolsReturned(blocked) for blocked in BOTH),
    *(signals.StepClosed(*waiting) for waiting in product(BOTH, BOTH)),
    signals.BackoffElapsed(),
    signals.HookFailed(),
    signals.CallBlocked(),
    signals.AbortRequested(),
    signals.WallClockExpired(),
)

Asked = tuple[Effect, ...]
Alphabet = Callable[[Run, Asked], Iterable[Signal]]
Explored = Mapping[Run, Mapping[Signal, Transition]]


def small(steps: int, errors: int, compactions: int, burst: int = MAX_STEPS_PER_ROUND) -> Limits:
    return Limits(
        max_steps=steps,
        max_error_count=errors,
        max_compaction_attempts=compactions,
        max_steps_per_round=burst,
    )


LIMITS = [
    pytest.param(small(*budget), id="-".join(map(str, budget)))
    for budget in [(1, 1, 0), (1, 3, 2), (2, 2, 1), (3, 1, 2), (4, 3, 0), (3, 2, 2)]
]
ROOMY = small(3, 2, 2)


under_every_limit = pytest.mark.parametrize("limits", LIMITS)


def world(run: Run, asked: Asked) -> Iterable[Signal]:
    """List every signal that the map lets arrive."""
    return [signal for signal in WORLD if type(signal) in LEGAL[type(run.state)]]


def alphabet(run: Run, asked: Asked) -> Iterable[Signal]:
    """List the signals that can answer what was asked for last, and those that end any run."""
    if not asked:
        return (signals.Began(),)
    if isinstance(asked[-1], EndRun):
        return answers(asked[-1], MAX_STEPS_PER_ROUND)
    return (*answers(asked[-1], MAX_STEPS_PER_ROUND), *ENDINGS)


def explore(loop: ReferenceLoop, arrivals: Alphabet) -> Explored:
    """Visit every run that `arrivals` can lead to, after all that it may have asked for last."""
    seen: dict[Run, dict[Signal, Transition]] = {}
    start: Transition = (loop.start(), ())
    known, frontier = {start}, [start]
    while frontier:
        reached: dict[Transition, None] = {}
        for run, asked in frontier:
            moved = {
                signal: checked_transition(loop, run, signal) for signal in arrivals(run, asked)
            }
            seen.setdefault(run, {}).update(moved)
            reached.update(dict.fromkeys(moved.values()))
        frontier = [place for place in reached if place not in known]
        known.update(frontier)
        assert len(seen) < TOO_MANY_RUNS, "a budget grows without end"
    return seen


@cache
def visited(limits: Limits) -> Explored:
    return explore(ReferenceLoop(limits), world)


def moves(limits: Limits) -> Iterable[tuple[Run, Signal, Run, Asked]]:
    for run, arrivals in visited(limits).items():
        for signal, (after, asked) in arrivals.items():
            yield run, signal, after, asked


SEEDED = settings(derandomize=True, max_examples=50)


def most_transitions(limits: Limits) -> int:
    """Count the transitions of the longest run.

    The prompt is 1. A step that goes on is 4 (measured, replied, tools, closed), and so is the last
    one. An error that is tried again is 3 (measured, failed, waited), an overflow that makes room 3
    (measured, failed, compacted).
    """
    retries = limits.max_error_count - 1
    return 1 + 4 * limits.max_steps + 3 * retries + 3 * limits.max_compaction_attempts


# Termination


@SEEDED
@given(
    limits=st.builds(
        small, st.integers(1, 9), st.integers(1, 5), st.integers(0, 4), st.integers(1, 5)
    ),
    choices=st.lists(st.integers(0, 10**6), min_size=80, max_size=80),
)
def test_any_walk_over_the_alphabet_stays_on_the_map_and_ends_in_time(
    limits: Limits, choices: list[int]
) -> None:
    loop = ReferenceLoop(limits)
    moved: Transition = (loop.start(), ())
    walked = 0
    while arrivals := tuple(alphabet(*moved)):
        choice = choices[walked]  # the bound for these limits is under 80
        moved = checked_transition(loop, moved[0], arrivals[choice % len(arrivals)])
        walked += 1
    assert walked <= most_transitions(limits) < len(choices)


# The map


def test_every_edge_of_the_map_is_taken_and_no_other() -> None:
    drawn = {
        (state, signal, target)
        for state, arrivals in LEGAL.items()
        for signal, targets in arrivals.items()
        for target in targets
    }
    taken: set[tuple[type[Struct], type[Struct], type[Struct]]] = {
        (type(run.state), type(signal), type(after.state)) for run, signal, after, _ in moves(ROOMY)
    }
    assert taken == drawn


def test_every_signal_that_is_not_on_the_map_is_refused() -> None:
    loop = ReferenceLoop(ROOMY)
    for run in {type(run.state): run for run in visited(ROOMY)}.values():
        for signal in {type(signal): signal for signal in WORLD}.values():
            if type(signal) not in LEGAL[type(run.state)]:
                with pytest.raises(IllegalSignal):
                    checked_transition(loop, run, signal)


# The alphabet


def places(limits: Limits) -> set[tuple[Run, Asked]]:
    """List every run that can be reached, with what was asked for last."""
    return {
        (ReferenceLoop(limits).start(), ()),
        *((run, asked) for *_, run, asked in moves(limits)),
    }


def test_the_map_accepts_nothing_that_cannot_arrive() -> None:
    """A state may wait for calls that are run or refused: its row is for both."""
    arriving: dict[type[Struct], set[type[Struct]]] = {state: set() for state in LEGAL}
    for run, asked in places(ROOMY):
        arriving[type(run.state)] |= {type(signal) for signal in alphabet(run, asked)}
    assert arriving == {state: set(accepted) for state, accepted in LEGAL.items()}


def test_the_alphabet_reaches_every_run_where_replies_report_one_step_or_a_burst() -> None:
    loop = ReferenceLoop(small(3, 2, 2, burst=MAX_STEPS_PER_ROUND - 1))
    one_or_two = [
        signal
        for signal in WORLD
        if not isinstance(signal, signals.ModelReplied) or signal.steps <= MAX_STEPS_PER_ROUND
    ]

    def narrow(run: Run, _: Asked) -> Iterable[Signal]:
        return [signal for signal in one_or_two if type(signal) in LEGAL[type(run.state)]]

    assert set(explore(loop, alphabet)) == set(explore(loop, narrow))


# Effects


def awaited(run: Run) -> set[Effect]:
    """List what a run in this state may be waiting for."""
    match run.state:
        case states.Measuring():
            return {effects.MeasureContext()}
        case states.Compacting(forced=forced):
            return {effects.Compact(forced)}
        case states.CallingModel():
            return {effects.CallModel()}
        case states.RunningTools(reply=reply):
            return {effects.RunTools(), effects.RefuseTools(reply.finish)}
        case states.ClosingStep():
            return {effects.CloseStep(keep=keep) for keep in BOTH}
        case states.BackingOff():
            return {effects.Backoff(run.error_count)}
        case states.Finished():
            return {effects.EndRun()}
        case _:
            return set()


@under_every_limit
def test_a_run_always_asks_for_what_its_new_state_waits_for(limits: Limits) -> None:
    for _, _, after, asked in moves(limits):
        assert asked[-1] in awaited(after)


@under_every_limit
def test_what_the_user_said_is_taken_up_before_each_measuring_and_never_else(
    limits: Limits,
) -> None:
    for _, _, after, asked in moves(limits):
        assert (effects.TakeQueued() in asked) == isinstance(after.state, states.Measuring)


@pytest.mark.parametrize("finish", ["length", "content-filter", "error", "interrupted"])
def test_the_calls_of_a_reply_that_was_cut_off_are_never_run(finish: str) -> None:
    for _, signal, _, asked in moves(ROOMY):
        if isinstance(signal, signals.ModelReplied) and signal.finish == finish:
            assert effects.RunTools() not in asked


def test_a_reply_without_text_or_calls_never_stays_in_the_context() -> None:
    for _, signal, _, asked in moves(ROOMY):
        if isinstance(signal, signals.ModelReplied) and not (signal.text or signal.calls):
            assert asked == (effects.CloseStep(keep=False),)


def test_a_run_that_goes_on_never_keeps_a_reply_without_calls() -> None:
    """A request must not end with an assistant message: what goes on needs results after it."""
    kept = (effects.CloseStep(keep=True),)
    for _, signal, after, asked in moves(ROOMY):
        if isinstance(signal, signals.ModelReplied) and asked == kept:
            closed, _ = visited(ROOMY)[after][signals.StepClosed()]
            assert isinstance(closed.state, states.Finished)


def test_a_reply_that_was_interrupted_never_stays_in_the_context() -> None:
    for _, _, after, asked in moves(ROOMY):
        if isinstance(after.state, states.ClosingStep):
            broken = after.state.reply.finish is FinishReason.INTERRUPTED
            assert not (broken and effects.CloseStep(keep=True) in asked)


# Budgets


@under_every_limit
def test_no_budget_is_ever_overspent(limits: Limits) -> None:
    for run in visited(limits):
        assert 0 <= run.error_count <= limits.max_error_count
        assert 0 <= run.compaction_attempts <= limits.max_compaction_attempts
        assert 0 <= run.total_steps <= limits.max_steps + MAX_STEPS_PER_ROUND


def is_an_error(run: Run, signal: Signal) -> bool:
    """Say whether `signal` tells of a failed call or closes the step of a useless reply."""
    if isinstance(signal, signals.ModelFailed):
        return signal.error not in {ErrorClass.OVERFLOW, ErrorClass.ABORTED}
    if not (isinstance(signal, signals.StepClosed) and isinstance(run.state, states.ClosingStep)):
        return False
    match run.state.reply:
        case states.ReplyFacts(finish=FinishReason.INTERRUPTED):
            return True
        case states.ReplyFacts(finish=FinishReason.TOOL_CALLS, calls=calls):
            return not calls
        case states.ReplyFacts(
            finish=FinishReason.STOP | FinishReason.OTHER, text=text, calls=calls
        ):
            return not (text or calls)
    return False


@under_every_limit
def test_errors_grow_by_one_per_failed_or_useless_reply_and_by_nothing_else(limits: Limits) -> None:
    for run, signal, after, _ in moves(limits):
        assert after.error_count - run.error_count == is_an_error(run, signal)


# Outcomes


@under_every_limit
def test_every_outcome_can_be_reached(limits: Limits) -> None:
    ended = (run.state for run in visited(limits))
    outcomes = {state.outcome for state in ended if isinstance(state, states.Finished)}
    assert outcomes == set(Outcome)


LIMITS_OF: Mapping[Outcome, set[str]] = {
    Outcome.MAX_STEPS: {"max_steps", "max_steps_per_round"},
    Outcome.TOO_MANY_ERRORS: {"max_error_count"},
    Outcome.CONTEXT_LIMIT: {"max_compaction_attempts", ""},
    Outcome.TIMED_OUT: {"max_wall_clock"},
}


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_names_the_limit_that_ended_the_run_if_one_did(outcome: Outcome) -> None:
    limits = {
        run.state.limit
        for run in visited(ROOMY)
        if isinstance(run.state, states.Finished) and run.state.outcome is outcome
    }
    assert limits == LIMITS_OF.get(outcome, {""})


def test_a_run_completes_only_on_a_reply_with_text() -> None:
    for run, _, after, _ in moves(ROOMY):
        if after.state == states.Finished(Outcome.COMPLETED):
            assert isinstance(run.state, states.ClosingStep)
            assert run.state.reply.text


def test_a_run_completes_only_when_no_call_waits_for_the_model_to_see_its_result() -> None:
    for run, _, after, _ in moves(ROOMY):
        if after.state == states.Finished(Outcome.COMPLETED):
            assert isinstance(run.state, states.ClosingStep)
            assert not run.state.reply.calls
