"""An agent on the Anthropic SDK: messages that stream, with tools that run side by side."""

import asyncio
from typing import Any

from anthropic import AsyncAnthropic

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"name": "weather", "description": "The weather in a city.", "input_schema": CITY}]


async def weather(city: str) -> str:
    await asyncio.sleep(3)
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"It is sunny in {city}."


async def answer(block: Any) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": block.id}
    try:
        return {**result, "content": await weather(**block.input)}
    except (LookupError, TypeError) as error:
        return {**result, "content": f"Error: {error}", "is_error": True}


async def agent(question: str) -> str:
    client = AsyncAnthropic()
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(10):
        async with client.messages.stream(
            model="claude-sonnet-5", max_tokens=1000, messages=messages, tools=TOOLS
        ) as stream:
            reply = await stream.get_final_message()
        if reply.stop_reason not in ("end_turn", "tool_use"):
            raise RuntimeError(f"the reply ended with {reply.stop_reason}")
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        messages.append({"role": "assistant", "content": reply.content})
        messages.append({"role": "user", "content": await asyncio.gather(*map(answer, calls))})
    raise RuntimeError("no answer after 10 requests")
