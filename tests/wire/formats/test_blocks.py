"""The blocks of a reply open, grow and close as its parts come."""

from simloop.messages import (
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
)
from simloop.wire.formats.blocks import Blocks

Seen = list[tuple[str, int, str]]


def changes(*parts: TextDelta | ReasoningDelta | ToolCallDelta | ToolCallPart) -> Seen:
    blocks = Blocks()
    seen = [one for part in parts for one in blocks.feed(part)]
    return [(action, block.index, piece) for action, block, piece in [*seen, *blocks.close()]]


def test_text_of_one_kind_is_one_block() -> None:
    assert changes(TextDelta("a"), TextDelta(""), TextDelta("b")) == [
        ("open", 0, ""), ("grow", 0, "a"), ("grow", 0, "b"), ("close", 0, ""),
    ]  # fmt: skip


def test_text_of_another_kind_closes_the_block_before() -> None:
    assert changes(ReasoningDelta("a"), TextDelta("b")) == [
        ("open", 0, ""), ("grow", 0, "a"), ("close", 0, ""),
        ("open", 1, ""), ("grow", 1, "b"), ("close", 1, ""),
    ]  # fmt: skip


def test_a_call_closes_the_text_before_it() -> None:
    assert changes(TextDelta("a"), ToolCallPart(ToolCall("c", "f", "{}"))) == [
        ("open", 0, ""), ("grow", 0, "a"), ("close", 0, ""), ("open", 1, "{}"), ("close", 1, ""),
    ]  # fmt: skip


def test_a_call_gets_the_rest_of_its_arguments_when_it_is_whole() -> None:
    parts = ToolCallDelta("c", "f", '{"a'), ToolCallPart(ToolCall("c", "f", '{"a":1}'))
    assert changes(*parts) == [
        ("open", 0, ""), ("grow", 0, '{"a'), ("grow", 0, '":1}'), ("close", 0, ""),
    ]  # fmt: skip


def test_a_call_that_was_sent_as_pieces_only_closes() -> None:
    parts = ToolCallDelta("c", "f", "{}"), ToolCallPart(ToolCall("c", "f", "{}"))
    assert changes(*parts) == [("open", 0, ""), ("grow", 0, "{}"), ("close", 0, "")]


def test_pieces_that_do_not_fit_make_the_call_another_one() -> None:
    parts = ToolCallDelta("c", "f", "[1"), ToolCallPart(ToolCall("c", "f", "{}"))
    assert changes(*parts) == [
        ("open", 0, ""), ("grow", 0, "[1"), ("open", 1, "{}"), ("close", 1, ""), ("close", 0, ""),
    ]  # fmt: skip


def test_a_call_that_breaks_off_is_not_whole() -> None:
    blocks = Blocks()
    for part in (ToolCallDelta("c", "f", "{"), ToolCallPart(ToolCall("d", "f", "{}"))):
        list(blocks.feed(part))
    assert [block.action for block in blocks.close()] == ["close"]
    assert [(block.call_id, block.is_whole) for block in blocks.blocks] == [
        ("c", False), ("d", True),
    ]  # fmt: skip


def test_a_block_knows_its_place_among_its_kind() -> None:
    blocks = Blocks()
    for part in (TextDelta("a"), ToolCallDelta("c", "f", "{"), ToolCallDelta("d", "f", "{")):
        list(blocks.feed(part))
    assert [(block.kind, block.index, block.nth) for block in blocks.blocks] == [
        ("text", 0, 0), ("call", 1, 0), ("call", 2, 1),
    ]  # fmt: skip
