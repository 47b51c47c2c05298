import asyncio
import contextlib

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
