"""A restaurant on the OpenAI SDK, whose tools ask a booking service and write to SQLite.

A booking carries an idempotency key, so that the service books once however often it is asked.
"""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import httpx
from openai import AsyncOpenAI
from pydantic import BaseModel, Field, ValidationError

import simloop
from simloop import Limits
from simloop.check.invariants.invariant import Watch
from simloop.check.invariants.subject import MainRequest, Subject
from simloop.trace.entries import Prompt, Request, ServiceReply, ServiceRequest, StopRequested

BOOKINGS = "https://bookings.example/api"
SYSTEM = "You book tables. Ask for the free tables before you book one."
TOOL_TIMEOUT_S = 40


class FreeTables(BaseModel):
    """Lists the free tables of a day."""

    day: date
    guests: int = Field(ge=1, le=12)


class Book(BaseModel):
    """Books a table that is free."""

    table: str = Field(pattern=r"^T\d+$")
    day: date
    guests: int = Field(ge=1, le=12)


class Remember(BaseModel):
    """Remembers a wish of the guest."""

    wish: str = Field(max_length=300)


SCHEMAS: dict[str, type[BaseModel]] = {
    "free_tables": FreeTables, "book": Book, "remember": Remember,
}  # fmt: skip


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The restaurant has no answer."""


class Tables:
    """A conversation with the restaurant."""

    limits = Limits(max_steps=10)
    mutating = (BOOKINGS,)
    tool_timeout = TOOL_TIMEOUT_S

    def __init__(self) -> None:
        self.client = AsyncOpenAI(max_retries=2, timeout=45)
        self.service = httpx.AsyncClient(base_url=BOOKINGS, timeout=10)
        self.file = simloop.folder() / "guests.db"
        with self.open() as guests:
            guests.execute("create table if not exists wishes (id text primary key, wish text)")
            guests.execute("create table if not exists bookings (key text primary key, said text)")
        self.messages: list[Any] = [{"role": "system", "content": SYSTEM}]
        self.offered: Any = [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": schema.__doc__,
                    "parameters": schema.model_json_schema(),
                },
            }
            for name, schema in SCHEMAS.items()
        ]

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        guests = sqlite3.connect(self.file)
        try:
            with guests:
                yield guests
        finally:
            guests.close()

    async def __call__(self, prompt: str) -> str:
        self.messages.append({"role": "user", "content": prompt})
        for _ in range(self.limits.max_steps):
            choice = await self.ask()
            message = choice.message
            if message.tool_calls:
                await self.act(message)
            elif (message.content or "").strip():
                self.messages.append({"role": "assistant", "content": message.content})
                return str(message.content)
            else:
                await asyncio.sleep(1)
        raise GaveUp("no answer after so many replies")

    async def ask(self) -> Any:
        """Return the next reply. Raises GaveUp for one that is not whole."""
        reply = await self.client.chat.completions.create(
            model="gpt-5", messages=self.messages, tools=self.offered
        )
        choices = getattr(reply, "choices", None)
        if not choices or choices[0].finish_reason not in ("stop", "tool_calls"):
            raise GaveUp(f"the reply is not whole: {choices}")
        return choices[0]

    async def act(self, message: Any) -> None:
        """Run the calls in their order. Those that a stop cuts off have a result, too."""
        calls, results = message.tool_calls, list[str]()
        try:
            for call in calls:
                results.append(await self.result(call))
        finally:
            results += ["Error: stopped"] * (len(calls) - len(results))
            self.messages.append(message.model_dump(exclude_none=True))
            self.messages += [
                {"role": "tool", "tool_call_id": call.id, "content": text}
                for call, text in zip(calls, results, strict=True)
            ]

    async def result(self, call: Any) -> str:
        name = call.function.name
        if name not in SCHEMAS:
            return f"Error: there is no tool {name}"
        try:
            given = SCHEMAS[name].model_validate_json(call.function.arguments)
            async with asyncio.timeout(TOOL_TIMEOUT_S):
                return str(await getattr(self, name)(call.id, given))
        except ValidationError as error:
            return f"Error: wrong arguments: {error.errors()[0]['msg']}"
        except TimeoutError:
            return f"Error: no result after {TOOL_TIMEOUT_S} s"
        except (httpx.HTTPError, sqlite3.Error) as error:
            return f"Error: {error or type(error).__name__}"

    async def free_tables(self, _: str, given: FreeTables) -> str:
        query = {"day": given.day.isoformat(), "guests": given.guests}
        return await self.asked("GET", "/tables", params=query)

    async def book(self, call_id: str, given: Book) -> str:
        """Book once for each call, also if the service was too slow to say so."""
        body = given.model_dump(mode="json")
        said = await self.asked(
            "POST", "/bookings", json=body, headers={"Idempotency-Key": call_id}
        )
        with self.open() as guests:
            guests.execute("insert or replace into bookings values (?, ?)", (call_id, said))
        return said

    async def remember(self, call_id: str, given: Remember) -> str:
        with self.open() as guests:
            guests.execute("insert or replace into wishes values (?, ?)", (call_id, given.wish))
            count = guests.execute("select count(*) from wishes").fetchone()[0]
        return f"{count} wishes are known"

    async def asked(self, method: str, path: str, **more: Any) -> str:
        """Ask the service, up to three times."""
        for wait_s in (1, 2, None):
            try:
                answer = await self.service.request(method, path, **more)
                if answer.status_code < 500 or wait_s is None:
                    answer.raise_for_status()
                    return json.dumps(answer.json())
            except httpx.TransportError:
                if wait_s is None:
                    raise
            await asyncio.sleep(wait_s or 0)
        raise AssertionError("unreachable")


@simloop.invariant(
    "A service that fails is asked again for a call.", "ours",
    sees=[Prompt, StopRequested, ServiceRequest, ServiceReply, MainRequest],
)  # fmt: skip
def services_asked_again(_: Subject) -> Watch:
    asked: dict[int, str] = {}
    failed: Counter[str] = Counter()
    while True:
        entry = yield
        if type(entry) is ServiceRequest:
            asked[entry.number] = f"{entry.method} {entry.path}"
        elif type(entry) is ServiceReply:
            if entry.request in asked:  # and not before a stop
                failed[asked[entry.request]] += bool(entry.failure) or entry.status >= 500
        elif type(entry) is Request:
            once = [each for each, count in failed.items() if count == 1]
            if once and [*asked.values()].count(once[0]) == 1:
                return f"request {entry.number} follows {once[0]}, which failed and was asked once"
            asked, failed = {}, Counter()
        else:
            asked, failed = {}, Counter()


@simloop.invariant("A wish that is remembered is kept.", "ours", sees=[MainRequest])
def wishes_kept(subject: Subject) -> Watch:
    known: dict[str, int] = {}
    while True:
        entry = yield
        for call_id, message in subject.results.items():
            count, _, words = message.text.partition(" ")
            if words == "wishes are known" and call_id not in known:
                if int(count) <= len(known):
                    return f"request {entry.number}: {message.text}, after {len(known)} before it"
                known[call_id] = int(count)
