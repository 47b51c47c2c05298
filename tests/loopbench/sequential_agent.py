"""A correct agent, written by hand: one call after the other, and retries of its own.

It waits 1 s, 2 s, then 3 s before a retry, or as long as Retry-After says, up to 60 s.
"""

import asyncio
import time
from datetime import UTC
from email.utils import parsedate_to_datetime

from simloop import (
    AssistantMessage,
    Completion,
    ExponentialBackoff,
    Fault,
    FinishReason,
    Limits,
    Message,
    ModelCallFailed,
    ToolCall,
    ToolMessage,
    UserMessage,
    World,
)

_BROKEN = (
    FinishReason.LENGTH,
    FinishReason.CONTENT_FILTER,
    FinishReason.ERROR,
    FinishReason.INTERRUPTED,
)


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The run has reached a limit, or has received a reply that it cannot use."""


class Sequential:
    """A conversation. A useless reply and a passing failure cost an error and a wait."""

    limits = Limits(max_steps=10, max_error_count=4, max_compaction_attempts=0)
    retry = ExponentialBackoff(
        initial_delay_ms=1_000, max_delay_ms=3_000, max_retry_after_ms=60_000
    )

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.ids: set[str] = set()

    async def __call__(self, prompt: str, world: World) -> str:
        self.messages.append(UserMessage(prompt))
        self.errors = self.steps = 0
        while True:
            reply = await self.ask(world)
            message = self.named(reply.message)
            if not message.calls:
                self.messages.append(message)
                return message.text
            await self.act(message, world)
            if self.steps >= self.limits.max_steps:
                raise GaveUp("max_steps")
            self.messages += map(UserMessage, world.user.take())

    async def ask(self, world: World) -> Completion:
        """Return the next useful reply."""
        while True:
            fault = None
            try:
                reply = await world.model.reply(self.messages, tools=world.tools.specs)
            except ModelCallFailed as failed:
                fault = failed.fault
                if not self.passes(fault):
                    raise
            else:
                self.steps += 1
                if self.is_useful(reply):
                    return reply
                if self.steps >= self.limits.max_steps:
                    raise GaveUp("max_steps")
            self.errors += 1
            if self.errors >= self.limits.max_error_count:
                raise GaveUp("max_error_count")
            await asyncio.sleep(self.wait_s(fault))

    def is_useful(self, reply: Completion) -> bool:
        """Return whether the reply says or asks something. Raises GaveUp for a broken one."""
        if reply.finish in _BROKEN:
            raise GaveUp(reply.finish)
        if reply.finish is FinishReason.INTERRUPTED:
            return False
        if reply.message.calls:
            return True
        return bool(reply.message.text.strip()) and reply.finish is not FinishReason.TOOL_CALLS

    def passes(self, fault: Fault) -> bool:
        """Return whether a retry can help."""
        return fault.code == "interrupted" or self.retry.retryable(self.retry.classify(fault))

    def wait_s(self, fault: Fault | None) -> float:
        """Return the seconds to wait after the newest error."""
        asked = None if fault is None else retry_after_s(fault)
        if asked is not None:
            return min(asked, 60)
        return min(1 << (self.errors - 1), 3)

    async def act(self, message: AssistantMessage, world: World) -> None:
        """Run the calls. They are answered and kept, also if the run is stopped."""
        results: list[ToolMessage] = []
        try:
            for call in message.calls:
                results.append(await world.tools.run(call))  # noqa: PERF401 - kept if it is stopped
        finally:
            open_calls = message.calls[len(results) :]
            results += [
                ToolMessage(call.id, "Error: stopped", is_error=True) for call in open_calls
            ]
            self.messages += [message, *results]

    def named(self, message: AssistantMessage) -> AssistantMessage:
        """Return the message with calls whose ids no other call has."""
        calls = []
        for call in message.calls:
            unique, number = call.id, 1
            while not unique or unique in self.ids:
                number += 1
                unique = f"{call.id}-{number}"
            self.ids.add(unique)
            calls.append(ToolCall(unique, call.name, call.arguments))
        return AssistantMessage(message.text, tuple(calls))


def retry_after_s(fault: Fault) -> float | None:
    """Return the wait that the provider asks for, or None."""
    headers = dict(fault.headers)
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1)):
        try:
            asked = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 < asked < float("inf"):
            return asked
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    asked_ns = int(date.timestamp()) * 10**9 - time.time_ns()
    return asked_ns / 1e9 if asked_ns > 0 else None
