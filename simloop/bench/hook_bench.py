"""The benchmark of hooks: what a call of a hook costs at a point, in real nanoseconds.

An interval decides, never a mean; real and virtual time are never in one figure; and each cost is a
difference of measurements that took turns. A hook that awaits `asyncio.sleep` takes virtual time.
The rest of Python stays real, other than in a run: so do `time.sleep`, files and processes.
"""

import asyncio
import gc
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import comb
from random import Random
from statistics import median
from time import perf_counter_ns
from typing import Any, NamedTuple, TypeAlias, get_type_hints

from msgspec import Struct

from simloop import messages
from simloop.engine import hooks as hook_points
from simloop.engine.hooks import POINTS, HookInput, Hooks
from simloop.engine.user_code import UserCode
from simloop.errors import ScenarioError
from simloop.kernel.limits import Limits
from simloop.kernel.policies import HookIsolation
from simloop.prove.explore import without_collections
from simloop.runs.loop import loaded
from simloop.runs.run import Runner
from simloop.scenario import replies, schema
from simloop.trace import entries, recorder
from simloop.virtual.simulate import run_virtual
from simloop.world.tools import Tool
from simloop.world.user_functions import UserFunction
from simloop.world.user_port import Cancellation

RealClock: TypeAlias = Callable[[], int]
_A_HOOK = (
    "write module:attribute for a hook or for Hooks; the module is looked up in the current folder "
    "and among the installed packages"
)
_PATIENT = HookIsolation(timeout_ms=86_400_000)
"""A hook may wait for a day of virtual time. Real time does not depend on the length of it."""
_CALL = messages.ToolCall("call-1", "read_file", '{"path": "README.md"}')
_RESULT, _ASKS = messages.ToolResult("# Hello"), messages.FinishReason.TOOL_CALLS
_STEP = (
    messages.UserMessage("Read it."), messages.AssistantMessage("", (_CALL,)),
    messages.ToolMessage("call-1", _RESULT.text),
)  # fmt: skip
_TOOLS = {"read_file": Tool(lambda path: path, name="read_file")}
_MAKERS: tuple[Callable[[], HookInput], ...] = (
    lambda: hook_points.BeforeLLMCall(1, _STEP * 10, "You help.", _TOOLS),
    lambda: hook_points.AfterLLMCall(1, "Let me look.", (_CALL,), _ASKS, "tool-calls", None),
    lambda: hook_points.BeforeToolCall(_CALL, {"path": "README.md"}),
    lambda: hook_points.AfterToolCall(_CALL, {"path": "README.md"}, _RESULT),
)
INPUTS = dict(zip(POINTS, _MAKERS, strict=True))
"""The input of the hooks of each point, in the middle of a conversation of 30 messages."""


class Passages:
    """Passages of one point, on a running virtual clock."""

    def __init__(self, point: str, clock: RealClock) -> None:
        loop: Any = asyncio.get_running_loop()
        task: Any = asyncio.current_task()
        self._point, self._clock, self._make = point, clock, INPUTS[point]
        self._recorder, cancellation = recorder.Recorder([], loop), Cancellation(loop)
        cancellation.open(task, None)
        self._user_code = UserCode(_PATIENT, self._recorder, loop, cancellation, [])

    async def batch(self, hooks: tuple[UserFunction, ...], calls: int) -> int:
        """Return the nanoseconds of so many passages. Raises ScenarioError if a hook fails."""
        make, fire = self._make, self._user_code.fire
        start_ns = self._clock()
        for _ in range(calls):
            if hooks:
                await fire(self._point, hooks, make())
        took_ns = self._clock() - start_ns
        record = self._recorder.entries
        for entry in record:
            if isinstance(entry, entries.Hook) and entry.result in {"failed", "timed-out"}:
                message = f"the hook {entry.hook} fails at {self._point}: {entry.detail}"
                hint = "mend the hook, or annotate its parameter with the input of a point"
                raise ScenarioError(message, key="hook", hint=hint)
        record.clear()
        return took_ns


