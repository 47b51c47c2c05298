"""A gardener on LangGraph: a prebuilt agent with a checkpointer, for several prompts."""

import asyncio
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode, create_react_agent
from pydantic import Field

import simloop
from simloop import Limits
from simloop.check.invariants.subject import Subject
from simloop.messages import Outcome
from simloop.trace.entries import Ended

PROMPT = "You are a gardener. Check a bed before you plant anything in it."
TOOL_TIMEOUT_S = 20


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The gardener has no answer."""


@simloop.traced
async def check_bed(bed: Annotated[int, Field(ge=1, le=6)]) -> str:
    """Says what grows in a bed."""
    await asyncio.sleep(0.3)
    return f"bed {bed} has {6 - bed} free places"


@simloop.traced
async def plant(
    bed: Annotated[int, Field(ge=1, le=6)],
    seed: Literal["bean", "carrot", "kale"],
    rows: Annotated[list[int], Field(min_length=1, max_length=4)],
) -> str:
    """Plants seeds in rows of a bed."""
    await asyncio.sleep(0.8)
    return f"{seed} in {len(rows)} rows of bed {bed}"


@simloop.traced
async def water(bed: Annotated[int, Field(ge=1, le=6)], litres: float) -> str:
    """Waters a bed."""
    await asyncio.sleep(0.2)
    if litres <= 0:
        raise ValueError("litres must be more than 0")
    return f"{litres:g} l for bed {bed}"


class Gardener:
    """A conversation with the gardener."""

    limits = Limits(max_steps=12)
    mutating = ("plant", "water")
    tool_timeout = TOOL_TIMEOUT_S

    def __init__(self) -> None:
        model = ChatOpenAI(model="gpt-5", max_retries=3, timeout=45)
        tools = [self.tool(each) for each in (check_bed, plant, water)]
        self.graph = create_react_agent(
            model,
            ToolNode(tools, handle_tool_errors=self.told),
            prompt=PROMPT,
            post_model_hook=self.checked,
            checkpointer=InMemorySaver(),
        )
        self.config: Any = {
            "configurable": {"thread_id": "garden"},
            "recursion_limit": 2 * int(self.limits.max_steps) + 1,
        }

    def tool(self, function: Any) -> StructuredTool:
        async def limited(**given: Any) -> str:
            async with asyncio.timeout(TOOL_TIMEOUT_S):
                return str(await function(**given))

        made = StructuredTool.from_function(coroutine=function)
        made.coroutine = limited
        return made

    def checked(self, state: Any) -> dict[str, Any]:
        """Refuse a reply that is not whole, before its calls run.

        A call whose arguments are no JSON gets none at all, so that its tool refuses it.
        """
        last = state["messages"][-1]
        finish = last.response_metadata.get("finish_reason")
        if finish not in ("stop", "tool_calls"):
            raise GaveUp(f"the reply ended with {finish}")
        if not isinstance(last, AIMessage) or not last.invalid_tool_calls:
            return {}
        calls = [
            {"name": call["name"], "args": {}, "id": call["id"], "type": "tool_call"}
            for call in last.invalid_tool_calls
        ]
        whole = {"tool_calls": [*last.tool_calls, *calls], "invalid_tool_calls": []}
        return {"messages": [last.model_copy(update=whole)]}

    def told(self, error: Exception) -> str:
        """Return what the model is told of a tool that fails."""
        if isinstance(error, TimeoutError):
            return f"Error: no result after {TOOL_TIMEOUT_S} s"
        return f"Error: {error or type(error).__name__}"

    async def __call__(self, prompt: str) -> str:
        await self.mend()
        state = await self.graph.ainvoke({"messages": [HumanMessage(prompt)]}, self.config)
        last = state["messages"][-1]
        if not last.text.strip():
            raise GaveUp("the reply is empty")
        return str(last.text)

    async def mend(self) -> None:
        """Answer the calls that a stop or a failure has left open.

        What the tools of an unfinished step have said is not in the saved state, and is put there.
        """
        messages = (await self.graph.aget_state(self.config)).values.get("messages", [])
        said = {each.tool_call_id: each for each in messages if isinstance(each, ToolMessage)}
        replies = [each for each in messages if isinstance(each, AIMessage)]
        last = replies[-1:]
        calls = [call for each in last for call in (*each.tool_calls, *each.invalid_tool_calls)]
        ids = [call["id"] for call in calls]
        if not said.keys() >= set(ids):
            results = [
                said.get(each) or ToolMessage("Error: stopped", tool_call_id=each, status="error")
                for each in ids
            ]
            await self.graph.aupdate_state(self.config, {"messages": results}, as_node="tools")


@simloop.invariant("An answer has words.", "ours", sees=[Ended])
def answers_have_words(_: Subject, entry: Any) -> str:
    is_empty = entry.outcome is Outcome.COMPLETED and not entry.text.strip()
    return "the run is completed, and its answer is empty" if is_empty else ""
