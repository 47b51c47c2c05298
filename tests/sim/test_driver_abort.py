"""Stopping a run: wherever it waits it ends there and then, once, and leaves nothing open."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop import (
    Callbacks,
    Compaction,
    HookIsolation,
    Hooks,
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    Scenario,
    Simulation,
    ToolExecution,
    simulate,
)
from simloop.kernel.policies import ToolOrder
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import AssistantMessage, Finish, Message, Request, ToolMessage
from simloop.scenario.replies import Pace
from simloop.sim.interrupts import GRACE_NS
from simloop.sim.simulate import running_loop
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace

MS = 1_000_000
PAD = "word " * 40
PARALLEL = ToolExecution(order=ToolOrder.PARALLEL)
POINTS = ("before_llm_call", "after_llm_call", "before_tool_call", "after_tool_call")
CALLBACKS = (
    "on_chunk", "on_text", "on_tool_call", "on_tool_result", "on_step_finish", "on_response",
    "on_compacted",
)  # fmt: skip


class Stop:
    """The user's stop button; notes when it was pressed and how far the trace had come."""

    def __init__(self, *, presses: int = 1) -> None:
        self.presses = presses
        self.simulation: Simulation | None = None
        self.at_ns = -1
        self.mark = -1

    def __call__(self, *_: object) -> None:
        assert self.simulation is not None
        if self.at_ns < 0:
            self.at_ns = running_loop().now_ns
            self.mark = len(self.simulation.trace.entries)
        for _press in range(self.presses):
            self.simulation.abort()


@dataclass(frozen=True)
class Stopped:
    """A run that was stopped: how it ended, and where the trace stood when that was asked."""

    result: Result
    at_ns: int
    mark: int
    tasks_left: int

    @property
    def entries(self) -> list[AnyEntry]:
        return self.result.trace.entries


def play(scenario: Scenario, stop: Stop, *, at_ns: int | None = None, **code: Any) -> Stopped:
    """Run it, pressing `stop` at that instant if one is given, else where `code` does."""
    simulation = stop.simulation = Simulation(scenario, **code)

    async def main() -> Stopped:
        if at_ns is not None:
            running_loop().call_at_ns(at_ns, stop)
        result = await simulation.arun()
        return Stopped(result, stop.at_ns, stop.mark, len(asyncio.all_tasks()) - 1)

    return simulate(main())


def paced(**waits: str) -> Pace:
    return Pace.model_validate(waits)


def script(*replies: Reply, summaries: Sequence[Reply] = ()) -> Callable[[Request], Reply]:
    """A model that plays replies and does not mind if the run ends before them."""
    main, side = iter(replies), iter(summaries)
    return lambda request: next(side if request.purpose == "summary" else main)


# ---------------------------------------------------------------- what must hold of a stopped run


def begun_after(stopped: Stopped) -> list[AnyEntry]:
    """Model calls and tool starts after the stop was asked for."""
    later = stopped.entries[stopped.mark :]
    return [entry for entry in later if isinstance(entry, entries.Request | entries.ToolStarted)]


def unpaired(messages: Sequence[Message]) -> list[str]:
    """Ids of calls that are not answered exactly once right after the reply, and of stray results.

    Ids may repeat, so the results are compared with the calls by position.
    """
    wrong, index = [], 0
    while index < len(messages):
        message = messages[index]
        index += 1
        calls = message.calls if isinstance(message, AssistantMessage) else ()
        wanted = [call.id for call in calls]
        answers: list[str] = []
        while index < len(messages) and isinstance(answer := messages[index], ToolMessage):
            answers.append(answer.call_id)
            index += 1
        if wanted != answers:
            wrong += [*wanted, *answers]
    return wrong


def unanswered(trace: LoopTrace) -> Counter[str]:
    """Announced calls without a result entry, or with more than one."""
    announced = Counter(e.call_id for e in trace.entries if isinstance(e, entries.ToolCall))
    answered = Counter(e.call_id for e in trace.entries if isinstance(e, entries.ToolResult))
    announced.subtract(answered)
    return Counter({call_id: count for call_id, count in announced.items() if count})


