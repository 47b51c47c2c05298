"""A pseudo-terminal in which the command runs as for a person; what it writes is kept as bytes."""

import fcntl
import os
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_MODES = re.compile(rb"\x1b\[\?(\d+)([hl])")


class Terminal:
    """The process behind a pseudo-terminal, and all that it has written."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self.written = b""
        self._descriptor = descriptor

    def send(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def read(self, seconds: float) -> bytes:
        """What it writes next, or nothing if it writes nothing for that long."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return b""
        try:
            found = os.read(self._descriptor, 65_536)
        except OSError:  # Linux, after the process has ended
            return b""
        self.written += found
        return found

    def wait_for(self, *texts: str, seconds: float = 20.0, since: int = 0) -> float:
        """Read until one of `texts` has been written; return the seconds that took."""
        start = time.monotonic()
        while not any(text.encode() in self.written[since:] for text in texts):
            left = seconds - (time.monotonic() - start)
            assert left > 0, f"{texts} are not shown: {self.shown()[-2000:]!r}"
            self.read(min(left, 0.5))
        return time.monotonic() - start

    def settle(self, seconds: float = 0.3) -> None:
        """Read until nothing is written for a while."""
        while self.read(seconds):
            pass

    def shown(self) -> str:
        """All that was written, without the sequences that place and colour it."""
        return _CSI.sub(b" ", self.written).decode("utf-8")

    def modes(self) -> dict[int, bool]:
        """The private modes that were switched, and whether they are on at the end."""
        return {int(mode): kind == b"h" for mode, kind in _MODES.findall(self.written)}

    def exit_code(self, seconds: float = 20.0) -> int:
        """Read to the end of the process, and return its exit code."""
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            self.read(0.1)
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.settle(0.05)
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("the process does not end")


@contextmanager
def terminal(
    *arguments: str, size: tuple[int, int] = (120, 40), cwd: Path | None = None
) -> Iterator[Terminal]:
    """Run `python ARGUMENTS` in a pseudo-terminal of that size."""
    pid, descriptor = os.forkpty()
    if not pid:
        if cwd is not None:
            os.chdir(cwd)
        environment = {**os.environ, "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none"}
        environment.pop("NO_COLOR", None)
        os.execve(sys.executable, [sys.executable, *arguments], environment)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    running = Terminal(pid, descriptor)
    try:
        yield running
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(descriptor)
