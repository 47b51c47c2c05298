"""An agent on the OpenAI Agents SDK: two tools that take three seconds each, and tracing."""

import asyncio
import time

from agents import Agent, Runner, function_tool


@function_tool
async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(3)
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"It is sunny in {city}."


@function_tool
def population(city: str) -> int:
    """The number of people in a city."""
    time.sleep(3)
    return 1000 * len(city)


support = Agent(name="support", instructions="Answer about cities.", tools=[weather, population])


async def agent(question: str) -> str:
    return str((await Runner.run(support, question)).final_output)
