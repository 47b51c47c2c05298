import asyncio
import contextlib
import gc

import pytest

from simloop.virtual.simulate import simulate


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
