"""Agents under the checks: judged, run twice, compared, paired; never a special case."""

import weakref
from typing import Any
from uuid import uuid4

import pytest

from simloop import Expect, Reply, Scenario, ScriptedTool
from simloop.check.replay import rerun
from simloop.check.trial import Until, verify
from simloop.cli.compare import Row
from simloop.errors import ScenarioError
from simloop.messages import AssistantMessage, Message, ToolMessage, UserMessage
from simloop.trace.codec import decode, encode
from simloop.world.world import World

HERE = "test_agents_checked"
ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")], expect=Expect(text="Done."))
RUNS: list[str] = []


async def answers(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


async def carries(prompt: str, world: World) -> str:
    RUNS.append(prompt)
    return await answers(f"{prompt} {len(RUNS)}", world)


class Carrying:
    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, prompt: str, world: World) -> str:
        self.runs += 1
        return await answers(f"{prompt} {self.runs}", world)


def made() -> Carrying:
    return Carrying()


@pytest.mark.parametrize("loop", [answers, f"{HERE}:answers", Carrying, made, f"{HERE}:made"])
def test_an_agent_is_checked_in_every_form(loop: Any) -> None:
    verdict = verify(ANSWERED, loop=loop)
    assert (verdict.exit_code, verdict.deterministic) == (0, True)


@pytest.mark.parametrize("loop", [carries, f"{HERE}:carries", Carrying()], ids=["f", "n", "o"])
def test_a_state_that_survives_the_run_is_found(loop: Any) -> None:
    verdict = verify(ANSWERED, loop=loop)
    assert (verdict.deterministic, verdict.exit_code) == (False, 1)
    assert "two runs of the same scenario with the same seed differ" in str(verdict.errors[0])


orders: dict[str, list[int]] = {}


async def keeps_by_id(prompt: str, world: World) -> str:
    mine = orders.setdefault(uuid4().hex, [])
    mine.append(sum(map(len, orders.values())))
    told = f"{prompt} Orders of yours: {mine}, {'one' if len(mine) == 1 else 'several'}."
    return (await world.model.reply([UserMessage(told)])).message.text


def test_a_store_by_random_ids_and_a_number_that_counts_up_are_no_other_users() -> None:
    assert verify(ANSWERED, loop=keeps_by_id).deterministic


def rows(scenario: Scenario) -> list[Row]:
    loops = f"{HERE}:answers", "reference"
    return [Row.of(loop, verify(scenario, Until.END, loop=loop)) for loop in loops]


def test_what_an_agent_lacks_is_no_failure_of_a_comparison() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(say="Done.")], limits={"max_steps": 3})
    native, reference = rows(scenario)
    assert (native.exit_code, native.ending) == (0, "cannot")
    assert "an agent of your own has no limits" in native.cannot
    assert reference.ending == "completed"


def test_an_agent_is_compared_by_what_passes_the_boundary() -> None:
    native, reference = rows(ANSWERED)
    assert native.went_as(reference)
    assert [native.facts[name] for name in ("model_calls", "tool_runs", "text")] == [1, 0, "Done."]


async def forgets_the_result(prompt: str, world: World) -> str:
    messages: list[Message] = [UserMessage(prompt)]
    reply = await world.model.reply(messages, tools=world.tools.specs)
    messages.append(reply.message)
    await world.tools.run(reply.message.calls[0])
    return (await world.model.reply(messages, tools=world.tools.specs)).message.text


async def answers_itself(prompt: str, world: World) -> str:
    messages: list[Message] = [UserMessage(prompt)]
    reply = await world.model.reply(messages, tools=world.tools.specs)
    messages += [reply.message, ToolMessage(reply.message.calls[0].id, "no")]
    messages += [AssistantMessage("Well."), UserMessage("Go on.")]
    return (await world.model.reply(messages, tools=world.tools.specs)).message.text


CALLS = Scenario(
    prompt="Go.",
    tools={"work": ScriptedTool(returns="done")},
    model=[Reply(call={"work": {}}), Reply(say="Done.")],
)


def test_an_agent_that_sends_a_call_without_its_result_is_found() -> None:
    verdict = verify(CALLS, loop=forgets_the_result)
    assert "request 2: call 'call-1' has no result" in str(verdict.errors[0])


def test_an_agent_may_answer_a_call_itself_and_need_not_answer_the_last() -> None:
    verdict = verify(CALLS, loop=answers_itself)
    assert verdict.errors == []
    last = Scenario(
        prompt="Go.",
        tools=CALLS.tools,
        model=[Reply(say="Done.", call={"work": {}})],
        expect=Expect(violates={"completed-without-open-calls": "the agent ignores this call"}),
    )
    assert verify(last, loop=answers).exit_code == 0


def test_the_trace_of_an_agent_is_read_back_and_replayed_if_its_loop_is_named() -> None:
    trace = verify(ANSWERED, loop=answers).trace
    assert trace is not None
    again = decode(encode(trace))
    assert again.header.loop == f"{HERE}:answers"
    with pytest.raises(ScenarioError, match=f"add: --loop {HERE}:answers"):
        rerun(again)
    assert encode(rerun(again, f"{HERE}:answers")) == encode(trace)


def test_an_agent_that_no_name_reaches_is_not_offered_to_replay_by_that_name() -> None:
    async def nested(prompt: str) -> str:
        return prompt

    trace = verify(Scenario(prompt="Go."), loop=nested).trace
    assert trace is not None
    with pytest.raises(ScenarioError, match="give it by name: --loop module:attribute"):
        rerun(trace)


class Registered:
    """An object that a registry of the process knows by its name, as in llama-index."""

    def __init__(self) -> None:
        self.itself = self  # only the garbage collector frees it


REGISTRY: "weakref.WeakValueDictionary[str, Registered]" = weakref.WeakValueDictionary()


async def registers(prompt: str) -> str:
    assert "run" not in REGISTRY, "the run before it is still there"
    registered = REGISTRY["run"] = Registered()

    async def answer() -> str:
        raise ValueError(type(registered).__name__)

    return await answer()


def test_the_exceptions_of_a_run_keep_none_of_its_objects_for_the_next() -> None:
    verdict = verify(Scenario(prompt="Go."), loop=registers)
    assert verdict.deterministic
    (raised,) = verdict.raised
    assert "    raise ValueError(type(registered).__name__)" in raised.lines()
    assert raised.error.__traceback__ is None
    assert "run" not in REGISTRY
