"""Agents on smolagents: one that calls tools, and one that writes code. Both block."""

import time

from smolagents import CodeAgent, LogLevel, OpenAIServerModel, ToolCallingAgent, tool


@tool
def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: the name of the city
    """
    time.sleep(3)
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"It is sunny in {city}."


def calling(question: str) -> str:
    model = OpenAIServerModel(model_id="gpt-5")
    return str(ToolCallingAgent([weather], model, verbosity_level=LogLevel.OFF).run(question))


def coding(question: str) -> str:
    model = OpenAIServerModel(model_id="gpt-5")
    return str(CodeAgent([weather], model, verbosity_level=LogLevel.OFF).run(question))
