"""A model whose replies are read as a program's client library reads them.

Not here: which words a program knows (kernel/replies.py). The rule to keep: a part is passed on
or replaced by another; none is added and none is lost.
"""

import contextlib
from collections.abc import AsyncGenerator

from msgspec import structs

from simloop.engine.repetition import spent_replies
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
from simloop.world.fake_model import Model


class ReadModel:
    """Reads the finish words and tool names of `model` as `reading` says."""

    def __init__(self, model: Model, reading: ReplyReading) -> None:
        self._model = model
        self._reading = reading

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield the parts of the model's answer, with the words as they are read."""
        async with contextlib.aclosing(self._model.stream(request)) as parts:
            async for part in parts:
                if type(part) is Finish:
                    yield self._finish(part)
                elif type(part) is ToolCallPart:
                    yield self._call(part, request)
                else:
                    yield part

    def spent(self) -> int:
        """Return the number of replies used from the model's finite entries."""
        return spent_replies(self._model)

    def _finish(self, part: Finish) -> Finish | StreamError:
        word, reading = part.raw, self._reading
        if word in reading.failing_words:
            return StreamError(Fault(f"the provider finished with {word}", code=word))
        if reading.finish_words is None or not word or word in reading.finish_words:
            return part
        return structs.replace(part, reason=FinishReason.OTHER)

    def _call(self, part: ToolCallPart, request: Request) -> ToolCallPart:
        names = {tool.name for tool in request.tools}
        lower = part.call.name.lower()
        if not self._reading.lower_case_names or part.call.name in names or lower not in names:
            return part
        return ToolCallPart(structs.replace(part.call, name=lower))
