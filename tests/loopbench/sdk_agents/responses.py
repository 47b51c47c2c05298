"""A librarian on the OpenAI SDK: the Responses API, whose output items are sent back.

The SDK makes the retries. Nothing is stored at the provider.
"""

import asyncio
from typing import Any, Literal

from openai import AsyncOpenAI
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import simloop
from simloop import Limits

INSTRUCTIONS = "You are a librarian. Look a book up before you lend it."
TOOL_TIMEOUT_S = 15


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Find(_Arguments):
    """Finds books of a shelf by words in their title, and says which number each has."""

    shelf: Literal["novels", "maps", "music"]
    words: list[str] = Field(min_length=1, max_length=5)


class Lend(_Arguments):
    """Lends a book for some weeks."""

    book: int = Field(ge=1)
    weeks: int = Field(ge=1, le=12)


class Renew(_Arguments):
    """Prolongs a loan by its code, such as L-12-4."""

    loan: str = Field(pattern=r"^L-\d+-\d+$")


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The librarian has no answer."""


@simloop.traced
async def find(shelf: str, words: list[str]) -> str:
    await asyncio.sleep(0.3)
    return "; ".join(f"{n + len(shelf)}: {word} in {shelf}" for n, word in enumerate(words))


@simloop.traced
async def lend(book: int, weeks: int) -> str:
    await asyncio.sleep(0.6)
    if book > 500:
        raise LookupError(f"there is no book {book}")
    return f"loan L-{book}-{weeks}"


@simloop.traced
async def renew(loan: str) -> str:
    await asyncio.sleep(0.1)
    return f"{loan} is prolonged by two weeks"


TOOLS: dict[str, tuple[type[_Arguments], Any]] = {
    "find": (Find, find), "lend": (Lend, lend), "renew": (Renew, renew),
}  # fmt: skip


class Librarian:
    """A conversation with the librarian."""

    limits = Limits(max_steps=10)
    mutating = ("lend", "renew")
    tool_timeout = TOOL_TIMEOUT_S

    def __init__(self) -> None:
        self.client = AsyncOpenAI(max_retries=3, timeout=50)
        self.items: list[Any] = []
        self.tools: Any = [
            {
                "type": "function", "name": name, "description": schema.__doc__,
                "parameters": schema.model_json_schema(), "strict": False,
            }
            for name, (schema, _) in TOOLS.items()
        ]  # fmt: skip

    async def __call__(self, prompt: str) -> str:
        self.items.append({"role": "user", "content": prompt})
        for _ in range(self.limits.max_steps):
            response = await self.client.responses.create(
                model="gpt-5", instructions=INSTRUCTIONS, input=self.items, tools=self.tools,
                store=False, include=["reasoning.encrypted_content"],
            )  # fmt: skip
            self.check(response)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls and not response.output_text.strip():
                await asyncio.sleep(1)
                continue
            if calls:
                await self.act(response.output, calls)
            else:
                self.keep(response.output)
                return str(response.output_text)
        raise GaveUp("no answer after so many replies")

    def check(self, response: Any) -> None:
        """Raise GaveUp for a response that has failed or was cut off."""
        if getattr(response, "status", None) != "completed":
            details = getattr(response, "incomplete_details", None) or getattr(
                response, "error", "no response"
            )
            raise GaveUp(f"the response did not complete: {details}")

    def keep(self, output: list[Any]) -> None:
        self.items += [item.model_dump(exclude_none=True) for item in output]

    async def act(self, output: list[Any], calls: list[Any]) -> None:
        """Run the calls one after the other. Calls that a stop cuts off have a result, too."""
        results: list[str] = []
        try:
            for call in calls:
                results.append(await self.result(call))  # noqa: PERF401 - kept if it is stopped
        finally:
            self.keep(output)
            results += ["Error: stopped"] * (len(calls) - len(results))
            self.items += [
                {"type": "function_call_output", "call_id": call.call_id, "output": text}
                for call, text in zip(calls, results, strict=True)
            ]

    async def result(self, call: Any) -> str:
        if call.name not in TOOLS:
            return f"Error: unknown tool {call.name}"
        schema, tool = TOOLS[call.name]
        try:
            given = schema.model_validate_json(call.arguments)
            return str(await asyncio.wait_for(tool(**given.model_dump()), TOOL_TIMEOUT_S))
        except ValidationError as error:
            problems = "; ".join(f"{each['loc']}: {each['msg']}" for each in error.errors())
            return f"Error: wrong arguments: {problems}"
        except TimeoutError:
            return f"Error: no result after {TOOL_TIMEOUT_S} s"
        except Exception as error:  # noqa: BLE001 - the model is told
            return f"Error: {error or type(error).__name__}"
