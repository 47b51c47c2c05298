"""The history: its size is that of a count from scratch, and its views never change."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop.engine.context import History
from simloop.kernel.policies import message_tokens, utf8_bytes_over_4
from simloop.messages import (
    AssistantMessage,
    Message,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

texts = st.text(st.characters(codec="utf-8"), max_size=20)
ids = st.sampled_from(["a", "b", "c"])
tool_calls = st.builds(ToolCall, ids, ids, texts)
messages = st.one_of(
    st.builds(UserMessage, texts),
    st.builds(AssistantMessage, texts, st.lists(tool_calls, max_size=3).map(tuple)),
    st.builds(ToolMessage, ids, texts, st.booleans()),
    st.builds(SummaryMessage, texts),
)
histories = st.lists(messages, max_size=8)
Edit = tuple[str, Any]
edits: st.SearchStrategy[list[Edit]] = st.lists(
    st.one_of(
        st.tuples(st.just("append"), messages),
        st.tuples(st.just("replace"), histories),
        st.tuples(st.just("cut"), st.integers(0, 8)),
    ),
    max_size=12,
)


def history_of(said: Sequence[Message]) -> History:
    return History(said, utf8_bytes_over_4)


def edit(history: History, edits: Sequence[Edit]) -> None:
    """Grow and replace it in any order; `cut` keeps the end of what is there."""
    for what, value in edits:
        if what == "append":
            history.append(value)
        elif what == "replace":
            history.replace(value)
        else:
            history.replace(history.messages[value:])


def tokens_from_scratch(said: Sequence[Message]) -> int:
    total = 0
    for message in said:
        words = [message.text]
        if isinstance(message, AssistantMessage):
            words += [word for call in message.calls for word in (call.name, call.arguments)]
        total += 4 + sum(-(-len(word.encode()) // 4) for word in words)
    return total


@given(histories, edits)
def test_the_tokens_are_those_of_a_count_from_scratch(
    start: list[Message], edits: list[Edit]
) -> None:
    history = history_of(start)
    edit(history, edits)
    assert history.tokens == tokens_from_scratch(history.messages)


@given(histories, edits)
def test_a_view_never_changes(start: list[Message], edits: list[Edit]) -> None:
    history = history_of(start)
    view = history.view()
    edit(history, edits)
    assert list(view) == start


# ------------------------------------------------------------------------- views


@given(histories, st.integers(-10, 10))
def test_a_view_is_indexed_as_a_list_is(said: list[Message], index: int) -> None:
    view = history_of(said).view()
    if -len(said) <= index < len(said):
        assert view[index] == said[index]
    else:
        with pytest.raises(IndexError):
            view[index]


def test_a_view_is_no_copy() -> None:
    history = history_of([UserMessage("a")])
    assert history.view()[0] is history.messages[0]


# ------------------------------------------------------------------------- token estimates


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("中", 1), ("中文中文", 3), ("\ud800", 1)],
)
def test_a_token_is_a_quarter_of_the_bytes_rounded_up(text: str, tokens: int) -> None:
    assert utf8_bytes_over_4(text) == tokens


def test_a_message_costs_its_text_its_calls_and_its_frame() -> None:
    call = ToolCall("an id is not counted", "look", '{"at": "a"}')
    assert message_tokens(AssistantMessage("12345678", (call,)), utf8_bytes_over_4) == 4 + 2 + 1 + 3


def test_any_estimate_of_tokens_can_be_given() -> None:
    history = History([UserMessage("one two three")], lambda text: len(text.split()))
    assert history.tokens == 4 + 3
