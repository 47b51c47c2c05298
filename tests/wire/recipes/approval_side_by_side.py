"""Two calls of a tool on LangGraph, side by side in one node, each of which asks the user."""

import asyncio

from approval_langgraph import Cleaner, delete
from langchain_core.tools import tool
from langgraph.types import interrupt

import simloop

SIZES = {"a.txt": 2, "b.txt": 1}


def agent() -> Cleaner:
    known = set()

    @tool("delete")
    async def delete_if_approved(path: str) -> str:
        """Delete a file."""
        if path not in known:
            await asyncio.sleep(SIZES[path])  # it takes longer to measure a larger file
            known.add(path)
        answer = interrupt(f"Delete {path}?")
        return delete(path) if answer == "yes" else f"The user says: {answer}"

    return Cleaner(simloop.folder() / "checkpoints", version="v1", tools=[delete_if_approved])
