"""The loop of document 001: until the reply holds no tool calls, and no message waits."""

from itertools import product

import pytest
from exploration import BOTH, WORLD
from incases import in_cases

from simloop import Limits, Outcome
from simloop.kernel import effects, states
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Feature, IllegalSignal, Transition, checked_transition
from simloop.kernel.policies import ToolOrder
from simloop.kernel.signals import (
    AbortRequested,
    Began,
    CallBlocked,
    ContextCompacted,
    ContextMeasured,
    HookFailed,
    ModelFailed,
    ModelReplied,
    Signal,
    StepClosed,
    ToolsReturned,
    WallClockExpired,
)
from simloop.loops import pi
from simloop.loops.pi import LEGAL, VERSIONS, Delivery, PiLoop, PiOptions
from simloop.messages import FinishReason, Queue
from simloop.prove.alphabet import ENDINGS, answers

SECOND = 10**9
FITS = ContextMeasured(over=False)
KEEP: tuple[Effect, ...] = (effects.CloseStep(keep=True),)
RUN_TOOLS = effects.RunTools()
STEER = (effects.TakeQueued(Queue.STEERING, one=True), effects.MeasureContext())
FOLLOW = (effects.TakeQueued(Queue.FOLLOW_UP, one=True), effects.MeasureContext())
COMPLETED = states.Finished(Outcome.COMPLETED)
FILTERED = states.Finished(Outcome.CONTENT_FILTERED)
BROKEN = states.Finished(Outcome.MODEL_ERROR)
ABORTED = states.Finished(Outcome.ABORTED)
GO_ON = states.Measuring()


def replied(finish: str, *, text: bool = True, calls: bool = False) -> ModelReplied:
    return ModelReplied(FinishReason(finish), text, calls)


ANSWER, CALLS = replied("stop"), replied("tool-calls", calls=True)
ROUND: tuple[Signal, ...] = (FITS, CALLS, ToolsReturned(), StepClosed())

# One way into each state, without `Began`.
WAYS: dict[type, tuple[Signal, ...]] = {
    states.Measuring: (),
    states.Compacting: (ContextMeasured(over=True),),
    states.CallingModel: (FITS,),
    states.RunningTools: (FITS, CALLS),
    states.ClosingStep: (FITS, ANSWER),
}
STATES = pytest.mark.parametrize("state", WAYS)


def play(*arrivals: Signal, **options: object) -> Transition:
    """Take a run from its beginning through `arrivals`; the last transition."""
    loop = PiLoop(options=PiOptions(**options))  # type: ignore[arg-type]
    moved = checked_transition(loop, loop.start(), Began())
    for signal in arrivals:
        moved = checked_transition(loop, moved[0], signal)
    return moved


def arriving(asked: tuple[Effect, ...]) -> tuple[Signal, ...]:
    """Every signal that can answer what was asked last, and those that end any run."""
    return (*answers(asked[-1], 2), *ENDINGS)


# The machine


def test_every_state_but_the_first_and_the_last_has_a_way_into_it() -> None:
    assert set(WAYS) == set(LEGAL) - {states.Ready, states.Finished}
    assert all(isinstance(play(*way)[0].state, state) for state, way in WAYS.items())


@STATES
def test_a_state_accepts_what_can_answer_it_and_an_early_end_and_nothing_else(state: type) -> None:
    moved, asked = play(*WAYS[state])
    for signal in (accepted := arriving(asked)):
        checked_transition(PiLoop(), moved, signal)
    for signal in WORLD:
        if type(signal) not in {type(one) for one in accepted}:
            with pytest.raises(IllegalSignal):
                checked_transition(PiLoop(), moved, signal)


def test_a_run_begins_by_taking_what_the_user_said_and_measuring() -> None:
    assert play() == (play()[0].to(states.Measuring()), STEER)


@pytest.mark.parametrize("signal", [FITS, *map(ContextCompacted, BOTH)], ids=str)
def test_the_model_is_called_when_the_context_fits_or_was_compacted_helpful_or_not(
    signal: Signal,
) -> None:
    way = () if signal == FITS else WAYS[states.Compacting]
    after, asked = play(*way, signal)
    assert (after.state, asked) == (states.CallingModel(), (effects.CallModel(),))


