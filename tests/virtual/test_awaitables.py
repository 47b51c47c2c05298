"""Awaitables that are run at once up to their first wait."""

import asyncio
from typing import Any

import pytest
from pacing import nap

from simloop.virtual.clock.tasks import Started, begin, is_coroutine
from simloop.virtual.simulate import run_virtual, running_loop


async def returns(value: Any) -> Any:
    return value


def test_an_awaitable_that_waits_has_run_up_to_its_wait() -> None:
    seen: list[str] = []

    async def work() -> str:
        seen.append("begun")
        await nap(5)
        seen.append("ended")
        return "done"

    async def main() -> tuple[bool, list[str], str, int]:
        started = begin(work())
        at_first = isinstance(started, Started), seen.copy()
        return *at_first, await started, running_loop().now_ns

    assert run_virtual(main()) == (True, ["begun"], "done", 5_000_000)


class Awaitable:
    """An awaitable that is no coroutine."""

    def __init__(self, wait_ms: int) -> None:
        self.wait_ms = wait_ms

    def __await__(self) -> Any:
        if self.wait_ms:
            yield from asyncio.sleep(self.wait_ms / 1_000).__await__()
        return "done"


@pytest.mark.parametrize("wait_ms", [0, 5])
def test_an_awaitable_that_is_no_coroutine_is_begun_in_the_same_way(wait_ms: int) -> None:
    async def main() -> tuple[bool, Any]:
        begun = begin(Awaitable(wait_ms))
        waits = isinstance(begun, Started)
        return waits, await begun if waits else begun

    assert run_virtual(main()) == (bool(wait_ms), "done")


def test_an_awaitable_that_waits_again_and_again_is_waited_for_to_its_end() -> None:
    async def work() -> float:
        for _ in range(3):
            await nap(5)
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    async def main() -> Any:
        return await begin(work())

    assert run_virtual(main()) == 0.015


async def fails(error: BaseException, *, wait_ms: int) -> None:
    if wait_ms:
        await nap(wait_ms)
    raise error


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
def test_an_error_is_raised_at_once_or_where_the_rest_is_awaited(error: BaseException) -> None:
    async def main() -> str:
        with pytest.raises(type(error)):
            begin(fails(error, wait_ms=0))
        started = begin(fails(error, wait_ms=1))
        with pytest.raises(type(error)):
            await started
        return "goes on"

    assert run_virtual(main()) == "goes on"


def test_a_cancellation_reaches_the_awaitable_which_may_answer_it() -> None:
    async def work() -> str:
        try:
            await nap(100)
        except asyncio.CancelledError:
            await nap(3)
            return "cleaned up"
        return "was not told"

    async def main() -> tuple[Any, float]:
        started = begin(work())
        task = asyncio.current_task()
        assert task is not None
        running_loop().call_later(0.005, task.cancel)
        result = await started
        task.uncancel()
        return result, running_loop().time()

    assert run_virtual(main()) == ("cleaned up", 0.008)


def test_an_exception_of_the_future_that_it_waits_for_reaches_the_awaitable() -> None:
    async def main() -> Any:
        future = running_loop().create_future()

        async def work() -> str:
            try:
                await future
            except ValueError as error:
                return str(error)
            return ""

        started = begin(work())
        future.set_exception(ValueError("lost"))
        return await started

    assert run_virtual(main()) == "lost"


def test_a_task_that_is_closed_closes_the_awaitable() -> None:
    closed: list[str] = []

    async def work() -> None:
        try:
            await nap(100)
        finally:
            closed.append("closed")

    async def waits(started: Started) -> None:
        await started

    async def main() -> list[str]:
        whole: Any = work()
        waiting = waits(begin(whole))
        waiting.send(None)
        waiting.close()
        assert whole.cr_frame is None  # `whole` is kept, so it is not Python that closes it
        return closed.copy()

    assert run_virtual(main()) == ["closed"]


def test_a_future_can_be_begun_too() -> None:
    async def main() -> tuple[Any, Any]:
        future = running_loop().create_future()
        started = begin(future)
        assert isinstance(started, Started)
        running_loop().call_later(0.001, future.set_result, "set")
        return await started, begin(future)

    assert run_virtual(main()) == ("set", "set")


class Text(str):
    """A text of another type."""

    __slots__ = ()


VALUES = (None, True, 3, 1.5, "text", b"bytes", [1], (1,), {"key": 1}, {1}, Text("x"), object())


def test_only_what_an_async_function_returns_is_a_coroutine() -> None:
    assert [value for value in (*VALUES, Awaitable(0)) if is_coroutine(value)] == []
    coroutine = returns("done")
    assert is_coroutine(coroutine)
    coroutine.close()