def last_words(trace: LoopTrace) -> str:
    """The text of the newest reply that has any, from the parts that had arrived."""
    words, reply, main = "", "", True
    for entry in trace.entries:
        if isinstance(entry, entries.Request):
            main, reply = entry.purpose == "main", ""
        elif isinstance(entry, entries.TextDelta) and main:
            reply += entry.text
            words = reply or words
    return words


def endings(trace: LoopTrace) -> list[str]:
    """The signals that led to the end: there must be one, as the last transition."""
    moves = [e for e in trace.entries if isinstance(e, entries.Transition)]
    assert moves[-1].state == "finished"
    return [move.signal for move in moves if move.state == "finished"]


# ----------------------------------------------------------------------------------- situations


async def nap(milliseconds: float) -> None:
    await asyncio.sleep(milliseconds / 1_000)


def stopper(stop: Stop, how: str) -> Callable[..., Any]:
    """User code that is stopped in the middle, or that itself presses the button."""

    def presses(*_: object) -> None:
        stop()

    async def is_stopped_while_it_waits(*_: object) -> None:
        if stop.at_ns < 0:
            running_loop().call_later(0.005, stop)
            await nap(10)

    async def presses_and_waits(*_: object) -> None:
        if stop.at_ns < 0:
            stop()
            await nap(10)

    async def swallows_the_stop(*_: object) -> None:
        if stop.at_ns < 0:
            running_loop().call_later(0.005, stop)
            with contextlib.suppress(asyncio.CancelledError):
                await nap(10)

    named = (presses, is_stopped_while_it_waits, presses_and_waits, swallows_the_stop)
    return {function.__name__: function for function in named}[how]


HOW = ("presses", "is_stopped_while_it_waits", "presses_and_waits", "swallows_the_stop")

COMPACTS = Compaction(window=130, trigger_percent=80, target_percent=60, keep_turns=1)


def long_story() -> dict[str, Any]:
    """Two tool rounds, a compaction before the third, a last word: every kind of user code runs."""
    return {
        "tools": {"note": lambda: "noted", "look": lambda: "seen"},
        "model": script(
            Reply(say=[PAD], call={"note": {}, "look": {}}),
            Reply(say=[PAD], call={"note": {}}),
            Reply(say="The end."),
            summaries=[Reply(say="Two notes.")],
        ),
    }


def in_a_hook(point: str, how: str, policy: ToolExecution | None = None) -> Stopped:
    stop = Stop()
    hooks = Hooks(**{point: [stopper(stop, how)]})
    order = policy or ToolExecution()
    scenario = Scenario(prompt="Go.", compaction=COMPACTS, tool_execution=order)
    return play(scenario, stop, hooks=hooks, **long_story())


def in_a_callback(name: str, how: str) -> Stopped:
    stop = Stop()
    callbacks = Callbacks(**{name: stopper(stop, how)})
    scenario = Scenario(prompt="Go.", compaction=COMPACTS)
    return play(scenario, stop, callbacks=callbacks, **long_story())


def at_the_last_part(name: str) -> Stopped:
    """Between the end of the stream and the first tool."""
    stop = Stop()

    def press(part: object) -> None:
        if name != "on_chunk" or isinstance(part, Finish):
            stop()

    callbacks = Callbacks(**{name: press})
    return play(Scenario(prompt="Go."), stop, callbacks=callbacks, **long_story())


SLOW = paced(first_part="10ms", per_part="10ms")
NOTE_AND_LOOK = Reply(say="I note.", call={"note": {}, "look": {}})


async def note() -> str:
    await nap(10)
    return "noted"


async def look() -> str:
    await nap(20)
    return "seen"


def while_the_model_answers() -> dict[str, Any]:
    reply = Reply(say="One two three.", call={"note": {}}, pace=SLOW)
    return {"model": script(reply), "tools": [note]}


def while_tools_run() -> dict[str, Any]:
    return {"model": script(NOTE_AND_LOOK), "tools": [note, look]}


def while_a_summary_streams() -> dict[str, Any]:
    story = long_story()
    rounds = Reply(say=[PAD], call={"note": {}})
    story["model"] = script(rounds, rounds, summaries=[Reply(say="It was long.", pace=SLOW)])
    return story


