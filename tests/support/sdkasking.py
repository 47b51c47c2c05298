"""One streaming request by the SDK of a provider, in one of its formats, and its outcome."""

import importlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Outcome:
    """What an agent gets: the text, the finish reason, the types of events, the error's type."""

    text: str = ""
    finish: str | None = None
    events: list[str] = field(default_factory=list)
    error: str = ""


def formats_of(sdk: str) -> list[str]:
    return ["chat", "responses"] if sdk == "openai" else ["messages"]


async def asked(sdk: str, format_: str, **client: Any) -> Outcome:
    """Send one request, with a client of its own, and return the outcome."""
    package: Any = importlib.import_module(sdk)
    made = package.AsyncOpenAI if sdk == "openai" else package.AsyncAnthropic
    found = Outcome()
    async with made(**client) as opened:
        try:
            async for _ in _STREAMS[format_](opened, found):
                pass
        except Exception as error:  # noqa: BLE001 - its type is what the agent gets
            found.error = type(error).__name__
    return found


async def _chat(client: Any, found: Outcome) -> AsyncIterator[None]:
    messages = [{"role": "user", "content": "Hi"}]
    async for chunk in await client.chat.completions.create(
        model="m", messages=messages, stream=True
    ):
        for choice in chunk.choices:
            found.text += choice.delta.content or ""
            found.finish = choice.finish_reason or found.finish
        yield


async def _responses(client: Any, found: Outcome) -> AsyncIterator[None]:
    async for event in await client.responses.create(model="m", input="Hi", stream=True):
        found.events.append(event.type)
        if event.type == "response.output_text.delta":
            found.text += event.delta
        elif event.type in {"response.completed", "response.incomplete"}:
            found.finish = event.response.status
        yield


async def _messages(client: Any, found: Outcome) -> AsyncIterator[None]:
    messages = [{"role": "user", "content": "Hi"}]
    async for event in await client.messages.create(
        model="m", messages=messages, max_tokens=9, stream=True
    ):
        found.events.append(event.type)
        if event.type == "content_block_delta":
            found.text += event.delta.text
        elif event.type == "message_delta":
            found.finish = event.delta.stop_reason
        yield


_STREAMS: Any = {"chat": _chat, "responses": _responses, "messages": _messages}
