"""An agent on the SDK of OpenAI whose tools ask two services, with the HTTP client of the SDK."""

import asyncio
import json
from typing import Any

import openai._base_client as base
from openai import AsyncOpenAI

httpx = getattr(base, "httpx2", None) or base.httpx
ORDERS, TICKETS = "https://orders.example/api", "https://tickets.example"
NUMBER = {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]}


async def order(client: Any, number: str) -> str:
    """The state of an order."""
    try:
        reply = await client.get(f"{ORDERS}/orders/{number}")
    except httpx.TimeoutException:
        return "the orders cannot be read now"
    return reply.text


async def ticket(client: Any, number: str) -> str:
    """Opens a ticket about an order."""
    for seconds in (1, 2, 4):
        try:
            reply = await client.post(f"{TICKETS}/tickets", json={"order": number})
        except httpx.TransportError:
            reply = None
        if reply is not None and reply.status_code < 500:
            return reply.text
        await asyncio.sleep(seconds)
    return "no ticket could be opened"


TOOLS = {"order": order, "ticket": ticket}


def described(name: str) -> dict:
    about = {"name": name, "description": TOOLS[name].__doc__, "parameters": NUMBER}
    return {"type": "function", "function": about}


async def agent(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    tools = [described(name) for name in TOOLS]
    async with httpx.AsyncClient(timeout=10) as client:
        while True:
            reply = await AsyncOpenAI().chat.completions.create(
                model="gpt-5", messages=messages, tools=tools
            )
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content
            for call in message.tool_calls:
                text = await TOOLS[call.function.name](
                    client, **json.loads(call.function.arguments)
                )
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
