"""Runs of the versions of pi, and what they show, for golden tests."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from simloop import (
    Conversation,
    Reply,
    Result,
    Scenario,
    ScriptedTool,
    ToolExecution,
    run,
    simulate,
)
from simloop.kernel.policies import ToolOrder
from simloop.messages import Message, ToolMessage
from simloop.runs.conversation import event_view
from simloop.trace import entries
from simloop.trace.exports import pi_program_events as pi
from simloop.trace.exports.event import Event
from simloop.trace.requests import requests

BOTH = pytest.mark.parametrize("loop", ["pi@0.73.1", "pi@0.87.1"])
SEQUENTIAL = ToolExecution(order=ToolOrder.SEQUENTIAL)
TOOLS = {
    "slow": ScriptedTool(returns="slept", takes="2s"),
    "quick": ScriptedTool(returns="woke", takes="1s"),
    "strict": ScriptedTool(parameters={"path": "string", "lines": "integer?"}, returns="read"),
}


def play(loop: str, *model: Reply, **more: Any) -> Result:
    """A run of this version with the tools above."""
    given = {"prompt": "Go.", "loop": loop, "tools": TOOLS, "model": list(model), **more}
    return run(Scenario(**given))


def roles(messages: Sequence[Message]) -> str:
    return " ".join(str(type(message).__struct_config__.tag) for message in messages)


def sent(result: Result) -> list[str]:
    """The roles of each request."""
    return [roles(request.messages) for request in result.requests]


def results(result: Result) -> list[str]:
    """The results in the transcript."""
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


def tools_run(result: Result) -> list[str]:
    """The tools that were started."""
    return [e.name for e in result.trace.entries if isinstance(e, entries.ToolStarted)]


def word(event: Event) -> str:
    """An event of the program in short."""
    kind = str(type(event).__struct_config__.tag)
    match event:
        case pi.MessageEnd(role="assistant", stop_reason=why) if why in {"aborted", "error"}:
            return f"{kind}:assistant/{why}"
        case pi.MessageStart(role=role) | pi.MessageEnd(role=role):
            return f"{kind}:{role}"
        case pi.ToolExecutionStart(tool_call_id=call) | pi.ToolExecutionEnd(tool_call_id=call):
            return f"{kind}:{call}"
        case _:
            return kind


def events(result: Result) -> list[str]:
    """The program's events, without the updates of messages."""
    scenario = Scenario.model_validate_json(bytes(result.trace.header.scenario))
    view = event_view(scenario, result.trace.header.loop, "program")
    told = [e for line in result.trace.entries for e in view.feed(line)]
    return [word(event) for event in told if not isinstance(event, pi.MessageUpdate)]


def heard(result: Result) -> list[str]:
    """The ends of messages."""
    return [event for event in events(result) if event.startswith("message_end")]


class Talk(NamedTuple):
    """What a conversation showed."""

    events: list[str]
    requests: list[str]
    tools: list[str]


def talk(loop: str, *model: Reply, on: str, nth: int, act: str) -> Talk:
    """A conversation in which a listener aborts or steers at the n-th event of that name."""
    scenario = Scenario(prompt="unused", loop=loop, tools=TOOLS, model=list(model))
    told: list[str] = []

    async def converse() -> Talk:
        agent = Conversation(scenario, events="program")

        def listen(event: Event) -> None:
            if not isinstance(event, pi.MessageUpdate):
                told.append(word(event))
            seen = [name for name in told if name.partition(":")[0] == on]
            if told[-1].partition(":")[0] == on and len(seen) == nth:
                agent.abort() if act == "abort" else agent.steer("And?")

        for name in (
            "agent_start", "turn_start", "message_start", "message_end", "tool_execution_start",
            "tool_execution_end", "turn_end", "agent_end",
        ):  # fmt: skip
            agent.on(name, listen)
        async for _ in agent.run("Go."):
            pass
        record = agent.trace.entries
        sent_as = [roles(request.messages) for request in requests(record)]
        tools = [e.name for e in record if isinstance(e, entries.ToolStarted)]
        return Talk(told, sent_as, tools)

    return simulate(converse())
