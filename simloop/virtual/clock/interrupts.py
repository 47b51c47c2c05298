"""Ctrl-C, told apart from a KeyboardInterrupt that a program raises itself.

Python raises an equal exception for both. Only the handler of the signal knows the difference.
"""

import threading
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # every run sets the handler twice; `signal` makes an enum each time


class noted_interrupts:  # noqa: N801 - a context manager, named as one reads it
    """Note whether the user presses Ctrl-C inside the block; `pressed` is then true.

    The handler that was there is called too. Only the main thread can receive a Ctrl-C, so nothing
    is noted in other threads.
    """

    __slots__ = ("_handler", "pressed")

    def __init__(self) -> None:
        self.pressed = False
        self._handler: Any = None

    def __enter__(self) -> Self:
        self.pressed = False
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):  # otherwise no Python handler turns a Ctrl-C into an exception
                signal.signal(signal.SIGINT, self._note)
                self._handler = handler
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True
        self._handler(number, frame)

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
