import gc
import sys
import threading
import time
from collections.abc import Callable

import pytest

from simloop import simulate
from simloop.virtual.observation import Observer


def observe() -> None:
    with Observer().observing():
        pass


def test_a_second_observation_adds_no_audit_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python cannot remove a hook, and each one slows down the whole process from then on."""
    observe()
    added: list[object] = []
    monkeypatch.setattr(sys, "addaudithook", added.append)
    observe()
    assert added == []


def test_an_observation_leaves_no_profile_function_for_threads() -> None:
    def earlier(*_: object) -> None: ...

    threading.setprofile(earlier)
    try:
        observe()
        assert threading.getprofile() is earlier
    finally:
        threading.setprofile(None)


def test_what_is_called_when_python_collects_garbage_is_no_use_of_the_program() -> None:
    def collecting(phase: str, info: object, clock: Callable[[], float] = time.monotonic) -> None:
        del phase, info
        clocks.append(clock())

    async def main() -> None:
        with observer.observing():
            gc.collect()

    clocks: list[float] = []
    observer = Observer()
    gc.callbacks.append(collecting)
    try:
        simulate(main())
    finally:
        gc.callbacks.remove(collecting)
    assert clocks
    assert observer.uses == {}
