"""An agent on google-adk, with its default model."""

import asyncio

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner


async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(3)
    return f"It is sunny in {city}."


async def agent(question: str) -> str:
    runner = InMemoryRunner(Agent(name="support", tools=[weather]))
    events = await runner.run_debug(question, quiet=True)
    last = events[-1]
    if last.error_code:
        raise RuntimeError(last.error_message or last.error_code)
    return "".join(part.text or "" for part in last.content.parts)
