"""The standard output and error of programs in simulations: streams that know who writes.

What a program writes goes on to the stream that was there before, such as that of pytest, or, where
output is captured, to the run, whose report shows it. The command line loads this module before it
knows its verb, so it imports nothing of simloop.
"""

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from typing import Any

NAMES = ("stdout", "stderr")
MOST_CHARS = 20_000
"""The number of characters that a run keeps of each stream: the last ones."""


class Output:
    """The output of one run."""

    __slots__ = ("_texts",)

    has_files = False
    """Whether the streams have the descriptors of the process, as those of a whole program."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def write(self, name: str, text: str) -> None:
        # One character more than `text` shows tells that something was cut off.
        self._texts[name] = (self._texts.get(name, "") + text)[-MOST_CHARS - 1 :]

    def flush(self, name: str) -> None: ...

    def text(self, name: str) -> str:
        """Return the text of a stream, or the end of a long one, from the start of a line."""
        text = self._texts.get(name, "")
        if len(text) <= MOST_CHARS:
            return text
        end = text[1:]
        return f"[...]\n{end.partition(chr(10))[2] or end}"


class _Stream:
    """The text stream in `sys` while simulations run; the rest is that of the stream under it."""

    def __init__(self, name: str) -> None:
        self.under: Any = None
        self._name = name
        self.buffer = _Bytes(self)

    def kept_by(self) -> Output | None:
        """Return the output that keeps what the calling code writes; None for the stream under."""
        if (loop := _loop_here()) is None or not _streams.captures:
            return None
        from simloop.virtual.real_world import is_exempt  # noqa: PLC0415 - a run has loaded it

        # A person who steps through a run with a debugger is outside of it.
        output: Output | None = loop.output
        return None if is_exempt(sys._getframe(2)) else output  # noqa: SLF001 - the caller's

    def beneath(self) -> Any:
        if _streams.diverted and self._name == "stdout":
            return _ERR.under
        if _streams.depth:
            return self.under
        current = getattr(sys, self._name, None)  # a logger has kept this object after its run
        return self.under if current is self else current

    def write(self, text: str) -> int:
        output = self.kept_by()
        show(text)
        if output is None:
            under = self.beneath()
            return len(text) if under is None else int(under.write(text) or 0)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        output.write(self._name, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if (output := self.kept_by()) is not None:
            output.flush(self._name)
        elif self.beneath() is not None:
            self.beneath().flush()

    def close(self) -> None:
        """Do nothing: other runs, and the report, need the stream."""

    def detach(self) -> Any:
        return self.buffer

    def isatty(self) -> bool:
        return self.kept_by() is None and bool(self.beneath() and self.beneath().isatty())

    def fileno(self) -> int:
        output = self.kept_by()
        if (output is None or output.has_files) and self.beneath() is not None:
            return int(self.beneath().fileno())
        raise io.UnsupportedOperation("fileno")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath(), name)


class _Bytes(io.BufferedIOBase):
    def __init__(self, text: _Stream) -> None:
        self._text = text
        vars(self).update(flush=text.flush, fileno=text.fileno, isatty=text.isatty)

    def write(self, data: Any) -> int:
        under: Any = None if self._text.kept_by() is not None else self._text.beneath()
        if hasattr(under, "buffer"):
            show(bytes(data).decode(errors="replace"))
            return int(under.buffer.write(data) or 0)
        self._text.write(bytes(data).decode(errors="backslashreplace"))
        return len(data)

    def close(self) -> None:
        """Do nothing, as the text stream; Python closes the stream of a wrapper that is gone."""

    def writable(self) -> bool:
        return True


def _loop_here() -> Any:
    clock = sys.modules.get("simloop.virtual.clock.loop")  # loaded with the first simulation
    return clock and clock.loop_here()


def show(text: str) -> None:
    """Show what a program writes to the user who types on its standard input, if it has one."""
    loop = _loop_here()
    if loop is not None and loop.standard_input is not None and isinstance(text, str):
        loop.standard_input.show(text)


_OUT, _ERR = (_Stream(name) for name in NAMES)


class _Streams:
    def __init__(self) -> None:
        self.depth = self.captures = self.diverted = 0
        self._lock = threading.Lock()

    def enter(self) -> tuple[Any, Any]:
        with self._lock:
            there = getattr(sys, "stdout", None), getattr(sys, "stderr", None)
            if not self.depth:
                _OUT.under, _ERR.under = there
                there = sys.stdout, sys.stderr = _OUT, _ERR
            self.depth += 1
            return there

    def leave(self, there: tuple[Any, Any]) -> None:
        """Put back what a program has replaced; after the last simulation, the streams under."""
        with self._lock:
            self.depth -= 1
            sys.stdout, sys.stderr = there if self.depth else (_OUT.under, _ERR.under)


_streams = _Streams()
enter_streams, leave_streams = _streams.enter, _streams.leave


def write_to(out: Any, err: Any) -> None:
    """Let runs keep their output, and all else write to these streams, until the process ends."""
    _streams.enter()
    _streams.captures += 1
    _OUT.under, _ERR.under = out, err
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = _OUT, _ERR  # type: ignore[misc,assignment]


@contextlib.contextmanager
def captured() -> Iterator[None]:
    """Let each run keep its output inside the block; code outside of runs writes as before."""
    there = _streams.enter()
    _streams.captures += 1
    try:
        yield
    finally:
        _streams.captures -= 1
        _streams.leave(there)


@contextlib.contextmanager
def diverted() -> Iterator[None]:
    """Let code outside of runs, such as a module that prints, write to stderr if captured."""
    captures = bool(_streams.captures)
    _streams.diverted += captures
    try:
        yield
    finally:
        _streams.diverted -= captures
