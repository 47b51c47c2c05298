"""Agents that do the same, and agents that differ from them in one thing."""

import asyncio

from simloop import Message, ToolCall, UserMessage, World


class Plain:
    """Asks the model and runs what it calls, until it calls nothing."""

    wait_s = 0
    greeting = ""

    async def __call__(self, prompt: str, world: World) -> str:
        messages: list[Message] = [UserMessage(self.greeting + prompt)]
        while True:
            await asyncio.sleep(self.wait_s)
            reply = await world.model.reply(messages, tools=world.tools.specs)
            messages.append(reply.message)
            if not reply.message.calls:
                return self.said(reply.message.text)
            calls = self.ordered(reply.message.calls)
            messages += [await world.tools.run(call) for call in calls]

    def said(self, text: str) -> str:
        return text

    def ordered(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        return calls


async def written_anew(prompt: str, world: World) -> str:
    """Does what Plain does, in other words."""

    async def ask(history: tuple[Message, ...]) -> str:
        said = (await world.model.reply(history, tools=world.tools.specs)).message
        results = [await world.tools.run(call) for call in said.calls]
        return await ask((*history, said, *results)) if results else said.text

    return await ask((UserMessage(prompt),))


class Slow(Plain):
    wait_s = 1


class Polite(Plain):
    greeting = "Please: "


class Loud(Plain):
    def said(self, text: str) -> str:
        return text.upper()


class Backwards(Plain):
    def ordered(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        return calls[::-1]


class Lazy(Plain):
    def ordered(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        return calls[:1]
