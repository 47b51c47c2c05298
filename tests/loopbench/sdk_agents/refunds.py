"""A refund desk on pydantic-ai: tools, retries that the model is asked for, and a typed end."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelRetry,
    ToolCallPart,
    ToolReturnPart,
    UsageLimits,
    capture_run_messages,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.openai import OpenAIProvider

import simloop
from simloop import Limits

INSTRUCTIONS = "You decide about refunds. Look at the order first."
TOOL_TIMEOUT_S = 20
_ORDERS = {"A-1": 40.0, "A-2": 120.5, "A-3": 9.99}


class Refund(BaseModel):
    """The decision about an order."""

    order_id: str = Field(pattern=r"^A-\d+$")
    amount: float = Field(ge=0, le=500)
    reason: Literal["late", "broken", "other"]


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The desk has no decision."""


@simloop.traced
async def look_up(order_id: str) -> str:
    """Says what an order has cost."""
    await asyncio.sleep(0.4)
    if order_id not in _ORDERS:
        raise ModelRetry(f"there is no order {order_id}, only {', '.join(_ORDERS)}")
    return f"{order_id} has cost {_ORDERS[order_id]:.2f}"


@simloop.traced
async def note(order_id: str, words: Annotated[str, Field(max_length=200)]) -> str:
    """Writes a note into the file of an order."""
    await asyncio.sleep(0.2)
    return f"noted for {order_id}: {words}"


class Whole(WrapperModel):
    """A model whose replies are whole: of one that was cut off, no call may run."""

    async def request(self, *given: Any) -> ModelResponse:
        response = await super().request(*given)
        if response.finish_reason not in ("stop", "tool_call"):
            raise GaveUp(f"the reply ended with {response.finish_reason}")
        return response


def told(tool: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """Return the tool, whose exceptions are words for the model."""

    @functools.wraps(tool)
    async def telling(*args: Any, **given: Any) -> str:
        try:
            return await tool(*args, **given)
        except ModelRetry:
            raise
        except Exception as error:  # noqa: BLE001 - the model is told
            return f"Error: {error or type(error).__name__}"

    return telling


class RefundDesk:
    """A conversation with the desk."""

    limits = Limits(max_steps=15)
    mutating = ("note",)
    tool_timeout = TOOL_TIMEOUT_S

    def __init__(self) -> None:
        client = AsyncOpenAI(max_retries=3, timeout=45)
        model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=client))
        self.agent: Agent[None, Any] = Agent(
            Whole(model),
            instructions=INSTRUCTIONS,
            output_type=[Refund, str],
            tools=[told(look_up), told(note)],
            retries=3,
            tool_timeout=TOOL_TIMEOUT_S,
        )
        self.agent.output_validator(self.checked)
        self.history: list[ModelMessage] = []

    async def __call__(self, prompt: str) -> str:
        with capture_run_messages() as messages:
            try:
                result = await self.agent.run(
                    prompt,
                    message_history=self.history,
                    usage_limits=UsageLimits(request_limit=self.limits.max_steps),
                )
            finally:
                self.history = answered(messages) or self.history
        if isinstance(result.output, Refund):
            return result.output.model_dump_json()
        return str(result.output)

    def checked(self, output: Refund | str) -> Refund | str:
        if isinstance(output, Refund) and output.amount > _ORDERS.get(output.order_id, 0):
            raise ModelRetry("the refund is larger than the price of the order")
        return output


def answered(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Return the messages, with a result for each call that was stopped."""
    last = messages[-1] if messages else None
    if not isinstance(last, ModelResponse):
        return list(messages)
    stopped = [
        ToolReturnPart(part.tool_name, "stopped", part.tool_call_id)
        for part in last.parts
        if isinstance(part, ToolCallPart)
    ]
    return [*messages, ModelRequest(parts=stopped)] if stopped else list(messages)
