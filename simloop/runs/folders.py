"""Folders of runs on the disk: each is empty at the beginning of its run, and gone at its end.

Their names are equal in equal runs, because programs tell the model where they are.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from simloop.errors import ScenarioError
from simloop.virtual.clock.loop import loop_here

_PLACE = Path("/tmp")  # noqa: S108 - no other user can open the folders


def folder() -> Path:
    """Return the folder of the run that the caller belongs to, for what its agent stores.

        def bot() -> Bot:
            return Bot(database=simloop.folder() / "bot.db")

    It is empty when the run begins, keeps its files when the agent restarts, and is removed when
    the run ends. Raises ScenarioError outside of runs.
    """
    loop = loop_here()
    if loop is None:
        hint = "call it in the agent, or in the class or the function that makes the agent"
        raise ScenarioError("there is no run that could have a folder", hint=hint)
    if loop.folder is None:
        stack = ExitStack()
        loop.folder = stack.enter_context(own_folder("simloop-run"))
        loop.at_end.append(stack.close)
    found: Path = loop.folder
    return found


@contextmanager
def own_folder(name: str) -> Iterator[Path]:
    """Provide an empty folder, the same one unless another run has it; remove it at the end."""
    for number in count(1):
        path = _PLACE / (name if number == 1 else f"{name}-{number}")
        with _lock_of(path) as is_ours:
            if not is_ours:
                continue
            _clear(path)  # of a run that was killed
            try:
                yield path
            finally:
                _clear(path)
                path.rmdir()
            return


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
