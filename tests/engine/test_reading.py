"""Parts whose finish words and tool names are read as a client library reads them."""

import msgspec
import pytest

from simloop.engine.model_calls import read_part
from simloop.kernel.policies import ReplyReading
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

TOOL = ToolSpec("look", "", msgspec.Raw(b"{}"))
REQUEST = Request(1, "main", "", (), (TOOL,))


def read(reading: ReplyReading, *parts: Part) -> list[Part]:
    return [read_part(part, REQUEST, reading) for part in parts]


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