def while_it_backs_off() -> dict[str, Any]:
    return {"model": script(Reply(http=Http(status=503)))}


PLACES: dict[str, tuple[int, Callable[[], dict[str, Any]], ToolExecution]] = {
    "before the first part": (5, while_the_model_answers, ToolExecution()),
    "as the first part comes": (10, while_the_model_answers, ToolExecution()),
    "between two parts": (15, while_the_model_answers, ToolExecution()),
    "after the call, before the finish": (45, while_the_model_answers, ToolExecution()),
    "as the stream ends": (50, while_the_model_answers, ToolExecution()),
    "in a tool": (55, while_the_model_answers, ToolExecution()),
    "in the first of two tools": (5, while_tools_run, ToolExecution()),
    "as the first of two tools returns": (10, while_tools_run, ToolExecution()),
    "in the second of two tools": (15, while_tools_run, ToolExecution()),
    "in two parallel tools": (5, while_tools_run, PARALLEL),
    "in one of two parallel tools": (15, while_tools_run, PARALLEL),
    "as the last parallel tool returns": (20, while_tools_run, PARALLEL),
    "before the summary's first part": (5, while_a_summary_streams, ToolExecution()),
    "between two parts of the summary": (15, while_a_summary_streams, ToolExecution()),
    "as the summary ends": (40, while_a_summary_streams, ToolExecution()),
    "in backoff": (500, while_it_backs_off, ToolExecution()),
    "as the backoff ends": (2_000, while_it_backs_off, ToolExecution()),
}


def by_the_user(place: str, presses: int = 1, limits: Limits | None = None) -> Stopped:
    at_ms, story, policy = PLACES[place]
    scenario = Scenario(
        prompt="Go.", compaction=COMPACTS, tool_execution=policy, limits=limits or Limits()
    )
    return play(scenario, Stop(presses=presses), at_ns=at_ms * MS, **story())


def by_the_wall_clock(place: str) -> Stopped:
    """The stop button only takes notes here: its timer is set before that of the limit."""
    return by_the_user(place, presses=0, limits=Limits(max_wall_clock_ms=PLACES[place][0]))


def after_the_wait_is_over() -> Stopped:
    """The tool's own timer rings first, the stop comes in the same instant."""
    stop = Stop()

    async def tool() -> str:
        loop = running_loop()
        loop.call_soon(loop.call_at_ns, 10 * MS, stop)
        await nap(10)
        return "done"

    return play(Scenario(prompt="Go."), stop, tools=[tool], model=script(Reply(call={"tool": {}})))


def in_a_tool_that(does: str, order: ToolExecution) -> Stopped:
    stop = Stop()

    async def returns_all_the_same() -> str:
        try:
            await nap(10)
        except asyncio.CancelledError:
            return "I was stopped."
        return "I was not."

    async def fails_to_clean_up() -> str:
        try:
            await nap(10)
        finally:
            raise ValueError("cannot clean up")

    async def waits_for_its_own_task() -> str:
        return await asyncio.create_task(note())

    async def shields_its_work() -> str:
        work = asyncio.create_task(note())
        try:
            return await asyncio.shield(work)
        finally:
            work.cancel()
            await asyncio.wait([work])

    async def works_in_a_group() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(note())
            group.create_task(look())
        return "both"

    def presses_the_button() -> str:
        stop()
        return "I pressed it."

    async def presses_the_button_and_waits() -> str:
        stop()
        return await note()

    def presses_the_button_and_fails() -> str:
        stop()
        raise ValueError("and fails")

    tools = (
        returns_all_the_same, fails_to_clean_up, waits_for_its_own_task, shields_its_work,
        works_in_a_group, presses_the_button, presses_the_button_and_waits,
        presses_the_button_and_fails,
    )  # fmt: skip
    tool = {function.__name__: function for function in tools}[does]
    scenario = Scenario(prompt="Go.", tool_execution=order)
    reply = Reply(say="Now.", call={does: {}, "look": {}})
    at_ns = None if does.startswith("presses") else 5 * MS
    return play(scenario, stop, at_ns=at_ns, tools=[tool, look], model=script(reply))


