"""Threads in a simulation do what they do in Python, on virtual time, and the same in every run."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from incases import in_cases
from threadcases import CASES, digests_of_cases, measured, recorded

from simloop import simulate
from simloop.trace import entries
from simloop.trace.codec import decode

UNIT_S = 0.1
"""The real time in the place of a virtual second."""
SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.mark.slow
@pytest.mark.each_python
@in_cases(CASES)
def test_threads_do_in_a_simulation_what_they_do_in_python(name: str) -> None:
    case, outcome, units = CASES[name]
    assert simulate(measured(case, 1.0)) == (outcome, units * 10)
    assert asyncio.run(measured(case, UNIT_S))[0] == outcome


@pytest.mark.slow
@pytest.mark.each_python
@in_cases((name, ties, runs) for name in CASES for ties, runs in ((False, 10), (True, 3)))
def test_ten_traces_are_the_same_bytes_and_nothing_is_left_behind(
    name: str,
    ties: bool,  # noqa: FBT001 - both are tested
    runs: int,
) -> None:
    before = threading.enumerate(), threading.Thread.__dict__["start"], threading.Lock
    assert len({recorded(name, shuffle_ties=ties) for _ in range(runs)}) == 1
    assert before == (threading.enumerate(), threading.Thread.__dict__["start"], threading.Lock)


def test_these_traces_have_the_outcome_the_notes_of_threads_and_what_is_left() -> None:
    trace = decode(recorded("event", shuffle_ties=False))
    outcome = "(((False, True), False), 20)"
    kinds = [type(entry) for entry in trace.entries]
    assert {entries.Sleep, entries.LoopBlocked} < set(kinds)
    notes = [entry.text for entry in trace.entries if isinstance(entry, entries.Note)]
    assert notes == [f"{number}: {outcome}" for number in range(3)]
    left = [entry.what for entry in trace.entries if isinstance(entry, entries.LeftBehind)]
    assert sorted(left) == ["task", "thread"]
    assert trace.entries[-1].text == outcome  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.each_python
def test_another_process_with_another_hash_seed_writes_the_same_traces() -> None:
    script = "import threadcases; print(*threadcases.digests_of_cases(), sep='\\n')"
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == digests_of_cases()