class GivenHook(NamedTuple):
    """A hook at one point. `is_stated` is whether the user says that it is for this point."""

    point: str
    function: UserFunction
    is_stated: bool = True


def given_hooks(name: str) -> Iterator[GivenHook]:
    """Yield the hooks at `name`, of the form `module:attribute`, each with a point.

    A function runs at each point whose input its first parameter may have, by its annotation; one
    without may be for any point. Raises ScenarioError if there is no hook.
    """
    if ":" not in name:
        raise ScenarioError(f"`{name}` does not name a hook", key="hook", hint=_A_HOOK)
    found = loaded(name, "hook", _A_HOOK, key="hook")
    if isinstance(found, Hooks) and found:
        yield from (GivenHook(point, hook) for point in POINTS for hook in getattr(found, point))
        return
    if not callable(found):
        kind = "empty Hooks" if isinstance(found, Hooks) else type(found).__name__
        raise ScenarioError(f"`{name}` is no hook, but {kind}", key="hook", hint=_A_HOOK)
    hook, points = UserFunction(found, name), _points_of(found)
    if not points:
        message = f"the annotation of the first parameter of `{name}` is the input of no point"
        hint = "annotate it with an input such as BeforeToolCall, or not at all"
        raise ScenarioError(message, key="hook", hint=hint)
    yield from (GivenHook(point, hook, _annotation_of(found) is not None) for point in points)


def _points_of(function: Any) -> list[str]:
    wanted = _annotation_of(function)
    return [point for point in POINTS if wanted is None or isinstance(INPUTS[point](), wanted)]


def _annotation_of(function: Any) -> Any:
    call = function if inspect.isroutine(function) else type(function).__call__
    try:
        found = get_type_hints(call)[next(iter(inspect.signature(function).parameters))]
        isinstance(None, found)
    except (KeyError, NameError, StopIteration, TypeError, ValueError):
        return None
    return found


CONFIDENCE = 0.9999
"""Of each interval. A job in CI has tens of them each day, and at 95 % it would fail by chance."""
_BATCH_NS, _MOST_CALLS, _TRIES = 200_000, 1_024, 5
"""A batch is shorter than the time that a busy machine gives a process at once."""
_WARM_UP_TURNS, _FEWEST_TURNS, _TURNS = 5, 21, 201
_ENOUGH_NS = 3 * 10**9
_RESOLUTION_NS, _RESOLUTION = 10, 0.02
_MAX_VIRTUAL_NS = 2**62  # 146 years: a hook may wait for a day in each of thousands of calls


class Interval(Struct, frozen=True):
    """A median, and the bounds of its confidence interval."""

    low: float
    median: float
    high: float

    @property
    def has_zero(self) -> bool:
        return self.low <= 0 <= self.high

    def over(self, divisor: float) -> "Interval":
        return Interval(self.low / divisor, self.median / divisor, self.high / divisor)


def median_interval(samples: Sequence[float], wider: float = 0) -> Interval:
    """Return the median of at least 15 samples, and its interval at `CONFIDENCE`, or a `wider` one.

    A sample lies below the true median with a probability of one half, so the number of those that
    do is binomial (the sign test). A bootstrap needs 100,000 resamples for so rare an error.
    """
    ordered, size = sorted(samples), len(samples)
    allowed, rank, below = (1 - CONFIDENCE) / 2 * 2**size, 0, 1
    assert below <= allowed, f"{size} samples are too few"
    while (below := below + comb(size, rank + 1)) <= allowed:
        rank += 1
    return Interval(ordered[rank] - wider, median(ordered), ordered[size - 1 - rank] + wider)


