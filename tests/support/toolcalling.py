"""A reply with calls, and the results that the model is told."""

from collections.abc import Callable
from typing import Any

import pytest
from pacing import nap

from simloop import Callbacks, HookIsolation, Limits, Reply, Result, Scenario, Tool, ToolExecution
from simloop.messages import Fault, Finish, FinishReason, Part, Request, ToolMessage
from simloop.runs.run import Simulation
from simloop.trace import entries

STOP = Finish(FinishReason.STOP, "stop")


def play(
    model: Callable[[Request], Any], *, callbacks: Callbacks | None = None, **limits: int
) -> Result:
    scenario = Scenario(prompt="Go.", limits=Limits(**{"max_error_count": 1, **limits}))
    return Simulation(scenario, model=model, callbacks=callbacks).run()


def says(*parts: Part) -> Callable[[Request], Any]:
    return lambda _: parts


def classified(result: Result) -> entries.Classified:
    """Return what the retry policy made of the one failed call."""
    (found,) = [e for e in result.trace.entries if isinstance(e, entries.Classified)]
    return found


def fault_of(result: Result) -> Fault:
    """Return the fault of the one failed call: as it arrived, or as the engine found it."""
    arrived = [e.fault for e in result.trace.entries if isinstance(e, entries.Error)]
    found = classified(result).fault
    (fault,) = [*arrived, *([found] if found else [])]
    return fault


SEQUENTIAL = ToolExecution(order="sequential")
PARALLEL = ToolExecution(order="parallel")
EVERY_ORDER = pytest.mark.parametrize(
    "policy", [SEQUENTIAL, PARALLEL], ids=["sequential", "parallel"]
)
INVALID = "Error: Invalid parameters\n"


def answer(
    reply: Reply,
    *tools: Callable[..., Any] | Tool,
    policy: ToolExecution | None = None,
    isolation: HookIsolation | None = None,
    **code: Any,
) -> Result:
    """A run whose first reply is `reply` and whose second ends it."""
    scenario = Scenario(
        prompt="Go.",
        model=[reply, Reply(say="Done.")],
        tool_execution=policy or ToolExecution(),
        hook_isolation=isolation or HookIsolation(),
    )
    return Simulation(scenario, tools=tools, **code).run()


def results(result: Result) -> list[ToolMessage]:
    return [message for message in result.messages if isinstance(message, ToolMessage)]


def result_of(
    tool: Callable[..., Any] | Tool, arguments: Any = None, **options: Any
) -> ToolMessage:
    """What the model is told after one call of `tool`."""
    name = tool.spec.name if isinstance(tool, Tool) else tool.__name__
    (message,) = results(answer(Reply(call={name: arguments}), tool, **options))
    return message


def started(result: Result) -> list[str]:
    return [e.name for e in result.trace.entries if isinstance(e, entries.ToolStarted)]


def square(n: int) -> str:
    return str(n * n)


def fail(error: BaseException) -> Tool:
    async def tool() -> None:
        await nap(2)
        raise error

    return Tool(tool, name="fails")
