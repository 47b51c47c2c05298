"""A model whose finish words and tool names are read as a client library reads them."""

from collections.abc import AsyncGenerator

import msgspec
import pytest

from simloop.engine.reading import ReadModel
from simloop.kernel.replies import ReplyReading
from simloop.messages import (
    Finish,
    FinishReason,
    Part,
    Request,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallPart,
    ToolSpec,
)
from simloop.virtual.clock import run_virtual

TOOL = ToolSpec("look", "", msgspec.Raw(b"{}"))
REQUEST = Request(1, "main", "", (), (TOOL,))


class Parts:
    def __init__(self, *parts: Part) -> None:
        self.parts = parts
        self.closed = False

    async def stream(self, _: Request) -> AsyncGenerator[Part, None]:
        try:
            for part in self.parts:
                yield part
        finally:
            self.closed = True


def read(reading: ReplyReading, *parts: Part) -> list[Part]:
    async def collect() -> list[Part]:
        return [part async for part in ReadModel(Parts(*parts), reading).stream(REQUEST)]

    return run_virtual(collect())


def test_by_default_every_part_is_passed_on() -> None:
    call = ToolCallPart(ToolCall("1", "Look", "{}"))
    parts: list[Part] = [TextDelta("a"), call, Finish(FinishReason.STOP, "STOP")]
    assert read(ReplyReading(), *parts) == parts


@pytest.mark.parametrize(
    ("word", "reason"),
    [("stop", FinishReason.STOP), ("STOP", FinishReason.OTHER), ("", FinishReason.STOP)],
)
def test_a_finish_word_that_is_not_known_as_spelled_is_other(
    word: str, reason: FinishReason
) -> None:
    reading = ReplyReading(finish_words=frozenset({"stop"}))
    assert read(reading, Finish(FinishReason.STOP, word)) == [Finish(reason, word)]


def test_a_failing_word_stands_as_an_error_with_that_code() -> None:
    reading = ReplyReading(failing_words=frozenset({"network_error"}))
    (part,) = read(reading, Finish(FinishReason.INTERRUPTED, "network_error"))
    assert isinstance(part, StreamError)
    assert part.fault.code == "network_error"


@pytest.mark.parametrize(
    ("name", "read_as"), [("LOOK", "look"), ("look", "look"), ("FIND", "FIND")]
)
def test_a_name_is_lowered_only_if_a_tool_has_it_then(name: str, read_as: str) -> None:
    reading = ReplyReading(lower_case_names=True)
    (part,) = read(reading, ToolCallPart(ToolCall("1", name, "{}")))
    assert isinstance(part, ToolCallPart)
    assert part.call.name == read_as


def test_the_model_is_closed_when_the_reader_stops_early() -> None:
    model = Parts(TextDelta("a"), TextDelta("b"))

    async def take_one() -> None:
        parts = ReadModel(model, ReplyReading()).stream(REQUEST)
        await anext(parts)
        await parts.aclose()

    run_virtual(take_one())
    assert model.closed