class HookRow(Struct, kw_only=True):
    """The cost of one hook at one point, in real nanoseconds per call.

    `cost` is that of the hook in a run: passages of the point with it, less those of an empty
    point. `engine_ns` is the part of it that a hook that does nothing costs too. `units` is `cost`
    in units of a fixed computation, and `share` its part in a round. `against` is `cost` less that
    of another hook, and `growth` that in parts of the other's cost, or of `units` in a report.
    """

    hook: str
    point: str
    cost: Interval
    hook_ns: float
    engine_ns: float
    units: Interval
    share: float
    virtual_ns: int
    against: Interval | None = None
    growth: Interval | None = None


def _computation() -> None:
    for _ in range(100):
        {number: str(number) for number in range(10)}


def _look(path: str) -> str:
    return path


async def _nothing(given: object) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HookBench:
    """Measures hooks. `unit` is the computation in which reports of different days are compared."""

    clock: RealClock = perf_counter_ns
    unit: Callable[[], object] = _computation
    tool: Callable[[str], str] = _look

    def round_ns(self) -> float:
        """Return the nanoseconds of a round of the reference loop without hooks.

        A round has a reply with a text and a tool call, and the run of that tool. The least of 21
        runs of 110 rounds, less that of 10: a busy machine interrupts most runs.
        """
        tools = [Tool(self.tool, name="look")]
        with Runner(_rounds(10), tools=tools) as few, Runner(_rounds(110), tools=tools) as many:
            long_ns, short_ns = (min(self._ns(each.run) for _ in range(21)) for each in (many, few))
            return (long_ns - short_ns) / 100

    def _ns(self, function: Callable[[], object]) -> int:
        start_ns = self.clock()
        function()
        return self.clock() - start_ns

    def measure(
        self, given: GivenHook, a_round_ns: float, other: UserFunction | None = None
    ) -> HookRow:
        """Measure a hook, perhaps against another one. Raises ScenarioError if one fails."""
        hook, point = given.function, given.point
        idle = UserFunction(_nothing if hook.is_async else lambda _: None)
        hooks = {"hook": (hook,), "idle": (idle,), "none": ()}
        if other is not None:
            hooks["other"] = (other,)
        taken = _on_clock(self._in_turns(point, hooks))
        medians = {name: median(values) for name, values in taken.items()}
        cost = _cost(taken["hook"], taken["none"])
        row = HookRow(
            hook=hook.name, point=point, cost=cost, hook_ns=medians["hook"] - medians["idle"],
            engine_ns=medians["idle"] - medians["none"], units=cost.over(medians["unit"]),
            share=cost.median / (a_round_ns + cost.median),
            virtual_ns=tried_once(hook, point),
        )  # fmt: skip
        if other is not None:
            row.against = _cost(taken["hook"], taken["other"])
            row.growth = row.against.over(medians["other"] - medians["none"])
        return row

    async def _in_turns(
        self, point: str, hooks: dict[str, tuple[UserFunction, ...]]
    ) -> dict[str, list[float]]:
        # The order of each turn is drawn: a drift of the machine hits each alike, and each follows
        # each of the others as often. Batches have equal sizes: the first calls of one are slower.
        # All share one object: equal engines at other places in memory differ by up to 6 %.
        passages, calls = Passages(point, self.clock), 1
        while calls < _MOST_CALLS:
            tries = [await passages.batch(hooks["hook"], calls) for _ in range(_TRIES)]
            if min(tries) >= _BATCH_NS:  # one that is interrupted looks long enough too early
                break
            calls *= 2
        taken: dict[str, list[float]] = {name: [] for name in ("unit", *hooks)}
        order, noise, end_ns = list(taken), Random(0), self.clock() + _ENOUGH_NS  # noqa: S311
        gc.collect()
        with without_collections():
            for turn in range(_WARM_UP_TURNS + _TURNS):
                if turn >= _WARM_UP_TURNS + _FEWEST_TURNS and self.clock() > end_ns:
                    break
                for name in order:
                    if name == "unit":
                        taken[name].append(self._ns(self.unit))
                    else:
                        taken[name].append(await passages.batch(hooks[name], calls) / calls)
                noise.shuffle(order)
        return {name: values[_WARM_UP_TURNS:] for name, values in taken.items()}


