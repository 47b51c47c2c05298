"""Every run that the reference loop can reach under small limits, visited one by one.

The walks here use a world of their own, wider than the alphabet: every signal with every value that
decides, so that the alphabet itself can be judged. That a run ends, its bounds, and that its map is
exact, is proved in tests/prove.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import product

import pytest

from simloop.kernel import effects, signals, states
from simloop.kernel.effects import Effect, EndRun
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Run, Transition, checked_transition
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


ROOMY = small(3, 2, 2)


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


# The alphabet


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


def test_what_the_user_said_is_taken_up_before_each_measuring_and_never_else() -> None:
    for _, _, after, asked in moves(ROOMY):
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


# Outcomes


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
