"""Any history and any compaction policy, and what to ask of a shortened one."""

from collections.abc import Sequence
from typing import get_args

from hypothesis import strategies as st

from simloop import Compaction
from simloop.kernel.policies import CompactionStrategy, message_tokens, utf8_bytes_over_4
from simloop.messages import (
    AssistantMessage,
    Message,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

PAD = "word " * 40


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Turns of every kind, numbered so that no two messages are equal; at least one user's."""
    kinds = draw(st.lists(st.sampled_from(["user", "said", "calls", "summary"]), max_size=9))
    kinds.insert(draw(st.integers(0, len(kinds))), "user")
    sizes = st.sampled_from([0, 1, 10, 100])
    said: list[Message] = []
    for number, kind in enumerate(kinds):
        text = f"{kind} {number} " + "x" * draw(sizes)
        if kind == "user":
            said.append(UserMessage(text))
        elif kind == "summary":
            said.append(SummaryMessage(text))
        else:
            count = draw(st.integers(1, 3)) if kind == "calls" else 0
            calls = tuple(ToolCall(f"{number}.{i}", "look", "{}") for i in range(count))
            said.append(AssistantMessage(text, calls))
            said += [ToolMessage(call.id, f"saw {call.id} " + "x" * draw(sizes)) for call in calls]
    return said


policies = st.builds(
    lambda window, trigger, target, keep, strategy: Compaction(
        window=window,
        trigger_percent=trigger,
        target_percent=target,
        keep_turns=keep,
        strategy=strategy,
    ),
    st.integers(1, 400),
    st.integers(1, 100),
    st.integers(1, 100),
    st.integers(1, 5),
    st.sampled_from(get_args(CompactionStrategy)),
)


def size(messages: Sequence[Message]) -> int:
    return sum(message_tokens(message, utf8_bytes_over_4) for message in messages)


def newest_user(messages: Sequence[Message]) -> Message:
    return [message for message in messages if isinstance(message, UserMessage)][-1]


def without_summaries(messages: Sequence[Message], old: Sequence[Message]) -> list[Message]:
    """What is left of `old` in `messages`: all but a summary that was put in."""
    return [message for message in messages if any(message is one for one in old)]


def in_order(part: Sequence[Message], whole: Sequence[Message]) -> bool:
    rest = iter(whole)
    return all(any(message is one for one in rest) for message in part)
