"""A small correct agent on the native client: it calls the model and its tools until no calls.

Not here: what it does in each bundled scenario (native.expect.yaml).
"""

import asyncio
import time
from pathlib import Path
from typing import ClassVar

from yaml import safe_load

from simloop import (
    AssistantMessage,
    Completion,
    FinishReason,
    Message,
    ModelCallFailed,
    ToolCall,
    ToolMessage,
    UserMessage,
    World,
)
from simloop.kernel.retry import retry_after_ns

MOST_STEPS = 40
WHOLE = (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER)


class Native:
    """A conversation. A 429 or a 5xx is retried, after Retry-After where the provider says so."""

    expect_on: ClassVar = safe_load(
        Path(__file__).with_name("native.expect.yaml").read_text("utf-8")
    )

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, prompt: str, world: World) -> str:
        self.messages.append(UserMessage(prompt))
        for _ in range(MOST_STEPS):
            reply = await self.ask(world)
            if reply.finish not in WHOLE:
                raise RuntimeError(f"the reply ended with {reply.finish}")
            names = (f"{len(self.messages)}-{place}" for place in range(len(reply.message.calls)))
            calls = tuple(map(renamed, reply.message.calls, names))
            self.messages.append(AssistantMessage(reply.message.text, calls))
            if not calls:
                return reply.message.text
            first = len(self.messages)  # a stop leaves no call without a result
            self.messages += [ToolMessage(call.id, "Stopped.", is_error=True) for call in calls]
            for place, call in enumerate(calls, first):
                self.messages[place] = await world.tools.run(call)
            self.messages += map(UserMessage, world.user.take())
        raise RuntimeError(f"no answer after {MOST_STEPS} steps")

    async def ask(self, world: World) -> Completion:
        for wait_s in (1, 2, 4, 8):
            try:
                return await world.model.reply(self.messages, tools=world.tools.specs)
            except ModelCallFailed as failed:
                fault = failed.fault
                if fault.status != 429 and (fault.status or 0) < 500:
                    raise
                asked_ns = retry_after_ns(fault, time.time_ns())
                await asyncio.sleep(asked_ns / 1e9 if asked_ns else wait_s)
        return await world.model.reply(self.messages, tools=world.tools.specs)


def renamed(call: ToolCall, name: str) -> ToolCall:
    return ToolCall(name, call.name, call.arguments)