def tried(hooks: Iterable[GivenHook]) -> tuple[list[GivenHook], list[ScenarioError]]:
    """Call each hook once at its point; return those that work, and the failures of the others.

    Raises ScenarioError for a hook that fails at each point, or where it is stated to run.
    """
    fit: list[GivenHook] = []
    failures: dict[GivenHook, ScenarioError] = {}
    for given in hooks:
        try:
            tried_once(given.function, given.point)
            fit.append(given)
        except ScenarioError as failure:
            failures[given] = failure
    works = {given.function.name for given in fit}
    for given, failed in failures.items():
        if given.is_stated or given.function.name not in works:
            raise failed
    return fit, list(failures.values())


def tried_once(hook: UserFunction, point: str) -> int:
    """Return the virtual nanoseconds of a call at a point. Raises ScenarioError if it fails."""

    async def call() -> int:
        loop: Any = asyncio.get_running_loop()
        start_ns = loop.now_ns
        await Passages(point, perf_counter_ns).batch((hook,), 1)
        return int(loop.now_ns - start_ns)

    return int(_on_clock(call()))


class HookBenchmark:
    """The fixture `hook_benchmark`: measures passages of a point, by the engine's own code.

        def test_guard(hook_benchmark):
            hook_benchmark(guard, at="before_tool_call")

    Each point is a group. A round of the benchmark is `calls` passages of the point, so a time in
    milliseconds is that of one passage in microseconds if there are 1,000. Use it once in a test.
    """

    def __init__(self, fixture: Callable[[], Any]) -> None:
        # Asked for when it is used: pytest-benchmark complains of one that is not.
        self._fixture = fixture

    def __call__(
        self, hook: Callable[..., Any] | UserFunction, *, at: str = "", hooks: int = 1,
        calls: int = 1_000,
    ) -> None:  # fmt: skip
        """Measure a hook, `hooks` of which stand at the point `at`.

        A hook whose annotation allows a single point needs no `at`. Raises ScenarioError for an
        unknown point, and for a hook that fails there.
        """
        own = hook if isinstance(hook, UserFunction) else UserFunction(hook)
        points, hint = [at] if at else _points_of(own.function), f"give one of {', '.join(INPUTS)}"
        if len(points) != 1:
            raise ScenarioError(f"{own.name} fits several points", key="at", hint=hint)
        if points[0] not in INPUTS:
            raise ScenarioError(f"there is no point `{at}`", key="at", hint=hint)
        tried_once(own, points[0])
        benchmark = self._fixture()
        benchmark.group = points[0]
        benchmark.extra_info.update(hooks=hooks, calls=calls)

        async def passages() -> None:
            await Passages(points[0], perf_counter_ns).batch((own,) * hooks, calls)

        benchmark(lambda: _on_clock(passages()))


def _on_clock(main: Coroutine[Any, Any, Any]) -> Any:
    return run_virtual(main, max_callbacks=10**9, max_virtual_ns=_MAX_VIRTUAL_NS)


def _rounds(rounds: int) -> schema.Scenario:
    look = replies.Reply(say="Let me look.", call={"look": {"path": "README.md"}}, times=rounds - 1)
    model, limits = [look, replies.Reply(say="It says hello.")], Limits(max_steps=rounds + 1)
    return schema.Scenario(prompt="Go.", limits=limits, model=model)


def _cost(samples: Sequence[float], others: Sequence[float]) -> Interval:
    # Two equal functions differ by up to 2 %, or 10 ns, because they lie elsewhere in memory.
    resolution = max(_RESOLUTION_NS, _RESOLUTION * median(samples))
    return median_interval([a - b for a, b in zip(samples, others, strict=True)], resolution)
