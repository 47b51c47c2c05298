"""The cost of a call of a service, over what the HTTP client itself takes.

python -m pytest -s -m "" tests/benchmarks/bench_services.py

Both sides of a comparison run in turn in one process, and the fastest of each counts. The client of
the other side has a transport that has each answer at hand. The time of a run without calls is
taken off. The bound on the ratio holds on any machine.
"""

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from simloop import Runner, Scenario

MOST_US = 150
MOST_RATIO = 1.7
CALLS, BATCHES = 100, 40
URL = "https://orders.example/api/orders/7"
ROUTES = {"https://orders.example/api": [{"get": "/orders/{id}", "json": {"id": "{id}"}}]}
BODY = b'{"id":"7"}'


def at_hand(module: Any) -> Any:
    """A transport that has the answer at hand."""

    class Body(module.AsyncByteStream, module.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Any:
            yield BODY

        async def __aiter__(self) -> Any:
            yield BODY

    class AtHand(module.AsyncBaseTransport, module.BaseTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            request.read()
            return module.Response(200, headers={"content-type": "application/json"}, stream=Body())

        async def handle_async_request(self, request: Any) -> Any:
            return self.handle_request(request)

    return AtHand()


def asking(module: Any, case: list[Any], *, is_async: bool) -> Callable[..., Any]:
    """Return an agent that makes the calls of `case`: their number, and the client's transport."""

    async def agent(_: str) -> None:
        calls, transport = case
        async with module.AsyncClient(transport=transport) as client:
            for __ in range(calls):
                await client.get(URL)

    def ask() -> None:
        calls, transport = case
        with module.Client(transport=transport) as client:
            for __ in range(calls):
                client.get(URL)

    async def in_thread(_: str) -> None:
        await asyncio.to_thread(ask)

    return agent if is_async else in_thread


@pytest.mark.sdks
@pytest.mark.parametrize("is_async", [True, False])
def test_a_call_of_a_service_costs_little_more_than_the_client(is_async: bool) -> None:  # noqa: FBT001
    module: Any = importlib.import_module("httpx2")
    sides = None, at_hand(module)
    least = {(calls, side): float("inf") for calls in (0, CALLS) for side in sides}
    case: list[Any] = []
    agent = asking(module, case, is_async=is_async)
    with Runner(Scenario(prompt="Go.", services=ROUTES), loop=agent) as runner:
        for each in [*least] * BATCHES:
            case[:] = each
            begin_ns = time.process_time_ns()
            runner.run()
            least[each] = min(least[each], (time.process_time_ns() - begin_ns) / 1000)
    whole, rest = ((least[CALLS, side] - least[0, side]) / CALLS for side in sides)
    kind = "an async" if is_async else "a sync"
    print(f"\n{kind} client: {whole:.0f} us, of which {rest:.0f} us are its own")
    assert whole - rest <= MOST_US
    assert whole <= MOST_RATIO * rest