def while_calls_of_a_lost_reply_are_answered() -> Stopped:
    stop = Stop()
    reply = Reply(say="I look.", call={"look": {}, "note": {}}, lost="mid-output")
    callbacks = Callbacks(on_tool_result=stopper(stop, "is_stopped_while_it_waits"))
    return play(
        Scenario(prompt="Go."), stop, model=script(reply), tools=[look], callbacks=callbacks
    )


def while_calls_of_a_cut_reply_are_refused() -> Stopped:
    stop = Stop()
    reply = Reply(say="I look.", call={"look": {}, "note": {}}, finish="length")
    callbacks = Callbacks(on_tool_result=stopper(stop, "is_stopped_while_it_waits"))
    return play(
        Scenario(prompt="Go."), stop, model=script(reply), tools=[look], callbacks=callbacks
    )


def a_generator_that_waits() -> Stopped:
    async def model(_: Request) -> Any:
        await asyncio.Event().wait()
        yield

    return play(Scenario(prompt="Go."), Stop(), at_ns=5 * MS, model=model)


TOOLS_THAT = (
    "returns_all_the_same", "fails_to_clean_up", "waits_for_its_own_task", "shields_its_work",
    "works_in_a_group", "presses_the_button", "presses_the_button_and_waits",
    "presses_the_button_and_fails",
)  # fmt: skip

SITUATIONS: dict[str, Callable[[], Stopped]] = {
    **{f"{point} {how}": partial(in_a_hook, point, how) for point in POINTS for how in HOW},
    **{
        f"parallel {point} {how}": partial(in_a_hook, point, how, PARALLEL)
        for point in POINTS[2:]
        for how in HOW
    },
    **{f"{name} {how}": partial(in_a_callback, name, how) for name in CALLBACKS for how in HOW},
    "the finish in on_chunk": partial(at_the_last_part, "on_chunk"),
    "the last call in on_tool_call": partial(at_the_last_part, "on_tool_call"),
    **{place: partial(by_the_user, place) for place in PLACES},
    **{f"{place}, twice": partial(by_the_user, place, presses=2) for place in PLACES},
    **{
        f"a tool that {does}": partial(in_a_tool_that, does, ToolExecution()) for does in TOOLS_THAT
    },
    **{
        f"a parallel tool that {does}": partial(in_a_tool_that, does, PARALLEL)
        for does in TOOLS_THAT
    },
    "after the wait is over": after_the_wait_is_over,
    "while calls of a lost reply are answered": while_calls_of_a_lost_reply_are_answered,
    "while calls of a cut reply are refused": while_calls_of_a_cut_reply_are_refused,
    "a generator that waits": a_generator_that_waits,
}


@cache
def stopped_in(situation: str) -> Stopped:
    return SITUATIONS[situation]()


everywhere = pytest.mark.parametrize("situation", SITUATIONS)


@everywhere
def test_an_aborted_run_says_so(situation: str) -> None:
    assert stopped_in(situation).result.outcome is Outcome.ABORTED


@everywhere
def test_an_aborted_run_ends_once(situation: str) -> None:
    assert endings(stopped_in(situation).result.trace) == ["abort-requested"]


@everywhere
def test_after_an_abort_no_model_call_and_no_tool_begins(situation: str) -> None:
    assert begun_after(stopped_in(situation)) == []


@everywhere
def test_after_an_abort_every_call_in_the_transcript_has_its_result(situation: str) -> None:
    assert unpaired(stopped_in(situation).result.messages) == []


@everywhere
def test_after_an_abort_every_announced_call_has_one_result_in_the_trace(situation: str) -> None:
    assert unanswered(stopped_in(situation).result.trace) == Counter()


@everywhere
def test_an_aborted_run_keeps_the_text_so_far(situation: str) -> None:
    result = stopped_in(situation).result
    assert result.text == last_words(result.trace)


@everywhere
def test_an_aborted_run_ends_in_the_instant_of_the_abort(situation: str) -> None:
    stopped = stopped_in(situation)
    assert stopped.result.elapsed_ns == stopped.at_ns


