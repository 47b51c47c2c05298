"""The connection to the server that offers the tools, for agents that have one: an MCP server.

Not here: the server (wire/mcp_server.py) and how a file states this (scenario/mcp.py). The rule
to keep: nothing here depends on a package, so that a world can be described without it.
"""

from collections.abc import Mapping

from msgspec import Struct


class ToolServer(Struct, frozen=True):
    """The course of the connections of one world.

    `lost_calls` are the calls, counted from 1, in which the connection is lost. `listed_ns` has the
    time at which a tool appears in the list, `unlisted_ns` the time at which it leaves the list, as
    nanoseconds of the clock; a tool in neither is always in the list.
    """

    lost_calls: frozenset[int] = frozenset()
    listed_ns: Mapping[str, int] = {}
    unlisted_ns: Mapping[str, int] = {}

    def lists(self, tool: str, at_ns: int) -> bool:
        """Return whether `tool` is in the list at that time."""
        return self.listed_ns.get(tool, at_ns) <= at_ns < self.unlisted_ns.get(tool, at_ns + 1)

    def changes_after(self, at_ns: int) -> list[int]:
        """Return the times after `at_ns` at which the list changes, in order."""
        times = {*self.listed_ns.values(), *self.unlisted_ns.values()}
        return sorted(time for time in times if time > at_ns)
