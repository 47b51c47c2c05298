"""Two workers on LangGraph, side by side in two nodes, each of which asks the user twice."""

import operator
from typing import Annotated, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

CONFIG = {"configurable": {"thread_id": "1"}}


class Trip(TypedDict):
    wish: str
    booked: Annotated[list[str], operator.add]


async def book(trip: Trip, city: str) -> dict[str, list[str]]:
    asked = [("system", f"You know {city}."), ("user", trip["wish"])]
    train = (await ChatOpenAI(model="gpt-5").ainvoke(asked)).text
    answers = [interrupt(f"{train}?"), interrupt(f"A hotel in {city}?")]
    return {"booked": [f"{city}: {', '.join(answers)}"]}


async def oslo(trip: Trip) -> dict[str, list[str]]:
    return await book(trip, "Oslo")


async def rome(trip: Trip) -> dict[str, list[str]]:
    return await book(trip, "Rome")


class Agency:
    """Puts one question after the other to the user."""

    def __init__(self) -> None:
        graph = StateGraph(Trip)
        for node in (oslo, rome):
            graph.add_node(node.__name__, node)
            graph.add_edge(START, node.__name__)
        self.graph = graph.compile(checkpointer=InMemorySaver())

    async def __call__(self, text: str) -> str:
        waiting = (await self.graph.aget_state(CONFIG)).interrupts
        given = Command(resume={waiting[0].id: text}) if waiting else {"wish": text, "booked": []}
        result = await self.graph.ainvoke(given, CONFIG)
        asked = result.get("__interrupt__")
        return asked[0].value if asked else "; ".join(result["booked"])


def agent() -> Agency:
    return Agency()
