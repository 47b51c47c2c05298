"""A chain of tool calls with llm, as its command `llm --tool` makes it."""

import time

import llm


def weather(city: str) -> str:
    """The weather in a city."""
    time.sleep(3)
    return f"It is sunny in {city}."


def agent(question: str) -> str:
    return llm.get_model("gpt-4o").chain(question, tools=[weather]).text()
