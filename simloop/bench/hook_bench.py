"""The benchmark of hooks: what a call costs at each point, in real nanoseconds.

Not here: the commands (cli/bench.py), and the cost of hooks in a run (runs/hook_cost.py). The rules
to keep: an interval decides, never a mean; real and virtual time are never in one figure; and each
cost is a difference of two measurements that alternated.

The clock is virtual, so a hook that awaits `asyncio.sleep` takes virtual time. The rest of Python
stays real, other than in a run: `time.sleep`, files and processes take the time that they take.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from statistics import median
from time import perf_counter_ns
from typing import Any

from msgspec import Struct

from simloop.bench.alternating import alternate
from simloop.bench.given import GivenHook
from simloop.bench.intervals import Interval, median_interval
from simloop.bench.point_calls import (
    Calls,
    FailingHookError,
    IsolatedCalls,
    NoCalls,
    PlainCalls,
    PluggyCalls,
    PointCalls,
    UnitCalls,
    has_pluggy,
)
from simloop.bench.shapes import SHAPES, shape, waiting
from simloop.engine.hook_meter import POINTS, HookTimes, measured, overhead
from simloop.engine.hooks import BEFORE_TOOL_CALL
from simloop.kernel.limits import Limits
from simloop.kernel.policies import HookIsolation, HookOrder, OnHookFailure
from simloop.runs.hook_cost import percentile
from simloop.runs.runner import Runner
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop.virtual.running import run_virtual
from simloop.world.tools import Tool
from simloop.world.user_function import UserFunction

COUNTS = (0, 1, 4, 16)
SECONDS = 0.15
_FEWEST_TIMED, _MOST_TIMED = 20, 2_000
_WAITING = 4
_RESOLUTION_NS, _RESOLUTION = 10, 0.02
_MAX_VIRTUAL_NS = 2**62
"""146 years: a hook may wait for a day in each of thousands of calls."""


class HookRow(Struct, kw_only=True):
    """The cost of one hook at one point, in real nanoseconds per call.

    `min_ns`, `median_ns` and `p95_ns` are times of single calls of the hook alone. `cost` is the
    cost of the hook in the engine: calls with it less passages of an empty point. `engine_ns` is
    the part of that which a hook that does nothing has too. `units` is `cost` in units of a fixed
    computation, and `share` the part of `cost` in a round. `against` is `cost` less that of another
    hook, and `growth` is that difference in parts of the other's cost, or the growth of `units`
    since an earlier report. `virtual_ns` is the virtual time that a call takes.
    """

    hook: str
    point: str
    calls: int
    min_ns: int
    median_ns: int
    p95_ns: int
    cost: Interval
    engine_ns: float
    units: Interval
    share: float
    virtual_ns: int
    against: Interval | None = None
    growth: Interval | None = None


class Harness(Struct, frozen=True):
    """The real nanoseconds that the benchmark itself takes. They are subtracted from each figure.

    `call_ns` and `step_ns` are the timing of a single call, and of each step of an awaitable.
    `loop_ns` is a turn of the loop that makes the calls of a batch.
    """

    call_ns: int
    step_ns: int
    loop_ns: float


class UnfitRow(Struct):
    """A hook that is not measured at a point because it fails there: `detail` says how."""

    hook: str
    point: str
    detail: str


class CountRow(Struct):
    """The cost of a number of equal hooks at one point, in real nanoseconds per hook.

    `way` names the code that calls them. Without hooks, the cost is that of the empty point.
    """

    way: str
    hooks: int
    cost: Interval


class PolicyRow(Struct):
    """The cost of a hook under a policy, and the virtual time that a passage of its point takes."""

    hook: str
    policy: str
    cost: Interval
    virtual_ns: int


def measure_harness() -> Harness:
    """Measure the benchmark itself: the median over calls that do nothing."""
    turns = _on_clock(alternate({"loop": NoCalls()}, SECONDS))["loop"]
    return Harness(*overhead(), median(turns))


def round_ns() -> float:
    """Return the real nanoseconds of a round of the reference loop without hooks.

    A round has a reply with a text and a tool call, and the run of that tool. The median of
    21 differences between a run of 110 rounds and one of 10.
    """
    few, many = (Runner(_rounds(rounds), tools=[Tool(_look, name="look")]) for rounds in (10, 110))
    with few, many:
        taken = [(_run_ns(many) - _run_ns(few)) / 100 for _ in range(26)]
    return median(taken[5:])


def _rounds(rounds: int) -> Scenario:
    return Scenario(
        prompt="Go.",
        limits=Limits(max_steps=rounds + 1),
        model=[
            Reply(say="Let me look.", call={"look": {"path": "README.md"}}, times=rounds - 1),
            Reply(say="It says hello."),
        ],
    )


def _look(path: str) -> str:
    return path


def _run_ns(runner: Runner) -> int:
    start_ns = perf_counter_ns()
    runner.run()
    return perf_counter_ns() - start_ns


def tried(hooks: Iterable[GivenHook]) -> tuple[list[GivenHook], list[UnfitRow]]:
    """Call each hook once at its point; return those that work, and a row for each that fails.

    Raises FailingHookError for a hook that fails at each point, or where it is stated to run.
    """
    fit: list[GivenHook] = []
    failures: list[tuple[GivenHook, FailingHookError]] = []
    for given in hooks:
        try:
            _on_clock(check_works(given.function, given.point))
        except FailingHookError as failure:
            failures.append((given, failure))
        else:
            fit.append(given)
    fit_names = {given.function.name for given in fit}
    for given, reason in failures:
        if given.is_stated or given.function.name not in fit_names:
            raise reason
    return fit, [UnfitRow(one.function.name, one.point, error.detail) for one, error in failures]


def measure_given(
    hooks: Sequence[GivenHook],
    others: dict[str, UserFunction],
    a_round_ns: float,
    seconds: float = SECONDS,
) -> Iterator[HookRow]:
    """Measure each hook at its point, against that of `others` for the point if there is one.

    A hook takes about twice the `seconds`. Raises FailingHookError for a hook that fails.
    """
    for given in hooks:
        other = others.get(given.point)
        yield _measure(given.function, given.point, a_round_ns, other, seconds)


def measure_shapes(a_round_ns: float) -> Iterator[HookRow]:
    """Measure the built-in hooks at the points where each can act."""
    for point in POINTS:
        for name, by_point in SHAPES.items():
            for is_async in (False, True):
                if point in by_point:
                    hook = shape(name, point, is_async=is_async)
                    yield _measure(hook, point, a_round_ns)


def _on_clock(main: Coroutine[Any, Any, Any]) -> Any:
    return run_virtual(main, max_callbacks=10**9, max_virtual_ns=_MAX_VIRTUAL_NS)


def _measure(
    hook: UserFunction,
    point: str,
    a_round_ns: float,
    other: UserFunction | None = None,
    seconds: float = SECONDS,
) -> HookRow:
    """Measure a hook at a point. Raises FailingHookError if the hook fails there."""
    taken = _on_clock(_alternated(hook, point, other, seconds))
    cost = _cost(taken["hook"], taken["none"])
    # In a run of its own: years after the start, waits are rounded to the precision of a float.
    own, virtual_ns = _on_clock(_times_of_calls(hook, point, cost.median, seconds))
    row = HookRow(
        hook=hook.name,
        point=point,
        cost=cost,
        units=cost.over(median(taken["unit"])),
        engine_ns=median(taken["idle"]) - median(taken["none"]),
        share=cost.median / (a_round_ns + cost.median),
        calls=len(own.real_ns),
        min_ns=min(own.real_ns),
        median_ns=percentile(sorted(own.real_ns), 0.5),
        p95_ns=percentile(sorted(own.real_ns), 0.95),
        virtual_ns=virtual_ns,
    )
    if other is not None:
        row.against = _cost(taken["hook"], taken["other"])
        row.growth = row.against.over(median(taken["other"]) - median(taken["none"]))
    return row


async def _alternated(
    hook: UserFunction, point: str, other: UserFunction | None, seconds: float
) -> dict[str, list[float]]:
    none = PointCalls(point, [])
    variants: dict[str, Calls] = {
        "hook": none.with_hooks([hook]),
        "idle": none.with_hooks([shape("no-op", point, is_async=hook.is_async)]),
        "none": none,
        "unit": UnitCalls(),
    }
    if other is not None:
        variants["other"] = none.with_hooks([other])
        return await alternate(variants, seconds, alike=("hook", "other"))
    return await alternate(variants, seconds)


async def _times_of_calls(
    hook: UserFunction, point: str, cost_ns: float, seconds: float
) -> tuple[HookTimes, int]:
    """Return the times of single calls of a hook, and the virtual time of one."""
    loop: Any = asyncio.get_running_loop()
    calls = min(_MOST_TIMED, max(_FEWEST_TIMED, round(seconds * 1e9 / max(cost_ns, 1.0))))
    times, start_ns = HookTimes(point, hook.name, overhead()), loop.now_ns
    await PointCalls(point, [measured(hook, times)]).batch(calls)
    return times, (loop.now_ns - start_ns) // calls


async def check_works(hook: UserFunction, point: str) -> None:
    """Call a hook once at a point. Raises FailingHookError if it fails."""
    await PointCalls(point, [hook]).batch(1)


def _cost(samples: Sequence[float], others: Sequence[float]) -> Interval:
    """Return the interval of the differences, no narrower than the benchmark can see.

    Two equal functions differ by up to 2 %, or 10 ns, because they lie elsewhere in memory.
    """
    resolution = max(_RESOLUTION_NS, _RESOLUTION * median(samples))
    return _differences(samples, others).widened(resolution)


def _differences(samples: Sequence[float], others: Sequence[float]) -> Interval:
    """Return the interval of the differences of the pairs of one turn."""
    pairs = zip(samples, others, strict=True)
    return median_interval([sample - other for sample, other in pairs])


def measure_counts() -> Iterator[CountRow]:
    """Measure 0, 1, 4 and 16 hooks that do nothing, called by the engine and by simpler means."""
    for count in COUNTS:
        yield from _on_clock(_measure_count(count))


async def _measure_count(count: int) -> list[CountRow]:
    point = BEFORE_TOOL_CALL
    sync = [shape("no-op", point) for _ in range(count)]
    awaited = [shape("no-op", point, is_async=True) for _ in range(count)]
    ways: dict[str, Calls] = {
        "engine": PointCalls(point, sync),
        "engine, async": PointCalls(point, awaited),
        "isolated, not recorded": IsolatedCalls(point, sync),
        "plain calls": PlainCalls(point, sync),
        "plain calls, async": PlainCalls(point, awaited),
    }
    if has_pluggy():
        ways["pluggy"] = PluggyCalls(point, sync)
    taken = await alternate({**ways, "none": NoCalls()}, SECONDS * len(ways))
    return [
        CountRow(way, count, _cost(taken[way], taken["none"]).over(max(count, 1))) for way in ways
    ]


def measure_policies() -> Iterator[PolicyRow]:
    """Measure the policies for hooks: the timeout, the effect of a failure, and the order."""
    hooks = (shape("no-op", BEFORE_TOOL_CALL), waiting(0))
    for on_failure in (OnHookFailure.ISOLATE, OnHookFailure.FAIL_RUN):
        for timeout_ms, bound in ((5_000, "timeout 5s"), (None, "no timeout")):
            isolation = HookIsolation(on_failure=on_failure, timeout_ms=timeout_ms)
            for hook in hooks:
                measure = _measure_policy([hook], isolation, HookOrder.SEQUENTIAL)
                cost, virtual_ns = _on_clock(measure)
                yield PolicyRow(hook.name, f"{on_failure}, {bound}", cost, virtual_ns)
    for order in HookOrder:
        four = [waiting(1) for _ in range(_WAITING)]
        cost, virtual_ns = _on_clock(_measure_policy(four, HookIsolation(), order))
        yield PolicyRow(f"{_WAITING} x {four[0].name}", order, cost, virtual_ns)


async def _measure_policy(
    hooks: Sequence[UserFunction], isolation: HookIsolation, order: HookOrder
) -> tuple[Interval, int]:
    """Return the cost of a passage of a point, and its virtual time."""
    loop: Any = asyncio.get_running_loop()
    passages = PointCalls(BEFORE_TOOL_CALL, hooks, isolation, order)
    start_ns = loop.now_ns
    await passages.batch(1)
    virtual_ns = loop.now_ns - start_ns
    taken = await alternate({"hooks": passages, "none": PointCalls(BEFORE_TOOL_CALL, [])}, SECONDS)
    return _cost(taken["hooks"], taken["none"]), virtual_ns
