"""A kitchen on the Anthropic SDK: messages that stream, and retries of its own.

A reply that was cut off is continued once.
"""

import asyncio
from typing import Any

import anthropic
import httpx2
from anthropic import AsyncAnthropic
from sdk_agents.waiting import AnyError, backoff_s, passes

import simloop
from simloop import Limits
from simloop.check.invariants.invariant import Watch
from simloop.check.invariants.subject import MainRequest, Subject
from simloop.messages import FinishReason, Outcome
from simloop.trace.entries import Ended, Request, ToolResult
from simloop.trace.facts import ReceivedReply

SYSTEM = "You plan meals. Use only ingredients that the kitchen has."
TOOL_TIMEOUT_S = 10
_KINDS = ("fruit", "grain", "fish")
TOOLS: Any = [
    {
        "name": "ingredients",
        "description": "Lists the ingredients of a kind, with their ids.",
        "input_schema": {
            "type": "object",
            "properties": {"kind": {"type": "string", "enum": [*_KINDS]}},
            "required": ["kind"],
        },
    },
    {
        "name": "order",
        "description": "Orders an ingredient.",
        "input_schema": {
            "type": "object",
            "properties": {
                "ingredient_id": {"type": "string"},
                "grams": {"type": "number", "exclusiveMinimum": 0, "maximum": 5000},
            },
            "required": ["ingredient_id", "grams"],
        },
    },
]


