"""The tools of a world as an MCP server in memory, for agents that get their tools from MCP.

The package `mcp` speaks its protocol on both sides, so that an agent's session is a real one.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from simloop.errors import ScenarioError, install_hint
from simloop.messages import ToolCall, ToolMessage
from simloop.virtual.clock.listener import OpenSession, report_session
from simloop.virtual.places import callers_place
from simloop.world.tools_port import ToolsPort, shown_arguments
from simloop.world.world import World, current_world

if TYPE_CHECKING:
    from mcp import ClientSession

_LOST = "Error: the connection to the MCP server was lost"


@contextlib.asynccontextmanager
async def mcp_session(world: World | None = None, **given: Any) -> AsyncIterator["ClientSession"]:
    """Open a session with an MCP server that offers the tools of `world`.

        async with simloop.mcp_session(world) as session:
            await agent(prompt, session)

    The session is an initialized `mcp.ClientSession`, and `given` are its further arguments,
    such as `message_handler`. Without `world` it is that of the run that the caller belongs to. The
    tools take their time and fail as the scenario says; `mcp:` in the scenario states when the
    connection is lost and when the list of tools changes. Each call is recorded. After a lost
    connection the caller opens another session. Raises ScenarioError without the package `mcp`, or
    outside of a run.
    """
    try:
        import mcp.server.lowlevel  # noqa: PLC0415 - an extra
        import mcp.shared.memory  # noqa: PLC0415
    except ImportError as error:
        hint = install_hint("mcp")
        raise ScenarioError("an MCP session needs the package mcp", hint=hint) from error
    if (world := world or current_world()) is None:
        hint = "give the world that the agent gets: simloop.mcp_session(world)"
        raise ScenarioError("an MCP session needs the world of a run", key="world", hint=hint)
    server = _Server(mcp, world.tools, world.model.loop.now_ns)
    is_open, is_dropped = True, False
    opened = OpenSession("mcp.ClientSession", server, callers_place(), lambda: not is_open)
    report_session(world.model.loop, opened)
    try:
        async with (
            mcp.shared.memory.create_client_server_memory_streams() as (client, (reading, writing)),
            _running(server.run(reading, writing)),
            mcp.ClientSession(*client, **given) as session,
        ):
            await session.initialize()
            try:
                yield session
            except GeneratorExit:  # by garbage collection: the program has not closed it
                is_dropped = True
                raise
    finally:
        is_open = is_dropped


@contextlib.asynccontextmanager
async def _running(main: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(main, name="MCP server")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class _Server:
    """One connection. `opened_ns` is the time at which it was opened."""

    def __init__(self, mcp: Any, tools: ToolsPort, opened_ns: int) -> None:
        self._mcp, self._types = mcp, mcp.types
        self._tools = tools
        self._opened_ns = opened_ns
        self._client: Any = None  # set by the first request, which knows the session
        self._writing: Any = None
        server = tools.server
        changes = {"listed_after": server.listed_ns, "unlisted_after": server.unlisted_ns}
        for key, name in ((key, name) for key, names in changes.items() for name in names):
            if name not in tools.tools:
                hint = f"there are: {', '.join(tools.tools) or 'none'}"
                raise ScenarioError(f"there is no tool `{name}`", key=f"mcp.{key}", hint=hint)

    async def run(self, reading: Any, writing: Any) -> None:
        self._writing, server = writing, self._made()
        changes = self._mcp.server.lowlevel.NotificationOptions(tools_changed=True)
        notices = asyncio.create_task(self._tell_changes(), name="MCP list changes")
        try:
            await server.run(reading, writing, server.create_initialization_options(changes))
        finally:
            notices.cancel()

    def _made(self) -> Any:
        """Make the package's server with the handlers of this one; version 1 sets them itself."""
        new, types = self._mcp.server.lowlevel.Server, self._types
        if hasattr(self._mcp, "Client"):
            return new("simloop", on_list_tools=self._list, on_call_tool=self._call)
        server = new("simloop")

        async def list_tools(_: Any) -> Any:
            return types.ServerResult(await self._list(server.request_context, None))

        async def call_tool(request: Any) -> Any:
            return types.ServerResult(await self._call(server.request_context, request.params))

        server.request_handlers[types.ListToolsRequest] = list_tools
        server.request_handlers[types.CallToolRequest] = call_tool
        return server

    async def _list(self, context: Any, _: Any) -> Any:
        self._client = context.session
        tools, decode = self._tools, msgspec.json.decode
        specs = [spec for spec in tools.specs if tools.server.lists(spec.name, tools.now_ns)]
        listed = [
            {"name": s.name, "description": s.description, "inputSchema": decode(s.parameters)}
            for s in specs
        ]
        # Read from JSON: the names of the fields differ between the versions of the package.
        return self._types.ListToolsResult.model_validate({"tools": listed})

    async def _call(self, _: Any, parameters: Any) -> Any:
        tools, name, arguments = self._tools, parameters.name, parameters.arguments or {}
        tools.served += 1
        if tools.served in tools.server.lost_calls:
            tools.own_tools.end(tools.own_tools.start(name, arguments), _LOST, is_error=True)
            await self._writing.aclose()
            await asyncio.get_running_loop().create_future()
        shown = shown_arguments(arguments)
        call = ToolCall(tools.own_tools.id_for(name, shown), name, shown)
        if self._tools.server.lists(name, tools.now_ns):
            answer = await tools.run(call)
        else:  # no tool runs
            answer = ToolMessage(call.id, f"Error: tool {name} not found", is_error=True)
            tools.own_tools.end(call, answer.text, is_error=True)
        result = {"content": [{"type": "text", "text": answer.text}], "isError": answer.is_error}
        return self._types.CallToolResult.model_validate(result)

    async def _tell_changes(self) -> None:
        for at_ns in self._tools.server.changes_after(self._opened_ns):
            await asyncio.sleep((at_ns - self._tools.now_ns) / 1e9)
            if self._client is not None:
                await self._client.send_tool_list_changed()
