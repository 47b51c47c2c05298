"""An agent on deepagents, with its plan, its files and its subagents."""

import asyncio

from deepagents import create_deep_agent
from langchain_openai import ChatOpenAI


async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(3)
    return f"It is sunny in {city}."


async def agent(question: str) -> str:
    made = create_deep_agent(ChatOpenAI(model="gpt-5"), tools=[weather])
    return (await made.ainvoke({"messages": [("user", question)]}))["messages"][-1].text
