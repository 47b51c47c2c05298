"""A correct agent, written by hand: the calls of a reply at once, and a limit on rounds.

A tool has 20 s. A passing failure is tried again after half a second, then after one and so on, up
to 4 s, less up to a half by chance, but never before the time that the provider asks for.
"""

import asyncio
import random

from sequential_agent import retry_after_s

from simloop import (
    AssistantMessage,
    ExponentialBackoff,
    FinishReason,
    Limits,
    Message,
    ModelCallFailed,
    ToolCall,
    ToolMessage,
    UserMessage,
    World,
)

TOOL_TIMEOUT_S = 20
_COMPLETE = (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER)


class RoundsUsedUp(Exception):  # noqa: N818 - a limit
    """The model has called tools in every round."""


class UselessReply(Exception):  # noqa: N818 - a failure of the model
    """The model has answered with nothing, or has not finished its answer."""


class Parallel:
    """A conversation of at most `max_steps` rounds for each prompt."""

    limits = Limits(max_steps=6, max_error_count=3, max_compaction_attempts=0)
    retry = ExponentialBackoff(
        initial_delay_ms=500, max_delay_ms=4_000, max_retry_after_ms=120_000, jitter=0.5
    )

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.calls = 0

    async def __call__(self, prompt: str, world: World) -> str:
        self.messages.append(UserMessage(prompt))
        failures = 0
        for _ in range(self.limits.max_steps):
            message, failures = await self.ask(world, failures)
            if not message.calls:
                self.messages.append(message)
                return message.text
            await self.act(message, world)
            self.messages += [UserMessage(text) for text in world.user.take()]
        raise RoundsUsedUp

    async def ask(self, world: World, failures: int) -> tuple[AssistantMessage, int]:
        """Return a whole reply, and the failures of the run so far."""
        while True:
            try:
                reply = await world.model.reply(self.messages, tools=world.tools.specs)
            except ModelCallFailed as failed:
                fault = failed.fault
                failures += 1
                passing = self.retry.retryable(self.retry.classify(fault))
                passing = passing or fault.code == "interrupted"
                if not passing or failures >= self.limits.max_error_count:
                    raise
                asked_ns = round(min(retry_after_s(fault) or 0, 120) * 1e9)
                delay_ns = min(500_000_000 << (failures - 1), 4_000_000_000)
                delay_ns = int(delay_ns * (1 - 0.5 * random.random()))
                await asyncio.sleep((asked_ns or delay_ns) / 1e9)
                continue
            said = reply.message.text.strip() or reply.message.calls
            missing = reply.finish is FinishReason.TOOL_CALLS and not reply.message.calls
            if reply.finish not in _COMPLETE or not said or missing:
                raise UselessReply(reply.finish)
            return self.numbered(reply.message), failures

    def numbered(self, message: AssistantMessage) -> AssistantMessage:
        """Return the message with ids of its own for the calls."""
        calls = []
        for call in message.calls:
            self.calls += 1
            calls.append(ToolCall(f"{self.calls}-{call.id}", call.name, call.arguments))
        return AssistantMessage(message.text, tuple(calls))

    async def act(self, message: AssistantMessage, world: World) -> None:
        """Run all calls at once and keep their results in the order of the calls."""
        tasks = [asyncio.create_task(self.run(call, world)) for call in message.calls]
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            self.messages.append(message)
            for call, result in zip(message.calls, done, strict=True):
                if isinstance(result, ToolMessage):
                    self.messages.append(result)
                else:
                    self.messages.append(ToolMessage(call.id, "Error: stopped", is_error=True))

    async def run(self, call: ToolCall, world: World) -> ToolMessage:
        """Run one call; a tool that takes too long fails."""
        try:
            return await asyncio.wait_for(world.tools.run(call), TOOL_TIMEOUT_S)
        except TimeoutError:
            return ToolMessage(call.id, "Error: timed out", is_error=True)