def test_a_context_over_the_trigger_is_compacted_every_time() -> None:
    for rounds in range(4):
        after, asked = play(*ROUND * rounds, ContextMeasured(over=True))
        assert after.state == states.Compacting(forced=False)
        assert asked == (effects.Compact(forced=False),)


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


def test_a_forbidden_call_does_not_stop_the_run() -> None:
    assert play(FITS, CALLS, ToolsReturned(blocked=True), StepClosed())[1] == STEER


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


@in_cases(product(ErrorClass, BOTH))
def test_a_failed_model_call_ends_the_run_whatever_it_was(
    error: ErrorClass,
    retryable: bool,  # noqa: FBT001
) -> None:
    aborted = error is ErrorClass.ABORTED
    ended = ABORTED if aborted else states.Finished(Outcome.FAILED)
    assert play(FITS, ModelFailed(error, retryable))[0].state == ended


@pytest.mark.parametrize("state", [states.CallingModel, states.RunningTools, states.ClosingStep])
def test_a_hook_that_fails_the_run_ends_it(state: type) -> None:
    assert play(*WAYS[state], HookFailed())[0].state == states.Finished(Outcome.FAILED)


def test_a_model_call_that_a_hook_forbids_ends_the_run_as_blocked() -> None:
    assert play(FITS, CallBlocked())[0].state == states.Finished(Outcome.BLOCKED)


@STATES
def test_an_abort_or_the_wall_clock_ends_the_run_in_any_state(state: type) -> None:
    assert play(*WAYS[state], AbortRequested())[0].state == ABORTED
    ended = states.Finished(Outcome.TIMED_OUT, "max_wall_clock")
    assert play(*WAYS[state], WallClockExpired())[0].state == ended


def test_a_round_leads_back_to_a_run_equal_to_the_first_one() -> None:
    assert play(*ROUND) == play()
    assert play(*ROUND * 1_000) == play()


@STATES
def test_limits_and_equal_options_make_no_difference(state: type) -> None:
    """Equal runs of equal machines behave equally; limits are none of its business."""
    one, other = PiLoop(), PiLoop(Limits(max_steps=1, max_error_count=1), PiOptions())
    moved, asked = play(*WAYS[state])
    arrivals = arriving(asked)
    assert [checked_transition(one, moved, s) for s in arrivals] == [
        checked_transition(other, moved, s) for s in arrivals
    ]
    assert (one.bounds, list(one.unsupported)) == ({}, [Feature.EARLY_TOOLS])


# Options


@pytest.mark.parametrize(
    ("options", "closed", "asked"),
    [
        ({"steering": Delivery.ALL}, StepClosed(steering=True), Queue.STEERING),
        ({"follow_up": Delivery.ALL}, StepClosed(follow_up=True), Queue.FOLLOW_UP),
    ],
    ids=["steering", "follow-up"],
)
def test_a_queue_gives_one_message_at_a_time_or_all(
    options: dict[str, Delivery], closed: StepClosed, asked: Queue
) -> None:
    taken = [play(FITS, ANSWER, closed, **given)[1][0] for given in ({}, options)]
    assert taken == [effects.TakeQueued(asked, one=True), effects.TakeQueued(asked, one=False)]


def test_tools_run_one_by_one_or_in_parallel() -> None:
    orders = [
        PiLoop(options=PiOptions(parallel=p)).policies.tool_execution.order for p in (False, True)
    ]
    assert orders == [ToolOrder.SEQUENTIAL, ToolOrder.PARALLEL]


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


@pytest.mark.parametrize(
    "difference",
    [
        "`details.error` of a failed tool is its message and not its stack",
        "`temperature: 0.7` and `maxTokens: 4096` with each request",
        "`prepareNextTurn`, `prepareRequest` and `finishTurn`",
        "`transformContext` and `convertToLlm`",
        "`prepareArguments` of a tool",
    ],
)
def test_what_is_not_modelled_of_the_real_loop_is_listed(difference: str) -> None:
    assert difference in " ".join((pi.__doc__ or "").split())
