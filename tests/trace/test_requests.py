"""Requests are coded as changes and read back, whoever sends them and from whichever list."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw
from work import lines_run

from simloop.messages import (
    AssistantMessage,
    Message,
    Request,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from simloop.trace import entries
from simloop.trace.codec import FORMAT, VERSION, decode, encode
from simloop.trace.entries import Header
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import RequestCoder, View, requests, view

HEADER = Header(FORMAT, VERSION, "", "own", 0, "", Raw(b"{}"))
LOOK, WRITE = (ToolSpec(name, "", Raw(b"{}")) for name in ("look", "write"))
NOTE = AssistantMessage("The steps are used up.")


class Sender:
    """Sends requests through one coder; keeps a copy of each as it was sent, and its entry."""

    def __init__(self) -> None:
        self.coder = RequestCoder()
        self.sent: list[tuple[str, tuple[Message, ...], tuple[ToolSpec, ...]]] = []
        self.entries: list[entries.Request] = []
        self.chars = 0

    def send(
        self, messages: Any, prompt: str = "", tools: tuple[ToolSpec, ...] = (), purpose: str = ""
    ) -> None:
        number = len(self.sent) + 1
        request = Request(number, purpose or "main", prompt, messages, tools)
        self.sent.append((prompt, tuple(messages), tools))
        entry, chars = self.coder.code(request, number - 1, 0, 0)
        self.chars += chars
        self.entries.append(entry)

    def read(self) -> list[tuple[str, tuple[Message, ...], tuple[ToolSpec, ...]]]:
        trace = LoopTrace(HEADER, list(self.entries))
        read = list(requests(decode(encode(trace)).entries))
        assert [request.number for request in read] == list(range(1, len(read) + 1))
        return [(each.system_prompt, tuple(each.messages), each.tools) for each in read]

    def added(self) -> int:
        return sum(len(each.added) for each in self.entries)


SAID: list[Message] = [
    *(UserMessage("Go."), UserMessage("And?"), SummaryMessage("They went.")),
    *(AssistantMessage("", (ToolCall("a", "look", "{}"),)), ToolMessage("a", "x")),
]
MESSAGES = st.sampled_from(SAID)


class Conversation:
    """A conversation that keeps one list, as the engine, or makes a new one each time."""

    def __init__(self, first: list[Message], *, by_view: bool) -> None:
        self.by_view = by_view
        self.messages = list(first)

    def compact(self, kept: int) -> None:
        self.messages = [SummaryMessage("They went."), *self.messages[kept:]]

    def snapshot(self, tail: tuple[Message, ...]) -> Any:
        return view(self.messages, tail=tail) if self.by_view else [*self.messages, *tail]


@settings(derandomize=True)
@given(st.data())
def test_any_sequence_of_requests_is_read_as_it_was_sent(data: st.DataObject) -> None:
    draw = data.draw
    sender, talks = Sender(), [Conversation([UserMessage("Go.")], by_view=True)]
    for _ in range(draw(st.integers(1, 14))):
        talk = draw(st.sampled_from(talks))
        match draw(st.sampled_from(["say", "say", "say", "compact", "fork", "shorter"])):
            case "say":
                talk.messages += draw(st.lists(MESSAGES, max_size=3))
            case "compact":
                talk.compact(draw(st.integers(0, len(talk.messages))))
            case "fork":
                kept = draw(st.integers(0, len(talk.messages)))
                talks.append(Conversation(talk.messages[:kept], by_view=draw(st.booleans())))
            case "shorter":
                shorter: Any = View(talk.messages, draw(st.integers(0, len(talk.messages))))
                sender.send(shorter)
        sender.send(
            talk.snapshot((NOTE,) if draw(st.booleans()) else ()),
            draw(st.sampled_from(["", "Be brief."])),
            draw(st.sampled_from([(), (LOOK,), (LOOK, WRITE)])),
            draw(st.sampled_from(["main", "summary"])),
        )
    assert sender.read() == sender.sent
    for each, (_, messages, _) in zip(sender.entries, sender.sent, strict=True):
        assert each.kept + len(each.added) == len(messages)
    digests = {each.digest: sent[1] for each, sent in zip(sender.entries, sender.sent, strict=True)}
    assert all(
        digests[each.digest] == sent[1]
        for each, sent in zip(sender.entries, sender.sent, strict=True)
    ), "a digest stands for one list of messages"


def test_the_first_request_has_no_base_and_says_only_what_is_not_empty() -> None:
    sender = Sender()
    sender.send([UserMessage("Go.")])
    (changes,) = sender.entries
    assert (changes.base, changes.kept, changes.added) == (0, 0, (UserMessage("Go."),))
    assert (changes.system_prompt, changes.tools) == (UNSET, UNSET)


def test_the_prompt_and_the_tools_are_those_of_the_base_unless_they_differ() -> None:
    sender = Sender()
    for prompt, tools in (("A", (LOOK,)), ("A", (LOOK,)), ("B", (LOOK,)), ("A", ())):
        sender.send([UserMessage("Go.")], prompt, tools)
    assert [(each.system_prompt, each.tools) for each in sender.entries] == [
        *(("A", (LOOK,)), (UNSET, UNSET), ("B", UNSET), ("A", ())),
    ]
    assert sender.read() == sender.sent


def test_a_list_that_is_changed_after_it_was_sent_changes_no_request() -> None:
    sender, messages = Sender(), list[Message]([UserMessage("Go.")])
    sender.send(messages)
    messages[0] = UserMessage("Stop.")
    sender.send(messages)
    assert [each.added for each in sender.entries] == [(UserMessage("Go."),), (messages[0],)]
    assert sender.read() == sender.sent


def test_equal_messages_count_as_kept_also_where_they_are_other_objects() -> None:
    sender = Sender()
    for count in (1, 2):
        sender.send([UserMessage(f"{number}") for number in range(count)])
    assert [(each.base, each.kept) for each in sender.entries] == [(0, 0), (1, 1)]


def test_a_tail_is_in_its_own_request_alone() -> None:
    sender, messages = Sender(), list[Message]([UserMessage("Go.")])
    sender.send(view(messages, tail=(NOTE,)))
    messages.append(UserMessage("And?"))
    sender.send(view(messages))
    assert (sender.entries[1].base, sender.entries[1].kept) == (1, 1)
    assert sender.sent[1][1] == (UserMessage("Go."), UserMessage("And?"))
    assert sender.read() == sender.sent


# ---------------------------------------------------------------------- growth


def told(steps: int) -> Iterator[list[Message]]:
    """One list that grows by two messages at each step."""
    messages: list[Message] = [UserMessage("Go.")]
    for number in range(steps):
        messages += [AssistantMessage(f"{number}"), UserMessage("And?")]
        yield messages


def by_view(sender: Sender, steps: int) -> None:
    for messages in told(steps):
        sender.send(view(messages))


def by_plain_list(sender: Sender, steps: int) -> None:
    for messages in told(steps):
        sender.send(list(messages))


def with_tails(sender: Sender, steps: int) -> None:
    for messages in told(steps):
        sender.send(view(messages, tail=(NOTE,)))


def with_a_note_at_the_end_of_a_plain_list(sender: Sender, steps: int) -> None:
    for messages in told(steps):
        sender.send([*messages, NOTE])


def in_turns(sender: Sender, steps: int) -> None:
    """Several agents share one model, and one of them only ever asks about the first message."""
    for messages, other in zip(told(steps), told(steps), strict=True):
        sender.send(view(messages))
        sender.send([UserMessage("Other."), *other])
        sender.send([UserMessage("Go.")], "Is this allowed?", purpose="guard")


Shape = Callable[[Sender, int], None]
SHAPES: list[Shape] = [
    by_view,
    by_plain_list,
    with_tails,
    with_a_note_at_the_end_of_a_plain_list,
    in_turns,
]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_entries_grow_with_the_conversation_and_not_with_its_square(shape: Shape) -> None:
    def of(steps: int) -> tuple[int, int]:
        sender = Sender()
        shape(sender, steps)
        assert sender.read() == sender.sent
        return sender.added(), sender.chars

    (added, chars), (added_twice, chars_twice) = of(40), of(80)
    assert added_twice < 2.2 * added
    assert chars_twice < 2.2 * chars, "the bound on characters counts only what is recorded"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_requests_that_are_read_share_lists_that_grow_with_the_conversation(
    shape: Shape,
) -> None:
    def held(steps: int) -> int:
        sender = Sender()
        shape(sender, steps)
        views: list[Any] = [request.messages for request in requests(sender.entries)]
        lists = {id(each.messages): each.messages for each in views}
        return sum(map(len, lists.values())) + sum(len(each.tail) for each in views)

    assert held(80) < 2.2 * held(40)


@pytest.mark.parametrize("shape", [by_view, with_tails])
def test_coding_a_view_and_reading_it_cost_the_same_however_long_it_is(shape: Shape) -> None:
    def coding(steps: int) -> int:
        return lines_run(lambda: shape(NotKept(), steps))

    def reading(steps: int) -> int:
        sender = Sender()
        shape(sender, steps)
        return lines_run(lambda: list(requests(sender.entries)))

    assert coding(200) < 2.2 * coding(100)
    assert reading(200) < 2.2 * reading(100)


class NotKept(Sender):
    """A sender that copies nothing, so that only the work of the coder counts."""

    def send(self, messages: Any, *_: Any, **__: Any) -> None:
        number = len(self.entries) + 1
        entry = self.coder.code(Request(number, "main", "", messages, ()), number - 1, 0, 0)[0]
        self.entries.append(entry)


# ---------------------------------------------------------------------- views


def test_a_view_is_the_sequence_of_its_messages() -> None:
    messages: list[Message] = [UserMessage(f"{number}") for number in range(4)]
    seen = View(messages, 3, (NOTE,))
    whole = (*messages[:3], NOTE)
    messages.append(UserMessage("later"))
    assert tuple(seen) == whole
    assert len(seen) == 4
    assert [seen[index] for index in range(-4, 4)] == [*whole, *whole]
    assert (tuple(seen[1:]), tuple(seen[::-1])) == (whole[1:], whole[::-1])
    for index in (4, -5):
        with pytest.raises(IndexError, match=f"message {index} of 4"):
            seen[index]


def test_a_view_equals_any_sequence_of_equal_messages() -> None:
    messages: list[Message] = [UserMessage("Go."), UserMessage("And?")]
    seen: Any = View(messages, 1, (NOTE,))
    assert seen == (UserMessage("Go."), NOTE)
    assert seen == [UserMessage("Go."), NOTE]
    for equal in (UserMessage("Go."), NOTE), view([UserMessage("Go."), NOTE]):
        assert seen == equal
        assert not seen != equal  # noqa: SIM202 - it is what is tested
    assert seen != (UserMessage("Go."),)
    assert seen != (UserMessage("Go."), UserMessage("And?"))
    assert seen != "Go."
    assert hash(seen) == hash(view([UserMessage("Go."), NOTE]))


def test_a_request_with_a_view_can_be_encoded_as_its_messages() -> None:
    request = Request(1, "main", "", view([UserMessage("Go.")]), ())
    plain = msgspec.structs.replace(request, messages=tuple(request.messages))
    assert plain == request
