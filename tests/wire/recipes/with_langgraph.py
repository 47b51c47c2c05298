"""Agents on LangGraph: one that awaits, and one that blocks and runs its tools in threads."""

import time

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    time.sleep(3)
    if city == "Atlantis":
        return "Error: there is no such city"
    return f"It is sunny in {city}."


def asked(question: str) -> dict[str, list[tuple[str, str]]]:
    return {"messages": [("user", question)]}


async def awaiting(question: str) -> str:
    graph = create_react_agent(ChatOpenAI(model="gpt-5"), [weather])
    return (await graph.ainvoke(asked(question)))["messages"][-1].text


def blocking(question: str) -> str:
    graph = create_react_agent(ChatOpenAI(model="gpt-5"), [weather])
    return graph.invoke(asked(question))["messages"][-1].text
