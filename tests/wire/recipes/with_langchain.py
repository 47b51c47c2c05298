"""An agent on LangChain: a chat model that streams, and a loop of its own."""

from typing import Any

from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


async def agent(question: str) -> str:
    model = ChatOpenAI(model="gpt-5").bind_tools([weather])
    messages: list[Any] = [HumanMessage(question)]
    for _ in range(10):
        reply = AIMessageChunk("")
        async for chunk in model.astream(messages):
            reply += chunk
        messages.append(reply)
        if not reply.tool_calls:
            return reply.text
        messages += [await weather.ainvoke(call) for call in reply.tool_calls]
    raise RuntimeError("no answer after 10 requests")
