"""Running a coroutine on the virtual clock, on a loop that is kept for the thread.

Not here: seeds and the sealed border (simulate.py).
"""

import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from simloop.virtual.clock import MAX_VIRTUAL_NS, VirtualLoop

T = TypeVar("T")

_spare = threading.local()


def run_virtual(
    main: Coroutine[Any, Any, T],
    *,
    shuffle_seed: int | None = None,
    max_virtual_ns: int = MAX_VIRTUAL_NS,
    max_callbacks: int | None = None,
    seal: Callable[[VirtualLoop], contextlib.AbstractContextManager[None]] | None = None,
) -> T:
    """Run `main` on a loop that is kept for this thread: creating one costs more than a run.

    `seal` makes the border that encloses the whole run, with the clean-up of what `main` left.
    """
    __tracebackhide__ = True
    loop: VirtualLoop | None = getattr(_spare, "loop", None)
    if loop is None or loop.is_running():
        loop = _spare.loop = VirtualLoop()
    loop.shuffle_seed = shuffle_seed
    loop.max_virtual_ns = max_virtual_ns
    loop.max_callbacks = max_callbacks
    try:
        with contextlib.nullcontext() if seal is None else seal(loop):
            return loop.run(main)
    finally:
        if loop.is_spoilt:  # no later run is to hear of the thread
            _spare.loop = None
            loop.close()
