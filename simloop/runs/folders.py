"""Folders of runs on the disk: each is empty at the beginning of its run, and again at its end.

Their names are equal in equal runs, because programs tell the model where they are. Of several runs
at once, only one can have that name. A fork on Linux can have a view of the file system of its own,
in which its folder has that name whatever others have.
"""

import ctypes
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count, repeat
from pathlib import Path

from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.runs.isolation import isolated
from simloop.virtual.clock.loop import loop_here

_NAME = "simloop-run"
_TRIES, _TRY_US = 50, 10_000
_HELD: list[Path] = []  # by runs of this process
_PLACE = Path("/tmp")  # noqa: S108 - no other user can open the folders
# Of Linux: a view of the file system, the identity that may change it, and bindings of folders.
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000


def folder() -> Path:
    """Return the folder of the run that the caller belongs to, for what its agent stores.

        def bot() -> Bot:
            return Bot(database=simloop.folder() / "bot.db")

    It is empty when the run begins, keeps its files when the agent restarts, and is emptied when
    the run ends. Raises ScenarioError outside of runs.
    """
    if (loop := loop_here()) is None:
        hint = "call it in the agent, or in the class or the function that makes the agent"
        raise ScenarioError("there is no run that could have a folder", hint=hint)
    if loop.folder is None:
        stack = ExitStack()
        loop.folder = stack.enter_context(own_folder(_NAME))
        loop.at_end.append(stack.close)
    found: Path = loop.folder
    return found


@contextmanager
def own_folder(name: str) -> Iterator[Path]:
    """Provide an empty folder, the same one unless another run has it; empty it at the end.

    It waits a little for a run of another process, which is short.
    """
    for number in chain(repeat(1, 1 if _PLACE / name in _HELD else _TRIES), count(2)):
        path = _PLACE / (name if number == 1 else f"{name}-{number}")
        with _lock_of(path) as is_ours:
            if not is_ours:
                if number == 1:  # the `sleep` of Python would take virtual time
                    ctypes.CDLL(None).usleep(_TRY_US)
                continue
            _clear(path)  # of a run that was killed
            _HELD.append(path)
            try:
                yield path
            finally:
                _HELD.remove(path)
                _clear(path)
                # An empty folder stays where forks show theirs, which they would lose with it.
                if number > 1:
                    with suppress(OSError):  # a file of another user, perhaps
                        path.rmdir()
            return


def begin_in_own_folder() -> None:
    """Let the runs of this process, a fork or a worker, have their folder whatever others have."""
    if can_bind():
        (_PLACE / _NAME).mkdir(mode=0o700, exist_ok=True)
        with suppress(OSError):  # it has threads
            _bind(None, _PLACE / _NAME)


def _clear(path: Path) -> None:
    for each in [*path.iterdir()]:
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


@contextmanager
def _lock_of(path: Path) -> Iterator[bool]:
    """Tell whether the folder is ours alone; the system releases the lock of a dead process."""
    import fcntl  # noqa: PLC0415 - Windows has none

    try:
        path.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # of another user
        yield False
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        there = path.stat()
        is_ours = there.st_ino == os.fstat(lock).st_ino and there.st_uid == os.getuid()
    except OSError:
        is_ours = False
    try:
        yield is_ours
    finally:
        os.close(lock)


class PlacedFolder(Struct, frozen=True):
    """A folder for a fork, which finds it at `place`; this process finds it at `path`."""

    path: Path
    place: Path

    def enter(self) -> None:
        """Show the folder at its place to this process, the fork, alone."""
        # An empty folder for all others, which stays: else other forks would lose their folders.
        if self.path != self.place:
            self.place.mkdir(mode=0o700, exist_ok=True)
            _bind(self.path, self.place)


@contextmanager
def placed_folder(name: str) -> Iterator[PlacedFolder]:
    """Provide an empty folder that a fork finds at the same place in all runs; remove it then."""
    place = _PLACE / name
    if not can_bind():
        with own_folder(name) as path:
            yield PlacedFolder(path, path)
        return
    path = Path(tempfile.mkdtemp(prefix="simloop-"))
    try:
        yield PlacedFolder(path, place)
    finally:
        shutil.rmtree(path, ignore_errors=True)


@functools.cache
def can_bind() -> bool:
    """Return whether this system lets a process have a view of its own; try it in a fork, once."""

    def tried() -> bool:
        try:
            _bind(_PLACE, _PLACE)
        except OSError:
            return False
        return True

    return sys.platform == "linux" and isolated(tried)


def _bind(folder: Path | None, place: Path) -> None:
    """Show a folder, or a new one, at `place` to this process of one thread. Raises OSError."""
    system = ctypes.CDLL(None, use_errno=True)
    identities = {"uid_map": os.getuid(), "gid_map": os.getgid()}
    _check(system.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
    Path("/proc/self/setgroups").write_text("deny", "ascii")
    for name, number in identities.items():
        Path("/proc/self", name).write_text(f"{number} {number} 1", "ascii")
    _check(system.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    if folder is None:
        _check(system.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, None))
    else:
        _check(system.mount(os.fsencode(folder), os.fsencode(place), None, _MS_BIND, None))


def _check(failed: int) -> None:
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
