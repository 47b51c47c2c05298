"""A trace written by hand, entry by entry, and the violations that an invariant finds in it."""

from collections.abc import Sequence
from typing import Any, Self

from msgspec import Raw

from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.judge import Judge
from simloop.check.invariants.subject import Subject
from simloop.engine.settings import EngineSettings
from simloop.loops.reference import ReferenceLoop
from simloop.messages import (
    AssistantMessage,
    Fault,
    FinishReason,
    Message,
    Outcome,
    Queue,
    StopCause,
    ToolCall,
    ToolMessage,
    ToolSpec,
)
from simloop.trace import entries
from simloop.trace.entries import AnyEntry

NS_PER_S = 1_000_000_000


def said(text: str, *ids: str, arguments: str = "{}") -> AssistantMessage:
    """Return a reply with calls of the tool `look` under these ids."""
    return AssistantMessage(text, tuple(ToolCall(call_id, "look", arguments) for call_id in ids))


def returned(call_id: str, text: str = "seen") -> ToolMessage:
    return ToolMessage(call_id, text)


class Recording:
    """Entries in the order of the calls. `after` lets virtual time pass."""

    def __init__(self) -> None:
        self.entries: list[AnyEntry] = []
        self.now_ns = 0
        self.requests = 0
        self._messages: dict[int, list[Message]] = {0: []}
        self._prompt_ns = 0

    def add(self, kind: Any, *values: Any, **named: Any) -> Self:
        self.entries.append(kind(len(self.entries), self.now_ns, *values, **named))
        return self

    def after(self, seconds: float) -> Self:
        self.now_ns += int(seconds * NS_PER_S)
        return self

    def prompt(self, text: str = "Go.") -> Self:
        self._prompt_ns = self.now_ns
        return self.add(entries.Prompt, text)

    def queued(self, text: str, queue: Queue = Queue.STEERING) -> Self:
        return self.add(entries.Queued, text, queue)

    def stop(self, cause: StopCause = StopCause.ABORT) -> Self:
        return self.add(entries.StopRequested, cause)

    def ended(
        self, outcome: Outcome = Outcome.COMPLETED, text: str = "", message: str = ""
    ) -> Self:
        took_ns = self.now_ns - self._prompt_ns
        return self.add(entries.Ended, outcome, "", message or text, text, took_ns)

    def request(
        self,
        messages: Sequence[Message],
        *,
        purpose: str = "main",
        tools: Sequence[str] = ("look",),
        system_prompt: str = "",
        model: str = "",
    ) -> Self:
        """Record a request with these messages, coded against the one before it."""
        base = self._messages[self.requests]
        pairs = zip(base, messages, strict=False)
        shorter = min(len(base), len(messages))
        kept = next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)
        self.requests += 1
        self._messages[self.requests] = list(messages)
        return self.add(
            entries.Request,
            self.requests,
            purpose,
            "",
            self.requests - 1,
            kept,
            tuple(messages[kept:]),
            system_prompt,
            tuple(ToolSpec(name, "", Raw(b"{}")) for name in tools),
            model=model,
        )

    def text(self, text: str) -> Self:
        return self.add(entries.TextDelta, self.requests, text)

    def call(self, call_id: str, arguments: str = "{}", name: str = "look") -> Self:
        return self.add(entries.ToolCall, self.requests, call_id, name, arguments)

    def finish(self, reason: FinishReason = FinishReason.STOP) -> Self:
        return self.add(entries.Finish, self.requests, reason, "")

    def replied(self, text: str, *ids: str) -> Self:
        """Record a whole reply."""
        if text:
            self.text(text)
        for call_id in ids:
            self.call(call_id)
        return self.finish(FinishReason.TOOL_CALLS if ids else FinishReason.STOP)

    def failed(self, status: int = 500, *, words: str = "broken", **headers: str) -> Self:
        given = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return self.add(entries.Error, self.requests, Fault(words, status=status, headers=given))

    def cut(self) -> Self:
        return self.add(entries.StreamCut, self.requests)

    def started(self, call_id: str, arguments: str = "{}", name: str = "look") -> Self:
        return self.add(entries.ToolStarted, call_id, name, arguments)

    def result(self, call_id: str, text: str = "seen", *, is_error: bool = False) -> Self:
        return self.add(entries.ToolResult, call_id, "look", text, is_error)

    def answered(self, call_id: str, text: str = "seen", *, ran: bool = True) -> Self:
        return self.add(entries.Answered, call_id, "look", text, ran=ran, is_error=not ran)

    def found(self, invariant: Invariant, subject: Subject | None = None) -> list[str]:
        """Return the text of the violation of `invariant`, if there is one."""
        judged = Judge(subject or Subject(), [invariant]).read(self.entries)
        assert not judged.unjudged
        return [each.text for each in judged.violations]


def of_machine() -> Subject:
    """Return the subject of a run of the reference loop."""
    return Subject(machine=ReferenceLoop(), settings=EngineSettings())
