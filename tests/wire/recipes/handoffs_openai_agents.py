"""Three agents on the OpenAI Agents SDK, and two handoffs between them."""

import asyncio

from agents import Agent, Runner, function_tool


@function_tool
async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(3)
    return f"It is sunny in {city}."


writer = Agent(name="writer", instructions="You write the answer.")
forecaster = Agent(
    name="forecaster", instructions="You look at the weather.", tools=[weather], handoffs=[writer]
)
triage = Agent(name="triage", instructions="You sort questions.", handoffs=[forecaster])


async def agent(question: str) -> str:
    return str((await Runner.run(triage, question)).final_output)
