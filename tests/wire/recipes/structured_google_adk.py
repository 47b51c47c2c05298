"""An agent on google-adk, with its default model, with a tool and a declared kind of answer."""

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


async def agent(question: str) -> str:
    runner = InMemoryRunner(Agent(name="support", tools=[weather], output_schema=str))
    events = await runner.run_debug(question, quiet=True)
    return "".join(part.text or "" for part in events[-1].content.parts)
