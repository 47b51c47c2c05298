"""The cost of a scripted program: a call of `subprocess.run`, and what Python itself takes of it.

python -m pytest -s -m "" tests/benchmarks/bench_programs.py

The fastest batch of each side counts, in processor time. Python's share is that of the same call if
the start of the process did nothing but write the output: `Popen`, its pipes and `communicate`.
"""

import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from simloop import Program, Scenario, run

BATCHES, CALLS = 12, 200
MOST_US = 150.0
OUTPUT = " M a.py\n"


def call() -> None:
    assert subprocess.run(["git", "status"], capture_output=True, text=True).stdout == OUTPUT  # noqa: PLW1510


def fastest(code: Callable[[], object]) -> float:
    """Return the microseconds of processor time that one call takes."""
    found = float("inf")
    for _ in range(BATCHES):
        start = time.process_time()
        for _ in range(CALLS):
            code()
        found = min(found, (time.process_time() - start) / CALLS * 1e6)
    return found


def scripted() -> float:
    took: list[float] = []
    clock = time.process_time  # the real one

    def agent(prompt: str) -> None:
        for _ in range(BATCHES):
            start = clock()
            for _ in range(CALLS):
                call()
            took.append((clock() - start) / CALLS * 1e6)

    run(Scenario(prompt="Go.", programs={"git": Program(stdout=OUTPUT)}), loop=agent)
    return min(took)


def of_python(monkeypatch: pytest.MonkeyPatch) -> float:
    def start(*args: Any) -> int:
        os.write(args[9], OUTPUT.encode())
        return 2**22 + 1

    def end(popen: Any, timeout: object = None) -> int:
        popen.returncode = 0
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "_fork_exec", start)
        patch.setattr(subprocess.Popen, "_wait", end)
        return fastest(call)


def test_a_program_costs_less_than_150_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, python = scripted(), of_python(monkeypatch)
    print(f"\na program {whole:.0f} us, of which Python's own {python:.0f} us")
    assert whole <= MOST_US
