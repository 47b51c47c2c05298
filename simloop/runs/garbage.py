"""The garbage of runs: a run of an agent's own code finds nothing of those before it."""

import contextlib
import functools
import gc
from collections.abc import Iterator

_SETTLED: list[bool] = []


@functools.cache
def is_frozen() -> bool:
    """Return whether this process had frozen its objects before its first run."""
    return bool(gc.get_freeze_count())


def settle() -> None:
    """Let the collector look at nothing older, if this process has frozen its objects."""
    if is_frozen():
        if _SETTLED:  # before the first run, there is nothing to free
            gc.collect()
        _SETTLED[:] = [True]
        gc.freeze()


@contextlib.contextmanager
def collected() -> Iterator[None]:
    """Free at the end of the block the garbage that was made in it, and look at nothing else."""
    if not is_frozen():
        gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if not is_frozen():
            gc.unfreeze()
