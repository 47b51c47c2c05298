"""The finish-reason table of documents 000/002, every row with and without text and calls."""

from itertools import product

import pytest
from incases import in_cases

from simloop.kernel import effects, states
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Run, Transition, checked_transition
from simloop.kernel.signals import (
    Began,
    ContextCompacted,
    ContextMeasured,
    ModelFailed,
    ModelReplied,
    Signal,
    StepClosed,
    ToolsReturned,
)
from simloop.kernel.states import State
from simloop.loops.reference import ReferenceLoop
from simloop.messages import FinishReason, Outcome

Signals = tuple[Signal, ...]

FITS, OVER = ContextMeasured(over=False), ContextMeasured(over=True)
SHRUNK, NO_GAIN = ContextCompacted(shrunk=True), ContextCompacted(shrunk=False)


RATE_LIMITED: Signals = (FITS, ModelFailed(ErrorClass.RATE_LIMIT, retryable=True))
REFUSED: Signals = (FITS, ModelFailed(ErrorClass.AUTH, retryable=False))
OVERFLOW: Signals = (FITS, ModelFailed(ErrorClass.OVERFLOW, retryable=False))


def replied(finish: str, *, text: bool = True, calls: bool = False, steps: int = 1) -> Signals:
    """Play one whole step."""
    answered = (ToolsReturned(),) if calls else ()
    reply = ModelReplied(FinishReason(finish), text, calls, steps)
    return (FITS, reply, *answered, StepClosed())


TOOLS = replied("tool-calls", calls=True)
ANSWER = replied("stop")
LENGTH = replied("length")
EMPTY = replied("stop", text=False)

# What every round begins with.
MEASURE: tuple[Effect, ...] = (effects.TakeQueued(), effects.MeasureContext())

# One way into each state, without `Began`.
WAYS: dict[type, Signals] = {
    states.Measuring: (),
    states.Compacting: (OVER,),
    states.CallingModel: (FITS,),
    states.RunningTools: TOOLS[:2],
    states.ClosingStep: TOOLS[:3],
    states.BackingOff: RATE_LIMITED,
}


def play(*arrivals: Signal, **limits: int) -> Transition:
    """Take a run from its beginning through `arrivals`; the last transition."""
    loop = ReferenceLoop(Limits(**limits))
    moved = checked_transition(loop, loop.start(), Began())
    for signal in arrivals:
        moved = checked_transition(loop, moved[0], signal)
    return moved


def ending(*arrivals: Signal, **limits: int) -> states.Finished:
    """Where the run ended, which it must."""
    run, asked = play(*arrivals, **limits)
    assert isinstance(run.state, states.Finished)
    assert asked == (effects.EndRun(),)
    return run.state


RUN_TOOLS = effects.RunTools()
KEEP, DROP = effects.CloseStep(keep=True), effects.CloseStep(keep=False)
GO_ON, RETRY = states.Measuring(), states.BackingOff()
MAKE_ROOM = states.Compacting(forced=True)
COMPLETED = states.Finished(Outcome.COMPLETED)
FILTERED = states.Finished(Outcome.CONTENT_FILTERED)
BROKEN = states.Finished(Outcome.MODEL_ERROR)


def refuse(finish: str) -> Effect:
    return effects.RefuseTools(FinishReason(finish))


# (finish reason, text, calls): what the reply asks for, and where its step leads.
TABLE: dict[tuple[str, bool, bool], tuple[Effect, State]] = {
    ("stop", True, False): (KEEP, COMPLETED),
    ("stop", False, False): (DROP, RETRY),
    ("stop", True, True): (RUN_TOOLS, GO_ON),
    ("stop", False, True): (RUN_TOOLS, GO_ON),
    ("tool-calls", True, False): (DROP, RETRY),
    ("tool-calls", False, False): (DROP, RETRY),
    ("tool-calls", True, True): (RUN_TOOLS, GO_ON),
    ("tool-calls", False, True): (RUN_TOOLS, GO_ON),
    ("length", True, False): (DROP, MAKE_ROOM),
    ("length", False, False): (DROP, MAKE_ROOM),
    ("length", True, True): (refuse("length"), MAKE_ROOM),
    ("length", False, True): (refuse("length"), MAKE_ROOM),
    ("content-filter", True, False): (KEEP, FILTERED),
    ("content-filter", False, False): (DROP, FILTERED),
    ("content-filter", True, True): (refuse("content-filter"), FILTERED),
    ("content-filter", False, True): (refuse("content-filter"), FILTERED),
    ("error", True, False): (DROP, BROKEN),
    ("error", False, False): (DROP, BROKEN),
    ("error", True, True): (refuse("error"), BROKEN),
    ("error", False, True): (refuse("error"), BROKEN),
    ("other", True, False): (KEEP, COMPLETED),
    ("other", False, False): (DROP, RETRY),
    ("other", True, True): (RUN_TOOLS, GO_ON),
    ("other", False, True): (RUN_TOOLS, GO_ON),
    ("interrupted", True, False): (DROP, RETRY),
    ("interrupted", False, False): (DROP, RETRY),
    ("interrupted", True, True): (refuse("interrupted"), RETRY),
    ("interrupted", False, True): (refuse("interrupted"), RETRY),
}
OUT_OF_ERRORS = states.Finished(Outcome.TOO_MANY_ERRORS, "max_error_count")

