"""A bank on openai-agents: a clerk who sees accounts, and an adviser who gets loans by handoff."""

import asyncio
from types import MappingProxyType
from typing import Annotated, Any, Literal

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunHooks,
    Runner,
    function_tool,
)
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import Field

import simloop
from simloop import Limits
from simloop.check.invariants.invariant import Watch
from simloop.check.invariants.subject import MainRequest, Subject
from simloop.messages import Outcome
from simloop.trace.entries import Ended, Prompt

CLERK = "You are a clerk of a bank. Leave loans to the adviser."
ADVISER = "You are the adviser of a bank. You know about loans."
TOOL_TIMEOUT_S = 15
_BALANCES = {1001: 250, 1002: 3200, 1003: 0}


@simloop.traced
async def balance(account: Annotated[int, Field(ge=1)]) -> str:
    """Says how much money an account has."""
    await asyncio.sleep(0.3)
    if account not in _BALANCES:
        raise LookupError(f"there is no account {account}")
    return f"{account} has {_BALANCES[account]}"


@simloop.traced
async def transfer(
    source: Annotated[int, Field(ge=1)],
    target: Annotated[int, Field(ge=1)],
    amount: Annotated[float, Field(gt=0, le=1000)],
) -> str:
    """Transfers money from one account to another."""
    await asyncio.sleep(0.9)
    return f"{amount:g} went from {source} to {target}"


@simloop.traced
async def loan_offer(amount: Annotated[int, Field(ge=100, le=50_000)],
                     term: Literal["short", "medium", "long"]) -> str:  # fmt: skip
    """Makes an offer of a loan."""
    await asyncio.sleep(0.5)
    return f"offer {amount}-{term}"


def told(_: Any, error: Exception) -> str:
    """Return what the model is told of a tool that fails."""
    return f"Error: {error or type(error).__name__}"


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The bank has no answer."""


class Whole(RunHooks[None]):
    """Refuses replies that were cut off or filtered: the framework drops the finish reason.

    It also notes what was said and done, because a run that does not end well loses it.
    """

    def __init__(self) -> None:
        self.finish: Any = None
        self.begin()

    def begin(self) -> None:
        """Begin a run."""
        self.replies: list[list[Any]] = []
        self.outputs: dict[str, str] = {}

    def said(self) -> list[Any]:
        """Return the items of the run so far. Calls that were stopped have a result, too."""
        items: list[Any] = []
        for reply in self.replies:
            calls = [item["call_id"] for item in reply if item.get("type") == "function_call"]
            items += reply
            items += [
                {
                    "type": "function_call_output",
                    "call_id": call,
                    "output": self.outputs.get(call, "Error: stopped"),
                }
                for call in calls
            ]
        return items

    async def read(self, response: Any) -> None:
        """Note the finish reason of an HTTP response."""
        if response.status_code == 200:
            await response.aread()
            try:
                self.finish = response.json()["choices"][0]["finish_reason"]
            except (ValueError, LookupError, TypeError):
                self.finish = None

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        del context, agent
        if self.finish not in ("stop", "tool_calls"):
            raise GaveUp(f"the reply ended with {self.finish}")
        self.replies.append(response.to_input_items())

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        del agent, tool
        self.outputs[context.tool_call_id] = str(result)


class Bank:
    """A conversation with the bank. `speaker` is the agent that the user talks to."""

    limits = Limits(max_steps=12)
    mutating = ("transfer",)
    tool_timeout = TOOL_TIMEOUT_S
    deviations = MappingProxyType(
        {"results-in-call-order": "the framework answers a second handoff of a reply last"}
    )

    def __init__(self) -> None:
        self.whole = Whole()
        http_client = DefaultAsyncHttpxClient(event_hooks={"response": [self.whole.read]})
        client = AsyncOpenAI(max_retries=3, timeout=45, http_client=http_client)
        made: Any = {
            "model": OpenAIChatCompletionsModel("gpt-5", client),
            "model_settings": ModelSettings(parallel_tool_calls=True),
        }
        self.adviser: Agent[None] = Agent(
            name="adviser", instructions=ADVISER, tools=[self.tool(loan_offer)], **made
        )
        self.clerk: Agent[None] = Agent(
            name="clerk",
            instructions=CLERK,
            tools=[self.tool(balance), self.tool(transfer)],
            handoffs=[self.adviser],
            **made,
        )
        self.speaker = self.clerk
        self.items: list[Any] = []

    def tool(self, function: Any) -> Any:
        return function_tool(
            function, failure_error_function=told, timeout=TOOL_TIMEOUT_S,
        )  # fmt: skip

    async def __call__(self, prompt: str) -> str:
        self.items.append({"role": "user", "content": prompt})
        self.whole.begin()
        try:
            result = await Runner.run(
                self.speaker,
                list(self.items),
                max_turns=int(self.limits.max_steps),
                hooks=self.whole,
                run_config=RunConfig(tracing_disabled=True),
            )
        except BaseException:
            self.items += self.whole.said()
            raise
        self.items = result.to_input_list()
        self.speaker = result.last_agent
        return str(result.final_output)


@simloop.invariant(
    "The agent that has answered is the one that the next prompt goes to.", "ours",
    sees=[Prompt, Ended, MainRequest],
)  # fmt: skip
def speaker_kept(subject: Subject) -> Watch:
    speaker, is_next = "", False
    while True:
        entry = yield
        facts = subject.facts
        if type(entry) is Ended:
            is_next = entry.outcome is Outcome.COMPLETED and facts.request is not None
            speaker = facts.request.system_prompt if facts.request is not None else ""
        elif type(entry) is not Prompt and facts.request is not None:
            if is_next and facts.request.system_prompt != speaker:
                return f"request {entry.number} goes to another agent than {speaker!r}"
            is_next = False
