"""Threads that poll: those that make no progress end the run, and the others do not."""

import threading
import time

import pytest
from threadcases import in_thread

from simloop import RunawayRun, simulate

pytestmark = pytest.mark.slow


def test_a_thread_that_polls_for_ever_is_no_progress() -> None:
    def poll() -> None:
        done = threading.Event()
        while not done.is_set():
            time.sleep(1)

    with pytest.raises(RunawayRun, match="no progress: only time changed in"):
        in_thread(poll)


def test_a_loop_that_is_blocked_by_a_thread_that_polls_is_no_progress() -> None:
    def poll() -> None:
        while True:
            time.sleep(1)

    async def main() -> None:
        thread = threading.Thread(target=poll)
        thread.start()
        thread.join()

    with pytest.raises(RunawayRun, match="no progress"):
        simulate(main())


def test_a_thread_that_polls_until_a_time_makes_progress() -> None:
    def poll() -> float:
        end = time.monotonic() + 400_000
        while time.monotonic() < end:
            time.sleep(1)
        return time.monotonic()

    assert in_thread(poll) == 400_000


def test_a_thread_that_polls_and_whose_state_changes_makes_progress() -> None:
    def poll() -> str:
        text = ""
        for number in range(int("700000")):  # no number of the code: that would be a goal
            text = str(number)
            time.sleep(1)
        return text

    assert in_thread(poll) == "699999"
