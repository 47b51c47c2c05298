"""An agent on the OpenAI SDK that has its tools from an MCP server."""

import json
from typing import Any

from mcp import ClientSession, MCPError
from openai import AsyncOpenAI

import simloop


async def called(session: ClientSession, call: Any) -> dict[str, str]:
    try:
        answer = await session.call_tool(call.function.name, json.loads(call.function.arguments))
        content = "".join(block.text for block in answer.content if block.type == "text")
    except (MCPError, ValueError) as error:
        content = f"Error: {error}"
    return {"role": "tool", "tool_call_id": call.id, "content": content}


async def answer(question: str, session: ClientSession) -> str:
    client = AsyncOpenAI()
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(10):
        tools: Any = [
            {"type": "function", "function": {"name": tool.name, "parameters": tool.input_schema}}
            for tool in (await session.list_tools()).tools
        ]
        reply = await client.chat.completions.create(model="gpt-5", messages=messages, tools=tools)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message)
        messages += [await called(session, call) for call in message.tool_calls]
    raise RuntimeError("no answer after 10 requests")


async def agent(question: str) -> str:
    async with simloop.mcp_session() as session:  # in production: a session of your own
        return await answer(question, session)
