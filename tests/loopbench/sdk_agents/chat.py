"""A travel desk on the OpenAI SDK: chat completions that stream, tools that run side by side.

The SDK makes no retries, because the desk makes its own.
"""

import asyncio
from typing import Any, Literal

import httpx
import openai
from openai import AsyncOpenAI, pydantic_function_tool
from pydantic import BaseModel, Field, ValidationError
from sdk_agents.waiting import backoff_s, passes

import simloop
from simloop import ExponentialBackoff, Limits

SYSTEM = "You are a travel desk. Find and book hotels."
TOOL_TIMEOUT_S = 20


class SearchHotels(BaseModel):
    """Finds hotels in a city."""

    city: Literal["Oslo", "Rome", "Lima"]
    nights: int = Field(ge=1, le=30)
    most_per_night: float = Field(gt=0)


class BookHotel(BaseModel):
    """Books a hotel that a search has found."""

    hotel_id: str = Field(pattern=r"^[a-z]+-\d+$")
    guests: int = Field(ge=1, le=8)


class CancelBooking(BaseModel):
    """Cancels a booking."""

    booking_id: str


@simloop.traced
async def search_hotels(city: str, nights: int, most_per_night: float) -> str:
    await asyncio.sleep(0.4)
    found = [f"{city.lower()}-{n}: {40 * n * nights}" for n in (1, 2) if 40 * n <= most_per_night]
    return "\n".join(found) or "no hotels"


@simloop.traced
async def book_hotel(hotel_id: str, guests: int) -> str:
    await asyncio.sleep(1)
    return f"booking b-{hotel_id} for {guests}"


@simloop.traced
async def cancel_booking(booking_id: str) -> str:
    await asyncio.sleep(0.2)
    if not booking_id.startswith("b-"):
        raise LookupError(f"there is no booking {booking_id}")
    return f"{booking_id} is cancelled"


TOOLS: dict[str, tuple[type[BaseModel], Any]] = {
    "search_hotels": (SearchHotels, search_hotels),
    "book_hotel": (BookHotel, book_hotel),
    "cancel_booking": (CancelBooking, cancel_booking),
}


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The desk has no answer."""


class Reply:
    """A reply, as the pieces of a stream make it up."""

    def __init__(self) -> None:
        self.text, self.finish = "", None
        self.calls: dict[int, dict[str, Any]] = {}

    def add(self, chunk: Any) -> None:
        for choice in chunk.choices:
            self.text += choice.delta.content or ""
            self.finish = choice.finish_reason or self.finish
            for piece in choice.delta.tool_calls or ():
                new = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                call = self.calls.setdefault(piece.index, new)
                call["id"] = piece.id or call["id"]
                if piece.function is not None:
                    call["function"]["name"] += piece.function.name or ""
                    call["function"]["arguments"] += piece.function.arguments or ""

    @property
    def message(self) -> dict[str, Any]:
        calls = {"tool_calls": list(self.calls.values())} if self.calls else {}
        return {"role": "assistant", "content": self.text or None, **calls}


class Chat:
    """A conversation with the desk."""

    limits = Limits(max_steps=12, max_error_count=5)
    retry = ExponentialBackoff(initial_delay_ms=500, max_delay_ms=8_000, max_retry_after_ms=60_000)
    mutating = ("book_hotel", "cancel_booking")
    tool_timeout = TOOL_TIMEOUT_S

    def __init__(self) -> None:
        self.client = AsyncOpenAI(max_retries=0, timeout=60)
        self.messages: list[Any] = [{"role": "system", "content": SYSTEM}]
        self.tools = [pydantic_function_tool(of, name=name) for name, (of, _) in TOOLS.items()]
        self.failures = self.steps = 0

    async def __call__(self, prompt: str) -> str:
        self.messages.append({"role": "user", "content": prompt})
        self.failures = self.steps = 0
        while True:
            reply = await self.ask()
            if not reply.calls:
                self.messages.append(reply.message)
                return reply.text
            await self.act(reply)
            if self.steps >= self.limits.max_steps:
                raise GaveUp(f"no answer after {self.steps} replies")

    async def ask(self) -> Reply:
        """Return the next reply that has text or calls."""
        while True:
            headers: Any = {}
            try:
                reply = await self.read()
                self.steps += 1
                if reply.finish in ("length", "content_filter", "error"):
                    raise GaveUp(f"the reply ended with {reply.finish}")
                if reply.calls or (reply.text.strip() and reply.finish != "tool_calls"):
                    return reply
                why = "the reply is empty"
            except openai.APIStatusError as error:
                if not passes(error.status_code, error.code):
                    raise
                why, headers = str(error), error.response.headers
            except (openai.APIConnectionError, httpx.TransportError) as error:
                why = repr(error)
            except openai.APIError as error:  # from the stream
                if not passes(None, error.code):
                    raise
                why = str(error)
            self.failures += 1
            if self.failures >= self.limits.max_error_count or self.steps >= self.limits.max_steps:
                raise GaveUp(why)
            await asyncio.sleep(backoff_s(self.failures, headers))

    async def read(self) -> Reply:
        """Read one stream to its end."""
        reply = Reply()
        stream = await self.client.chat.completions.create(
            model="gpt-5", messages=self.messages, tools=self.tools, stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        async with stream:
            async for chunk in stream:
                reply.add(chunk)
        if reply.finish in (None, "network_error"):
            raise httpx.RemoteProtocolError(f"the stream ended with {reply.finish}")
        return reply

    async def act(self, reply: Reply) -> None:
        """Run the calls side by side. Each has a result, also if the user stops the desk."""
        calls = list(reply.calls.values())
        results = ["Error: stopped by the user"] * len(calls)

        async def run(place: int) -> None:
            results[place] = await self.result(**calls[place]["function"])

        try:
            await asyncio.gather(*map(run, range(len(calls))))
        finally:
            self.messages.append(reply.message)
            self.messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": text}
                for call, text in zip(calls, results, strict=True)
            ]

    async def result(self, name: str, arguments: str) -> str:
        if name not in TOOLS:
            return f"Error: there is no tool {name}, only {', '.join(TOOLS)}"
        schema, tool = TOOLS[name]
        try:
            given = schema.model_validate_json(arguments)
            async with asyncio.timeout(TOOL_TIMEOUT_S):
                return str(await tool(**given.model_dump()))
        except ValidationError as error:
            return f"Error: wrong arguments: {error}"
        except TimeoutError:
            return f"Error: {name} took over {TOOL_TIMEOUT_S} s"
        except Exception as error:  # noqa: BLE001 - the model is told
            return f"Error: {error or type(error).__name__}"
