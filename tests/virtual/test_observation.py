import sys
import threading

import pytest

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
