"""Runs of pi-agent-core 0.87.1, and what they show, for golden tests."""

from collections.abc import Sequence
from typing import Any

from simloop import Reply, Result, Scenario, ScriptedTool, ToolExecution, run
from simloop.kernel.policies import ToolOrder
from simloop.messages import Message, ToolMessage
from simloop.trace import entries

SEQUENTIAL = ToolExecution(order=ToolOrder.SEQUENTIAL)
PARALLEL = ToolExecution(order=ToolOrder.PARALLEL)
TOOLS = {
    "slow": ScriptedTool(returns="slept", takes="2s"),
    "quick": ScriptedTool(returns="woke", takes="1s"),
    "strict": ScriptedTool(parameters={"path": "string", "lines": "integer?"}, returns="read"),
}


def play(*model: Reply, loop: str = "pi@0.87.1", **more: Any) -> Result:
    """A run with the tools above."""
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
