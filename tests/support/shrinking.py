"""Faulty agents and large scenarios for the shrinker."""

from simloop import Message, Scenario, UserMessage, World, parse_scenario


async def plain(prompt: str, world: World) -> str:
    """An agent that runs each tool once, and answers each call."""
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = await world.model.reply(messages, tools=world.tools.specs)
        messages.append(reply.message)
        if not reply.message.calls:
            return reply.message.text
        messages += [await world.tools.run(call) for call in reply.message.calls]


async def runs_twice(prompt: str, world: World) -> str:
    """An agent that runs each tool twice, but answers each call once."""
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = await world.model.reply(messages, tools=world.tools.specs)
        messages.append(reply.message)
        if not reply.message.calls:
            return reply.message.text
        for call in reply.message.calls:
            await world.tools.run(call)
            messages.append(await world.tools.run(call))


class RunsAgain:
    """An agent that has the fault of `runs_twice` by an option."""

    def __init__(self, *, again: bool = False) -> None:
        self.runs = runs_twice if again else plain

    async def __call__(self, prompt: str, world: World) -> str:
        return await self.runs(prompt, world)


async def breaks_at_boom(prompt: str, world: World) -> str:
    """An agent that fails at a word in the third reply or later."""
    messages: list[Message] = [UserMessage(prompt)]
    for number in range(20):
        reply = await world.model.reply(messages)
        messages += [reply.message, UserMessage("Go on.")]
        assert number < 2 or "boom" not in reply.message.text
    return "done"


async def asks_for_ever(prompt: str, world: World) -> str:
    """An agent that never has enough."""
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = await world.model.reply(messages)
        messages += [reply.message, UserMessage("Go on.")]


LARGE: Scenario = parse_scenario("""
title: A day of work
bugs: [C1]
seed: 7
limits: {max_wall_clock: 2h}
prompt: Read all of the files and tell me what they say.
then: [And the others?, Thank you.]
tools:
  look: {parameters: {path: string, deep: boolean?}, returns: {a: [1, 2], b: text}, takes: 90s}
  list: {description: Lists the files., returns: a.md b.md}
model:
  - {say: I list them., call: {list: {}}, pace: {first_part: 2s, per_part: 10ms}}
  - think: Which one?
    say: [I look, " at it."]
    call: [{look: {path: a.md}}, {look: {path: b.md}}]
  - {say: And again., call: {look: {path: c.md, deep: true}}, usage: {input: 900, output: 20}}
  - say: That is all.
  - say: There are none.
  - say: You are welcome.
queue:
  - {at: 30s, say: Hurry up.}
expect: {outcome: completed, text: You are welcome., elapsed: {min: 1s}}
""")