class WrongArguments(Exception):  # noqa: N818 - what the model is told
    """The arguments are not those that the schema asks for."""


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The kitchen has no answer."""


@simloop.traced
async def ingredients(kind: str) -> str:
    await asyncio.sleep(0.5)
    return ", ".join(f"{kind}-{n}" for n in range(1, 4))


@simloop.traced
async def order(ingredient_id: str, grams: float) -> str:
    await asyncio.sleep(0.7)
    kind, _, number = ingredient_id.partition("-")
    if kind not in _KINDS or not number.isdigit():
        raise LookupError(f"there is no ingredient {ingredient_id}")
    return f"{grams:g} g of {ingredient_id} are ordered"


class Kitchen:
    """A conversation with the kitchen."""

    limits = Limits(max_steps=10, max_error_count=4)
    retry = AnyError(initial_delay_ms=500, max_delay_ms=8_000, max_retry_after_ms=60_000)
    mutating = ("order",)
    tool_timeout = TOOL_TIMEOUT_S

    def __init__(self) -> None:
        self.client = AsyncAnthropic(max_retries=0, timeout=45)
        self.messages: list[Any] = []

    async def __call__(self, prompt: str) -> str:
        self.say(prompt)
        self.failures, said, continued = 0, "", False
        for _ in range(self.limits.max_steps):
            reply = await self.ask()
            text = "".join(block.text for block in reply.content if block.type == "text")
            calls = [block for block in reply.content if block.type == "tool_use"]
            if reply.stop_reason == "max_tokens" and text.strip() and not (calls or continued):
                self.messages.append({"role": "assistant", "content": text.rstrip()})
                self.say("Go on where you were cut off.")
                said, continued = said + text.rstrip(), True
            elif reply.stop_reason not in ("end_turn", "tool_use", "stop_sequence"):
                raise GaveUp(f"the reply ended with {reply.stop_reason}")
            elif not all(isinstance(call.input, dict) for call in calls):
                await self.pause("a call has no object", {})  # the API takes no such call back
            elif calls:
                await self.act(reply.content, calls)
            elif text.strip() and reply.stop_reason != "tool_use":
                self.messages.append({"role": "assistant", "content": text.rstrip()})
                return said + text
            else:
                await self.pause("the reply is empty", {})
        raise GaveUp("no answer after so many replies")

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    async def ask(self) -> Any:
        """Return the next whole reply."""
        while True:
            try:
                async with self.client.messages.stream(
                    model="claude-sonnet-5", max_tokens=2000, system=SYSTEM,
                    messages=self.messages, tools=TOOLS,
                ) as stream:  # fmt: skip
                    reply = await stream.get_final_message()
                if reply.stop_reason is not None:
                    return reply
                await self.pause("the stream ended early", {})
            except anthropic.APIStatusError as error:
                kind = (error.body or {}).get("error", {}) if isinstance(error.body, dict) else {}
                status = None if error.status_code == 200 else error.status_code
                if not passes(status, kind.get("type") if isinstance(kind, dict) else None):
                    raise
                await self.pause(str(error), error.response.headers)
            except (anthropic.APIConnectionError, httpx2.TransportError) as error:
                await self.pause(repr(error), {})

    async def pause(self, why: str, headers: Any) -> None:
        self.failures += 1
        if self.failures >= self.limits.max_error_count:
            raise GaveUp(why)
        await asyncio.sleep(backoff_s(self.failures, headers))

    async def act(self, content: list[Any], calls: list[Any]) -> None:
        """Run the calls side by side, and send all results in one message."""
        running = [asyncio.create_task(self.result(call)) for call in calls]
        try:
            await asyncio.wait(running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self.messages.append({"role": "assistant", "content": content})
            results = [("stopped", True) if task.cancelled() else task.result() for task in running]
            answers = [
                {
                    "type": "tool_result", "tool_use_id": call.id, "content": text,
                    "is_error": failed,
                }
                for call, (text, failed) in zip(calls, results, strict=True)
            ]  # fmt: skip
            self.messages.append({"role": "user", "content": answers})

    async def result(self, call: Any) -> tuple[str, bool]:
        try:
            async with asyncio.timeout(TOOL_TIMEOUT_S):
                return await self.run(call.name, call.input), False
        except TimeoutError:
            return f"no result after {TOOL_TIMEOUT_S} s", True
        except Exception as error:  # noqa: BLE001 - the model is told
            return str(error) or type(error).__name__, True

    async def run(self, name: str, given: Any) -> str:
        if name == "ingredients":
            if given.get("kind") not in _KINDS:
                raise WrongArguments(f"kind must be one of {', '.join(_KINDS)}")
            return str(await ingredients(given["kind"]))
        if name == "order":
            ingredient, grams = given.get("ingredient_id"), given.get("grams")
            if not isinstance(ingredient, str):
                raise WrongArguments("ingredient_id must be a text")
            if not isinstance(grams, int | float) or not 0 < grams <= 5000:
                raise WrongArguments("grams must be a number up to 5000")
            return str(await order(ingredient, grams))
        raise WrongArguments(f"there is no tool {name}")


@simloop.invariant(
    "An answer has the words of a reply that was cut off and continued.", "ours", sees=[Ended]
)
def cut_words_answered(subject: Subject, entry: Any) -> str:
    for reply in _cut(subject) if entry.outcome is Outcome.COMPLETED else ():
        if reply.text.strip() not in entry.text:
            return f"the answer {entry.text!r} lacks {reply.text!r} of request {reply.number}"
    return ""


@simloop.invariant("A reply that is cut off again is not continued.", "ours", sees=[Request])
def continued_once(subject: Subject, entry: Any) -> str:
    cut = [reply.number for reply in _cut(subject)]
    return f"request {entry.number} goes on after {cut} were cut off" if len(cut) > 1 else ""


def _cut(subject: Subject) -> list[ReceivedReply]:
    replies = subject.facts.main_replies[subject.facts.earlier_replies :]
    return [each for each in replies if each.finish is FinishReason.LENGTH]


@simloop.invariant(
    "The result of a tool that failed is marked as an error.", "ours",
    sees=[ToolResult, MainRequest],
)  # fmt: skip
def failures_marked(subject: Subject) -> Watch:
    failed: dict[str, str] = {}
    while True:
        entry = yield
        if type(entry) is ToolResult:
            failed |= {entry.call_id: entry.text} if entry.is_error else {}
            continue
        for call_id, message in subject.results.items():
            if failed.pop(call_id, "") and not message.is_error:
                return f"request {entry.number} has call {call_id!r} as a success, and it failed"
