"""An agent on agent-framework: on Responses with its state, and on Chat Completions."""

import asyncio
from typing import Any

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient


async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(3)
    return f"It is sunny in {city}."


async def answer(client: Any, question: str) -> str:
    made = Agent(client=client, instructions="Answer about the weather.", tools=[weather])
    return (await made.run(question)).text


async def responses(question: str) -> str:
    return await answer(OpenAIChatClient(model="gpt-5"), question)


async def chat(question: str) -> str:
    return await answer(OpenAIChatCompletionClient(model="gpt-5"), question)
