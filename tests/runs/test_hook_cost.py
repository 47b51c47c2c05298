"""The cost of the hooks of a run: real time beside the trace, and virtual time never in it.

The real time is that of a watch, which the hooks move.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from builders import play_text
from clocks import Watch

from simloop import HookExecution, Hooks, Result, ScenarioError, run
from simloop.engine.hook_meter import BLOCKING_NS, HookCost, HookMeter
from simloop.kernel.policies import HookOrder
from simloop.runs import run as runs
from simloop.scenario.loader import parse_scenario
from simloop.trace.codec import encode
from simloop.world.user_functions import independent

US, MS, SECOND = 10**3, 10**6, 10**9
SCENARIO = """
prompt: Go.
tools: {look: {returns: seen, takes: 1s}}
model: [{call: {look: {}}, times: 3}, {say: Done.}]
"""
WATCH = Watch()


@pytest.fixture(autouse=True)
def watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the meter of each run read the watch."""
    monkeypatch.setattr(runs, "HookMeter", partial(HookMeter, WATCH))


def measured(hooks: Hooks, scenario: str = SCENARIO, **given: Any) -> Result:
    return play_text(scenario, hooks=hooks, hook_cost=True, **given)


def cost_of(hook: Callable[..., Any], scenario: str = SCENARIO, **given: Any) -> HookCost:
    """Return the cost of a hook that is called before each of three calls of a tool."""
    found = measured(Hooks(before_tool_call=[hook]), scenario, **given).hook_cost
    assert found is not None
    (cost,) = found
    return cost


def nothing(given: object) -> None:
    """Do nothing."""


class TestTheCost:
    def test_is_not_measured_unless_the_run_is_asked_to(self) -> None:
        assert play_text(SCENARIO, hooks=Hooks(before_tool_call=[nothing])).hook_cost is None

    def test_has_a_row_for_each_hook_at_each_point_with_its_calls(self) -> None:
        result = measured(Hooks(after_tool_call=[nothing], before_llm_call=[nothing, spins]))
        assert result.hook_cost is not None
        assert [(cost.point, cost.hook, cost.calls) for cost in result.hook_cost] == [
            ("before_llm_call", "nothing", 4),
            ("before_llm_call", "spins", 4),
            ("after_tool_call", "nothing", 3),
        ]

    def test_has_consistent_figures(self) -> None:
        cost = cost_of(spins)
        assert (cost.median_ns, cost.p95_ns, cost.longest_ns) == (200 * US,) * 3
        assert (cost.total_ns, cost.blocked_ns) == (3 * 200 * US, 0)

    def test_is_a_share_of_the_time_of_the_run(self) -> None:
        def look() -> str:
            WATCH.takes(600 * US)
            return "seen"

        scenario = SCENARIO.replace("returns: seen, takes: 1s", "")
        assert cost_of(spins, scenario, tools=[look]).share == 0.25

    def test_of_scripted_hooks_is_measured_too(self) -> None:
        scripted = SCENARIO + "hooks: [{at: before_tool_call, name: guard, block: No.}]\n"
        found = measured(Hooks(before_tool_call=[nothing]), scripted).hook_cost
        assert found is not None
        assert [(cost.hook, cost.calls) for cost in found] == [("guard", 3), ("nothing", 0)]
        assert (found[1].median_ns, found[1].p95_ns, found[1].total_ns, found[1].share) == (
            0,
            0,
            0,
            0,
        )

    def test_of_a_wait_is_virtual_and_so_not_there(self) -> None:
        cost = cost_of(waits)
        assert (cost.calls, cost.total_ns) == (3, 0)
        assert (cost.blocked_ns, cost.blocks) == (0, False)

    def test_of_parallel_hooks_is_told_apart(self) -> None:
        scenario = parse_scenario(SCENARIO).model_copy(
            update={"hook_execution": HookExecution(order=HookOrder.PARALLEL)}
        )

        @independent
        async def heavy(given: object) -> None:
            del given
            await asyncio.sleep(1)
            WATCH.takes(20 * MS)

        @independent
        async def light(given: object) -> None:
            del given
            await asyncio.sleep(1)

        result = run(scenario, hooks=Hooks(before_tool_call=[heavy, light]), hook_cost=True)
        assert result.hook_cost is not None
        first, second = result.hook_cost
        assert (first.calls, second.calls) == (3, 3)
        assert (first.median_ns, second.median_ns) == (20 * MS, 0)
        assert result.elapsed_ns == 3 * 2 * SECOND  # they waited at once


def spins(given: object) -> None:
    del given
    WATCH.takes(200 * US)


async def waits(given: object) -> None:
    del given
    await asyncio.sleep(4)


def raises(given: object) -> None:
    del given
    WATCH.takes(200 * US)
    raise ValueError("x")


async def raises_later(given: object) -> None:
    await asyncio.sleep(1)
    raises(given)


async def hangs(given: object) -> None:
    spins(given)
    await asyncio.sleep(3_600)


async def cancels(given: object) -> None:
    spins(given)
    raise asyncio.CancelledError


class TestAHookThat:
    @pytest.mark.parametrize("hook", [raises, raises_later, hangs, cancels])
    def test_fails_has_its_calls_measured_and_runs_as_before(self, hook: Any) -> None:
        hooks = Hooks(before_tool_call=[hook])
        plain = play_text(SCENARIO, hooks=hooks)
        result = measured(hooks)
        assert result.hook_cost is not None
        assert result.hook_cost[0].calls == 3
        assert result.hook_cost[0].median_ns == 200 * US
        assert encode(result.trace) == encode(plain.trace)
        assert [str(each.error) for each in result.exceptions] == [
            str(each.error) for each in plain.exceptions
        ]

    def test_is_aborted_while_it_waits_has_that_call(self) -> None:
        aborted = "model: [{call: {look: {}}}]\nabort: {at: 1s}\nexpect: {outcome: aborted}\n"
        cost = cost_of(hangs, "prompt: Go.\ntools: {look: {}}\n" + aborted)
        assert (cost.calls, cost.total_ns) == (1, 200 * US)

    def test_sleeps_without_waiting_blocks_the_loop_for_that_virtual_time(self) -> None:
        def sleeps(given: object) -> None:
            del given
            time.sleep(2)

        cost = cost_of(sleeps)
        assert (cost.blocked_ns, cost.blocks, cost.is_slow) == (6 * SECOND, True, False)
        assert cost.total_ns == 0

    def test_computes_for_long_blocks_the_loop(self) -> None:
        def computes(given: object) -> None:
            del given
            WATCH.takes(BLOCKING_NS)

        cost = cost_of(computes)
        assert cost.longest_ns == BLOCKING_NS
        assert (cost.blocks, cost.is_slow, cost.blocked_ns) == (True, True, 0)


class TestTheTrace:
    @pytest.mark.parametrize("hook", [nothing, waits, raises, hangs])
    def test_has_the_bytes_of_a_run_that_is_not_measured(self, hook: Any) -> None:
        hooks = Hooks(before_llm_call=[hook], after_tool_call=[hook])
        scenario = parse_scenario(SCENARIO)
        plain = run(scenario, hooks=hooks, seed=7)
        assert encode(measured(hooks, seed=7).trace) == encode(plain.trace)


def test_an_agent_has_no_hooks_to_measure() -> None:
    async def agent(prompt: str) -> str:
        return prompt

    with pytest.raises(ScenarioError, match="hooks"):
        play_text("prompt: Go.\nmodel: []", loop=agent, hook_cost=True)
