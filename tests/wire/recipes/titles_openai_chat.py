"""An agent on the OpenAI SDK, which asks for a title in the background."""

import asyncio
import json

from openai import AsyncOpenAI

WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {}}}}


async def weather(arguments: str) -> str:
    try:
        city = json.loads(arguments)["city"]
    except ValueError:
        return "Error: the arguments are no JSON"
    await asyncio.sleep(3)
    return f"It is sunny in {city}."


async def title(client: AsyncOpenAI, question: str) -> str:
    asked = [{"role": "user", "content": f"Give a title: {question}"}]
    reply = await client.chat.completions.create(model="gpt-5-mini", messages=asked)
    return reply.choices[0].message.content


async def told(client: AsyncOpenAI, question: str) -> str:
    messages = [{"role": "user", "content": question}]
    while True:
        reply = await client.chat.completions.create(
            model="gpt-5", messages=messages, tools=[{"type": "function", "function": WEATHER}]
        )
        said = reply.choices[0].message
        if not said.tool_calls:
            return said.content
        messages.append(said)
        for call in said.tool_calls:
            result = await weather(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def agent(question: str) -> str:
    async with AsyncOpenAI() as client:
        found = asyncio.create_task(title(client, question))
        try:
            answer = await told(client, question)
        finally:
            name = await found
        return f"{name}: {answer}"