Row = tuple[str, bool, bool]


def row_id(row: Row) -> str:
    finish, text, calls = row
    carried = [word for word, there in (("text", text), ("calls", calls)) if there]
    return f"{finish}-with-{'-and-'.join(carried) or 'nothing'}"


every_row = in_cases(TABLE, row_id)
rows_with_calls = in_cases([row for row in TABLE if row[2]], row_id)


def take(row: Row, steps: int = 1, **limits: int) -> tuple[ReferenceLoop, Transition]:
    """Play a fresh run up to the reply of `row`."""
    loop = ReferenceLoop(Limits(**limits))
    run, _ = checked_transition(loop, loop.start(), Began())
    run, _ = checked_transition(loop, run, ContextMeasured(over=False))
    finish, text, calls = row
    return loop, checked_transition(
        loop, run, ModelReplied(FinishReason(finish), text, calls, steps)
    )


def close(row: Row, steps: int = 1, **limits: int) -> Transition:
    """Play a fresh run to the decision after the reply of `row`."""
    loop, (run, _) = take(row, steps, **limits)
    if isinstance(run.state, states.RunningTools):
        run, _ = checked_transition(loop, run, ToolsReturned())
    return checked_transition(loop, run, StepClosed())


def test_the_table_has_every_finish_reason_with_and_without_text_and_calls() -> None:
    assert set(TABLE) == set(product(map(str, FinishReason), (True, False), (True, False)))


@every_row
def test_a_reply_asks_for_what_its_row_says(row: Row) -> None:
    _, (_, asked) = take(row)
    assert asked == (TABLE[row][0],)


@every_row
def test_a_step_leads_where_its_row_says(row: Row) -> None:
    run, _ = close(row)
    assert run.state == TABLE[row][1]


@every_row
def test_a_reply_counts_as_an_error_only_if_it_is_tried_again(row: Row) -> None:
    run, _ = close(row)
    assert run.error_count == (TABLE[row][1] == RETRY)


@rows_with_calls
def test_a_reply_whose_calls_have_results_stays_in_the_context_unless_broken(row: Row) -> None:
    loop, (run, _) = take(row)
    _, asked = checked_transition(loop, run, ToolsReturned())
    assert asked == (DROP if row[0] == "interrupted" else KEEP,)


@every_row
def test_at_the_last_step_a_reply_that_would_go_on_ends_the_run(row: Row) -> None:
    state = TABLE[row][1]
    ended = states.Finished(Outcome.MAX_STEPS, "max_steps")
    run, _ = close(row, max_steps=1)
    assert run.state == (state if isinstance(state, states.Finished) else ended)


@every_row
def test_a_burst_that_would_go_on_ends_the_run(row: Row) -> None:
    state = TABLE[row][1]
    ended = states.Finished(Outcome.MAX_STEPS, "max_steps_per_round")
    run, _ = close(row, steps=3, max_steps_per_round=2)
    assert run.state == (state if isinstance(state, states.Finished) else ended)


@every_row
def test_at_the_last_error_a_useless_reply_ends_the_run(row: Row) -> None:
    state = TABLE[row][1]
    run, _ = close(row, max_error_count=1)
    assert run.state == (OUT_OF_ERRORS if state == RETRY else state)


@every_row
def test_without_compactions_a_reply_that_needs_room_ends_the_run(row: Row) -> None:
    state = TABLE[row][1]
    ended = states.Finished(Outcome.CONTEXT_LIMIT, "max_compaction_attempts")
    run, _ = close(row, max_compaction_attempts=0)
    assert run.state == (ended if state == MAKE_ROOM else state)


@pytest.mark.parametrize(
    ("row", "limits", "message"),
    [
        pytest.param(
            ("tool-calls", False, True),
            {"max_steps": 1},
            "Max steps reached, task may be incomplete.",
            id="tool-calls-at-the-step-limit",
        ),
        pytest.param(
            ("length", True, False),
            {"max_compaction_attempts": 0},
            "Context limit reached.",
            id="length-that-cannot-compact",
        ),
        pytest.param(("content-filter", False, False), {}, "Content filtered.", id="filtered"),
        pytest.param(("error", False, False), {}, "Task failed.", id="error"),
        pytest.param(("other", True, False), {}, "Task completed.", id="others"),
    ],
)
def test_a_row_that_ends_the_run_tells_the_user_in_the_documents_words(
    row: Row, limits: dict[str, int], message: str
) -> None:
    run, _ = close(row, **limits)
    assert told(run) == message


@pytest.mark.parametrize("said", [StepClosed(steering=True), StepClosed(follow_up=True)], ids=str)
def test_an_answer_goes_on_if_the_user_has_said_more_whenever_it_is_to_be_heard(
    said: StepClosed,
) -> None:
    loop = ReferenceLoop()
    closing = Run(states.ClosingStep(states.ReplyFacts(FinishReason.STOP, text=True, calls=False)))
    assert checked_transition(loop, closing, said) == (Run(states.Measuring()), MEASURE)


def told(run: Run) -> str:
    assert isinstance(run.state, states.Finished)
    return run.state.outcome.message()
