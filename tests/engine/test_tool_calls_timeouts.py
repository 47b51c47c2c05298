"""A tool that takes too long ends at its timeout, and says so."""

import asyncio
from typing import Any

from pacing import MS, nap
from toolcalling import answer, result_of, results

from simloop import Reply, Tool, ToolExecution
from simloop.kernel.policies import ToolOrder
from simloop.messages import ToolMessage
from simloop.virtual.clock.timeouts import GRACE_NS


def test_a_tool_that_takes_too_long_is_an_error_result() -> None:
    async def tool() -> None:
        await nap(11)

    message = result_of(tool, policy=ToolExecution(timeout_ms=10))
    assert message == ToolMessage("call-1", "Error: timed out after 10 ms", is_error=True)


def test_a_tool_that_takes_too_long_costs_its_timeout() -> None:
    async def tool() -> None:
        await nap(3_600_000)

    run = answer(Reply(call={"tool": {}}), tool, policy=ToolExecution(timeout_ms=10))
    assert run.elapsed_ns == 10 * MS


def test_a_tool_that_returns_in_time_is_not_disturbed() -> None:
    async def tool() -> Any:
        return await nap(9, "in time")

    assert result_of(tool, policy=ToolExecution(timeout_ms=10)).text == "in time"


def test_the_timeout_of_a_tool_goes_before_that_of_the_policy() -> None:
    async def tool() -> Any:
        return await nap(15, "in time")

    patient = Tool(tool, timeout_ms=20)
    assert result_of(patient, policy=ToolExecution(timeout_ms=10)).text == "in time"


def test_a_result_that_comes_after_the_timeout_is_too_late() -> None:
    async def tool() -> str:
        try:
            await nap(100)
        except asyncio.CancelledError:
            return "all the same"
        return ""

    message = result_of(tool, policy=ToolExecution(timeout_ms=10))
    assert message.text == "Error: timed out after 10 ms"


def test_a_tool_that_sleeps_on_after_its_timeout_costs_no_more_than_the_grace() -> None:
    async def tool() -> None:
        try:
            await nap(100)
        except asyncio.CancelledError:
            await nap(3_600_000)

    run = answer(Reply(call={"tool": {}}), tool, policy=ToolExecution(timeout_ms=10))
    assert run.elapsed_ns <= 10 * MS + GRACE_NS


def test_a_timeout_within_the_tool_is_its_own_affair() -> None:
    async def tool() -> str:
        try:
            async with asyncio.timeout(0.005):
                await nap(100)
        except TimeoutError:
            return "gave up"
        return ""

    assert result_of(tool, policy=ToolExecution(timeout_ms=10)).text == "gave up"


def test_every_parallel_tool_has_a_timeout_of_its_own() -> None:
    async def quick() -> Any:
        return await nap(5, "quick")

    async def slow() -> Any:
        return await nap(100, "slow")

    policy = ToolExecution(order=ToolOrder.PARALLEL, timeout_ms=10)
    run = answer(Reply(call={"slow": {}, "quick": {}}), slow, quick, policy=policy)
    assert [m.text for m in results(run)] == ["Error: timed out after 10 ms", "quick"]
