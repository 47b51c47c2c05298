"""The conversation before the first prompt, as a scenario writes it.

Each call has exactly one result, right after its reply and in the order of the calls, because
providers refuse anything else.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Self

from pydantic import Field, model_validator

from simloop.messages import (
    AssistantMessage,
    Message,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.scenario.fields import Strict, no_items, wrong
from simloop.scenario.replies import calls_of

_ROLES = ("user", "assistant", "tool", "summary")


class PastMessage(Strict):
    """One message of the conversation before the first prompt: one role, with its text."""

    user: str | None = Field(default=None, description="The user has said this.")
    assistant: str | None = Field(default=None, description="The model has said this.")
    call: dict[str, Any] | list[dict[str, Any]] = Field(
        default_factory=no_items,
        description="The model has made these tool calls: name and arguments.",
    )
    tool: str | None = Field(
        default=None, description="The result of the next call that has none yet."
    )
    failed: bool = Field(default=False, description="The result is an error.")
    summary: str | None = Field(
        default=None, description="A compaction has put this in the place of older messages."
    )

    @model_validator(mode="after")
    def _one_role(self) -> Self:
        given = [role for role in _ROLES if getattr(self, role) is not None]
        if self.call and not given:
            given = ["assistant"]
        if len(given) != 1:
            raise wrong("", f"a message has one role: give one of {', '.join(_ROLES)}")
        if self.call and given != ["assistant"]:
            raise wrong("call", "only the assistant makes calls")
        if self.failed and given != ["tool"]:
            raise wrong("failed", "only the result of a tool fails")
        try:
            calls_of(self.call)
        except ValueError:
            raise wrong("call", "JSON has no NaN and no infinity") from None
        return self


def unpaired(history: Sequence[PastMessage]) -> tuple[int, str] | None:
    """Return the index of the first message that breaks the pairs of calls and results, and why."""
    names: list[str] = []
    for index, message in enumerate(history):
        if message.tool is not None:
            if not names:
                return index, "there is no call that this could be the result of"
            names.pop(0)
        elif names:
            return index, f"the result of {names[0]} has to come first"
        else:
            names = [name for name, _ in calls_of(message.call)]
    return (len(history) - 1, f"the result of {names[0]} is missing") if names else None


def past_messages(history: Sequence[PastMessage]) -> tuple[Message, ...]:
    """Return the messages, whose calls have the ids `past-1`, `past-2` and so on."""
    return tuple(_messages(history))


def _messages(history: Sequence[PastMessage]) -> Iterator[Message]:
    made = answered = 0
    for past in history:
        if past.user is not None:
            yield UserMessage(past.user)
        elif past.summary is not None:
            yield SummaryMessage(past.summary)
        elif past.tool is not None:
            answered += 1
            yield ToolMessage(f"past-{answered}", past.tool, past.failed)
        else:
            named = list(enumerate(calls_of(past.call), start=made + 1))
            made += len(named)
            calls = [ToolCall(f"past-{number}", *call) for number, call in named]
            yield AssistantMessage(past.assistant or "", tuple(calls))
