"""An agent on agno, with its telemetry on."""

import asyncio

from agno.agent import Agent
from agno.models.openai import OpenAIChat


async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(3)
    return f"It is sunny in {city}."


async def agent(question: str) -> str:
    made = Agent(model=OpenAIChat(id="gpt-5"), tools=[weather])
    return str((await made.arun(question)).content)
