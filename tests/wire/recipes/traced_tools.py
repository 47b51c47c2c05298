"""Agents on frameworks whose tool is traced, so that the settings of a scenario hold for it."""

import time

from agents import Agent as OpenAIAgent
from agents import Runner, function_tool
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from pydantic_ai import Agent

import simloop


@simloop.traced
def weather(city: str) -> str:
    """The weather in a city."""
    time.sleep(3)
    return f"It is sunny in {city}."


async def on_pydantic_ai(question: str) -> str:
    return (await Agent("openai-chat:gpt-5", tools=[weather]).run(question)).output


async def on_openai_agents(question: str) -> str:
    agent = OpenAIAgent(name="support", instructions="Answer.", tools=[function_tool(weather)])
    return str((await Runner.run(agent, question)).final_output)


def on_langgraph(question: str) -> str:
    graph = create_react_agent(ChatOpenAI(model="gpt-5"), [tool(weather)])
    return graph.invoke({"messages": [("user", question)]})["messages"][-1].text
