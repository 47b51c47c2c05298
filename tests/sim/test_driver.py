"""The driver: one run from prompt to outcome, and nothing of it left when it is over."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop import (
    Callbacks,
    Compaction,
    ExponentialBackoff,
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    RunawayRun,
    Scenario,
    ScriptExhausted,
    Simulation,
    arun,
    run,
    simulate,
)
from simloop.kernel import effects, signals
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.kernel.states import Measuring
from simloop.loops.reference import ReferenceLoop
from simloop.messages import AssistantMessage, FinishReason, Request, ToolMessage, UserMessage
from simloop.scenario.replies import Pace
from simloop.sim.driver import Driver
from simloop.sim.model import FunctionModel
from simloop.sim.world import World
from simloop.trace import entries
from simloop.trace.codec import encode

MS = 1_000_000
S = 1_000 * MS
LOOK = Reply(say="I look.", call={"look": {}})
DONE = Reply(say="Done.")
HANGS = Reply(stall="before-headers")


def paced(**waits: str) -> Pace:
    return Pace.model_validate(waits)


def look() -> str:
    return "seen"


def play(*replies: Reply, **options: Any) -> Result:
    """A run with a script that need not be used up."""
    script = iter(replies)
    scenario = Scenario(prompt="Go.", **options)
    return Simulation(scenario, model=lambda _: next(script), tools=[look]).run()


def backoffs(result: Result) -> list[int]:
    return [e.delay_ns for e in result.trace.entries if isinstance(e, entries.Backoff)]


# ------------------------------------------------------------------------- a whole run


def test_the_transcript_holds_prompt_replies_and_results_in_order() -> None:
    messages = play(LOOK, DONE).messages
    (call,) = messages[1].calls if isinstance(messages[1], AssistantMessage) else ()
    assert messages == (
        UserMessage("Go."),
        AssistantMessage("I look.", (call,)),
        ToolMessage("call-1", "seen"),
        AssistantMessage("Done."),
    )


def test_the_text_of_a_run_is_the_models_last_words() -> None:
    assert play(LOOK, DONE).text == "Done."


def test_a_run_that_ends_early_keeps_the_last_words_there_were() -> None:
    assert play(LOOK, Reply(http=Http(status=401))).text == "I look."


def test_a_completed_run_tells_its_text() -> None:
    assert play(LOOK, DONE).message == "Done."


@pytest.mark.parametrize(
    ("replies", "limits", "outcome", "message"),
    [
        ([LOOK, LOOK], {"max_steps": 2}, "max-steps", "Max steps reached, task may be incomplete."),
        ([Reply(say="a", finish="length")], {}, "context-limit", "Context limit reached."),
        ([Reply(say="a", finish="content-filter")], {}, "content-filtered", "Content filtered."),
        ([Reply(say="a", finish="error")], {}, "model-error", "Task failed."),
        ([Reply(http=Http(status=401))], {}, "failed", "Error: 401 Unauthorized"),
        ([Reply(http=Http(status=500))] * 3, {}, "too-many-errors",
         "Failed after 3 errors: 500 Internal Server Error"),
        ([HANGS], {"max_wall_clock_ms": 5}, "timed-out",
         "Time limit reached, task may be incomplete."),
    ],
)  # fmt: skip
def test_every_early_end_says_what_it_is(
    replies: list[Reply], limits: dict[str, int], outcome: str, message: str
) -> None:
    result = play(*replies, limits=Limits(**limits))
    assert (result.outcome, result.message) == (outcome, message)


def test_a_reply_that_cannot_be_used_is_not_sent_back() -> None:
    messages = play(Reply(say="Half.", unfinished=True), DONE).messages
    assert messages == (UserMessage("Go."), AssistantMessage("Done."))


@pytest.mark.parametrize(
    "reply",
    [
        Reply(say="Half.", call={"look": {}}, unfinished=True),
        Reply(say="Half.", call={"look": {}}, lost="mid-output"),
        Reply(say="Half.", call={"look": {}}, finish="length"),
    ],
)
def test_calls_of_a_reply_that_broke_off_are_not_run(reply: Reply) -> None:
    result = play(reply, DONE, LOOK)
    assert not [e for e in result.trace.entries if isinstance(e, entries.ToolStarted)]


def test_no_request_ends_with_an_assistant_message() -> None:
    replies = iter([Reply(say="Half.", finish="other"), LOOK, Reply(finish="stop"), DONE])
    model = FunctionModel(lambda _: next(replies))
    Simulation(Scenario(prompt="Go."), model=model, tools=[look]).run()
    last = [request.messages[-1] for request in model.requests]
    assert not [message for message in last if isinstance(message, AssistantMessage)]


def test_a_step_number_counts_model_calls() -> None:
    numbers: list[int] = []
    callbacks = Callbacks(on_step_finish=lambda number, _: numbers.append(number))
    scenario = Scenario(prompt="Go.", model=[LOOK, Reply(http=Http(status=503)), DONE])
    Simulation(scenario, tools=[look], callbacks=callbacks).run()
    assert numbers == [1, 3]


# ------------------------------------------------------------------------- after the run


async def goes_on_after(scenario: Scenario, end: Callable[[Simulation], None]) -> float:
    """What the caller does after the run, until 10 s; when it got there."""
    simulation = Simulation(scenario)
    await simulation.arun()
    end(simulation)
    await asyncio.sleep(10)
    return time.monotonic()


@pytest.mark.parametrize(
    "options",
    [{}, {"limits": Limits(max_wall_clock_ms=1_000)}, {"abort": {"at": "1s"}}],
    ids=["no bound", "wall clock", "abort"],
)
def test_a_run_that_is_over_does_not_stop_its_caller_later(options: dict[str, Any]) -> None:
    scenario = Scenario(prompt="Go.", model=[DONE], **options)
    assert simulate(goes_on_after(scenario, lambda _: None)) == 10


def test_a_run_that_raised_does_not_stop_its_caller_later() -> None:
    bounded = Scenario(prompt="Go.", limits=Limits(max_wall_clock_ms=1_000))

    async def main() -> float:
        with pytest.raises(ScriptExhausted):
            await arun(bounded)
        await asyncio.sleep(10)
        return time.monotonic()

    assert simulate(main()) == 10


def test_a_run_that_was_cancelled_does_not_stop_its_caller_later() -> None:
    bounded = Scenario(prompt="Go.", limits=Limits(max_wall_clock_ms=5_000), model=[HANGS])

    async def give_up() -> None:
        async with asyncio.timeout(3):
            await arun(bounded)

    async def main() -> float:
        with pytest.raises(TimeoutError):
            await give_up()
        await asyncio.sleep(10)
        return time.monotonic()

    assert simulate(main()) == 13


def test_to_abort_a_run_that_is_over_has_no_effect() -> None:
    scenario = Scenario(prompt="Go.", model=[DONE])
    assert simulate(goes_on_after(scenario, Simulation.abort)) == 10


def test_the_wall_clock_of_one_run_does_not_stop_the_next_one() -> None:
    bounded = Scenario(prompt="Go.", limits=Limits(max_wall_clock_ms=5), model=[DONE])

    async def main() -> Outcome:
        await arun(bounded)
        return (await arun(slow("10ms"))).outcome

    assert simulate(main()) is Outcome.COMPLETED


# ------------------------------------------------------------------------- stopped from outside


def cancelled_from_outside(
    *, also_abort: bool, tool: Callable[..., Any] | None = None
) -> asyncio.Task[Result]:
    """The task of a run that hangs and is cancelled after a second."""
    reply = HANGS if tool is None else Reply(call={tool.__name__: {}})
    simulation = Simulation(
        Scenario(prompt="Go."), model=lambda _: reply, tools=[tool] if tool else []
    )

    async def main() -> asyncio.Task[Result]:
        task = asyncio.create_task(simulation.arun())
        await asyncio.sleep(1)
        if also_abort:
            simulation.abort()
        task.cancel()
        await asyncio.wait([task])
        return task

    return simulate(main())


async def hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("tool", [None, hangs], ids=["in the model", "in a tool"])
@pytest.mark.parametrize("also_abort", [False, True], ids=["alone", "with an abort"])
def test_a_cancellation_from_outside_is_never_swallowed(
    also_abort: bool,  # noqa: FBT001
    tool: Callable[..., Any] | None,
) -> None:
    assert cancelled_from_outside(also_abort=also_abort, tool=tool).cancelled()


def test_a_timeout_from_outside_ends_a_run() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(arun(Scenario(prompt="Go.", model=[HANGS])), 3)
        return time.monotonic()

    assert simulate(main()) == 3


def slow(wait: str) -> Scenario:
    return Scenario(prompt="Go.", model=[Reply(say=wait, pace=paced(first_part=wait))])


def test_two_runs_at_once_do_not_disturb_each_other() -> None:
    async def main() -> list[tuple[str, int]]:
        results = await asyncio.gather(arun(slow("3s")), arun(slow("2s")))
        return [(result.text, result.elapsed_ns) for result in results]

    assert simulate(main()) == [("3s", 3 * S), ("2s", 2 * S)]


def test_time_of_a_run_is_counted_from_its_own_start() -> None:
    async def main() -> int:
        await asyncio.sleep(100)
        return (await arun(slow("1s"))).elapsed_ns

    assert simulate(main()) == S


def test_entries_of_a_run_are_dated_from_its_own_start() -> None:
    async def main() -> Result:
        await asyncio.sleep(100)
        return await arun(Scenario(prompt="Go.", model=[DONE]))

    assert simulate(main()).trace.entries[0].at_ns == 0


# ------------------------------------------------------------------------- retries


def test_backoff_doubles() -> None:
    failures = [Reply(http=Http(status=503))] * 6
    result = play(*failures, DONE, limits=Limits(max_error_count=7))
    assert [ns // S for ns in backoffs(result)] == [2, 4, 8, 16, 30, 30]


def test_a_run_waits_as_long_as_the_backoff_says() -> None:
    failures = [Reply(http=Http(status=503))] * 2
    assert play(*failures, DONE).elapsed_ns == 6 * S


def test_retry_after_is_kept_to_the_nanosecond() -> None:
    result = play(Reply(http=Http.model_validate({"status": 429, "retry_after": "1.5s"})), DONE)
    assert (backoffs(result), result.elapsed_ns) == ([3 * S // 2], 3 * S // 2)


def test_a_wait_that_the_provider_asked_for_is_recorded_as_such() -> None:
    result = play(
        Reply(http=Http.model_validate({"status": 429, "retry_after": "1s"})),
        Reply(http=Http(status=503)),
        DONE,
    )
    asked = [e.retry_after for e in result.trace.entries if isinstance(e, entries.Backoff)]
    assert asked == [True, False]


def test_retry_after_as_a_date_is_read_by_the_virtual_clock() -> None:
    headers = {"Retry-After": "Thu, 01 Jan 2026 00:00:07 GMT"}
    assert backoffs(play(Reply(http=Http(status=429, headers=headers)), DONE)) == [7 * S]


def test_a_useless_reply_after_a_rate_limit_does_not_wait_as_the_rate_limit_asked() -> None:
    result = play(
        Reply(http=Http.model_validate({"status": 429, "retry_after": "100s"})),
        Reply(finish="stop"),
        DONE,
    )
    assert backoffs(result) == [100 * S, 4 * S]


JITTERY = ExponentialBackoff(jitter=0.5)


def jittered(seed: int) -> list[int]:
    failures = [Reply(http=Http(status=503))] * 2
    return backoffs(play(*failures, DONE, retry=JITTERY, seed=seed))


@given(st.integers(0, 2**63 - 1))
@settings(deadline=None, max_examples=20)
def test_jitter_is_the_same_for_the_same_seed(seed: int) -> None:
    assert jittered(seed) == jittered(seed)


def test_jitter_differs_by_seed() -> None:
    assert len({tuple(jittered(seed)) for seed in range(20)}) == 20


def test_jitter_differs_from_wait_to_wait() -> None:
    first, second = jittered(0)
    assert 2 * first != second


@given(st.integers(0, 1_000))
@settings(deadline=None, max_examples=20)
def test_jitter_takes_off_no_more_than_its_share(seed: int) -> None:
    first, second = jittered(seed)
    assert S <= first <= 2 * S
    assert 2 * S <= second <= 4 * S


def test_other_users_of_the_seed_do_not_change_the_jitter() -> None:
    def model(_: Request) -> Reply:
        return next(script)

    script = iter([Reply(http=Http(status=503))] * 2 + [DONE])
    simulation = Simulation(Scenario(prompt="Go.", retry=JITTERY), model=model)
    simulation.seeds.stream("tool-latency").random()
    assert backoffs(simulation.run()) == jittered(0)


# ------------------------------------------------------------------------- bounds


class Treadmill(ReferenceLoop):
    """A loop design that measures its context for ever."""

    def advance(self, run: Run, signal: Signal) -> Transition:
        if isinstance(signal, signals.Began | signals.ContextMeasured):
            return Run(Measuring()), (effects.MeasureContext(),)
        return super().advance(run, signal)


def test_a_loop_that_does_not_bound_itself_is_stopped_after_max_transitions() -> None:
    async def main(record: list[Any]) -> None:
        world = World(model=FunctionModel(lambda _: "Done."), max_transitions=50)
        await Driver(Treadmill(), world, record).drive("Go.")

    record: list[Any] = []
    with pytest.raises(RunawayRun, match="max_transitions=50"):
        simulate(main(record))
    assert len(record) == 50


def test_the_context_is_compacted_from_the_trigger_on() -> None:
    def compactions(window: int) -> int:
        scenario = Scenario(
            prompt="x" * 384,
            compaction=Compaction(window=window, trigger_percent=100),
            model=[DONE],
        )
        return run(scenario).counters.compaction_attempts

    assert (compactions(100), compactions(101)) == (1, 0)


# ------------------------------------------------------------------------- determinism


REPLIES = st.sampled_from(
    [
        LOOK,
        Reply(call=[{"look": {}}, {"gone": {}}, {"look": "{"}]),
        Reply(say="a b c", call={"look": {}}, pace=paced(first_part="3ms", per_part="1ms")),
        Reply(http=Http(status=503)),
        Reply(finish="stop"),
        Reply(say="Half.", finish="length"),
        Reply(say="Half.", unfinished=True),
        HANGS,
    ]
)


@given(st.lists(REPLIES, max_size=6), st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_the_same_scenario_and_seed_give_the_same_bytes(replies: list[Reply], seed: int) -> None:
    def trace() -> bytes:
        return encode(play(*replies, DONE, retry=JITTERY, seed=seed).trace)

    assert trace() == trace()


@given(st.lists(REPLIES, max_size=6))
@settings(deadline=None, max_examples=40)
def test_entries_are_numbered_without_a_gap_and_time_never_goes_back(replies: list[Reply]) -> None:
    recorded = play(*replies, DONE).trace.entries
    assert [entry.seq for entry in recorded] == list(range(len(recorded)))
    assert [entry.at_ns for entry in recorded] == sorted(entry.at_ns for entry in recorded)


@given(st.lists(REPLIES, max_size=6))
@settings(deadline=None, max_examples=40)
def test_the_footer_repeats_what_the_result_says(replies: list[Reply]) -> None:
    result = play(*replies, DONE)
    footer = result.trace.footer
    assert footer is not None
    assert (footer.outcome, footer.text, footer.message, footer.elapsed_ns, footer.total_steps) == (
        result.outcome,
        result.text,
        result.message,
        result.elapsed_ns,
        result.counters.total_steps,
    )


@given(st.lists(REPLIES, max_size=8), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_the_work_of_a_run_is_bounded_by_its_limits(
    replies: list[Reply], steps: int, errors: int, compactions: int
) -> None:
    limits = Limits(max_steps=steps, max_error_count=errors, max_compaction_attempts=compactions)
    result = play(*replies, *[LOOK] * 10, limits=limits)
    main = [
        e for e in result.trace.entries if isinstance(e, entries.Request) and e.purpose == "main"
    ]
    assert len(main) <= steps + errors + compactions


def test_the_outcome_of_a_finish_reason_does_not_depend_on_the_way_it_was_spelled() -> None:
    assert play(Reply(say="Done.", finish="end_turn")).outcome is Outcome.COMPLETED
    assert FinishReason.read("end_turn") is FinishReason.OTHER
