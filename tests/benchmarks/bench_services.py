"""The cost of a call of a service, over what the HTTP client itself takes.

python -m pytest -s -m "" tests/benchmarks/bench_services.py

Both sides of a comparison run in turn in one process, and the fastest of each counts. The client of
the other side has a transport that has each answer at hand. The time of a run without calls is
taken off.
"""

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from simloop import Runner, Scenario

MOST_US = 150
CALLS, BATCHES = 200, 12
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


def asking(module: Any, transport: Any, calls: int, *, is_async: bool) -> Callable[..., Any]:
    async def agent(_: str) -> None:
        async with module.AsyncClient(transport=transport) as client:
            for __ in range(calls):
                await client.get(URL)

    def ask() -> None:
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
    scenario = Scenario(prompt="Go.", services=ROUTES)

    def microseconds(transport: Any) -> float:
        """The processor time of one call."""
        least: dict[int, float] = {}
        for calls in (0, CALLS):
            agent = asking(module, transport, calls, is_async=is_async)
            least[calls] = float("inf")
            with Runner(scenario, loop=agent) as runner:
                for _ in range(BATCHES):
                    begin_ns = time.process_time_ns()
                    runner.run()
                    took_ns = time.process_time_ns() - begin_ns
                    least[calls] = min(least[calls], took_ns / 1000)
        return (least[CALLS] - least[0]) / CALLS

    whole, rest = microseconds(None), microseconds(at_hand(module))
    kind = "an async" if is_async else "a sync"
    print(f"\n{kind} client: {whole:.0f} us, of which {rest:.0f} us are its own")
    assert whole - rest <= MOST_US
