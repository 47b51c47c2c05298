"""A correct agent that declares nothing: a function, with all calls of a reply at once.

It begins anew with each prompt, and says in its own words why it could not finish.
"""

import asyncio
import time

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

MOST_ROUNDS, MOST_TRIES = 12, 4
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_ENDED = {FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER}


async def gathering(prompt: str, world: World) -> str:
    """Ask until there are no more calls."""
    messages: list[Message] = [UserMessage(prompt)]
    for number in range(MOST_ROUNDS):
        try:
            reply = await ask(world, messages)
        except ModelCallFailed as failed:
            return f"I cannot reach the model: {failed}."
        if reply.finish not in _ENDED:
            return f"I stop: the reply ended with {reply.finish}."
        if not reply.message.calls:
            return reply.message.text or "I have nothing to say."
        message = numbered(reply.message, number)
        results = await asyncio.gather(*(run(world, call) for call in message.calls))
        messages += [message, *results]
        if number + 1 < MOST_ROUNDS:  # after the last round a message would be lost
            messages += map(UserMessage, world.user.take())
    return "I stop: that was enough."


async def ask(world: World, messages: list[Message]) -> Completion:
    """Return a reply. A failure that may pass is tried again after a wait."""
    for tries in range(MOST_TRIES):
        try:
            return await world.model.reply(messages, tools=world.tools.specs)
        except ModelCallFailed as failed:
            fault = failed.fault
            passes = fault.status in _PASSING or (not fault.status and fault.code)
            if not passes or tries == MOST_TRIES - 1:
                raise
            asked_ns = retry_after_ns(fault, time.time_ns()) or 0
            if asked_ns > 60e9:
                raise
            await asyncio.sleep(max(asked_ns / 1e9, 0.5 * 2**tries))
    raise AssertionError


async def run(world: World, call: ToolCall) -> ToolMessage:
    """Run a call; a tool that takes longer than half a minute is given up."""
    try:
        async with asyncio.timeout(30):
            return await world.tools.run(call)
    except TimeoutError:
        return ToolMessage(call.id, "It takes too long.", is_error=True)


def numbered(message: AssistantMessage, number: int) -> AssistantMessage:
    """Return the reply with ids that no other call has."""
    calls = (
        ToolCall(f"{number}.{place}", call.name, call.arguments)
        for place, call in enumerate(message.calls)
    )
    return AssistantMessage(message.text, tuple(calls))
