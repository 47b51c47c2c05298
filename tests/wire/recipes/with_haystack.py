"""An agent on haystack. It blocks, and runs its tools in threads."""

import time
from typing import Annotated

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool


@tool
def weather(city: Annotated[str, "the name of the city"]) -> str:
    """The weather in a city."""
    time.sleep(3)
    return f"It is sunny in {city}."


def agent(question: str) -> str:
    made = Agent(chat_generator=OpenAIChatGenerator(model="gpt-5"), tools=[weather])
    return str(made.run(messages=[ChatMessage.from_user(question)])["last_message"].text)
