"""An agent on strands-agents, with its default model."""

import time

from strands import Agent, tool


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    time.sleep(3)
    return f"It is sunny in {city}."


async def agent(question: str) -> str:
    made = Agent(tools=[weather], callback_handler=None)
    return str(await made.invoke_async(question)).strip()
