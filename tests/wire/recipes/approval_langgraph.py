"""An agent on LangGraph that asks before it deletes: `interrupt` and resume, over restarts."""

import pickle
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command, interrupt

import simloop

CONFIG = {"configurable": {"thread_id": "1"}}


@simloop.traced
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is deleted."


@simloop.traced
def pay(bill: str) -> str:
    """Pay a bill."""
    return f"{bill} is paid."


@tool("delete")
def delete_if_approved(path: str) -> str:
    """Delete a file."""
    answer = interrupt(f"Delete {path}?")  # LangGraph begins the tool anew when it resumes
    return delete(path) if answer == "yes" else f"The user says: {answer}"


class FileSaver(InMemorySaver):
    """A checkpointer that keeps its checkpoints in a file, as SqliteSaver does in a database."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        if file.exists():
            storage, self.writes, self.blobs = pickle.loads(file.read_bytes())
            for thread, namespaces in storage.items():
                self.storage[thread].update(namespaces)

    def put(self, *args: Any) -> RunnableConfig:
        saved = super().put(*args)
        self.write()
        return saved

    def put_writes(self, *args: Any) -> None:
        super().put_writes(*args)
        self.write()

    def write(self) -> None:
        storage = {thread: dict(namespaces) for thread, namespaces in self.storage.items()}
        self.file.write_bytes(pickle.dumps((storage, self.writes, self.blobs)))


class Cleaner:
    def __init__(self, file: Path, **settings: Any) -> None:
        settings = {"tools": [delete_if_approved, tool(pay)], **settings}
        settings["checkpointer"] = FileSaver(file)
        self.graph = create_react_agent(ChatOpenAI(model="gpt-5"), **settings)

    async def __call__(self, text: str) -> str:
        asked = (await self.graph.aget_state(CONFIG)).interrupts
        given = {"messages": [("user", text)]}
        if asked:
            given = Command(resume={asked[0].id: text})
        result = await self.graph.ainvoke(given, CONFIG)
        waiting = result.get("__interrupt__")
        return waiting[0].value if waiting else result["messages"][-1].text


def agent() -> Cleaner:
    return Cleaner(simloop.folder() / "checkpoints")


def tools_in_one_node() -> Cleaner:
    """The tools of a reply are one node of the graph, which begins anew after each question."""
    return Cleaner(simloop.folder() / "checkpoints", version="v1")
