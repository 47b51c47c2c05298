"""An agent on agno whose user deletes the files: the run pauses, and goes on in the background."""

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat
from agno.run.agent import RunOutput
from agno.tools import tool


@tool(external_execution=True)
def delete(path: str) -> str:
    """Delete a file."""


class Cleaner:
    def __init__(self) -> None:
        self.agent = Agent(
            model=OpenAIChat(id="gpt-5"),
            tools=[delete],
            db=InMemoryDb(),
            session_id="1",
            add_history_to_context=True,
        )
        self.paused: RunOutput | None = None

    async def __call__(self, text: str) -> str:
        if self.paused is None:
            self.paused = await self.agent.arun(text)
            return "Please delete it."
        (asked,) = self.paused.active_requirements
        asked.set_external_execution_result(text)
        run = {"run_id": self.paused.run_id, "session_id": "1"}
        async for _ in self.agent.acontinue_run(
            requirements=[asked], stream=True, background=True, **run
        ):
            pass
        return str((await self.agent.aget_run_output(**run)).content)


def agent() -> Cleaner:
    return Cleaner()
