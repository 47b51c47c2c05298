"""A store keeper on the OpenAI SDK, without asyncio: its tools run in a pool of threads."""

import json
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import jsonschema
import openai
from openai import OpenAI
from sdk_agents.waiting import AnyError, backoff_s, passes

import simloop
from simloop import Limits

SYSTEM = "You keep a store. Look at the stock before you reserve anything."
SKU = {"type": "string", "enum": ["lamp", "desk", "chair"]}
TOOL_TIMEOUT_S = 25
_DESCRIBED: Any = {
    "stock": ("Says how many are left.", {"sku": SKU}),
    "reserve": (
        "Reserves some, and returns the number of the reservation.",
        {"sku": SKU, "quantity": {"type": "integer", "minimum": 1, "maximum": 20}},
    ),
    "release": ("Ends a reservation.", {"reservation": {"type": "integer", "minimum": 1}}),
}
SCHEMAS: dict[str, Any] = {
    name: {
        "type": "object", "properties": keys, "required": [*keys], "additionalProperties": False,
    }
    for name, (_, keys) in _DESCRIBED.items()
}  # fmt: skip


class Store:
    """The stock, which several threads read and change."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.left = {"lamp": 12, "desk": 3, "chair": 40}
        self.reserved: dict[int, tuple[str, int]] = {}

    def stock(self, sku: str) -> str:
        time.sleep(0.3)
        with self.lock:
            return f"{self.left[sku]} of {sku}"

    def reserve(self, sku: str, quantity: int) -> str:
        time.sleep(0.8)
        with self.lock:
            if self.left[sku] < quantity:
                raise LookupError(f"only {self.left[sku]} of {sku} are left")
            self.left[sku] -= quantity
            assert self.left[sku] >= 0
            number = len(self.reserved) + 1
            self.reserved[number] = (sku, quantity)
        return f"reservation {number}"

    def release(self, reservation: int) -> str:
        time.sleep(0.2)
        with self.lock:
            sku, quantity = self.reserved.get(reservation, ("", 0))
            if not quantity:
                raise LookupError(f"there is no reservation {reservation}")
            self.left[sku] += quantity
            self.reserved[reservation] = (sku, 0)
        return f"{quantity} of {sku} are free again"


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The keeper has no answer."""


class Keeper:
    """A conversation with the keeper."""

    limits = Limits(max_steps=10, max_error_count=4)
    retry = AnyError(initial_delay_ms=500, max_delay_ms=8_000, max_retry_after_ms=60_000)
    deviations = {  # noqa: RUF012 - a constant
        "tool-ends-before-its-answer": "no thread can be stopped: a tool that is too slow goes on"
    }
    mutating = ("reserve", "release")
    tool_timeout = TOOL_TIMEOUT_S

    def __init__(self) -> None:
        self.client = OpenAI(max_retries=0, timeout=40)
        self.store = Store()
        self.tools: dict[str, Any] = {
            name: simloop.traced(getattr(self.store, name)) for name in SCHEMAS
        }
        self.offered: Any = [
            {
                "type": "function",
                "function": {
                    "name": name, "description": words, "parameters": SCHEMAS[name],
                },
            }
            for name, (words, _) in _DESCRIBED.items()
        ]  # fmt: skip
        self.messages: list[Any] = [{"role": "system", "content": SYSTEM}]

    def __call__(self, prompt: str) -> str:
        self.messages.append({"role": "user", "content": prompt})
        failures = steps = 0
        while steps < self.limits.max_steps:
            try:
                choice = self.ask()
            except openai.APIError as error:
                failures += 1
                if failures >= self.limits.max_error_count or not self.may_retry(error):
                    raise
                headers = error.response.headers if hasattr(error, "response") else {}
                time.sleep(backoff_s(failures, headers))
                continue
            steps += 1
            message = choice.message
            if choice.finish_reason in ("length", "content_filter", "error"):
                raise GaveUp(f"the reply ended with {choice.finish_reason}")
            if message.tool_calls:
                self.act(message)
                continue
            if (message.content or "").strip() and choice.finish_reason in ("stop", "other"):
                self.messages.append({"role": "assistant", "content": message.content})
                return message.content
            failures += 1
            if failures >= self.limits.max_error_count:
                raise GaveUp("the replies are empty")
            time.sleep(backoff_s(failures, {}))
        raise GaveUp("no answer after so many replies")

    def ask(self) -> Any:
        reply = self.client.chat.completions.create(
            model="gpt-5", messages=self.messages, tools=self.offered
        )
        choices = getattr(reply, "choices", None)
        if not choices or choices[0].finish_reason in (None, "network_error"):
            raise openai.APIConnectionError(
                message="no whole reply", request=httpx.Request("POST", "/")
            )
        return choices[0]

    def may_retry(self, error: openai.APIError) -> bool:
        if isinstance(error, openai.APIConnectionError):
            return True
        return passes(getattr(error, "status_code", None), error.code)

    def act(self, message: Any) -> None:
        """Run the calls in threads, and keep the results in the order of the calls."""
        results = ["Error: stopped"] * len(message.tool_calls)
        pool = ThreadPoolExecutor(max_workers=4)
        try:
            running = [pool.submit(self.result, call.function) for call in message.tool_calls]
            end = time.monotonic() + TOOL_TIMEOUT_S
            for place, future in enumerate(running):
                results[place] = self.outcome(future, end)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self.messages.append(message.model_dump(exclude_none=True))
            self.messages += [
                {"role": "tool", "tool_call_id": call.id, "content": text}
                for call, text in zip(message.tool_calls, results, strict=True)
            ]

    def outcome(self, future: Future[str], end: float) -> str:
        try:
            return future.result(timeout=max(0, end - time.monotonic()))
        except TimeoutError:
            return f"Error: no result after {TOOL_TIMEOUT_S} s"

    def result(self, function: Any) -> str:
        try:
            given = json.loads(function.arguments)
            jsonschema.validate(given, SCHEMAS[function.name])
            return str(self.tools[function.name](**given))
        except KeyError:
            return f"Error: there is no tool {function.name}"
        except (ValueError, jsonschema.ValidationError) as error:
            return f"Error: wrong arguments: {str(error).splitlines()[0]}"
        except Exception as error:  # noqa: BLE001 - the model is told
            return f"Error: {error or type(error).__name__}"
