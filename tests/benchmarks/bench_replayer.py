"""How fast the replayer opens a trace of 100,000 entries, and how long a key press takes in it.

python -m pytest tests/benchmarks/bench_replayer.py -s
"""

import asyncio
import os
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from terminal import terminal
from workload import w

from simloop.cursor.recorded_run import opened_trace
from simloop.trace.codec import write_trace
from simloop_tui.app import StepApp
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session

_KEYS = ("forward", "back", "page_forward", "page_back")
_PRESSES = 20


@pytest.fixture(scope="module", params=[56, 5_618], ids=["1,000 entries", "100,000 entries"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "run.jsonl"
    write_trace(w(request.param), path)
    return path


def test_opening(benchmark: BenchmarkFixture, trace: Path) -> None:
    """Wall seconds to the first paint and to the timeline, CPU seconds and memory of the process.

    It is the shortest of three: other processes share the machine.
    """
    entries = len(opened_trace(str(trace)).entries)
    painted, opened, used, megabytes = min(_open(trace, entries) for _ in range(3))
    print(f"\n{entries:,} entries: first paint {painted:.2f}s, timeline {opened:.2f}s")
    print(f"CPU {used:.2f}s, {megabytes:.0f} MB")
    assert megabytes < 250
    benchmark.extra_info |= {"first paint": painted, "timeline": opened, "CPU": used}
    benchmark(lambda: None)


def _open(trace: Path, entries: int) -> tuple[float, float, float, float]:
    with terminal("-m", "simloop", "step", str(trace)) as process:
        painted = process.wait_for("Opening", "run ends")
        opened = painted + process.wait_for(f"entry 0 of {entries - 1}")
        process.settle()
        process.send("q")
        process.settle(1.0)
        _, status, spent = os.wait4(process.pid, 0)
    assert status == 0
    return painted, opened, spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1024


@pytest.mark.parametrize("at", [0.0, 0.5, 0.99])
def test_a_key_press(benchmark: BenchmarkFixture, trace: Path, at: float) -> None:
    """CPU milliseconds from the action of a key to the end of its paint, at 120x40, by median."""
    session = Session(opened_trace(str(trace)))
    spent_ms = sorted(asyncio.run(_press(session, int(session.last * at))))
    median, worst = spent_ms[len(spent_ms) // 2], spent_ms[-1]
    print(f"\n{session.last + 1:,} entries at {at:.0%}: median {median:.1f}ms, worst {worst:.1f}ms")
    assert median < 50
    benchmark.extra_info |= {"median ms": median, "worst ms": worst}
    benchmark(lambda: None)


async def _press(session: Session, place: int) -> list[float]:
    spent = []
    app = StepApp(ReplayScreen(session))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = app.screen
        assert isinstance(screen, ReplayScreen)
        session.go(place)
        screen.follow()
        await pilot.pause(0.2)
        for number in range(_PRESSES):
            start = time.process_time()
            screen.action_session(_KEYS[number % len(_KEYS)])
            await pilot.pause(0.1)
            spent.append((time.process_time() - start) * 1000)
    return spent
