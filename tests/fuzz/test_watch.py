import signal

import pytest

from simloop.fuzz import watch as watching
from simloop.fuzz.watch import LONG_S, Overdue, RunWatch


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def watched(said: list[str], clock: Clock) -> RunWatch:
    watch = RunWatch(said.append, clock)
    watch.begins(7)
    return watch


def test_a_long_run_is_named_and_again_after_twice_the_time() -> None:
    said, clock = list[str](), Clock()
    watch = watched(said, clock)
    for clock.now_s in (LONG_S - 1, LONG_S, LONG_S + 1, 2 * LONG_S):
        watch.tick()
    assert [line.partition(":")[0] for line in said] == [
        "run 7  has taken 10 s of real time",
        "run 7  has taken 20 s of real time",
    ]


def test_the_next_run_has_a_time_of_its_own() -> None:
    said, clock = list[str](), Clock()
    watch = watched(said, clock)
    clock.now_s = LONG_S - 1
    watch.begins(8)
    clock.now_s = LONG_S
    watch.tick()
    watch.begins(0)
    clock.now_s = 9 * LONG_S
    watch.tick()
    assert said == []


def test_a_run_that_takes_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said, used = list[str](), [0]
    monkeypatch.setattr(watching, "memory", lambda: used[0] << 30)
    watch = watched(said, Clock())
    for used[0] in (0, 1, 1, 2):
        watch.tick()
    assert [line.partition(" MB")[0] for line in said] == [
        "run 7 : the process has 1,024",
        "run 7 : the process has 2,048",
    ]


def test_a_long_run_ends_when_the_search_must_end() -> None:
    said, clock = list[str](), Clock()
    watch = RunWatch(said.append, clock)
    with watch.over("of seed 1", 5.0):
        watch.begins(7)
        for clock.now_s in (4.0, LONG_S - 1):
            watch.tick()
        clock.now_s = LONG_S
        with pytest.raises(Overdue, match="run 7 of seed 1 had not ended after 10 s"):
            watch.tick()
        watch.tick()  # it is told once


def test_the_handler_of_the_signal_is_put_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with RunWatch(lambda _: None).over("", None):
        assert signal.getsignal(signal.SIGALRM) is not before
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
