"""The pools of threads in a run: their workers are simulated threads.

A pool that was made before the simulation, such as one in a module, has real workers and stays as
it was, so another takes its work. A pool that was made inside works afterwards, with real workers.
"""
# ruff: noqa: SLF001 - pools keep their state in private attributes

import contextlib
import logging
import queue
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as pool_module
from typing import Any

MAX_WORKERS = 32
"""The size of a pool without `max_workers`: Python's, on a machine with 28 processors or more."""

# The originals: a stand-in replaces these methods while a simulation runs.
make_pool: Any = ThreadPoolExecutor.__init__
_submit: Any = ThreadPoolExecutor.submit
_make_queue: Any = queue.SimpleQueue
_PER_RUN = ("max_workers", "thread_name_prefix", "initializer", "initargs")


def forget_worker(thread: threading.Thread) -> None:
    """Take a worker out of the list of those that Python joins at exit."""
    pool_module._threads_queues.pop(thread, None)  # type: ignore[attr-defined]


@contextlib.contextmanager
def quiet(ended: type[BaseException]) -> Iterator[None]:
    """Keep a pool from logging that the exception `ended` has ended an idle worker."""

    def is_other(record: logging.LogRecord) -> bool:
        return record.exc_info is None or record.exc_info[0] is not ended

    logger = pool_module._base.LOGGER  # type: ignore[attr-defined]
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


class Pools:
    """The pools of one run."""

    def __init__(self) -> None:
        self._own: list[weakref.ref[ThreadPoolExecutor]] = []
        self._in_place_of: dict[ThreadPoolExecutor, ThreadPoolExecutor] = {}
        self._names = 0

    def make(
        self,
        pool: Any,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Initialize a pool; its name counts per run, and its size is not that of the machine."""
        if not thread_name_prefix:
            thread_name_prefix = f"ThreadPoolExecutor-{self._names}"
            self._names += 1
        size = MAX_WORKERS if max_workers is None else max_workers
        make_pool(pool, size, thread_name_prefix, *args, **kwargs)
        self._own.append(weakref.ref(pool))

    def submit(self, pool: Any, function: Any, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Submit work to a pool, or to the one in the place of a pool from outside the run."""
        if not any(each() is pool for each in self._own):
            if pool._shutdown:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if pool not in self._in_place_of:
                self._in_place_of[pool] = made = ThreadPoolExecutor.__new__(ThreadPoolExecutor)
                attributes = ((name, getattr(pool, f"_{name}", None)) for name in _PER_RUN)
                self.make(made, **{name: value for name, value in attributes if value})
            pool = self._in_place_of[pool]
        submitted: Future[Any] = _submit(pool, function, *args, **kwargs)
        return submitted

    def restore(self) -> None:
        """Let the pools that the run has made begin anew, with real threads."""
        for each in self._own:
            pool: Any = each()
            if pool is not None:
                pool._threads = set()
                pool._work_queue = _make_queue()
                pool._idle_semaphore = threading.Semaphore(0)
        self._own.clear()
        self._in_place_of.clear()
