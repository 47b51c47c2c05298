"""Agents as loops: every form that they take, and every way in which their runs end."""

import asyncio
import contextlib
import random
import re
import subprocess
import time
from functools import partial
from typing import Any

import pytest

from simloop import (
    Outcome,
    Queued,
    Reply,
    Scenario,
    ScenarioError,
    ScriptedTool,
    arun,
    load_scenario,
    run,
    simulate,
)
from simloop.errors import CannotExpress
from simloop.kernel.limits import Limits as KernelLimits
from simloop.loops.pi import PiLoop
from simloop.messages import UserMessage
from simloop.runs.run import Simulation
from simloop.scenario.catalog import find_bundled
from simloop.trace.codec import decode, encode
from simloop.trace.timeline import timeline
from simloop.world.model_port import ModelCallFailed
from simloop.world.world import World

HERE = "test_agents"
ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")])
SLOW = Scenario(
    prompt="Go.",
    tools={"work": ScriptedTool(takes="10s", returns="done")},
    model=[Reply(say="I begin.", call={"work": {}}), Reply(say="Done.")],
)
MADE: list[object] = []


async def asks(prompt: str, world: World) -> str:
    reply = await world.model.reply([UserMessage(prompt)], tools=world.tools.specs)
    while reply.message.calls:
        for call in reply.message.calls:
            await world.tools.run(call)
        reply = await world.model.reply([UserMessage(prompt)], tools=world.tools.specs)
    return reply.message.text


async def echoes(prompt: str) -> str:
    return prompt


async def has_a_default(prompt: str, style: str = "plain") -> str:
    return f"{prompt} {style}"


async def may_have_a_world(prompt: str, world: World | None = None) -> str:
    return f"{prompt} {world is not None}"


class Asking:
    def __init__(self, *, manner: str = "") -> None:
        MADE.append(self)
        self.manner = manner
        self.prompts: list[str] = []

    async def __call__(self, prompt: str, world: World) -> str:
        self.prompts.append(prompt)
        return f"{len(self.prompts)}{self.manner} {await asks(prompt, world)}"


def made() -> Asking:
    return Asking()


def made_with(*, manner: str = "") -> Asking:
    return Asking(manner=manner)


ASKING = Asking()
FORMS: dict[str, Any] = {
    "function": asks,
    "name of a function": f"{HERE}:asks",
    "partial": partial(asks),
    "class": Asking,
    "name of a class": f"{HERE}:Asking",
    "object": Asking(),
    "name of an object": f"{HERE}:ASKING",
    "factory": made,
    "name of a factory": f"{HERE}:made",
    "method": Asking().__call__,
}


@pytest.mark.parametrize("loop", FORMS.values(), ids=FORMS)
def test_an_agent_runs_in_every_form(loop: Any) -> None:
    result = run(ANSWERED, loop=loop)
    assert (result.outcome, result.text[-5:]) == (Outcome.COMPLETED, "Done.")
    assert result.trace.header.python == ("loop",)
    assert len(result.requests) == 1


@pytest.mark.parametrize("loop", [Asking, made, f"{HERE}:Asking", f"{HERE}:made"])
def test_what_makes_an_agent_makes_one_for_each_run_which_keeps_the_conversation(
    loop: Any,
) -> None:
    twice = Scenario(prompt="a", then=["b"], model=[Reply(say="Yes.", times=2)])
    MADE.clear()
    assert [run(twice, loop=loop).text for _ in range(2)] == ["2 Yes.", "2 Yes."]
    assert len(MADE) == 2


def test_a_constructor_runs_on_the_virtual_clock_with_the_seed_of_the_run() -> None:
    class Drawing:
        def __init__(self) -> None:
            self.drawn = f"{time.time()} {random.random()}"

        async def __call__(self, _: str) -> str:
            return self.drawn

    bare = Scenario(prompt="Go.")
    assert run(bare, loop=Drawing).text == run(bare, loop=Drawing).text
    assert run(bare, loop=Drawing).text != run(bare, loop=Drawing, seed=1).text


def test_an_agent_that_needs_no_world_leaves_it_out() -> None:
    bare = Scenario(prompt="Go.")
    assert run(bare, loop=echoes).text == "Go."
    assert run(bare, loop=has_a_default).text == "Go. plain"
    assert run(bare, loop=may_have_a_world).text == "Go. True"


def test_a_class_and_a_factory_take_options() -> None:
    for loop in (Asking, made_with, f"{HERE}:made_with"):
        result = run(ANSWERED, loop=loop, loop_options={"manner": "!"})
        assert result.text == "1! Done."
    with pytest.raises(ScenarioError, match=r"manners.*it takes manner"):
        run(ANSWERED, loop=Asking, loop_options={"manners": 1})
    with pytest.raises(ScenarioError, match="is an agent that is made already, and takes no"):
        run(ANSWERED, loop=asks, loop_options={"manner": "!"})


