"""The end of a run on the virtual loop: tasks, generators and exceptions that are left over."""

import asyncio
import contextlib
import gc
import sys
from collections.abc import AsyncGenerator, Callable

import pytest

from simloop.errors import RunawayRun
from simloop.virtual.simulate import run_virtual, running_loop


def test_tasks_left_behind_are_cancelled_and_may_clean_up_in_virtual_time() -> None:
    seen: list[float] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)
            seen.append(running_loop().time())

    async def main() -> str:
        asyncio.create_task(linger())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(1)
        return "done"

    assert run_virtual(main()) == "done"
    assert seen == [6.0]


@pytest.mark.parametrize("error", [None, KeyError("mine"), KeyboardInterrupt()])
def test_a_function_for_the_end_is_called_once_and_after_the_tasks(
    error: BaseException | None,
) -> None:
    seen: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("task")

    async def main() -> None:
        running_loop().at_end.append(lambda: seen.append("end"))
        asyncio.create_task(linger())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)
        if error is not None:
            raise error

    with contextlib.nullcontext() if error is None else pytest.raises(type(error)):
        run_virtual(main())
    run_virtual(asyncio.sleep(0))
    assert seen == ["task", "end"]


def test_tasks_that_refuse_to_die_are_named_unless_main_failed_itself() -> None:
    async def stay() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    async def main(error: Exception | None) -> None:
        asyncio.create_task(stay(), name="limpet")  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)
        if error:
            raise error

    with pytest.raises(RunawayRun, match=r"did not end when cancelled .*: limpet$"):
        run_virtual(main(None))
    with pytest.raises(KeyError, match="mine"):
        run_virtual(main(KeyError("mine")))


def test_a_task_that_catches_all_exceptions_is_left_and_never_run_again() -> None:
    caught: list[str] = []

    async def immortal() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            except BaseException as error:  # noqa: BLE001 - that is the defect
                caught.append(type(error).__name__)

    async def main() -> None:
        asyncio.create_task(immortal())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(3)

    with pytest.raises(RunawayRun, match="did not end when cancelled"):
        run_virtual(main())
    # Closed by the garbage collector, it would never end: it cannot sleep without a running loop.
    gc.collect()
    assert caught == ["CancelledError", "_TaskEnded"]


def test_an_exception_in_a_callback_fails_the_run_but_not_before_main_has_ended() -> None:
    async def main(error: Exception | None) -> None:
        running_loop().call_soon(int, "x")
        await asyncio.sleep(1)
        if error:
            raise error

    with pytest.raises(ValueError, match="invalid literal"):
        run_virtual(main(None))
    with pytest.raises(KeyError, match="mine"):
        run_virtual(main(KeyError("mine")))


async def fails() -> None:
    raise KeyError("unseen")


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("collect", [False, True])
def test_a_task_whose_exception_nobody_looked_at_fails_the_run_collected_or_not(
    collect: object,
) -> None:
    async def main() -> None:
        asyncio.create_task(fails())  # noqa: RUF006 - left behind on purpose
        for _ in range(600):
            await asyncio.create_task(asyncio.sleep(0))
        if collect:
            gc.collect()

    with pytest.raises(KeyError, match="unseen"):
        run_virtual(main())


def test_an_exception_handler_of_the_program_takes_over_for_its_own_run_only() -> None:
    async def main(handler: Callable[..., object] | None) -> None:
        if handler:
            running_loop().set_exception_handler(handler)
        asyncio.create_task(fails())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)

    messages: list[str] = []
    run_virtual(main(lambda _, context: messages.append(context["message"])))
    assert messages == ["task-1 failed and nobody looked at its exception"]
    with pytest.raises(KeyError, match="unseen"):
        run_virtual(main(None))


@pytest.mark.usefixtures("few_objects")
def test_a_future_that_failed_unseen_does_not_fail_the_run() -> None:
    async def main() -> None:
        running_loop().create_future().set_exception(KeyError("unseen"))
        gc.collect()

    run_virtual(main())


@pytest.mark.usefixtures("few_objects")
def test_a_waiting_task_that_nobody_holds_survives_garbage_collection() -> None:
    ends: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(type(sys.exception()).__name__)

    async def main() -> None:
        asyncio.create_task(work())  # noqa: RUF006 - nobody holds it on purpose
        await asyncio.sleep(0)
        gc.collect()
        assert ends == []

    run_virtual(main())
    assert ends == ["CancelledError"]


def test_async_generators_left_open_are_closed_in_the_order_of_first_use() -> None:
    closed: list[int] = []

    async def numbers(name: int) -> AsyncGenerator[int, None]:
        try:
            yield name
        finally:
            await asyncio.sleep(0)
            closed.append(name)

    async def main() -> list[AsyncGenerator[int, None]]:
        generators = [numbers(name) for name in range(20)]
        for generator in generators:
            await anext(generator)
        return generators

    run_virtual(main())
    assert closed == list(range(20))


def test_an_async_generator_dropped_at_the_very_end_is_closed_too() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            closed.append("in time")

    async def main() -> int:
        async for number in numbers():
            return number
        return 0

    assert run_virtual(main()) == 1
    assert closed == ["in time"]
