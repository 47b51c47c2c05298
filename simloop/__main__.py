"""The command `simloop`; `python -m simloop` is the same.

A Ctrl-C ends the command without a traceback from the first line of `main` on, also while modules
are imported. Before that line this module imports only what Python itself has loaded by then: every
other import is time without a handler.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    import _signal as signal  # the module `signal` imports `enum`

INTERRUPTED = 130


def _quit(*_: object) -> "NoReturn":
    """End the process at once: nothing has begun, and an exception could get lost in an import."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def main() -> None:
    """Import the command line and run it."""
    # A shell may start the command with Ctrl-C ignored.
    if ours := (signal.getsignal(signal.SIGINT) is signal.default_int_handler):
        signal.signal(signal.SIGINT, _quit)
    from simloop.cli import main as command_line  # noqa: PLC0415 - with the handler in place

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command_line()
    except KeyboardInterrupt:  # before the command line handles it itself
        _quit()


if __name__ == "__main__":
    main()
