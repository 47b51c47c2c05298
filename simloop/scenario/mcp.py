"""The MCP server of a scenario, as people write it.

Not here: the tools that it offers (`tools` of the scenario) and the server (wire). The rule to
keep: it states the connection only, so that an agent without MCP runs the same scenario.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from simloop.scenario.durations import WrittenDuration
from simloop.scenario.strict import Strict, no_items
from simloop.world.tool_server import ToolServer


class McpServer(Strict):
    """The MCP server through which an agent with `simloop.mcp_session` has the scenario's tools."""

    lost_calls: list[Annotated[int, Field(ge=1)]] = Field(
        default_factory=no_items,
        description="The tool calls, counted from 1, in which the connection is lost.",
    )
    listed_after: dict[str, WrittenDuration] = Field(
        default_factory=dict,
        description="Tools that appear in the list so long after the first prompt. The client is "
        "told that the list has changed.",
    )
    unlisted_after: dict[str, WrittenDuration] = Field(
        default_factory=dict,
        description="Tools that leave the list so long after the first prompt; calls of them fail.",
    )

    def server(self, start_ns: int) -> ToolServer:
        """Return the server of a run that starts at `start_ns`."""
        return ToolServer(
            frozenset(self.lost_calls),
            _from(start_ns, self.listed_after),
            _from(start_ns, self.unlisted_after),
        )


def _from(start_ns: int, after: Mapping[str, Any]) -> dict[str, int]:
    return {name: start_ns + after_ns for name, after_ns in after.items()}
