"""The `react` agent of inspect_ai, in an evaluation with one sample."""

import asyncio
from tempfile import TemporaryDirectory

import inspect_ai
from inspect_ai import Task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.tool import Tool, tool


@tool
def weather() -> Tool:
    async def execute(city: str) -> str:
        """The weather in a city.

        Args:
            city: the name of the city
        """
        await asyncio.sleep(3)
        return f"It is sunny in {city}."

    return execute


def agent(question: str) -> str:
    task = Task(dataset=[Sample(input=question)], solver=react(tools=[weather()]))
    with TemporaryDirectory() as folder:
        [log] = inspect_ai.eval(task, model="openai/gpt-5", display="none", log_dir=folder)
        if log.error is not None:
            raise RuntimeError(log.error.message)
        return log.samples[0].output.completion
