"""Reading and writing the files that simloop is given: one function for each.

A reader gets regular files only, because a pipe blocks and a device need not end; a write leaves
the old file or the whole new one, follows links, and replaces regular files only.
"""

import contextlib
import errno
import itertools
import os
import stat
from pathlib import Path
from typing import BinaryIO

from simloop.errors import ScenarioError

_NUMBERS = itertools.count()
_READ_HINT = "check the name, the directory you are in, and the permissions"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# A FIFO without its other end must raise an error and not block. Windows has no such flags.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def read_file(path: Path, most: int, too_long: str = "") -> bytes:
    """Return the bytes of a regular file of at most `most`. Raises ScenarioError."""
    try:
        # Opening a device can have effects of its own (a tape rewinds), so its kind comes first;
        # the open file is judged again, because the name may have been given to another node.
        _check_regular(path.stat().st_mode, path)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | _NO_WAIT)
        with os.fdopen(descriptor, "rb") as file:
            _check_regular(os.fstat(descriptor).st_mode, path)
            size = os.fstat(descriptor).st_size  # 0 for files of the system that are made as read
            data = _read(file, size, most) if size <= most else None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        wrong = f"cannot be read: {_reason(error)}"
        raise ScenarioError(wrong, path=str(path), hint=_READ_HINT) from error
    if data is None or len(data) > most:
        raise ScenarioError(f"the file is over {most:,} bytes", path=str(path), hint=too_long)
    return data


def _read(file: BinaryIO, size: int, most: int) -> bytes:
    """Return at most one byte more than `most`, also of a file that has grown since its `size`."""
    # A buffer for `most` bytes would cost more than the reading of a short file.
    data = file.read(size + 1)
    return data if len(data) <= size else data + file.read(most + 1 - len(data))


def _check_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        hint = "name a file, such as one inside this directory"
        raise ScenarioError("this is no regular file", path=str(path), hint=hint)


def write_file(path: Path, data: bytes) -> None:
    """Write `data` to the file at `path`: readers see the old file or the whole new one.

    A symbolic link is followed, permissions are kept, and a character device or a pipe is written
    into. Raises ScenarioError if the file cannot be written.
    """
    try:
        _write(path, data)
    except (OSError, ValueError) as error:
        full = isinstance(error, OSError) and error.errno in _FULL
        hint = "free some space" if full else "name a file in a folder that may be written to"
        wrong = f"cannot be written: {_reason(error)}"
        raise ScenarioError(wrong, path=str(path), hint=hint) from error


def create_folder(folder: Path) -> None:
    """Create `folder` and its parents where they are missing. Raises ScenarioError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        message = f"the folder cannot be created: {_reason(error)}"
        hint = "name a folder that may be written to"
        raise ScenarioError(message, path=str(folder), hint=hint) from error


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _write(path: Path, data: bytes) -> None:
    target = Path(os.path.realpath(path))
    old: os.stat_result | None = None
    with contextlib.suppress(FileNotFoundError):
        old = path.stat()
    if old is None or stat.S_ISREG(old.st_mode):
        _replace(target, data, old)
    elif stat.S_ISCHR(old.st_mode) or stat.S_ISFIFO(old.st_mode):
        descriptor = os.open(path, os.O_WRONLY | _NO_WAIT)
        with os.fdopen(descriptor, "wb") as file:
            os.set_blocking(descriptor, True)
            file.write(data)
    else:
        hint = "name a file, such as one inside this directory"
        raise ScenarioError("cannot be written: this is no regular file", path=str(path), hint=hint)


def _replace(target: Path, data: bytes, old: os.stat_result | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    name = target.parent / f".simloop-{os.getpid()}-{next(_NUMBERS)}.tmp"
    descriptor = os.open(name, flags, 0o666)  # with the permissions that the umask gives
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if old is not None:
            name.chmod(stat.S_IMODE(old.st_mode))
        name.replace(target)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
