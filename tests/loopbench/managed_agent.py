"""A correct agent, written by hand: it reads streams, shortens its history and has a queue.

It makes no retries: a model call that fails, breaks off or takes over a minute ends the run. At
most two tools run at a time. Old turns go when there are more than ten messages.
"""

import asyncio
from contextlib import aclosing

from simloop import (
    AssistantMessage,
    Finish,
    FinishReason,
    Limits,
    Message,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    UserMessage,
    World,
)
from simloop.messages import Queue

CALL_TIMEOUT_S = 60
MOST_MESSAGES = 10
_WHOLE = (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER)


class Failed(Exception):  # noqa: N818 - the end of a run
    """The model call failed, or a limit was reached."""


class Managed:
    """A conversation. `partial` is the text of the reply that arrives, for the screen."""

    limits = Limits(max_steps=8, max_error_count=1, max_compaction_attempts=0)

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.known: dict[str, int] = {}
        self.partial = ""

    async def __call__(self, prompt: str, world: World) -> str:
        self.messages.append(UserMessage(prompt))
        for left in reversed(range(self.limits.max_steps)):
            self.shorten()
            message = await self.ask(world)
            if message.calls:
                await self.act(message, world)
                waiting = world.user.take(Queue.STEERING)
            else:
                self.messages.append(message)
                if not left:
                    return message.text
                waiting = world.user.take(Queue.STEERING)
                waiting = waiting or world.user.take(Queue.FOLLOW_UP, one=True)
                if not waiting:
                    return message.text
            self.messages += map(UserMessage, waiting)
        raise Failed("no rounds left")

    async def ask(self, world: World) -> AssistantMessage:
        """Return the next reply as a whole. Raises Failed."""
        self.partial = ""
        calls: list[ToolCall] = []
        finish = None
        await world.user.turn()
        stream = world.model.stream(self.messages, tools=world.tools.specs)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S), aclosing(stream):
                async for part in stream:
                    match part:
                        case TextDelta():
                            self.partial += part.text
                        case ToolCallPart():
                            calls.append(self.unique(part.call))
                        case Finish():
                            finish = part.reason
                        case StreamError():
                            raise Failed(part.fault.message)
        except TimeoutError:
            raise Failed("the model took too long") from None
        if finish not in _WHOLE or (finish is FinishReason.TOOL_CALLS and not calls):
            raise Failed(f"the reply ended with {finish}")
        if not (calls or self.partial.strip()):
            raise Failed("the reply is empty")
        return AssistantMessage(self.partial, tuple(calls))

    def unique(self, call: ToolCall) -> ToolCall:
        """Return the call under an id that no other call has."""
        name = call.id or "call"
        while name in self.known:
            self.known[name] += 1
            name = f"{name}.{self.known[name]}"
        self.known[name] = 1
        return ToolCall(name, call.name, call.arguments)

    async def act(self, message: AssistantMessage, world: World) -> None:
        """Run the calls, two at a time, and keep the results in the order of the calls."""
        free = asyncio.Semaphore(2)
        results: dict[str, ToolMessage] = {}

        async def run(call: ToolCall) -> None:
            async with free:
                results[call.id] = await world.tools.run(call)

        try:
            async with asyncio.TaskGroup() as group:
                for call in message.calls:
                    group.create_task(run(call))
        finally:
            self.messages.append(message)
            for call in message.calls:
                stopped = ToolMessage(call.id, "Error: stopped", is_error=True)
                self.messages.append(results.get(call.id, stopped))

    def shorten(self) -> None:
        """Drop the oldest turns; the newest message of the user stays, and pairs stay whole."""
        while len(self.messages) > MOST_MESSAGES:
            users = [i for i, each in enumerate(self.messages) if isinstance(each, UserMessage)]
            start = 1 if users[-1] == 0 else 0
            end = start + 1
            while end < len(self.messages) and isinstance(self.messages[end], ToolMessage):
                end += 1
            if end >= len(self.messages):
                return
            del self.messages[start:end]
