"""Calls of models and runs of tools as a tracer writes them, as records.

A model call has all messages that were sent, so its place in a conversation is known whatever the
order of the file is.
"""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from simloop.messages import Request, Usage
from simloop.recordings import dialects, exchanges
from simloop.recordings.failures import failure_keys
from simloop.recordings.recording import NO_TOOLS, ModelCall, Recording, ToolRun

_LEFT = re.compile(r"cancel|abort|\Aunfinished\Z|timed-out", re.IGNORECASE)


class RecordedSpan(Struct, kw_only=True):
    """One call: `asked`, `said`, `system`, `tools` and a tool's `result` are in any dialect."""

    id: str = ""
    parent: str = ""  # the id of the span that this one is inside
    tool: str = ""  # its name, and perhaps the id of its call, in a tool's span
    call_id: str = ""
    result: Any = None
    asked: Any = None
    said: Any = None
    system: Any = None
    tools: Any = None
    finish: str = ""
    usage: Usage | None = None
    failed: bool = False
    error: str = ""  # a status, or the type of an error
    message: str = ""
    began_ns: int | None = None
    first_ns: int | None = None
    ended_ns: int | None = None


def add_spans(recording: Recording, spans: Iterable[RecordedSpan], hint: str) -> None:
    """Add the records of spans. The hint is for a recording none of whose spans has a content."""
    ordered = sorted(spans, key=lambda span: span.began_ns or 0)
    around = {span.parent for span in ordered if not span.tool} - {""}
    calls: list[ModelCall] = []
    runs: dict[str, list[RecordedSpan]] = {}
    dialogue = dialects.Dialogue()
    for span in ordered:
        if span.tool:
            runs.setdefault(span.call_id or span.tool, []).append(span)
        elif span.id in around:
            recording.leave_out("a call of a model that is a span around another one")
        elif span.failed and _LEFT.search(span.error):
            recording.leave_out("a call of a model that was cancelled")
        elif call := _model_call(span, dialogue):
            calls.append(call)
        else:
            which = "a failed call of a model" if span.failed else "a call of a model"
            recording.leave_out(f"{which} whose span has no messages")
    if not calls:
        recording.hint = hint
        for each in runs.values():
            recording.leave_out("a run of a tool", len(each))
    if not any(call.request is not None and call.request.tools for call in calls):
        recording.lacks += (NO_TOOLS,)
    _add_with_runs(recording, calls, runs)


def _model_call(span: RecordedSpan, dialogue: dialects.Dialogue) -> ModelCall | None:
    system, messages = dialogue.read(span.asked)
    said = dialects.reply_of(span.said)
    if not any(each.text for each in messages) or (said is None and not span.failed):
        return None
    if not system and span.system:
        system = dialects.text_of(dialects.parsed(span.system))
    request = Request(1, "main", system, messages, dialects.tools_of(span.tools))
    is_cut = span.error == "stream_cut"
    keys: dict[str, Any] = {}
    if said is not None:
        usual = span.finish or said[1] or exchanges.usual_finish(said[0])
        keys = exchanges.reply_keys(said[0], "" if is_cut or span.failed else usual, span.usage)
    if span.failed and not is_cut:
        keys = failure_keys(span.error, span.message, begun=exchanges.begun_keys(keys))
    came_ns = span.ended_ns if span.first_ns is None else span.first_ns
    keys |= exchanges.pace_of(span.began_ns, came_ns)
    message = None if span.failed or said is None else said[0]
    return ModelCall(keys, message, request, "", span.began_ns, span.ended_ns)


def _add_with_runs(
    recording: Recording, calls: list[ModelCall], runs: dict[str, list[RecordedSpan]]
) -> None:
    made = [each for call in calls if call.message is not None for each in call.message.calls]
    names = {call.id: call.name for call in made}
    shown = list(exchanges.unfolded(calls))
    own = {each.call_id for each in shown if isinstance(each, ToolRun)}
    shown += [ToolRun(call_id, "") for call_id in runs if call_id in names and call_id not in own]
    for record in shown:
        if isinstance(record, ToolRun):
            spans = runs.get(record.call_id) or runs.get(names.get(record.call_id, ""))
            if spans:
                span = spans.pop(0)
                if span.began_ns is not None and span.ended_ns is not None:
                    record.took_ns = max(span.ended_ns - span.began_ns, 0)
                result = record.text or dialects.text_of(dialects.parsed(span.result))
                record.is_error = record.is_error or span.failed
                record.text = (span.failed and span.message) or result
        recording.records.append(record)
