"""The messages of a conversation, as people write them: one role each, and calls by their names."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Self

from msgspec import Struct, field
from pydantic import Field, model_validator

from simloop import messages
from simloop.scenario.fields import OneOrNone, Strict, kept, no_items, wrong
from simloop.world.tools import canonical_json

_ROLES = ("user", "assistant", "tool", "summary")


def calls_of(call: dict[str, Any] | list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return each call's name and its arguments as JSON. Raises ValueError if they are no JSON."""
    groups = [call] if isinstance(call, dict) else call
    given = [(name, {} if it is None else it) for group in groups for name, it in group.items()]
    try:
        return [(n, it if isinstance(it, str) else canonical_json(it).decode()) for n, it in given]
    except ValueError:
        raise wrong("call", "JSON has no NaN and no infinity") from None


class PastMessage(Strict):
    """One message of the conversation before the first prompt: one role, with its text.

    Each call has exactly one result, right after its reply and in the order of the calls, because
    providers refuse anything else.
    """

    user: str | None = None
    """The user has said this."""
    assistant: str | None = None
    """The model has said this."""
    call: dict[str, Any] | list[dict[str, Any]] = Field(default_factory=no_items)
    """The model has made these tool calls: name and arguments."""
    tool: str | None = None
    """The result of the next call that has none yet."""
    failed: bool = False
    """The result is an error."""
    summary: str | None = None
    """A compaction has put this in the place of older messages."""

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
        calls_of(self.call)  # it raises an error for what is no JSON
        return self


class SentRequest(Strict):
    """A request to the model, as an agent has sent it; only the given keys are compared."""

    system: str | None = None
    """The system prompt."""
    tools: list[str] | None = None
    """The tools that it offers, in order."""
    messages: OneOrNone[list[PastMessage]] = kept(None)
    """Its messages."""
    adds: OneOrNone[list[PastMessage]] = kept(None)
    """Its messages after those of the request before it in the list."""

    @model_validator(mode="after")
    def _has_one_list(self) -> Self:
        if self.messages is not None and self.adds is not None:
            raise wrong("adds", "give either messages or adds")
        return self


class SentMessages(Struct):
    """The messages of one request as the keys of PastMessages, and what the next one adds."""

    keys: list[dict[str, Any]] = []
    _last: Sequence[messages.Message] = ()

    def added(self, sent: Sequence[messages.Message]) -> list[dict[str, Any]] | None:
        """Return the keys of what a request adds; None if it does not begin with these messages."""
        known = len(self.keys)
        # The first comparison is one of identity for most recordings, the second one costs more.
        begins = len(sent) >= known and (
            sent[:known] == self._last
            or all(written(one) == keys for one, keys in zip(sent, self.keys, strict=False))
        )
        return [*map(written, sent[known:])] if begins else None

    def take(self, sent: Sequence[messages.Message], added: list[dict[str, Any]] | None) -> None:
        """Go on to the next request; `added` is what it adds."""
        if added is None:
            self.keys.clear()
        self.keys += map(written, sent) if added is None else added
        self._last = sent


class SentList(Struct):
    """Requests of one party as `expect.sent` has them: each with what it adds to the one before."""

    items: list[dict[str, Any]] = []
    _sent: SentMessages = field(default_factory=SentMessages)
    _last: messages.Request | None = None

    def add(self, request: messages.Request) -> None:
        """Add a request; the system prompt and the tools are stated where they are new."""
        last = self._last
        added = self._sent.added(request.messages) if self._sent.keys else None
        self._sent.take(request.messages, added)
        item: dict[str, Any] = {}
        if last is None or last.system_prompt != request.system_prompt:
            item["system"] = request.system_prompt
        if last is None or last.tools != request.tools:
            item["tools"] = [each.name for each in request.tools]
        item |= {"messages": [*self._sent.keys]} if added is None else {"adds": added}
        self.items.append(item)
        self._last = request

    def begin_anew(self) -> None:
        """Let the next request state all of its messages."""
        self._sent = SentMessages()


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


def past_messages(history: Sequence[PastMessage]) -> Iterator[messages.Message]:
    """Yield the messages, whose calls have the ids `past-1`, `past-2` and so on."""
    made = answered = 0
    for past in history:
        if past.user is not None:
            yield messages.UserMessage(past.user)
        elif past.summary is not None:
            yield messages.SummaryMessage(past.summary)
        elif past.tool is not None:
            answered += 1
            yield messages.ToolMessage(f"past-{answered}", past.tool, past.failed)
        else:
            named = list(enumerate(calls_of(past.call), start=made + 1))
            made += len(named)
            calls = [messages.ToolCall(f"past-{number}", *call) for number, call in named]
            yield messages.AssistantMessage(past.assistant or "", tuple(calls))


@lru_cache(maxsize=2_048)  # each request has all messages again
def written(message: messages.Message) -> dict[str, Any]:
    """Return a message as the keys of a PastMessage; the ids of calls are left out."""
    match message:
        case messages.UserMessage(text):
            return {"user": text}
        case messages.SummaryMessage(text):
            return {"summary": text}
        case messages.ToolMessage(text=text, is_error=failed):
            return {"tool": text} | ({"failed": True} if failed else {})
        case messages.AssistantMessage(text, calls):
            called = [{call.name: arguments_of(call.arguments)} for call in calls]
            said = {"assistant": text} if text or not calls else {}
            return said | ({"call": called} if called else {})


def arguments_of(text: str) -> Any:
    """Return the arguments of a call as a file has them: an object, or else the text itself."""
    value = messages.json_value(text)
    return value if isinstance(value, dict) and not _LARGE.search(text) else text


_LARGE = re.compile(r"\d{19}")  # a number that a file may not hold


def differing(wanted: PastMessage, got: messages.Message) -> tuple[str, Any, Any] | None:
    """Return the first key in which a message is not as wanted, with both values; or None."""
    given = written(got)
    # A provider sends a summary as a message of the user, and has no word for a result that failed.
    for role in _ROLES:
        text = getattr(wanted, role)
        same = "user" if role == "summary" and "user" in given else role
        if text is not None and text != given.get(same):
            return role, text, given.get(same, given)
    calls, sent = (
        [(name, messages.json_value(text, text)) for name, text in calls_of(each)]
        for each in (wanted.call, given.get("call", []))
    )
    return None if calls == sent else ("call", calls, sent)
