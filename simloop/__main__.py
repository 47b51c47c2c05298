"""The command `simloop`; `python -m simloop` is the same.

Not here: the command line (cli). The rule to keep: a Ctrl-C ends the command without a traceback,
also while its modules are imported, which takes a tenth of a second.
"""

import os
import signal
from typing import Any, NoReturn

INTERRUPTED = 130


def _quit(*_: Any) -> NoReturn:
    """End the process at once: nothing has begun, and an exception could get lost in an import."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def main() -> None:
    """Import the command line and run it."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # or a shell ignores it
    if ours:
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
