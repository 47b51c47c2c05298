"""The replacement of random faults by scripted ones: the replies of a run, from its trace.

Random faults cannot be reduced: another reply or another seed draws other faults. The script has
the recorded events, or the nearest events that a scenario can express.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from simloop.messages import Fault, StreamError
from simloop.scenario.replies import parts_of_fault
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.world.chance import LOST_TOOL
from simloop.world.faults import FAULTS, REPLY_ENDS, TOOL_ENDS, Keys, Stage

_SCRIPTS = {"main": "model", "summary": "summaries"}


def with_planned_faults(tree: dict[str, Any], record: Iterable[AnyEntry]) -> dict[str, Any]:
    """Return a scenario, as data, whose script has the faults that a run of it has recorded."""
    replies: dict[int, dict[str, Any]] = {}
    scripts: dict[str, list[dict[str, Any]]] = {"model": [], "summaries": []}
    tools = dict(tree.get("tools", {}))
    for entry in record:
        if type(entry) is entries.Request:
            reply = replies[entry.number] = {}
            scripts[_SCRIPTS[entry.purpose]].append(reply)
        elif type(entry) is entries.ToolResult and LOST_TOOL in entry.text:
            tools[entry.name] = {**_without_result(tools.get(entry.name, {})), "raises": LOST_TOOL}
        else:
            _add(replies, entry)
    for each in replies.values():
        _end(each)
    planned = {key: value for key, value in tree.items() if key != "faults"}
    return {**planned, **scripts, "tools": tools}


def _without_result(tool: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if key not in TOOL_ENDS}


def _add(replies: dict[int, dict[str, Any]], entry: AnyEntry) -> None:
    match entry:
        case entries.TextDelta(request=request, text=text):
            replies[request].setdefault("say", []).append(text)
        case entries.ReasoningDelta(request=request, text=text):
            replies[request].setdefault("think", []).append(text)
        case entries.ToolCall(request=request, call_id=call_id, name=name, arguments=arguments):
            replies[request].setdefault("call", []).append({name: _arguments(arguments)})
            replies[request].setdefault("ids", []).append(call_id)
        case entries.Finish(request=request):
            replies[request]["finish"] = entry.raw
            if entry.usage is not None:
                given, made = entry.usage.input_tokens, entry.usage.output_tokens
                replies[request]["usage"] = {"input": given, "output": made}
            if entry.steps != 1:
                replies[request]["steps"] = entry.steps
        case entries.Error(request=request, fault=fault):
            replies[request].update(_failure(fault, began=bool(replies[request])))
        case entries.StreamCut(request=request):
            replies[request]["unfinished"] = True


def _arguments(text: str) -> Any:
    try:
        read = json.loads(text)
    except ValueError:
        return text
    return read if isinstance(read, dict) else text


@cache
def _known() -> Mapping[Fault, Keys]:
    """Return the keys of each failure in the catalogue that comes instead of a reply."""
    instead = [fault for fault in FAULTS if fault.stage is Stage.INSTEAD]
    return {
        part.fault: fault.keys
        for fault in instead
        for _, part in parts_of_fault(fault)
        if type(part) is StreamError
    }


def _failure(fault: Fault, *, began: bool) -> dict[str, Any]:
    """Return the keys for the end of a failed reply, before or after its first output."""
    if fault in _known() and not began:
        return dict(_known()[fault])
    code = "" if fault.code_is_type else fault.code
    if code == "timeout":
        unmade = "connect timeout" in fault.message  # as the client's end is told: wire/exchange.py
        return {"stall": "mid-output" if began else "before-connect" if unmade else "after-headers"}
    if code == "connection":
        return {"lost": "mid-output" if began else "before-headers"}
    if not fault.status or began:
        return {"error": {"message": fault.message, "code": fault.code}}
    http = {"status": fault.status, "message": fault.message, "code": fault.code}
    return {"http": {**http, "headers": dict(fault.headers)}}


def _end(reply: dict[str, Any]) -> None:
    if reply.keys().isdisjoint(REPLY_ENDS):
        reply["stall"] = "mid-output" if reply else "after-headers"
