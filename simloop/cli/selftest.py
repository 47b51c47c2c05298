"""The tests of simloop itself that `doctor` makes: each returns its finding, or raises.

Not here: the test suite. The rule to keep: each takes a moment, and the message of a failure states
its consequence for the user.
"""

import asyncio
import time
from collections.abc import Callable

from simloop.errors import InternalError, ScenarioError
from simloop.runs.simulation import run
from simloop.scenario.catalog import bundled, bundled_folder
from simloop.scenario.loader import load_scenario
from simloop.trace.codec import encode
from simloop.virtual.clock.instants import SECOND_NS
from simloop.virtual.simulate import running_loop, simulate

_HOUR_S = 3_600
_PATIENCE_S = 60


def scenarios() -> str:
    """Read the bundled scenarios. Raises ScenarioError if there are none, or a bad one."""
    folder = bundled_folder()
    count = sum(1 for _ in bundled())
    if not count:
        raise ScenarioError(f"none found in {folder}", hint="install simloop again")
    return f"{count} in {folder}"


def determinism() -> str:
    """Run one scenario twice and compare the bytes. Raises InternalError if they differ."""
    listed = next(bundled(), None)
    if listed is None:
        raise ScenarioError("there is no bundled scenario to run")
    scenario = load_scenario(listed.path)
    first, second = (encode(run(scenario).trace) for _ in range(2))
    if first != second:
        raise InternalError(f"two runs of {listed.name} differ: please report it")
    return f"two runs of {listed.name} gave the same {len(first):,} bytes"


def virtual_clock() -> str:
    """Let a virtual hour pass in a moment. Raises InternalError if it does not."""
    start_s = time.perf_counter()
    slept_ns = simulate(_sleep_an_hour())
    took_s = time.perf_counter() - start_s
    if slept_ns != _HOUR_S * SECOND_NS or took_s > _PATIENCE_S:
        raise InternalError(f"an hour was {slept_ns} ns and took {took_s:.3f} s: please report it")
    return f"an hour passed in {took_s * 1e3:.1f} ms"


async def _sleep_an_hour() -> int:
    await asyncio.sleep(_HOUR_S)
    return running_loop().now_ns


TESTS: dict[str, Callable[[], str]] = {
    "scenarios": scenarios,
    "determinism": determinism,
    "virtual clock": virtual_clock,
}
"""The tests by the names that `doctor` shows."""