@everywhere
def test_an_aborted_run_leaves_no_task_behind(situation: str) -> None:
    assert stopped_in(situation).tasks_left == 0


@pytest.mark.parametrize("place", PLACES)
class TestTheWallClock:
    """Where the limit strikes instead of the user, the same holds."""

    def test_ends_the_run_as_timed_out(self, place: str) -> None:
        assert by_the_wall_clock(place).result.outcome is Outcome.TIMED_OUT

    def test_names_the_limit(self, place: str) -> None:
        assert by_the_wall_clock(place).result.limit == "max_wall_clock_ms"

    def test_ends_the_run_once(self, place: str) -> None:
        assert endings(by_the_wall_clock(place).result.trace) == ["wall-clock-expired"]

    def test_lets_no_model_call_and_no_tool_begin(self, place: str) -> None:
        assert begun_after(by_the_wall_clock(place)) == []

    def test_gives_every_call_its_result(self, place: str) -> None:
        stopped = by_the_wall_clock(place)
        assert (unpaired(stopped.result.messages), unanswered(stopped.result.trace)) == ([], {})

    def test_keeps_the_text_so_far(self, place: str) -> None:
        result = by_the_wall_clock(place).result
        assert result.text == last_words(result.trace)

    def test_ends_the_run_to_the_nanosecond(self, place: str) -> None:
        assert by_the_wall_clock(place).result.elapsed_ns == PLACES[place][0] * MS

    def test_together_with_an_abort_ends_the_run_once(self, place: str) -> None:
        limits = Limits(max_wall_clock_ms=PLACES[place][0])
        assert len(endings(by_the_user(place, limits=limits).result.trace)) == 1


def test_the_abort_wins_over_a_wall_clock_that_was_set_later() -> None:
    limits = Limits(max_wall_clock_ms=PLACES["in a tool"][0])
    assert by_the_user("in a tool", limits=limits).result.outcome is Outcome.ABORTED


def test_an_abort_in_a_tool_is_told_to_the_model_as_the_result_of_its_call() -> None:
    messages = stopped_in("in the first of two tools").result.messages
    text = "Error: not finished, the request was aborted"
    assert messages[-2:] == (
        ToolMessage("call-1", text, is_error=True),
        ToolMessage("call-2", text, is_error=True),
    )


def test_what_a_tool_returned_before_the_abort_stays_its_result() -> None:
    messages = stopped_in("in the second of two tools").result.messages
    assert messages[-2] == ToolMessage("call-1", "noted")


def test_what_a_tool_returned_counts_although_its_after_hook_is_stopped() -> None:
    messages = stopped_in("after_tool_call is_stopped_while_it_waits").result.messages
    assert messages[2] == ToolMessage("call-1", "noted")


def test_an_aborted_compaction_leaves_the_transcript_as_it_was() -> None:
    messages = stopped_in("between two parts of the summary").result.messages
    assert [type(message).__name__ for message in messages] == [
        "UserMessage", *["AssistantMessage", "ToolMessage"] * 2
    ]  # fmt: skip


def test_a_compaction_whose_model_stops_the_run_is_not_carried_out() -> None:
    stop = Stop()
    rounds = script(*[Reply(say=[PAD], call={"note": {}})] * 2)

    def model(request: Request) -> Reply:
        if request.purpose == "main":
            return rounds(request)
        stop()
        return Reply(say="Two notes.")

    stopped = play(Scenario(prompt="Go.", compaction=COMPACTS), stop, model=model)
    assert not [e for e in stopped.entries if isinstance(e, entries.Compaction)]


def test_a_lost_reply_stays_out_of_the_transcript_of_a_run_that_is_aborted_in_backoff() -> None:
    model = script(Reply(say="Half.", call={"note": {}}, lost="mid-output"))
    stopped = play(Scenario(prompt="Go."), Stop(), at_ns=5 * MS, model=model)
    assert [type(message).__name__ for message in stopped.result.messages] == ["UserMessage"]


