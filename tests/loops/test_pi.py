"""The loop of document 001: until the reply holds no tool calls, and no message waits."""

from itertools import product

import pytest

from simloop import Outcome
from simloop.kernel import effects, states
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Feature, Transition, checked_transition
from simloop.kernel.signals import (
    Began,
    ContextCompacted,
    ContextMeasured,
    ModelReplied,
    Signal,
    StepClosed,
    ToolsReturned,
)
from simloop.loops.pi import VERSIONS, Delivery, PiLoop, PiOptions
from simloop.messages import FinishReason, Queue

BOTH = (True, False)
FITS = ContextMeasured(over=False)
KEEP: tuple[Effect, ...] = (effects.CloseStep(keep=True),)
RUN_TOOLS = effects.RunTools()
STEER = (effects.TakeQueued(Queue.STEERING, one=True), effects.MeasureContext())
FOLLOW = (effects.TakeQueued(Queue.FOLLOW_UP, one=True), effects.MeasureContext())
COMPLETED = states.Finished(Outcome.COMPLETED)
FILTERED = states.Finished(Outcome.CONTENT_FILTERED)
BROKEN = states.Finished(Outcome.MODEL_ERROR)
GO_ON = states.Measuring()


def replied(finish: str, *, text: bool = True, calls: bool = False) -> ModelReplied:
    return ModelReplied(FinishReason(finish), text, calls)


ANSWER, CALLS = replied("stop"), replied("tool-calls", calls=True)

# One way into each state, without `Began`.
WAYS: dict[type, tuple[Signal, ...]] = {
    states.Measuring: (),
    states.Compacting: (ContextMeasured(over=True),),
    states.CallingModel: (FITS,),
    states.RunningTools: (FITS, CALLS),
    states.ClosingStep: (FITS, ANSWER),
}


def play(*arrivals: Signal, **options: object) -> Transition:
    """Take a run from its beginning through `arrivals`; the last transition."""
    loop = PiLoop(options=PiOptions(**options))  # type: ignore[arg-type]
    moved = checked_transition(loop, loop.start(), Began())
    for signal in arrivals:
        moved = checked_transition(loop, moved[0], signal)
    return moved


# The machine


@pytest.mark.parametrize("signal", [FITS, *map(ContextCompacted, BOTH)], ids=str)
def test_the_model_is_called_when_the_context_fits_or_was_compacted_helpful_or_not(
    signal: Signal,
) -> None:
    way = () if signal == FITS else WAYS[states.Compacting]
    after, asked = play(*way, signal)
    assert (after.state, asked) == (states.CallingModel(), (effects.CallModel(),))


# finish reason: what the calls of a reply come to, where it leads with calls and without any.
TABLE: dict[str, tuple[Effect, states.State, states.Finished]] = {
    "stop": (RUN_TOOLS, GO_ON, COMPLETED),
    "tool-calls": (RUN_TOOLS, GO_ON, COMPLETED),
    "length": (RUN_TOOLS, GO_ON, COMPLETED),
    "other": (RUN_TOOLS, GO_ON, COMPLETED),
    "content-filter": (effects.RefuseTools(FinishReason.CONTENT_FILTER), FILTERED, FILTERED),
    "error": (effects.RefuseTools(FinishReason.ERROR), BROKEN, BROKEN),
    "interrupted": (effects.RefuseTools(FinishReason.INTERRUPTED), BROKEN, BROKEN),
}
every_reply = pytest.mark.parametrize(("finish", "text"), list(product(TABLE, BOTH)))


def test_the_table_has_every_finish_reason() -> None:
    assert set(TABLE) == set(map(str, FinishReason))


@every_reply
def test_a_reply_with_calls_leads_where_its_row_says(finish: str, text: bool) -> None:  # noqa: FBT001
    reply = replied(finish, text=text, calls=True)
    asked_for, leads_to, _ = TABLE[finish]
    assert play(FITS, reply)[1] == (asked_for,)
    assert play(FITS, reply, ToolsReturned())[1] == KEEP
    assert play(FITS, reply, ToolsReturned(), StepClosed())[0].state == leads_to


@every_reply
def test_a_reply_without_calls_ends_the_run(finish: str, text: bool) -> None:  # noqa: FBT001
    reply = replied(finish, text=text)
    assert play(FITS, reply)[1] == KEEP
    after, asked = play(FITS, reply, StepClosed())
    ended = TABLE[finish][2]
    assert (after.state, asked) == (ended, (effects.EndRun(),))


