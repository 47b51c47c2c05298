"""Blocking waits for async code, in the event loop's own thread and in others."""

import asyncio
import gc
import random
import signal
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from simloop import Scenario, Simulation, simulate
from simloop.errors import Deadlock, ScenarioError
from simloop.trace.entries import Ended, ServiceReply, ServiceRequest, StopRequested
from simloop.virtual.threads.calls import run_blocking


async def slow(seconds: float = 3) -> str:
    await asyncio.sleep(seconds)
    return "slow"


async def in_own_thread(function: Callable[[], Any]) -> Any:
    return function()


async def in_another(function: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(function)


@pytest.fixture(params=[in_own_thread, in_another])
def place(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_it_takes_the_virtual_time_of_the_coroutine(place: Any) -> None:
    async def main() -> tuple[str, float]:
        return await place(lambda: run_blocking(slow())), time.monotonic()

    assert simulate(main()) == ("slow", 3.0)


def test_an_exception_passes_and_the_running_loop_is_itself_again(place: Any) -> None:
    async def fails() -> None:
        await asyncio.sleep(1)
        raise ValueError("oh")

    async def main() -> bool:
        with pytest.raises(ValueError, match="oh"):
            await place(lambda: run_blocking(fails()))
        task = asyncio.current_task()
        await asyncio.sleep(1)
        return task is not None and task is asyncio.current_task()

    assert simulate(main())


def test_an_async_generator_that_a_loop_inside_drops_is_closed_there(place: Any) -> None:
    closed = []

    async def pieces() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            closed.append(time.monotonic())

    async def takes_one() -> None:
        async for _ in pieces():
            break
        await asyncio.sleep(5)

    async def main() -> None:
        await place(lambda: run_blocking(takes_one()))

    simulate(main())
    assert closed == [1.0]


def test_the_callbacks_of_a_blocked_loop_wait() -> None:
    seen = []

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, lambda: seen.append(time.monotonic()))
        run_blocking(slow())
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    simulate(main())
    assert seen == [3.0]


def test_the_loop_goes_on_while_another_thread_is_blocked() -> None:
    async def main() -> tuple[float, float]:
        blocked = asyncio.create_task(asyncio.to_thread(run_blocking, slow()))
        await asyncio.sleep(1)
        before = time.monotonic()
        await blocked
        return before, time.monotonic()

    assert simulate(main()) == (1.0, 3.0)


def test_threads_of_the_program_go_on_while_the_loop_is_blocked() -> None:
    async def main() -> list[str]:
        order: list[str] = []

        def other() -> None:
            time.sleep(1)
            order.append("other")

        asyncio.get_running_loop().run_in_executor(None, other)
        run_blocking(slow())
        return [*order, "own"]

    assert simulate(main()) == ["other", "own"]


def test_a_wait_that_nothing_ends_is_a_deadlock(place: Any) -> None:
    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        await place(lambda: run_blocking(never()))

    with pytest.raises(Deadlock):
        simulate(main())


def test_code_inside_has_the_clock_and_the_randomness_of_the_simulation(place: Any) -> None:
    async def inside() -> tuple[float, float]:
        return time.time(), random.random()

    async def main(function: Callable[[], Any]) -> Any:
        return await place(function)

    async def outside() -> tuple[float, float]:
        return time.time(), random.random()

    assert simulate(main(lambda: run_blocking(inside()))) == simulate(outside())


def test_outside_of_simulations_it_is_refused() -> None:
    with pytest.raises(ScenarioError, match="virtual clock"):
        run_blocking(slow())


def test_a_loop_that_runs_when_the_simulation_ends_is_closed() -> None:
    """Code that hands it work at the end of the process, and waits for that, would never end."""

    async def main() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(1), loop)
        return loop

    assert simulate(main()).is_closed()


def test_a_thread_that_a_stop_ends_closes_its_request_then_and_not_when_it_is_collected() -> None:
    """The frames of the thread are garbage in a cycle, which is freed in the next prompt."""

    def agent(prompt: str) -> str:
        try:
            if prompt == "Go.":
                urllib.request.urlopen("https://shop.example/orders")
        except BaseException as error:
            error.itself = error  # type: ignore[attr-defined]
            raise
        gc.collect()
        return "Done."

    services = {"https://shop.example": [{"get": "/orders", "takes": "5s"}]}
    script: Any = {"services": services, "abort": {"after": "service-request"}, "then": ["More."]}
    played = Simulation(Scenario(prompt="Go.", **script), loop=agent).run_unchecked().trace.entries
    kinds = [type(each) for each in played]
    assert kinds[1:5] == [ServiceRequest, StopRequested, ServiceReply, Ended]
    assert kinds.count(ServiceReply) == 1


def test_no_stop_reaches_a_request_of_a_thread_that_the_agent_has_started() -> None:
    """As in Python: it reaches the task of the agent."""

    def both() -> None:
        for number in (1, 2):
            with urllib.request.urlopen(f"https://shop.example/orders/{number}") as reply:
                replies.append(reply.read())
            time.sleep(0)  # the task of the agent may have its turn

    async def agent(_: str) -> None:
        await asyncio.to_thread(both)

    replies: list[bytes] = []
    services = {"https://shop.example": [{"get": "/orders/{n}", "json": 7}]}
    script: Any = {"services": services, "abort": {"after": "service-request"}}
    run = Simulation(Scenario(prompt="Go.", **script), loop=agent)
    assert run.run_unchecked().outcome == "aborted"
    assert replies == [b"7", b"7"]


def test_an_agent_that_is_not_async_is_in_its_main_thread() -> None:
    handler = signal.getsignal(signal.SIGTERM)

    def agent(prompt: str) -> str:
        elsewhere: list[bool] = []
        worker = threading.Thread(target=lambda: elsewhere.append(is_main()))
        worker.start()
        worker.join()
        before = signal.signal(signal.SIGTERM, lambda *_: None)  # nobody sends one
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # since Python 3.12
            loop = asyncio.new_event_loop() if sys.version_info >= (3, 14) else None
            said = (loop or asyncio.get_event_loop()).run_until_complete(slow())
        return f"{said} {is_main()} {elsewhere} {before is handler}"

    result = Simulation(Scenario(prompt="Go."), loop=agent).run()
    assert result.text == "slow True [False] True"
    assert (is_main(), signal.getsignal(signal.SIGTERM)) == (True, handler)


def is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