async def takes_too_much(prompt: str, world: World, more: int) -> str:
    return f"{prompt}{world}{more}"


def not_async(prompt: str) -> str:
    time.sleep(5)
    return f"{prompt} {time.monotonic()}"


def unclear(question):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201 - the types are missing
    return question


def takes_limits(_: KernelLimits) -> Asking:
    return Asking()


def wraps(prompt: str) -> Any:
    return echoes(prompt)


def makes_a_machine() -> PiLoop:
    return PiLoop()


class NeedsMore:
    def __init__(self, model: str) -> None:
        self.model = model

    async def __call__(self, prompt: str) -> str:
        return prompt + self.model


class TakesNothing:
    async def __call__(self) -> str:
        return ""


WRONG: dict[str, tuple[Any, str]] = {
    "three parameters": (takes_too_much, r"takes_too_much` takes .*write `async def agent\("),
    "none": (TakesNothing, r"TakesNothing` takes \(\).*write `async def agent\("),
    "unclear": (
        unclear,
        r"unclear` may be an agent or .*`prompt: str` for an agent, or as `limits: L",
    ),
    "limits": (takes_limits, r"takes_limits` is not a machine: .*a function without parameters"),
    "no agent": (
        lambda: 7,
        r"returns int, which is not an agent .*a function that makes a machine",
    ),
    "a machine": (makes_a_machine, r"returns PiLoop, which is not an agent .* takes Limits"),
    "an argument": (NeedsMore, r"NeedsMore` cannot be made.*missing .*'model'"),
}


@pytest.mark.parametrize(("loop", "says"), WRONG.values(), ids=WRONG)
def test_what_is_no_agent_is_refused_with_its_name_and_what_to_write(loop: Any, says: str) -> None:
    with pytest.raises(ScenarioError, match=says) as caught:
        run(ANSWERED, loop=loop)
    assert caught.value.key.startswith("loop")


def test_an_agent_that_returns_no_text_is_refused() -> None:
    async def returns_a_number(_: str) -> Any:
        return 7

    with pytest.raises(ScenarioError, match=r"returned int, not a text .*or None"):
        run(Scenario(prompt="Go."), loop=returns_a_number)


def test_an_agent_may_return_nothing_and_text_that_no_file_can_hold() -> None:
    async def returns_nothing(_: str) -> None:
        return None

    async def returns_half_a_pair(_: str) -> str:
        return "\ud800"

    assert run(Scenario(prompt="Go."), loop=returns_nothing).text == ""
    assert run(Scenario(prompt="Go."), loop=returns_half_a_pair).text == "\ufffd"


# The user


def test_messages_that_the_agent_did_not_take_are_its_next_prompts() -> None:
    heard: list[str] = []

    async def listens(prompt: str) -> str:
        heard.append(prompt)
        await asyncio.sleep(1)
        return ""

    queue = [Queued(say="b", at="0.5s"), Queued(say="c", at="0.6s")]
    result = run(Scenario(prompt="a", then=["d"], queue=queue), loop=listens)
    assert heard == ["a", "b", "c", "d"]
    assert len(result.outcomes) == 4


def test_messages_that_the_agent_takes_are_no_prompts() -> None:
    heard: list[str] = []

    async def takes(_: str, world: World) -> str:
        await asyncio.sleep(1)
        heard.extend(world.user.take())
        return ""

    queue = [Queued(say="b", at="0.5s")]
    assert run(Scenario(prompt="a", queue=queue), loop=takes).outcomes == (Outcome.COMPLETED,)
    assert heard == ["b"]


def test_a_message_sent_after_an_entry_can_be_taken_at_once() -> None:
    heard: list[str] = []

    async def takes(prompt: str, world: World) -> str:
        reply = await world.model.reply([UserMessage(prompt)], tools=world.tools.specs)
        await world.tools.run(reply.message.calls[0])
        heard.extend(world.user.take())
        return ""

    queue = [Queued(say="b", after="tool-result")]
    scenario = SLOW.model_copy(update={"model": SLOW.model[:1], "queue": queue})
    run(scenario, loop=takes)
    assert heard == ["b"]


# What an agent lacks


LACKED: dict[str, dict[str, Any]] = {
    "hooks of simloop": {"hooks": [{"at": "before_llm_call"}]},
    "keeps its own context": {"summaries": [Reply(say="A.")]},
    "starts its tools itself": {"tool_execution": {"start": "when-called"}},
    "keeps its own history": {"history": [{"user": "Hi."}]},
    "no limits of simloop but max_wall_clock": {"limits": {"max_steps": 3}},
    "limits of simloop": {"limits": {"model_call_timeout": "3s"}},
    "its own system prompt": {"system_prompt": "Be brief."},
    "no policies of simloop": {"retry": {}},
    "no policies": {"hook_execution": {"order": "parallel"}},
    "policies of simloop": {"clock": {"ahead": "1s"}},
    "no entries of an engine": {"abort": {"after": "backoff"}},
}


