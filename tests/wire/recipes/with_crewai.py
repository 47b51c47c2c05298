"""A crew of one agent on crewai, with its telemetry on."""

import time

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    time.sleep(3)
    return f"It is sunny in {city}."


def agent(question: str) -> str:
    llm = LLM(model="openai/gpt-5")
    person = Agent(
        role="Forecaster", goal="Answer.", backstory="You are curt.", tools=[weather], llm=llm
    )
    task = Task(description=question, expected_output="One sentence.", agent=person)
    return str(Crew(agents=[person], tasks=[task]).kickoff().raw)
