"""The parts of a reply, read as a program's client library reads them.

Not here: which words a program knows (kernel/replies.py). The rule to keep: a part is passed on
or replaced by another; none is added and none is lost. The trace has the parts as they arrived.
"""

from msgspec import structs

from simloop.kernel.replies import ReplyReading
from simloop.messages import (
    Fault,
    Finish,
    FinishReason,
    Part,
    Request,
    StreamError,
    ToolCallPart,
)


def read_part(part: Part, request: Request, reading: ReplyReading) -> Part:
    """Return a part with its finish word, or its tool name, as `reading` has it."""
    if type(part) is Finish:
        return _finish(part, reading)
    if type(part) is ToolCallPart and reading.lower_case_names:
        return _call(part, request)
    return part


def _finish(part: Finish, reading: ReplyReading) -> Finish | StreamError:
    word = part.raw
    if word in reading.failing_words:
        return StreamError(Fault(f"the provider finished with {word}", code=word))
    if reading.finish_words is None or not word or word in reading.finish_words:
        return part
    return structs.replace(part, reason=FinishReason.OTHER)


def _call(part: ToolCallPart, request: Request) -> ToolCallPart:
    names = {tool.name for tool in request.tools}
    lower = part.call.name.lower()
    if part.call.name in names or lower not in names:
        return part
    return ToolCallPart(structs.replace(part.call, name=lower))