@pytest.mark.parametrize(
    ("reply", "queued", "follow_up", "asked"),
    [
        pytest.param(CALLS, False, False, STEER, id="calls-go-on"),
        pytest.param(CALLS, True, True, STEER, id="steering-goes-with-calls"),
        pytest.param(CALLS, False, True, STEER, id="a-follow-up-waits-while-there-are-calls"),
        pytest.param(ANSWER, True, False, STEER, id="steering-prolongs-the-run"),
        pytest.param(ANSWER, True, True, STEER, id="steering-goes-before-a-follow-up"),
        pytest.param(ANSWER, False, True, FOLLOW, id="a-follow-up-comes-when-it-would-be-over"),
    ],
)
def test_what_waits_is_taken_in_the_documented_order(
    reply: ModelReplied,
    queued: bool,  # noqa: FBT001
    follow_up: bool,  # noqa: FBT001
    asked: tuple[Effect, ...],
) -> None:
    returned = (ToolsReturned(),) if reply.calls else ()
    closed = StepClosed(steering=queued, follow_up=follow_up)
    assert play(FITS, reply, *returned, closed)[1] == asked


@pytest.mark.parametrize("finish", ["error", "interrupted", "content-filter"])
def test_the_queues_are_not_polled_after_an_error(finish: str) -> None:
    closed = StepClosed(steering=True, follow_up=True)
    assert play(FITS, replied(finish), closed)[0].state == TABLE[finish][2]


# Options


@pytest.mark.parametrize(
    ("options", "closed", "asked"),
    [
        ({"steering": "all"}, StepClosed(steering=True), Queue.STEERING),
        ({"follow_up": "all"}, StepClosed(follow_up=True), Queue.FOLLOW_UP),
    ],
    ids=["steering", "follow-up"],
)
def test_a_queue_gives_one_message_at_a_time_or_all(
    options: dict[str, Delivery], closed: StepClosed, asked: Queue
) -> None:
    taken = [play(FITS, ANSWER, closed, **given)[1][0] for given in ({}, options)]
    assert taken == [effects.TakeQueued(asked, one=True), effects.TakeQueued(asked, one=False)]


def test_calls_of_a_reply_that_was_cut_off_are_run_or_refused() -> None:
    cut = replied("length", calls=True)
    assert play(FITS, cut)[1] == (RUN_TOOLS,)
    refused = play(FITS, cut, refuse_cut_calls=True)[1]
    assert refused == (effects.RefuseTools(FinishReason.LENGTH),)
    closed = (ToolsReturned(), StepClosed())
    assert play(FITS, cut, *closed, refuse_cut_calls=True)[1] == STEER, "and the run goes on"


def test_an_abort_ends_the_documents_run_and_is_a_flag_in_the_program() -> None:
    loops = (PiLoop(), PiLoop(options=VERSIONS["0.87.1"]))
    assert [loop.policies.abort_is_flag for loop in loops] == [False, True]


def test_the_program_calls_the_model_without_a_look_at_the_size_of_the_context() -> None:
    loop = PiLoop(options=VERSIONS["0.87.1"])
    began = checked_transition(loop, loop.start(), Began())
    assert began == (began[0].to(states.CallingModel()), (STEER[0], effects.CallModel()))
    called = checked_transition(
        loop, checked_transition(loop, began[0], CALLS)[0], ToolsReturned()
    )[0]
    assert checked_transition(loop, called, StepClosed()) == began
    assert loop.unsupported[Feature.COMPACTION] == "pi has no compaction in this version"
    assert Feature.COMPACTION not in PiLoop().unsupported


@pytest.mark.parametrize("finish", ["error", "interrupted", "content-filter"])
@pytest.mark.parametrize("resend", BOTH)
def test_a_reply_that_fails_stays_in_the_context_or_does_not(finish: str, resend: bool) -> None:  # noqa: FBT001
    asked = play(FITS, replied(finish), resend_failed=resend)[1]
    assert asked == (effects.CloseStep(keep=resend),)


@pytest.mark.parametrize(("terminate", "leads_to"), [(True, COMPLETED), (False, GO_ON)])
def test_results_that_ask_for_the_end_of_the_run_end_it_where_that_is_an_option(
    terminate: bool,  # noqa: FBT001
    leads_to: states.State,
) -> None:
    way = (FITS, CALLS, ToolsReturned(terminate=True))
    assert play(*way, StepClosed(), terminate=terminate)[0].state == leads_to
    assert play(*way, StepClosed(steering=True), terminate=True)[1] == STEER
    assert play(*way, StepClosed(follow_up=True), terminate=True)[1] == FOLLOW
