"""The tasks of the virtual loop, and awaitables that are run at once up to their first wait."""

import asyncio
import contextlib
import gc
from typing import Any

import pytest
from pacing import nap

from simloop.virtual.clock.tasks import Started, begin, is_coroutine
from simloop.virtual.simulate import run_virtual, running_loop, simulate


def test_a_group_of_tasks_is_cancelled_in_an_order_that_depends_on_no_address() -> None:
    async def cancelled() -> list[str]:
        order: list[str] = []

        async def waits() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                task = asyncio.current_task()
                assert task is not None
                order.append(task.get_name())

        async def fails() -> None:
            await asyncio.sleep(1)
            raise ValueError

        with contextlib.suppress(BaseExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(waits(), name=str(number))
                group.create_task(fails())
        return order

    orders, kept = [], []
    for round_ in range(6):
        orders.append(simulate(cancelled()))
        kept.append([object() for _ in range(997 * round_)])  # moves what is allocated next
    assert len(orders[0]) == 20
    assert orders == [orders[0]] * 6


class Client:
    """It closes itself in a task, as the clients of the SDKs of OpenAI and Anthropic do."""

    def __init__(self, closed: list[str], *, by_loop: bool) -> None:
        self.closed = closed
        self.by_loop = by_loop
        self.itself = self  # a cycle, which only the garbage collector frees

    def __del__(self) -> None:
        make = asyncio.get_running_loop().create_task if self.by_loop else asyncio.create_task
        make(self.close()).cancel()

    async def close(self) -> None:
        self.closed.append("closed")


@pytest.mark.parametrize("by_loop", [False, True])
def test_an_object_of_an_earlier_run_that_is_collected_adds_no_task_to_a_run(
    by_loop: bool,  # noqa: FBT001
) -> None:
    closed: list[str] = []

    async def leaves() -> None:
        Client(closed, by_loop=by_loop)

    async def collects() -> tuple[int, str]:
        gc.collect()
        return len(asyncio.all_tasks()), asyncio.create_task(asyncio.sleep(1)).get_name()

    simulate(leaves())
    assert simulate(collects()) == (1, "task-1")
    assert closed == []


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


class Text(str):
    """A text of another type."""

    __slots__ = ()


VALUES = (None, True, 3, 1.5, "text", b"bytes", [1], (1,), {"key": 1}, {1}, Text("x"), object())


def test_only_what_an_async_function_returns_is_a_coroutine() -> None:
    assert [value for value in (*VALUES, Awaitable(0)) if is_coroutine(value)] == []
    coroutine = returns("done")
    assert is_coroutine(coroutine)
    coroutine.close()


def test_all_tasks_have_an_order_that_no_earlier_task_of_the_process_changes() -> None:
    """Their numbers share their last bits, so that in a set they are in each other's way."""

    async def left() -> list[str]:
        for number in range(40):
            for _ in range(511 if number % 2 else 37):
                asyncio.create_task(asyncio.sleep(0))  # noqa: RUF006 - it ends at once
            await asyncio.sleep(0.001)
            asyncio.create_task(asyncio.sleep(100), name=str(number))  # noqa: RUF006
        return [task.get_name() for task in asyncio.all_tasks()]

    async def beside_others() -> list[str]:
        others = [asyncio.create_task(asyncio.sleep(0)) for _ in range(3000)]
        found = await asyncio.to_thread(simulate, left())
        await asyncio.gather(*others)
        return found

    assert simulate(left()) == asyncio.run(beside_others())
