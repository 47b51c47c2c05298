"""Agents that ask a model over HTTP, without any client, and run traced tools themselves.

They stand for programs on an SDK: a request that is lost, or fails for a time, is sent again.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from wire import Heard, posted

from simloop import traced
from simloop.virtual.threads.calls import run_blocking

Body = dict[str, Any]
MOST_TRIES, MOST_ROUNDS = 3, 10
_PASSING = {408, 409, 429, 500, 502, 503, 504, 529}
_ENDED = {"stop", "tool_calls"}


class Failed(Exception):  # noqa: N818 - the end of a run
    """The model call failed, or its reply was cut off."""


@traced
async def read(path: str = "") -> str:
    return f"The contents of {path}."


@traced
async def write(path: str = "") -> str:
    return f"Wrote {path}."


TOOLS: dict[str, Callable[..., Any]] = {"read": read, "write": write}
OFFERED = [{"type": "function", "function": {"name": name}} for name in TOOLS]


class OverHttp:
    """A correct agent on Chat Completions: whole replies, one tool after the other."""

    streams = False
    most_tries = MOST_TRIES

    async def __call__(self, prompt: str) -> str:
        return await self.converse([{"role": "user", "content": prompt}])

    async def converse(self, messages: list[Body]) -> str:
        for _ in range(MOST_ROUNDS):
            message, finish = await self.ask(messages)
            calls = message.get("tool_calls") or ()
            self.check(finish)
            if not calls:
                return str(message.get("content") or "")
            messages.append(message)
            messages += [await self.act(call) for call in calls]
        raise Failed("no answer")

    def check(self, finish: str | None) -> None:
        if finish not in _ENDED:
            raise Failed(f"the reply ended with {finish}")

    async def act(self, call: Body) -> Body:
        function = call["function"]
        try:
            text = await TOOLS[function["name"]](**json.loads(function["arguments"]))
        except (KeyError, TypeError, ValueError) as error:
            text = f"Error: {error}"
        return {"role": "tool", "tool_call_id": call["id"], "content": text}

    async def ask(self, messages: Sequence[Body]) -> tuple[Body, str | None]:
        """Return a message of the model, and its finish reason."""
        body = {"model": "m", "messages": messages, "tools": OFFERED, "stream": self.streams}
        for _ in range(self.most_tries):
            heard = await Heard().listen(posted(body))
            if heard.error or heard.status in _PASSING:
                continue
            if heard.status != 200:
                break
            return streamed(heard.body) if self.streams else whole(heard.body)
        raise Failed(heard.error or f"status {heard.status}: {heard.body.decode():.200}")


class Streaming(OverHttp):
    """A correct agent whose replies are streamed."""

    streams = True


class InPool:
    """A correct agent that is not async, and calls the tools of a reply in threads."""

    def __init__(self) -> None:
        self.agent = OverHttp()

    def __call__(self, prompt: str) -> str:
        messages = [{"role": "user", "content": prompt}]
        for _ in range(MOST_ROUNDS):
            message, finish = run_blocking(self.agent.ask(messages))
            self.agent.check(finish)
            calls = message.get("tool_calls") or ()
            if not calls:
                return str(message.get("content") or "")
            with ThreadPoolExecutor(1) as pool:
                results = [*pool.map(self.act, calls)]
            messages += [message, *results]
        raise Failed("no answer")

    def act(self, call: Body) -> Body:
        return run_blocking(self.agent.act(call))


class InThread:
    """A correct agent whose whole work is done in a thread that a task waits for."""

    async def __call__(self, prompt: str) -> str:
        return await asyncio.to_thread(InPool(), prompt)


def whole(body: bytes) -> tuple[Body, str | None]:
    """Return the message of a completion, and its finish reason."""
    choice = json.loads(body)["choices"][0]
    message = {name: value for name, value in choice["message"].items() if value is not None}
    return message, choice["finish_reason"]


def streamed(body: bytes) -> tuple[Body, str | None]:
    """Return the message that a stream adds up to, and its finish reason."""
    text, finish = "", None
    calls: dict[int, Body] = {}
    for line in body.decode().splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line.removeprefix("data: ")).get("choices", ()):
            delta = choice["delta"]
            text += delta.get("content") or ""
            finish = choice["finish_reason"] or finish
            for piece in delta.get("tool_calls", ()):
                new = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(piece["index"], new)
                call["id"] += piece.get("id", "")
                for name, value in piece["function"].items():
                    call["function"][name] += value
    message: Body = {"role": "assistant", "content": text or None}
    return message | ({"tool_calls": [*calls.values()]} if calls else {}), finish
