"""A run that asks again and again without anything new ends soon; one that gets on goes on."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextlib import aclosing
from itertools import count
from typing import Any

import msgspec
import pytest
from faultyruns import misled

from simloop import (
    Http,
    Limits,
    ModelCallFailed,
    Outcome,
    Reply,
    RunawayRun,
    Scenario,
    ScriptedTool,
    Trigger,
    World,
    run,
)
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.loops.reference import ReferenceLoop
from simloop.messages import (
    Finish,
    FinishReason,
    Message,
    Part,
    TextDelta,
    ToolCall,
    ToolCallPart,
    UserMessage,
)
from simloop.trace.novelty import REPETITIONS

TOOLS = {"look": ScriptedTool(returns="Nothing.")}
AGAIN = Reply(call={"look": {}}, times="always")
FAILS = Reply(http={"status": 500}, times="always")


def scenario(*replies: Reply, **more: Any) -> Scenario:
    return Scenario(prompt="Go.", tools=TOOLS, model=replies, **more)


def play(loop: Any, model: Callable[[Any], Any], **more: Any) -> Any:
    return run(Scenario(prompt="Go.", tools=TOOLS, **more), loop=loop, model=model)


async def asks(prompt: str, world: World) -> None:
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = await world.model.reply(messages, tools=world.tools.specs)
        messages.append(reply.message)
        for call in reply.message.calls:
            messages.append(await world.tools.run(call))  # noqa: PERF401 - one after the other


async def counts_its_attempts(_: str, world: World) -> None:
    for number in count(1):
        with contextlib.suppress(ModelCallFailed):
            await world.model.reply([UserMessage(f"This is attempt {number}.")])
        await asyncio.sleep(1)


async def swallows(prompt: str, world: World) -> None:
    while True:
        try:
            await world.model.reply([UserMessage(prompt)])
        except Exception:  # noqa: BLE001 - that is the defect
            await asyncio.sleep(1)


async def sdk(prompt: str) -> None:
    openai = pytest.importorskip("openai")
    client, messages = openai.AsyncOpenAI(api_key="k"), [{"role": "user", "content": prompt}]
    while True:
        reply = await client.chat.completions.create(model="m", messages=messages)
        message = reply.choices[0].message
        results = [
            {"role": "tool", "tool_call_id": c.id, "content": ""} for c in message.tool_calls
        ]
        messages += [message, *results]


def sdk_in_a_thread(prompt: str) -> None:
    openai = pytest.importorskip("openai")
    client, messages = openai.OpenAI(api_key="k"), [{"role": "user", "content": prompt}]
    while True:
        with contextlib.suppress(openai.APIError):
            client.chat.completions.create(model="m", messages=messages)
        time.sleep(1)


async def sdk_in_a_task(prompt: str) -> None:
    """As frameworks do: in the task that asks, no code of the program runs."""
    openai = pytest.importorskip("openai")
    client, messages = openai.AsyncOpenAI(api_key="k"), [{"role": "user", "content": prompt}]
    while True:
        await asyncio.create_task(client.chat.completions.create(model="m", messages=messages))


async def takes_the_first_part(prompt: str, world: World) -> None:
    while True:
        async with aclosing(world.model.stream([UserMessage(prompt)])) as stream:
            await anext(stream)


async def loses_its_patience(prompt: str, world: World) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(world.model.reply([UserMessage(prompt)]), 1)


@pytest.mark.parametrize(
    ("agent", "reply"),
    [
        (asks, AGAIN),
        (counts_its_attempts, AGAIN),
        (counts_its_attempts, FAILS),
        (swallows, FAILS),
        (swallows, Reply(call={"look": {}}, lost="mid-output", times="always")),
        (takes_the_first_part, Reply(say="A", call={"look": {}}, times="always")),
        (loses_its_patience, Reply(say="A", pace={"first_part": "2s"}, times="always")),
        (sdk, AGAIN),
        (sdk_in_a_task, AGAIN),
        (sdk_in_a_thread, AGAIN),
        (sdk_in_a_thread, FAILS),
    ],
)
def test_an_agent_that_asks_for_ever_is_ended_with_its_place(agent: Any, reply: Reply) -> None:
    with pytest.raises(RunawayRun) as caught:
        run(scenario(reply), loop=agent)
    found = str(caught.value)
    assert found.startswith(f"no progress: {REPETITIONS} requests in a row brought nothing new")
    assert "the last at test_novelty.py:" in found
    assert f" in {agent.__name__} (if so many are right, set max_transitions, in" in found


@pytest.mark.parametrize("agent", [asks, sdk])
def test_the_replies_before_the_first_that_repeats_are_not_counted(agent: Any) -> None:
    """What a script uses up at last is progress, also where it says the same."""
    once = Reply(call={"look": {}}, times=70)
    with pytest.raises(RunawayRun) as caught:
        run(scenario(once, AGAIN), loop=agent)
    assert "no progress: 50 requests in a row brought nothing new" in str(caught.value)


@pytest.mark.parametrize("loop", ["pi", "opencode@1.18.34"])
def test_a_machine_that_asks_for_ever_is_ended_and_tells_its_round(loop: str) -> None:
    with pytest.raises(RunawayRun, match=r"50 requests in a row brought .*new: .*model-replied"):
        play(loop, lambda _: Reply(call={"look": {}}))


def test_a_machine_that_fails_in_the_same_way_for_ever_is_ended() -> None:
    def forgets(right: Any, before: Run, signal: Signal) -> Transition:
        after, asked = right(before, signal)
        return msgspec.structs.replace(after, error_count=0), asked

    loop = misled(ReferenceLoop, forgets)
    with pytest.raises(RunawayRun, match=r"50 requests .* nothing new: .*backoff-elapsed"):
        play(loop, lambda _: Reply(http=Http(status=429, retry_after="1s")))


def test_an_agent_that_runs_a_tool_for_ever_is_ended_with_its_place() -> None:
    async def looks(_: str, world: World) -> None:
        while True:
            await world.tools.run(ToolCall("call", "look", "{}"))

    with pytest.raises(RunawayRun, match=r"tool runs in a row .* new, .* in test_.*looks \(if"):
        run(scenario(), loop=looks)


async def asks_until_done(prompt: str, world: World) -> str:
    while True:
        reply = await world.model.reply([UserMessage(prompt)])
        if not reply.message.calls:
            return reply.message.text
        for call in reply.message.calls:
            await world.tools.run(call)


@pytest.mark.parametrize("loop", ["pi", asks_until_done])
def test_a_model_that_says_something_else_each_time_makes_progress(loop: Any) -> None:
    """Also where each of its words has been said before."""
    asked = count()

    def model(_: Any) -> Reply | list[Part]:
        number = next(asked)
        if number == 100:
            return Reply(say="Done.")
        words = [TextDelta("yes " if digit == "1" else "no ") for digit in f"{number:07b}"]
        call = ToolCallPart(ToolCall(f"call-{number}", "look", "{}"))
        return [*words, call, Finish(FinishReason.TOOL_CALLS, "tool_calls")]

    assert run(Scenario(prompt="Go.", tools=TOOLS), loop=loop, model=model).text == "Done."


@pytest.mark.parametrize("ask", ["Summarise {}.", "{}"])
def test_an_agent_that_asks_something_else_each_time_makes_progress(ask: str) -> None:
    async def agent(_: str, world: World) -> str:
        for number in range(120):
            name = "".join("abcdefghij"[int(digit)] for digit in str(number))
            await world.model.reply([UserMessage(ask.format(name))])
        return "done"

    assert run(scenario(Reply(say="A text.", times="always")), loop=agent).text == "done"


def test_a_tool_that_returns_something_new_makes_progress() -> None:
    answers = iter(range(200))

    def look() -> int:
        return next(answers)

    async def agent(prompt: str, world: World) -> str:
        while True:
            reply = await world.model.reply([UserMessage(prompt)], tools=world.tools.specs)
            result = await world.tools.run(reply.message.calls[0])
            if result.text == "199":
                return result.text

    played = run(Scenario(prompt="Go.", model=[AGAIN]), tools=[look], loop=agent)
    assert played.text == "199"


@pytest.mark.parametrize("loop", ["reference", "pi", asks_until_done])
def test_the_calls_of_one_reply_repeat_nothing(loop: Any) -> None:
    many = [Reply(call=[{"look": {}}] * 5_000), Reply(say="Done.")]
    calls = Scenario(prompt="Go.", tools=TOOLS, model=many)
    assert run(calls, loop=loop).text == "Done."


def test_requests_side_by_side_repeat_nothing() -> None:
    async def votes(prompt: str, world: World) -> str:
        asked = (world.model.reply([UserMessage(prompt)]) for _ in range(200))
        return str(len(await asyncio.gather(*asked)))

    assert run(scenario(Reply(say="Yes.", times="always")), loop=votes).text == "200"


def test_prompts_are_progress() -> None:
    async def answers(prompt: str, world: World) -> str:
        return (await world.model.reply([UserMessage(prompt)])).message.text

    played = run(scenario(Reply(say="Yes.", times="always"), then=["Go."] * 100), loop=answers)
    assert len(played.outcomes) == 101


@pytest.mark.parametrize("loop", ["pi", "opencode@1.18.34"])
def test_a_script_that_is_used_up_is_progress(loop: str) -> None:
    replies = [Reply(call={"look": {}}, times=200), Reply(say="Done.")]
    summaries = [Reply(say="Short.", times="always")] if loop == "pi" else []
    assert run(scenario(*replies, loop=loop, summaries=summaries)).text == "Done."


def test_a_machine_that_uses_up_its_budget_is_not_ended_before() -> None:
    """Its rounds are equal, but its limit on steps ends it."""
    steps = 200
    limits = Limits(max_steps=steps)
    played = play("reference", lambda _: Reply(say="Again.", call={"look": {}}), limits=limits)
    assert (played.outcome, played.counters.total_steps) == (Outcome.MAX_STEPS, steps)


def test_an_agent_that_declares_a_limit_is_not_ended_before() -> None:
    async def agent(prompt: str, world: World) -> str:
        for _ in range(120):
            await world.model.reply([UserMessage(prompt)])
        return "done"

    agent.limits = Limits(max_steps=120)  # type: ignore[attr-defined]
    assert run(scenario(Reply(say="More.", times="always")), loop=agent).text == "done"


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ({"limits": Limits(max_wall_clock_ms=300_000)}, Outcome.TIMED_OUT),
        ({"abort": Trigger(at="5m")}, Outcome.ABORTED),
    ],
)
def test_an_agent_that_tries_until_a_planned_end_is_not_ended_before(
    end: dict[str, Any], outcome: Outcome
) -> None:
    assert run(scenario(FAILS, **end), loop=swallows).outcome is outcome


def test_a_planned_end_that_is_far_away_does_not_keep_a_run_alive() -> None:
    with pytest.raises(RunawayRun, match="brought nothing new"):
        run(scenario(FAILS, limits=Limits(max_wall_clock_ms=10**9)), loop=swallows)


async def gives_up(prompt: str, world: World) -> str:
    for _ in range(120):
        with contextlib.suppress(ModelCallFailed):
            await world.model.reply([UserMessage(prompt)])
    return "No."


def test_a_scenario_that_states_the_bound_lets_its_requests_bring_nothing_new() -> None:
    assert run(scenario(FAILS, max_transitions=120), loop=gives_up).text == "No."
    with pytest.raises(RunawayRun, match="passed max_transitions=119 requests"):
        run(scenario(FAILS, max_transitions=119), loop=gives_up)


def test_a_bound_of_a_machine_is_taken_as_it_is() -> None:
    with pytest.raises(RunawayRun, match="passed max_transitions=2500"):
        play("pi", lambda _: Reply(call={"look": {}}), max_transitions=2_500)
