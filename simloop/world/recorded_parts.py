"""The record of the parts of a reply: a function for each kind of part.

Not here: text deltas, which are most parts, and which the port records itself (model_port.py). The
rule to keep: a part comes back with text that can be encoded, as its entry has it.
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
    if not (call_id.isascii() and name.isascii() and arguments.isascii()):
        call_id, name, arguments = writable(call_id), writable(name), writable(arguments)
        part = ToolCallPart(ToolCall(call_id, name, arguments))
    recorder.count(len(call_id) + len(name) + len(arguments))
    seq, at_ns = len(recorder.entries), recorder.clock.now_ns
    recorder.append(entries.ToolCall(seq, at_ns, number, call_id, name, arguments))
    return part


def _finish(part: Finish, number: int, recorder: Recorder) -> Part:
    if not part.raw.isascii():
        part = Finish(part.reason, writable(part.raw), part.usage, part.steps)
    recorder.count(len(part.raw))
    seq, at_ns = len(recorder.entries), recorder.clock.now_ns
    recorder.append(
        entries.Finish(seq, at_ns, number, part.reason, part.raw, part.usage, part.steps)
    )
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
    recorder.count(len(fault.message) + sum(len(name) + len(value) for name, value in headers))
    recorder.record(entries.Error, number, fault)
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
