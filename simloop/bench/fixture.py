"""The pytest fixture `hook_benchmark`, on top of the fixture of pytest-benchmark.

Not here: the fixture's registration (pytest_plugin). The rule to keep: pytest-benchmark alone
takes the times, so that its options, its tables and `--benchmark-compare` work as usual.
"""

from collections.abc import Callable
from typing import Any, Protocol

from simloop.bench.given import points_of
from simloop.bench.hook_bench import check_works
from simloop.bench.point_calls import INPUTS, PointCalls
from simloop.errors import ScenarioError
from simloop.virtual.running import run_virtual
from simloop.world.user_function import UserFunction

CALLS = 1_000
_AT_ONCE = 100
"""Passages after which the record is emptied: a long one does not fit a processor's caches."""


class Benchmark(Protocol):
    """The fixture `benchmark` of pytest-benchmark, as far as it is used here."""

    group: str | None
    extra_info: dict[str, Any]

    def __call__(self, function: Callable[[], object]) -> object:
        """Measure a function."""
        ...


class HookBenchmark:
    """The fixture `hook_benchmark`: measures passages of a point, by the engine's own code.

        def test_guard(hook_benchmark):
            hook_benchmark(guard, at="before_tool_call")

    Each point is a group. A round of the benchmark is `calls` passages of the point, so a time in
    milliseconds is that of one passage in microseconds if there are 1,000. Use it once in a test.
    """

    def __init__(self, fixture: Callable[[], Benchmark]) -> None:
        # Asked for when it is used: pytest-benchmark complains of one that is not.
        self._fixture = fixture

    def __call__(
        self,
        hook: Callable[..., Any] | UserFunction,
        *,
        at: str = "",
        hooks: int = 1,
        calls: int = CALLS,
    ) -> None:
        """Measure a hook, `hooks` of which stand at the point `at`.

        A hook whose annotation allows a single point needs no `at`. Raises ScenarioError for an
        unknown point, and for a hook that fails there.
        """
        own = hook if isinstance(hook, UserFunction) else UserFunction(hook)
        point = at or _only_point(own)
        if point not in INPUTS:
            raise ScenarioError(f"there is no point `{point}`", hint=f"there are {_POINTS}")
        run_virtual(check_works(own, point))
        benchmark = self._fixture()
        benchmark.group = point
        benchmark.extra_info.update(hooks=hooks, calls=calls)

        async def passages() -> None:
            point_calls = PointCalls(point, [own] * hooks)
            for done in range(0, calls, _AT_ONCE):
                await point_calls.batch(min(_AT_ONCE, calls - done))

        benchmark(lambda: run_virtual(passages(), max_callbacks=10**9))


_POINTS = ", ".join(INPUTS)


def _only_point(hook: UserFunction) -> str:
    points = list(points_of(hook.function))
    if len(points) != 1:
        name = hook.name
        raise ScenarioError(f"{name} fits several points", key="at", hint=f"give one of {_POINTS}")
    return points[0]
