"""What the benchmark of hooks finds on a real clock: its errors, false alarms and missed growth.

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
from simloop.bench.report import HookReport
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


def computing(rounds: int) -> UserFunction:
    def computes(given: object) -> int:
        del given
        return sum(number * number for number in range(rounds))

    return UserFunction(computes, "computes")


def nothing() -> UserFunction:
    return UserFunction(lambda _: None, "nothing")


def row(
    hook: UserFunction, other: UserFunction | None = None, point: str = BEFORE_TOOL_CALL
) -> HookRow:
    return HookBench().measure(GivenHook(point, hook), 30 * US, other)


def report(hook: UserFunction) -> HookReport:
    return HookReport(round_ns=30 * US, hooks=[row(hook)])


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
    rows = (row(nothing(), nothing(), POINTS[trial % 4]) for trial in range(TRIALS))
    return sum(each.growth is not None and not each.growth.has_zero for each in rows)


def found_growths(slower: UserFunction, faster: UserFunction) -> int:
    growths = (row(slower, faster).growth for _ in range(TRIALS))
    return sum(growth is not None and growth.low > 0 for growth in growths)


def growths_since_a_report(rounds: int) -> int:
    found = 0
    for _ in range(TRIALS):
        now = report(computing(rounds))
        now.compare_with(report(computing(30)))
        growth = now.hooks[0].growth
        found += growth is not None and growth.low > 0
    return found


def main() -> None:
    print("# What `simloop bench hooks` finds on a real clock\n")
    load_before = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors,")
    print(f"load {load_before:.1f} before. By `python tests/benchmarks/hook_statistics.py`.\n")
    print("| measured | found |\n|---|---|")
    for line in spins():
        print(line)
    of = f"of {TRIALS}"
    print(f"| false alarms of equal hooks | {false_alarms()} {of} |")
    with load():
        print(f"| the same, while two more programs compute | {false_alarms()} {of} |")
    spun = found_growths(spinning(6 * US), spinning(5 * US))
    print(f"| a spin of 6 us found slower than one of 5 us | {spun} {of} |")
    computed = found_growths(computing(240), computing(200))
    print(f"| a computation that is a fifth longer found slower | {computed} {of} |")
    print(f"| false alarms of an equal hook since a report | {growths_since_a_report(30)} {of} |")
    print(f"| a hook ten times as slow found since a report | {growths_since_a_report(300)} {of} |")
    print(f"| a round without hooks | {HookBench().round_ns():,.0f} ns |")


if __name__ == "__main__":
    main()
