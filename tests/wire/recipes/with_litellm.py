"""An agent on litellm: completions that do not stream, which litellm itself retries."""

import asyncio
import json
from typing import Any

import litellm

litellm.suppress_debug_info = True  # it prints a request for feedback with each error

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]


async def weather(city: str) -> str:
    await asyncio.sleep(3)
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"It is sunny in {city}."


async def answer(call: Any) -> dict[str, str]:
    try:
        content = await weather(**json.loads(call.function.arguments))
    except (LookupError, TypeError, ValueError) as error:
        content = f"Error: {error}"
    return {"role": "tool", "tool_call_id": call.id, "content": content}


async def agent(question: str) -> str:
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(10):
        reply = await litellm.acompletion(
            model="openai/gpt-5", messages=messages, tools=TOOLS, num_retries=2
        )
        [choice] = reply.choices
        if choice.finish_reason not in ("stop", "tool_calls"):
            raise RuntimeError(f"the reply ended with {choice.finish_reason}")
        if not choice.message.tool_calls:
            return str(choice.message.content)
        messages.append(choice.message.model_dump())
        messages += await asyncio.gather(*map(answer, choice.message.tool_calls))
    raise RuntimeError("no answer after 10 requests")
