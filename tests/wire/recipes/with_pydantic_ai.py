"""An agent on pydantic-ai. Its tool blocks, so pydantic-ai runs it in a thread."""

import time

from pydantic_ai import Agent, ModelRetry

support = Agent("openai-chat:gpt-5", instructions="Answer about the weather.")


@support.tool_plain
def weather(city: str) -> str:
    """The weather in a city."""
    time.sleep(3)
    if city == "Atlantis":
        raise ModelRetry("there is no such city")
    return f"It is sunny in {city}."


async def agent(question: str) -> str:
    return (await support.run(question)).output
