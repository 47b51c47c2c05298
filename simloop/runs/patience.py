"""The end of a run that computes for ever, which gives no sign by itself."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from simloop.virtual.places import callers_place

PATIENCE_S = 60.0
"""The real seconds after which a run is one that does not end, on a busy machine too."""
OVERDUE = f"the run had not ended after {PATIENCE_S:.0f} s of real time"


class Overdue(KeyboardInterrupt):
    """A run has taken `PATIENCE_S`, and was at a place. It unwinds the run as Ctrl-C does."""


@contextmanager
def patience() -> Iterator[Callable[[], object]]:
    """Provide a function to call when a run begins: `PATIENCE_S` later, Overdue is raised."""

    def end(_: int, frame: FrameType | None) -> None:
        raise Overdue(callers_place(frame))

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "setitimer"):  # there is none on Windows
        yield lambda: None
        return
    before = signal.signal(signal.SIGALRM, end)
    try:
        yield lambda: signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
