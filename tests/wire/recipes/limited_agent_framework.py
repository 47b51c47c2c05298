"""Two agents on agent-framework that share a tool, of which a run may make one call."""

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatCompletionClient


async def agent(question: str) -> str:
    @tool(max_invocations=1)
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"It is sunny in {city}."

    client = OpenAIChatCompletionClient(model="gpt-5")
    users = [
        Agent(client=client, instructions=f"You help {name}.", tools=[weather])
        for name in ("Ada", "Bob")
    ]
    return " ".join([(await each.run(question)).text for each in users])