@pytest.mark.parametrize(("says", "changes"), LACKED.items(), ids=LACKED)
def test_a_scenario_that_needs_an_engine_cannot_be_expressed(
    says: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(CannotExpress, match=says):
        run(Scenario(prompt="Go.", **changes), loop=echoes)


def test_a_bundled_scenario_that_an_agent_cannot_express_names_one_that_it_can() -> None:
    with pytest.raises(CannotExpress) as caught:
        run(load_scenario(find_bundled("quickstart")), loop=f"{HERE}:asks")
    command = f"simloop run finish-reasons/stop --loop {HERE}:asks"
    assert caught.value.hint == f"one that every loop can run: {command}"
    assert run(load_scenario(find_bundled("finish-reasons/stop")), loop=f"{HERE}:asks").ok
    with pytest.raises(CannotExpress, match="run it on another loop"):
        run(Scenario(prompt="Go.", system_prompt="Be."), loop=f"{HERE}:asks")


REFUSED = "refused: subprocess.Popen of 'git status'; called at test_agents.py:"


@pytest.mark.parametrize("tries", [1, 3])
def test_a_refusal_is_in_the_timeline_once_in_a_row(tries: int) -> None:
    async def tries_git(prompt: str) -> str:
        for _ in range(tries):
            with contextlib.suppress(Exception):
                subprocess.run(["git", "status"], check=False)  # noqa: ASYNC221 - as agents do
        return prompt

    simulation = Simulation(Scenario(prompt="Go."), loop=tries_git)
    with pytest.raises(ScenarioError, match="'git status' is not available"):
        simulation.run()
    (line,) = [line for line in timeline(simulation.trace) if " note " in line]
    assert REFUSED in line


def test_a_refusal_in_a_tool_of_a_bundled_loop_is_in_the_timeline_too() -> None:
    def status() -> str:
        return subprocess.check_output(["git", "status"], text=True)

    scenario = Scenario(prompt="Go.", model=[Reply(call={"status": {}}), Reply(say="Done.")])
    simulation = Simulation(scenario, tools=[status])
    with pytest.raises(ScenarioError, match="'git status' is not available"):
        simulation.run()
    assert any(REFUSED in line for line in timeline(simulation.trace))


def test_an_agent_has_no_counters_and_no_messages() -> None:
    result = run(ANSWERED, loop=Asking)
    assert (result.counters, result.messages) == (None, ())


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        ({"counters": {"total_steps": 1}}, "total_steps: expected 1, got None .*has no counters"),
        ({"counters": {"total_steps": {"min": 1}}}, "at least 1, got None .*has no counters"),
        ({"messages": "user assistant"}, "got '' .*expect `sent`"),
        ({"backoffs": ["2s"]}, r"got \[\] .*expect `elapsed`"),
    ],
)
def test_an_expectation_of_what_an_agent_does_not_have_says_so(
    expect: dict[str, Any], says: str
) -> None:
    result = run(Scenario(prompt="Go.", expect=expect), loop=echoes)
    assert len(result.failures) == 1
    assert re.search(says, result.failures[0])


def test_an_agent_runs_inside_a_simulation() -> None:
    async def both() -> tuple[str, float]:
        await asyncio.sleep(5)
        result = await arun(SLOW, loop=asks)
        return result.text, result.elapsed_s

    assert simulate(both()) == ("Done.", 10)


def test_a_failed_model_call_says_how_it_failed() -> None:
    seen: list[ModelCallFailed] = []

    async def looks(prompt: str, world: World) -> str:
        try:
            await world.model.reply([UserMessage(prompt)])
        except ModelCallFailed as failed:
            seen.append(failed)
        return ""

    run(Scenario(prompt="Go.", model=[Reply(http={"status": 503})]), loop=looks)
    assert [each.fault.status for each in seen] == [503]


def test_an_answer_of_a_subclass_of_text_is_recorded_as_plain_text() -> None:
    class Accessor(str):  # as langchain-core 1.7 returns for `message.text`
        __slots__ = ()

    async def agent(_: str, world: World) -> str:
        await world.model.reply([UserMessage("x")])
        return Accessor("Hello.")

    result = run(Scenario(prompt="Hi", model=[Reply(say="Hello.")]), loop=agent)
    assert decode(encode(result.trace)).entries[-1] == result.trace.entries[-1]
