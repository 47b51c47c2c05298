"""The tool calls that are ready to run, and the rest of the work on one.

Not here: what is done for one call (tool_calls.py), and the tasks of several (running_tasks.py).
The rule to keep: a call that waits for nothing costs no coroutine.
"""

from collections.abc import Coroutine
from typing import Any, TypeAlias

from msgspec import Struct

from simloop.messages import ToolCall
from simloop.world.tools import Tool

Rest: TypeAlias = Coroutine[Any, Any, None] | None
"""The rest of the work on a call; None if it waits for nothing, so that it costs no coroutine."""


async def finished(rest: Rest) -> None:
    """Wait for the rest of the work on a call."""
    if rest is not None:
        await rest


class ReadyCall(Struct, frozen=True, gc=False):
    """A call that may run: its place in the reply, its tool, the arguments, and their JSON."""

    place: int
    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    shown: str
