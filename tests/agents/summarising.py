"""A correct agent that declares limits and retries: the model summarises its older turns.

A model call has a minute and a half. Giving one up costs an error; an overflow costs a summary.
"""

import asyncio
import time

from simloop import (
    AssistantMessage,
    Completion,
    ExponentialBackoff,
    Fault,
    FinishReason,
    Limits,
    Message,
    ModelCallFailed,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    World,
)
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.retry import retry_after_ns

LONG, CALL_TIMEOUT_S, LONGEST_S = 14, 90, 60
_WHOLE = (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER)
_LATE = Fault("the model took too long", code="timeout")


class GaveUp(Exception):  # noqa: N818 - the end of a run
    """A limit is reached, or a reply is of no use."""


class Summarising:
    """A conversation."""

    limits = Limits(max_steps=12, max_error_count=4, max_compaction_attempts=2)
    retry = ExponentialBackoff(
        initial_delay_ms=1_000, max_delay_ms=8_000, max_retry_after_ms=1_000 * LONGEST_S
    )

    def __init__(self) -> None:
        self.history: list[Message] = []
        self.calls = 0

    async def __call__(self, prompt: str, world: World) -> str:
        """Answer the prompt, and all that the user says meanwhile."""
        self.history.append(UserMessage(prompt))
        self.errors = self.compactions = 0
        for left in reversed(range(self.limits.max_steps)):
            if len(self.history) > LONG:
                await self.shorten(world)
            reply = await self.useful_reply(world)
            await self.act(reply, world)
            waiting = world.user.take() if left else []
            if not reply.calls and not waiting:
                return reply.text
            self.history += map(UserMessage, waiting)
        raise GaveUp("max_steps")

    async def useful_reply(self, world: World) -> AssistantMessage:
        """Return the next reply, with calls of new ids."""
        reply = await self.reply_after_retries(world)
        said = reply.message.calls or reply.message.text.strip()
        announced = reply.finish is FinishReason.TOOL_CALLS and not reply.message.calls
        if reply.finish not in _WHOLE or not said or announced:
            raise GaveUp(reply.finish)
        calls = []
        for call in reply.message.calls:
            self.calls += 1
            calls.append(ToolCall(f"call-{self.calls}-{call.id}", call.name, call.arguments))
        return AssistantMessage(reply.message.text, tuple(calls))

    async def reply_after_retries(self, world: World) -> Completion:
        """Return the next reply; wait after a failure that passes, and shorten what is too long."""
        while True:
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    return await world.model.reply(self.history, tools=world.tools.specs)
            except TimeoutError:
                fault = _LATE
            except ModelCallFailed as failed:
                fault = failed.fault
            kind = self.retry.classify(fault)
            if kind is ErrorClass.OVERFLOW and await self.shorten(world):
                continue
            self.errors += 1
            if not self.retry.retryable(kind) or self.errors >= self.limits.max_error_count:
                raise GaveUp(fault.message)
            asked_s = (retry_after_ns(fault, time.time_ns()) or 0) / 1e9
            await asyncio.sleep(min(asked_s, LONGEST_S) or min(2 ** (self.errors - 1), 8))

    async def act(self, reply: AssistantMessage, world: World) -> None:
        """Run the calls; those that a stop leaves open are answered all the same."""
        results: list[Message] = []
        try:
            for call in reply.calls:
                results.append(await world.tools.run(call))  # noqa: PERF401 - kept if it is stopped
        finally:
            left = reply.calls[len(results) :]
            results += [ToolMessage(call.id, "Stopped.", is_error=True) for call in left]
            self.history += [reply, *results]

    async def shorten(self, world: World) -> bool:
        """Put a summary in the place of the older messages, and return whether it was tried."""
        old, kept = self.split()
        if self.compactions >= self.limits.max_compaction_attempts:
            return False
        if not any(isinstance(each, AssistantMessage) for each in old):
            return False
        self.compactions += 1
        asked = [*old, UserMessage("Summarise what we did.")]
        summary: list[Message] = []
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                reply = await world.model.reply(asked, purpose="summary")
        except (TimeoutError, ModelCallFailed):
            pass
        else:
            if reply.finish is FinishReason.STOP and reply.message.text.strip():
                summary = [SummaryMessage(reply.message.text)]
        self.history = [*summary, *kept]
        return True

    def split(self) -> tuple[list[Message], list[Message]]:
        """Return the older messages, and the rest: two turns, and what the user wants now."""
        turns = [n for n, each in enumerate(self.history) if not isinstance(each, ToolMessage)]
        start = turns[-2:][0]
        while start and isinstance(self.history[start - 1], UserMessage):
            start -= 1
        head, tail = self.history[:start], self.history[start:]
        users = [n for n, each in enumerate(head) if isinstance(each, UserMessage)]
        if users and not any(isinstance(each, UserMessage) for each in tail):
            tail.insert(0, head.pop(users[-1]))
        return head, tail
