"""A supervisor on LangGraph with two workers that run side by side."""

import asyncio
import operator
from typing import Annotated, TypedDict

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import create_react_agent


class Work(TypedDict):
    question: str
    reports: Annotated[list[str], operator.add]
    answer: str


@tool
async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(3)
    return f"It is sunny in {city}."


async def plan(work: Work) -> dict[str, str]:
    asked = [("system", "You plan."), ("user", work["question"])]
    return {"answer": (await ChatOpenAI(model="gpt-5").ainvoke(asked)).text}


async def report(work: Work, city: str) -> dict[str, list[str]]:
    worker = create_react_agent(ChatOpenAI(model="gpt-5"), [weather], prompt=f"You know {city}.")
    done = await worker.ainvoke({"messages": [("user", work["question"])]})
    return {"reports": [done["messages"][-1].text]}


async def oslo(work: Work) -> dict[str, list[str]]:
    return await report(work, "Oslo")


async def rome(work: Work) -> dict[str, list[str]]:
    return await report(work, "Rome")


async def answer(work: Work) -> dict[str, str]:
    asked = [("system", "You answer."), ("user", " ".join(work["reports"]))]
    return {"answer": (await ChatOpenAI(model="gpt-5").ainvoke(asked)).text}


graph = StateGraph(Work)
for node in (plan, oslo, rome, answer):
    graph.add_node(node.__name__, node)
graph.add_edge(START, "plan")
for name in ("oslo", "rome"):
    graph.add_edge("plan", name)
    graph.add_edge(name, "answer")
graph.add_edge("answer", END)
supervisor = graph.compile()


async def agent(question: str) -> str:
    return (await supervisor.ainvoke({"question": question, "reports": []}))["answer"]
