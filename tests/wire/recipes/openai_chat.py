"""An agent on the OpenAI SDK: chat completions that stream, with tools that run side by side."""

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [
    {"type": "function", "function": {"name": "weather", "parameters": CITY}},
]


async def weather(city: str) -> str:
    await asyncio.sleep(3)
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"It is sunny in {city}."


async def answer(call: dict[str, str]) -> dict[str, str]:
    try:
        content = await weather(**json.loads(call["arguments"]))
    except (LookupError, TypeError, ValueError) as error:
        content = f"Error: {error}"
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


async def agent(question: str) -> str:
    client = AsyncOpenAI()
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(10):
        text, finish = "", None
        calls: dict[int, dict[str, str]] = {}
        stream = await client.chat.completions.create(
            model="gpt-5", messages=messages, tools=TOOLS, stream=True
        )
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
                for piece in choice.delta.tool_calls or ():
                    call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                    call["id"] += piece.id or ""
                    if piece.function is not None:
                        call["name"] += piece.function.name or ""
                        call["arguments"] += piece.function.arguments or ""
        if finish not in ("stop", "tool_calls"):
            raise RuntimeError(f"the reply ended with {finish}")
        if not calls:
            return text
        asked = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in calls.values()
        ]
        messages.append({"role": "assistant", "content": text or None, "tool_calls": asked})
        messages += await asyncio.gather(*map(answer, calls.values()))
    raise RuntimeError("no answer after 10 requests")
