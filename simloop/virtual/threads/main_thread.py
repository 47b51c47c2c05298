"""The real main thread of a process, as one more simulated thread of a run.

A whole program needs it: Python allows signal handlers, and much else, only there. The loop of the
run is in another thread then.
"""

import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.threads.calls import result_in_thread
from simloop.virtual.threads.scheduler import (
    SimulatedThread,
    ThreadEnded,
    make_locked,
    threads_of,
)


class MainThread:
    """The calling thread, which is the main one. It belongs to runs as long as it serves them."""

    def __init__(self) -> None:
        self._thread = threading.current_thread()
        self._is_due = make_locked()
        self._due: SimulatedThread | None = None

    def serve(self, answer: Callable[[], NoReturn]) -> NoReturn:
        """Call `answer`, which ends the process, in another thread, and run what `call` gives."""
        threading.Thread(target=answer, name="simloop", daemon=True).start()
        while True:
            self._is_due.acquire()
            assert self._due is not None
            self._due.bootstrap()

    async def call(self, loop: VirtualLoop, function: Callable[[], int]) -> int:
        """Call `function` in the main thread and return its exit status, or that of `os._exit`.

        A first cancellation is a Ctrl-C: the handler of the program runs where the thread waits.
        """

        def start(work: Callable[[], Any]) -> threading.Thread:
            self._due = threads_of(loop).adopt(self._thread, work)
            self._is_due.release()
            return self._thread

        threads = threads_of(loop)
        threads.exit_status = None
        try:
            return await result_in_thread(function, start, _press_ctrl_c)
        except ThreadEnded:
            if threads.exit_status is None:
                raise
            return threads.exit_status


def _press_ctrl_c(thread: SimulatedThread) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # not ignored
        thread.threads.send_signal(thread, partial(handler, signal.SIGINT, None))
