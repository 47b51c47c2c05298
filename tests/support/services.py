"""Requests to the services of a run, without any client, and what is heard of their replies."""

import asyncio
import json
from typing import Any

from builders import simulation
from wire import Heard

from simloop import Result
from simloop.trace import entries
from simloop.world.http import HttpRequest

ORDERS = "https://orders.example/api"


def sent(what: str = "GET /orders/7", body: Any = None, **more: Any) -> HttpRequest:
    """A request such as `GET /orders/7`, or with a whole URL; a body is sent as JSON."""
    method, _, path = what.partition(" ")
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    headers = tuple(more.pop("headers", {}).items())
    url = path if "://" in path else ORDERS + path
    return HttpRequest(method, url, headers, data, **more)


def asked(
    services: Any, *requests: HttpRequest, at_once: bool = False, **options: Any
) -> tuple[list[Heard], Result]:
    """What an agent hears that makes these requests, and its result.

    `services` are those of a scenario, or the routes of one, or the code of one.
    """
    found = [Heard() for _ in requests]

    async def agent(_: str) -> None:
        pairs = zip(found, requests, strict=True)
        if at_once:
            await asyncio.gather(*(each.listen(request) for each, request in pairs))
            return
        for each, request in pairs:
            await each.listen(request)

    known = services if isinstance(services, dict) else {ORDERS: services}
    run = simulation(services=known, loop=agent, tools={}, **options)
    return found, run.run()


def replies(result: Result) -> list[tuple[int, str, str]]:
    """The status, the failure and the body of each reply of a service."""
    record = result.trace.entries
    ends = [entry for entry in record if isinstance(entry, entries.ServiceReply)]
    return [(entry.status, entry.failure, entry.body) for entry in ends]
