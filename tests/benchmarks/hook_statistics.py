"""What the benchmark of hooks finds on a real clock: its errors and its false alarms.

python tests/benchmarks/hook_statistics.py > tests/benchmarks/hook_statistics.md

The tests in tests/bench prove the logic by a clock of their own. These figures depend on the
machine, so nothing fails by them: they are kept beside this script, to be read.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

from simloop.bench.hook_bench import GivenHook, HookBench, HookRow
from simloop.engine.hooks import BEFORE_TOOL_CALL, POINTS
from simloop.world.user_functions import UserFunction

US, TRIALS = 1_000, 20


def spinning(nanoseconds: int) -> UserFunction:
    """Return a hook that takes so much real time, and a bit more: the last turn of its loop."""

    def spins(given: object) -> None:
        del given
        end_ns = perf_counter_ns() + nanoseconds
        while perf_counter_ns() < end_ns:
            pass

    return UserFunction(spins, "spins")


def nothing() -> UserFunction:
    return UserFunction(lambda _: None, "nothing")


def row(hook: UserFunction, point: str = BEFORE_TOOL_CALL) -> HookRow:
    return HookBench().measure(GivenHook(point, hook), 30 * US)


@contextmanager
def load() -> Iterator[None]:
    """Keep two processors busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def spins() -> Iterator[str]:
    for nanoseconds in (500, 2 * US, 50 * US, 1_000 * US):
        found = row(spinning(nanoseconds)).hook_ns
        yield f"| a hook that spins for {nanoseconds:,} ns | {found:,.0f} ns |"


def false_alarms() -> int:
    """Return how often an interval of a hook that does nothing is above its cost to simloop."""
    rows = (row(nothing(), POINTS[trial % 4]) for trial in range(TRIALS))
    return sum(each.cost.low > 2 * each.engine_ns for each in rows)


def main() -> None:
    print("# What `simloop bench hooks` finds on a real clock\n")
    load_before = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors,")
    print(f"load {load_before:.1f} before. By `python tests/benchmarks/hook_statistics.py`.\n")
    print("| measured | found |\n|---|---|")
    for line in spins():
        print(line)
    of = f"of {TRIALS}"
    print(f"| hooks that do nothing above twice their cost | {false_alarms()} {of} |")
    with load():
        print(f"| the same, while two more programs compute | {false_alarms()} {of} |")
    print(f"| a round without hooks | {HookBench().round_ns():,.0f} ns |")


if __name__ == "__main__":
    main()
