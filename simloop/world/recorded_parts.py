"""The record of the parts of a reply: a function for each kind of part but text.

Text deltas are most parts, and the port records those itself (model_port.py).
"""

from collections.abc import Callable
from typing import Any

from simloop.errors import ScenarioError
from simloop.escape import writable
from simloop.messages import (
    Fault,
    Finish,
    Part,
    ReasoningDelta,
    StreamError,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
)
from simloop.trace import entries
from simloop.trace.recorder import Recorder


def _tool_call(part: ToolCallPart, number: int, recorder: Recorder) -> Part:
    call = part.call
    call_id, name, arguments = call.id, call.name, call.arguments
    whole = call_id + name + arguments
    if not whole.isascii():
        call_id, name, arguments = writable(call_id), writable(name), writable(arguments)
        part, whole = ToolCallPart(ToolCall(call_id, name, arguments)), call_id + name + arguments
    seq, at_ns = len(recorder.entries), recorder.clock.now_ns
    recorder.put(entries.ToolCall(seq, at_ns, number, call_id, name, arguments), len(whole))
    return part


def _finish(part: Finish, number: int, recorder: Recorder) -> Part:
    raw = part.raw
    if not raw.isascii():
        raw = writable(raw)
        part = Finish(part.reason, raw, part.usage, part.steps)
    seq, at_ns = len(recorder.entries), recorder.clock.now_ns
    entry = entries.Finish(seq, at_ns, number, part.reason, raw, part.usage, part.steps)
    recorder.put(entry, len(raw))
    return part


def record_error(part: StreamError, number: int, recorder: Recorder) -> Part:
    """Record a failure, and return it."""
    fault = part.fault
    headers = tuple((writable(name), writable(value)) for name, value in fault.headers)
    fault = Fault(
        writable(fault.message),
        status=fault.status,
        code=writable(fault.code),
        headers=headers,
        code_is_type=fault.code_is_type,
    )
    chars = len(fault.message) + sum(len(name) + len(value) for name, value in headers)
    seq, at_ns = len(recorder.entries), recorder.clock.now_ns
    recorder.put(entries.Error(seq, at_ns, number, fault), chars)
    return StreamError(fault, part.body)


def _reasoning(part: ReasoningDelta, number: int, recorder: Recorder) -> Part:
    text = writable(part.text)
    recorder.record(entries.ReasoningDelta, number, text)
    return ReasoningDelta(text)


def _tool_call_delta(part: ToolCallDelta, number: int, recorder: Recorder) -> Part:
    delta = ToolCallDelta(writable(part.call_id), writable(part.name), writable(part.arguments))
    recorder.record(entries.ToolCallDelta, number, delta.call_id, delta.name, delta.arguments)
    return delta


class _Recorders(dict[type, Callable[[Any, int, Recorder], Part]]):
    """The functions that record a part and return it with text that can be encoded."""

    def __missing__(self, kind: type) -> Callable[[Any, int, Recorder], Part]:
        raise ScenarioError(
            f"the model gave a {kind.__name__}, which is not a part of a stream",
            key="model",
            hint="return text, a Reply, or parts such as TextDelta and Finish",
        )


RECORDED = _Recorders(
    {
        ToolCallPart: _tool_call,
        Finish: _finish,
        StreamError: record_error,
        ReasoningDelta: _reasoning,
        ToolCallDelta: _tool_call_delta,
    }
)
"""The function that records a part and returns it, by the kind of the part."""
