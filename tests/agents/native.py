"""An agent of twenty lines on the native client: it calls the model and its tools until no calls.

Not here: what it does in each bundled scenario (native.expect.yaml).
"""

import asyncio
import re
from pathlib import Path
from typing import ClassVar

from simloop import Completion, Message, ModelCallFailed, UserMessage, World
from simloop.scenario.expectations import load_expectations


class Native:
    """A conversation. A 429 or a 5xx is retried, after Retry-After where the provider says so."""

    expect_on = load_expectations(Path(__file__).with_name("native.expect.yaml"))
    deviations: ClassVar = {
        "no-tools-for-incomplete-replies": "the agent runs the calls of every reply",
        "completed-after-a-complete-reply": "a reply without calls completes the run",
        "answered-calls": "a stop leaves the calls of the reply open",
        "unique-call-ids": "calls keep the ids of the model",
        "retry-after-respected": "the agent reads a Retry-After in seconds only",
        "repeated-retries-wait": "the agent takes a Retry-After of 0 at its word",
        "agent-stops-without-progress": "the agent has no limit on steps",
    }

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, prompt: str, world: World) -> str:
        self.messages.append(UserMessage(prompt))
        while True:
            reply = await self.ask(world)
            self.messages.append(reply.message)
            if not reply.message.calls:
                return reply.message.text
            self.messages += [await world.tools.run(call) for call in reply.message.calls]
            self.messages += map(UserMessage, world.user.take())

    async def ask(self, world: World) -> Completion:
        for wait_s in (1, 2, 4, 8):
            try:
                return await world.model.reply(self.messages, tools=world.tools.specs)
            except ModelCallFailed as failed:
                fault = failed.fault
                if fault.status != 429 and (fault.status or 0) < 500:
                    raise
                asked = dict(fault.headers).get("retry-after", "")
                in_seconds = re.fullmatch(r"[0-9.]+", asked)
                await asyncio.sleep(float(asked) if in_seconds else wait_s)
        return await world.model.reply(self.messages, tools=world.tools.specs)
