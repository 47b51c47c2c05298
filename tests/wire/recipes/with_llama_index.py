"""An agent on llama-index."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI


async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(3)
    return f"It is sunny in {city}."


async def agent(question: str) -> str:
    return str(await FunctionAgent(tools=[weather], llm=OpenAI(model="gpt-4o")).run(question))
