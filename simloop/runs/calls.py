"""The calls of tools in a trace: those that are recorded, and those that only the messages show.

An agent may run a function that is not recorded. Then the trace has the call of the model and, in a
later request, its result. Such a call counts only if nothing in the trace says that it was not run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from simloop.errors import CannotExpress, ScenarioError
from simloop.messages import ToolMessage, ToolSpec
from simloop.runs.scripted import stated
from simloop.scenario.schema import Scenario, ScriptedTool
from simloop.trace import entries, looptrace
from simloop.trace.entries import AnyEntry, Header
from simloop.trace.looptrace import Call, LoopTrace
from simloop.world.files import Files
from simloop.world.tools import Tool, canonical_json, wrong_arguments


def calls_of(trace: LoopTrace) -> list[tuple[int, Call]]:
    """Return the calls that were run, each with the number of the entry that shows it, in order."""
    started = [entry for entry in trace.entries if type(entry) is entries.ToolStarted]
    recorded = zip((entry.seq for entry in started), looptrace.calls(started), strict=True)
    return sorted((*recorded, *_seen_calls(trace)), key=lambda call: call[0])


def _seen_calls(trace: LoopTrace) -> list[tuple[int, Call]]:
    """Return the calls that only the messages of an agent show, with the entry of their result.

    The agent has offered the tool, the arguments fit, a later request has a result, and no tool of
    this name is recorded in the run. A call that the agent itself denies is therefore here, too.
    """
    record = trace.entries
    if trace.has_machine:
        return []  # the engine records each call that it runs
    asked = {entry.call_id: entry for entry in record if type(entry) is entries.ToolCall}
    if not asked:
        return []
    ran = {entry.name for entry in record if type(entry) is entries.ToolStarted}
    refused = {entry.call_id for entry in record if type(entry) is entries.ToolResult}
    offered = _offered(trace)
    found = []
    for seq, call_id in _answered(record):
        call = asked.pop(call_id, None)
        if call is None or call.name in ran or call_id in refused:
            continue
        arguments = _fitting(offered.get(call.name), call.arguments)
        if arguments is not None:
            found.append((seq, Call(call.name, arguments)))
    return found


def check_settings_of_tools(scenario: Scenario, loop: str, trace: LoopTrace) -> None:
    """Raise CannotExpress if a tool has settings and the agent runs a function without them."""
    if not scenario.tools:
        return
    names = dict.fromkeys(
        call.name for _, call in _seen_calls(trace) if call.name in scenario.tools
    )
    lost = {name: stated(scenario.tools[name]) for name in names}
    keys = [f"tools.{name}.{setting}" for name, each in lost.items() for setting in each]
    if not keys:
        return
    functions = ", ".join(f"`{name}`" for name, each in lost.items() if each)
    error = CannotExpress(loop, [f"its own code runs {functions}, without {', '.join(keys)}"])
    error.key = keys[0]
    error.hint = (
        f"put @simloop.traced on {functions}, or wrap it with sim.tool; if the agent denies the"
        " call, remove the settings"
    )
    raise error


def _answered(record: Sequence[AnyEntry]) -> Iterator[tuple[int, str]]:
    for entry in record:
        if type(entry) is entries.Request:
            for message in entry.added:
                if type(message) is ToolMessage:
                    yield entry.seq, message.call_id


def _offered(trace: LoopTrace) -> dict[str, ToolSpec]:
    """Return the tools that the agent has offered, by name, but not those of the world."""
    of_world = _specs_of_world(trace.header)
    offered: dict[str, ToolSpec] = {}
    for entry in trace.entries:
        if type(entry) is entries.Request and isinstance(entry.tools, tuple):
            offered |= {
                spec.name: spec
                for spec in entry.tools
                if spec.name not in of_world or not _equal(of_world[spec.name], spec)
            }
    return offered


def _specs_of_world(header: Header) -> dict[str, ToolSpec | None]:
    """Return the tools that the world runs, by name; None for one that is Python code."""
    scenario = msgspec.json.decode(header.scenario) or {}
    known: dict[str, ToolSpec | None] = {}
    if scenario.get("files") is not None:
        # Few scenarios have files, and the patterns of a shell take long to compile.
        from simloop.world.file_tools import file_tools  # noqa: PLC0415

        known |= dict.fromkeys(file_tools(Files({}), 1))
    known |= {name: _spec(name, raw) for name, raw in scenario.get("tools", {}).items()}
    python = (name.removeprefix("tool ") for name in header.python if name.startswith("tool "))
    return known | dict.fromkeys(python)


def _spec(name: str, raw: Mapping[str, Any]) -> ToolSpec:
    parameters, json_schema = raw.get("parameters", {}), raw.get("json_schema")
    spec = ScriptedTool.model_construct(parameters=parameters, json_schema=json_schema)
    schema = msgspec.Raw(canonical_json(spec.schema_of_arguments()))
    return ToolSpec(name, raw.get("description", ""), schema)


def _equal(known: ToolSpec | None, spec: ToolSpec) -> bool:
    return known is None or (
        known.description == spec.description and bytes(known.parameters) == bytes(spec.parameters)
    )


def _fitting(spec: ToolSpec | None, text: str) -> dict[str, Any] | None:
    """Return the arguments of a call if its tool takes them: an agent refuses others itself."""
    if spec is None:
        return None
    try:
        arguments = msgspec.json.decode(text or "{}")
        schema = msgspec.json.decode(spec.parameters)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(arguments, dict):
        return None
    try:
        tool = Tool(lambda: None, name=spec.name, parameters=schema)
        return None if wrong_arguments(tool, arguments) else arguments
    except ScenarioError:  # the agent's own schema cannot be checked
        return arguments