def test_an_abort_at_the_very_start_beats_a_model_that_answers_at_once() -> None:
    scenario = Scenario.model_validate({"prompt": "Go.", "abort": {"at": "0s"}})
    result = Simulation(scenario, model=lambda _: "Done.").run()
    assert result.outcome is Outcome.ABORTED


def test_a_run_aborted_at_the_very_start_sends_no_request() -> None:
    scenario = Scenario.model_validate({"prompt": "Go.", "abort": {"at": "0s"}})
    trace = Simulation(scenario, model=lambda _: "Done.").run().trace
    assert not [entry for entry in trace.entries if isinstance(entry, entries.Request)]


# ------------------------------------------------------------------------- code that will not stop


in_any_order = pytest.mark.parametrize(
    "policy", [ToolExecution(), PARALLEL], ids=["sequential", "parallel"]
)


def stubborn_tool(policy: ToolExecution) -> Stopped:
    async def sleeps_on() -> str:
        try:
            await nap(10)
        except asyncio.CancelledError:
            await asyncio.sleep(3_600)
        return "late"

    scenario = Scenario(prompt="Go.", tool_execution=policy)
    reply = Reply(call={"sleeps_on": {}, "look": {}})
    return play(scenario, Stop(), at_ns=5 * MS, tools=[sleeps_on, look], model=script(reply))


@in_any_order
def test_a_tool_that_sleeps_on_does_not_hold_up_an_aborted_run(policy: ToolExecution) -> None:
    stopped = stubborn_tool(policy)
    assert stopped.result.elapsed_ns <= stopped.at_ns + GRACE_NS


@in_any_order
def test_a_tool_that_sleeps_on_makes_no_tool_begin_after_the_abort(policy: ToolExecution) -> None:
    assert begun_after(stubborn_tool(policy)) == []


@in_any_order
def test_a_tool_that_sleeps_on_leaves_no_call_without_result(policy: ToolExecution) -> None:
    assert unpaired(stubborn_tool(policy).result.messages) == []


def test_a_hook_that_sleeps_on_holds_up_an_aborted_run_for_its_timeout_at_most() -> None:
    async def sleeps_on(_: object) -> None:
        try:
            await nap(10)
        except asyncio.CancelledError:
            await asyncio.sleep(3_600)

    scenario = Scenario(prompt="Go.", hook_isolation=HookIsolation(timeout_ms=50))
    hooks = Hooks(before_llm_call=[sleeps_on])
    stopped = play(scenario, Stop(), at_ns=5 * MS, hooks=hooks, model=script())
    assert stopped.result.elapsed_ns <= 50 * MS


def test_an_async_on_tool_result_does_not_hold_up_an_aborted_run() -> None:
    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    code = {**while_tools_run(), "callbacks": Callbacks(on_tool_result=hangs)}
    stopped = play(Scenario(prompt="Go."), Stop(), at_ns=5 * MS, **code)
    assert stopped.result.elapsed_ns <= stopped.at_ns + GRACE_NS


async def blocks_in_a_thread() -> str:
    await asyncio.to_thread(time.sleep, 2)
    return "done"


def blocks() -> str:
    time.sleep(2)
    return "done"


@pytest.mark.parametrize("tool", [blocks, blocks_in_a_thread])
@pytest.mark.parametrize(
    "bound",
    [{"abort": {"at": "1s"}}, {"limits": Limits(max_wall_clock_ms=1_000)}],
    ids=["abort", "wall clock"],
)
def test_time_that_passes_without_waiting_does_not_outrun_the_end_of_the_run(
    tool: Callable[[], Any], bound: dict[str, Any]
) -> None:
    reply = Reply(call={tool.__name__: {}})
    scenario = Scenario(prompt="Go.", **bound)
    run = Simulation(scenario, tools=[tool], model=script(reply, reply, Reply(say="Done."))).run()
    started = [e for e in run.trace.entries if isinstance(e, entries.ToolStarted)]
    assert len(started) == 1


# --------------------------------------------------------------------------- every single instant


