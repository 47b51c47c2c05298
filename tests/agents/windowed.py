"""A correct agent that declares nothing: it streams, shortens its context and returns no text.

One call after the other. It keeps the newest turns, the newest message of the user and short texts
of long results. What the user says meanwhile is answered before it ends.
"""

import asyncio
import time
from contextlib import aclosing

from simloop import (
    AssistantMessage,
    Fault,
    FinishReason,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    World,
)
from simloop.kernel.retry import retry_after_ns
from simloop.messages import Finish, StreamError, TextDelta, ToolCallPart

MOST_TURNS, LONG, MOST_ROUNDS = 6, 1_000, 20
_ENDED = {FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER}


class Stuck(Exception):  # noqa: N818 - the end of a run
    """The model does not answer."""


class Windowed:
    """A conversation: a list of turns, each a list of messages."""

    def __init__(self) -> None:
        self.turns: list[list[Message]] = []
        self.ids = 0

    async def __call__(self, prompt: str, world: World) -> None:
        """Answer the prompt, and all that the user says meanwhile."""
        self.turns.append([UserMessage(prompt)])
        for _ in range(MOST_ROUNDS):
            reply = await self.ask(world)
            await self.act(reply, world)
            said = world.user.take()
            self.turns += [[UserMessage(text)] for text in said]
            if not reply.calls and not said:
                return
        raise Stuck

    async def ask(self, world: World) -> AssistantMessage:
        """Return a whole reply, after three tries at most."""
        wait_s = 0.0
        for tries in range(3):
            await asyncio.sleep(wait_s)
            wait_s = 10.0 * (tries + 1)
            text, calls = "", list[ToolCall]()
            stream = world.model.stream(self.window(), tools=world.tools.specs)
            async with aclosing(stream):
                async for part in stream:
                    match part:
                        case TextDelta():
                            text += part.text
                        case ToolCallPart():
                            self.ids += 1
                            own = f"id-{self.ids}"
                            calls.append(ToolCall(own, part.call.name, part.call.arguments))
                        case StreamError():
                            wait_s = max(wait_s, wait_after(part.fault))
                        case Finish() if part.reason in _ENDED and (text.strip() or calls):
                            return AssistantMessage(text, tuple(calls))
        raise Stuck

    def window(self) -> list[Message]:
        """Return the newest turns, and the newest message of the user."""
        users = [turn for turn in self.turns if isinstance(turn[0], UserMessage)]
        kept = self.turns[-MOST_TURNS:]
        if not any(turn is users[-1] for turn in kept):
            kept = [users[-1], *kept]
        return [message for turn in kept for message in turn]

    async def act(self, reply: AssistantMessage, world: World) -> None:
        """Run the calls; those that a stop leaves open are answered all the same."""
        results: list[Message] = []
        try:
            for call in reply.calls:
                result = await world.tools.run(call)
                text = result.text if len(result.text) <= LONG else result.text[:LONG] + " ..."
                results.append(ToolMessage(call.id, text, result.is_error))
        finally:
            left = reply.calls[len(results) :]
            results += [ToolMessage(call.id, "Stopped.", is_error=True) for call in left]
            self.turns.append([reply, *results])


def wait_after(fault: Fault) -> float:
    """Return the seconds that the provider asks for. Raises Stuck for a failure that stays."""
    asked_ns = retry_after_ns(fault, time.time_ns()) or 0
    if fault.status in {400, 401, 403, 404, 413, 422} or asked_ns > 60e9:
        raise Stuck(fault.message)
    return asked_ns / 1e9
