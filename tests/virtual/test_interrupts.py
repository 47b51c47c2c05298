"""A Ctrl-C, and a KeyboardInterrupt that a program raises itself."""

import signal
import threading

import pytest

from simloop.virtual.real_world import noted_interrupts


def test_an_exception_of_the_code_is_no_ctrl_c() -> None:
    with noted_interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        raise KeyboardInterrupt
    assert not interrupts.pressed


def test_a_ctrl_c_is_noted_by_each_block_around_it_and_raised_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with noted_interrupts() as outer, noted_interrupts() as inner:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert (outer.pressed, inner.pressed) == (True, True)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_block_forgets_what_came_before_it() -> None:
    interrupts = noted_interrupts()
    with interrupts, pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with interrupts:
        assert not interrupts.pressed


def test_a_shell_that_ignores_ctrl_c_is_left_alone() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noted_interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_handler_is_set_in_another_thread() -> None:
    failed: list[BaseException] = []

    def note() -> None:
        try:
            with noted_interrupts():
                pass
        except BaseException as error:  # noqa: BLE001 - it is told to the test
            failed.append(error)

    thread = threading.Thread(target=note)
    thread.start()
    thread.join()
    assert failed == []
