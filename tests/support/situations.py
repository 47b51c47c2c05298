"""Every place at which a run may be stopped."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from pacing import MS, nap, paced
from stopping import (
    CALLBACKS,
    COMPACTS,
    EARLY,
    EARLY_PARALLEL,
    PAD,
    PARALLEL,
    POINTS,
    Stop,
    Stopped,
    look,
    note,
    play,
    script,
)

from simloop import Callbacks, Hooks, Http, Limits, Reply, Scenario, ToolExecution
from simloop.messages import Finish, Request
from simloop.virtual.simulate import running_loop


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
    "in a tool that was started when called": (45, while_the_model_answers, EARLY),
    "as a tool that was started when called returns": (50, while_the_model_answers, EARLY),
    "in the first of two tools, started when called": (5, while_tools_run, EARLY),
    "as the first of two tools returns, started when called": (10, while_tools_run, EARLY),
    "in the second of two tools, started when called": (15, while_tools_run, EARLY),
    "in two parallel tools, started when called": (5, while_tools_run, EARLY_PARALLEL),
    "in one of two parallel tools, started when called": (15, while_tools_run, EARLY_PARALLEL),
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


def tools_that(stop: Stop) -> dict[str, Callable[..., Any]]:
    """Tools that a stop finds at something unusual, or that press the button themselves."""

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
    return {function.__name__: function for function in tools}


TOOLS_THAT = tuple(tools_that(Stop()))


def in_a_tool_that(does: str, order: ToolExecution) -> Stopped:
    stop = Stop()
    tool = tools_that(stop)[does]
    scenario = Scenario(prompt="Go.", tool_execution=order)
    reply = Reply(say="Now.", call={does: {}, "look": {}})
    at_ns = None if does.startswith("presses") else 5 * MS
    return play(scenario, stop, at_ns=at_ns, tools=[tool, look], model=script(reply))


def while_calls_are_answered(**ends: Any) -> Stopped:
    """While the calls of a reply that does not end well are answered, or refused."""
    stop = Stop()
    reply = Reply(say="I look.", call={"look": {}, "note": {}}, **ends)
    callbacks = Callbacks(on_tool_result=stopper(stop, "is_stopped_while_it_waits"))
    given: dict[str, Any] = {"model": script(reply), "tools": [look], "callbacks": callbacks}
    return play(Scenario(prompt="Go."), stop, **given)


def a_generator_that_waits() -> Stopped:
    async def model(_: Request) -> Any:
        await asyncio.Event().wait()
        yield

    return play(Scenario(prompt="Go."), Stop(), at_ns=5 * MS, model=model)


SITUATIONS: dict[str, Callable[[], Stopped]] = {
    **{f"{point} {how}": partial(in_a_hook, point, how) for point in POINTS for how in HOW},
    **{
        f"{name} {point} {how}": partial(in_a_hook, point, how, order)
        for name, order in (
            ("parallel", PARALLEL),
            ("when called", EARLY),
            ("parallel when called", EARLY_PARALLEL),
        )
        for point in POINTS[2:]
        for how in HOW
    },
    **{f"{name} {how}": partial(in_a_callback, name, how) for name in CALLBACKS for how in HOW},
    "the finish in on_chunk": partial(at_the_last_part, "on_chunk"),
    "the last call in on_tool_call": partial(at_the_last_part, "on_tool_call"),
    **{place: partial(by_the_user, place) for place in PLACES},
    **{f"{place}, twice": partial(by_the_user, place, presses=2) for place in PLACES},
    **{
        f"a {name}tool that {does}": partial(in_a_tool_that, does, order)
        for name, order in (
            ("", ToolExecution()),
            ("parallel ", PARALLEL),
            ("when-called ", EARLY),
            ("parallel when-called ", EARLY_PARALLEL),
        )
        for does in TOOLS_THAT
    },
    "after the wait is over": after_the_wait_is_over,
    "while calls of a lost reply are answered": partial(
        while_calls_are_answered, lost="mid-output"
    ),
    "while calls of a cut reply are refused": partial(while_calls_are_answered, finish="length"),
    "a generator that waits": a_generator_that_waits,
}


@cache
def stopped_in(situation: str) -> Stopped:
    return SITUATIONS[situation]()