def rich_story() -> dict[str, Any]:
    """Everything that takes time, one after the other: hooks, callbacks, streams, tools, waits."""

    async def waits(*_: object) -> None:
        await nap(2)

    hooks = Hooks(**{point: [waits, waits] for point in POINTS})
    waiting = [name for name in CALLBACKS if name != "on_tool_result"]
    pace = paced(first_part="4ms", per_part="4ms")
    return {
        "hooks": hooks,
        "callbacks": Callbacks(**dict.fromkeys(waiting, waits)),
        "tools": [note, look],
        "model": script(
            Reply(http=Http(status=429), pace=pace),
            Reply(say=[PAD], call=[{"look": {}}, {"note": {}}, {"gone": {}}], pace=pace),
            Reply(think="Hm.", say=[PAD], call={"note": {}}, finish="stop", pace=pace),
            Reply(say=["The ", "end."], pace=pace),
            summaries=[Reply(say=["Two ", "notes."], pace=pace)],
        ),
    }


def rich_scenario(order: ToolExecution, limits: Limits | None = None) -> Scenario:
    return Scenario(
        prompt="Go.",
        compaction=COMPACTS,
        tool_execution=order,
        limits=limits or Limits(),
        retry=ExponentialBackoff(initial_ms=20),
    )


@cache
def rich_instants(order: ToolExecution) -> tuple[int, ...]:
    """When something happens, and moments in between; the run's end is the last of them."""
    result = Simulation(rich_scenario(order), **rich_story()).run()
    assert result.outcome is Outcome.COMPLETED
    assert result.counters.compaction_attempts == 1
    happens = sorted({entry.at_ns // MS for entry in result.trace.entries})
    between = {(a + b) // 2 for a, b in pairwise(happens)}
    return tuple(sorted({*happens, *between, result.elapsed_ns // MS}))


@cache
def rich_runs(order: ToolExecution, by: str) -> tuple[Stopped, ...]:
    return tuple(_rich_runs(order, by))


def _rich_runs(order: ToolExecution, by: str) -> Iterable[Stopped]:
    for at_ms in rich_instants(order):
        if by == "abort":
            yield play(rich_scenario(order), Stop(), at_ns=at_ms * MS, **rich_story())
        elif at_ms:
            scenario = rich_scenario(order, Limits(max_wall_clock_ms=at_ms))
            yield play(scenario, Stop(presses=0), at_ns=at_ms * MS, **rich_story())


@pytest.mark.parametrize("order", [ToolExecution(), PARALLEL], ids=["sequential", "parallel"])
@pytest.mark.parametrize("by", ["abort", "wall clock"])
class TestAtEveryInstant:
    """A rich run, stopped at each instant at which something happens and between them."""

    def test_the_run_ends_once_and_says_how(self, order: ToolExecution, by: str) -> None:
        signal = {"abort": "abort-requested", "wall clock": "wall-clock-expired"}[by]
        found = {s.at_ns: endings(s.result.trace) for s in rich_runs(order, by)}
        assert [at_ns for at_ns, signals in found.items() if signals != [signal]] == []

    def test_the_run_ends_there_and_then(self, order: ToolExecution, by: str) -> None:
        found = [(s.at_ns, s.result.elapsed_ns) for s in rich_runs(order, by)]
        assert [pair for pair in found if pair[0] != pair[1]] == []

    def test_no_model_call_and_no_tool_begins_afterwards(
        self, order: ToolExecution, by: str
    ) -> None:
        assert [(s.at_ns, begun_after(s)) for s in rich_runs(order, by) if begun_after(s)] == []

    def test_every_call_in_the_transcript_has_its_result(
        self, order: ToolExecution, by: str
    ) -> None:
        wrong = {s.at_ns: unpaired(s.result.messages) for s in rich_runs(order, by)}
        assert not any(wrong.values()), wrong

    def test_every_announced_call_has_one_result_in_the_trace(
        self, order: ToolExecution, by: str
    ) -> None:
        wrong = {s.at_ns: unanswered(s.result.trace) for s in rich_runs(order, by)}
        assert not any(wrong.values()), wrong

    def test_the_text_so_far_is_kept(self, order: ToolExecution, by: str) -> None:
        results = [s.result for s in rich_runs(order, by)]
        assert [r.text for r in results] == [last_words(r.trace) for r in results]

    def test_no_task_is_left_behind(self, order: ToolExecution, by: str) -> None:
        assert [s.at_ns for s in rich_runs(order, by) if s.tasks_left] == []

    def test_the_same_stop_gives_the_same_trace(self, order: ToolExecution, by: str) -> None:
        again = next(iter(_rich_runs(order, by)))
        assert again.entries == rich_runs(order, by)[0].entries


# ---------------------------------------------------------------------- any run, any instant


async def swallows() -> str:
    try:
        await nap(8)
    except asyncio.CancelledError:
        return "stopped"
    return "slept"


async def cancels_itself() -> str:
    await nap(3)
    raise asyncio.CancelledError


async def fails() -> str:
    await nap(3)
    raise ValueError("no")


TOOLS: tuple[Callable[[], Any], ...] = (note, look, swallows, cancels_itself, fails)
waits = st.integers(0, 4)
paces = st.builds(
    lambda first, each: paced(first_part=f"{first}ms", per_part=f"{each}ms"), waits, waits
)
names = st.sampled_from([*(tool.__name__ for tool in TOOLS), "unknown"])
Calls = list[dict[str, Any]]


def call(name: str) -> dict[str, Any]:
    return {name: {}}


def broken_call(name: str) -> Calls:
    return [{name: '{"broken'}]


calls: st.SearchStrategy[Calls] = st.lists(names.map(call), min_size=1, max_size=3)
replies = st.one_of(
    st.builds(Reply, say=st.just([PAD]), call=calls | names.map(broken_call), pace=paces),
    st.builds(
        Reply, call=calls, finish=st.sampled_from(["stop", "length", "tool-calls"]), pace=paces
    ),
    st.builds(Reply, say=st.just("Half."), call=calls, unfinished=st.just(value=True), pace=paces),
    st.builds(Reply, say=st.just("Half."), call=calls, lost=st.just("mid-output"), pace=paces),
    st.builds(Reply, http=st.just(Http(status=503)), pace=paces),
    st.builds(Reply, finish=st.just("stop"), pace=paces),
)


@st.composite
def stories(draw: st.DrawFn) -> tuple[Scenario, dict[str, Any]]:
    """Any script, with hooks and callbacks that wait for a while."""

    def waiting(milliseconds: int) -> Callable[..., Any]:
        async def wait(*_: object) -> None:
            await nap(milliseconds)

        return wait

    scenario = Scenario(
        prompt="Go.",
        compaction=COMPACTS,
        tool_execution=ToolExecution(
            order=draw(st.sampled_from(ToolOrder)), timeout_ms=draw(st.none() | st.integers(1, 9))
        ),
        retry=ExponentialBackoff(initial_ms=5),
    )
    hooks = {point: [waiting(draw(waits))] for point in POINTS if draw(st.booleans())}
    names = [name for name in CALLBACKS if name != "on_tool_result"]
    callbacks = {name: waiting(draw(waits)) for name in names if draw(st.booleans())}
    rounds = [*draw(st.lists(replies, max_size=5)), Reply(say="The end.", pace=draw(paces))]
    return scenario, {
        "hooks": Hooks(**hooks),
        "callbacks": Callbacks(**callbacks),
        "tools": TOOLS,
        "model": script(*rounds, summaries=[Reply(say="So far.", pace=draw(paces))] * 2),
    }


@given(story=stories(), at_ms=st.integers(0, 120))
@settings(deadline=None, max_examples=150)
def test_any_run_stopped_at_any_time_leaves_nothing_open(
    story: tuple[Scenario, dict[str, Any]], at_ms: int
) -> None:
    scenario, code = story
    stopped = play(scenario, Stop(), at_ns=at_ms * MS, **code)
    result = stopped.result
    assert unpaired(result.messages) == []
    assert unanswered(result.trace) == Counter()
    assert len(endings(result.trace)) == 1
    assert stopped.tasks_left == 0
    assert result.text == last_words(result.trace)
    if result.outcome is Outcome.ABORTED:
        assert result.elapsed_ns == stopped.at_ns
        assert begun_after(stopped) == []
    else:
        assert result.elapsed_ns <= at_ms * MS
