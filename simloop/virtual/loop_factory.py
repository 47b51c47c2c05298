"""An event loop on virtual time for runners of others: `asyncio.Runner`, anyio, pytest-asyncio.

Not here: simulations (simulate.py), which reuse one loop and look after what a program leaves
behind; here the runner does that. The rule to keep: each time the loop runs, it is sealed as a
simulation is, and its time, its seed and its numbers go on where they were.
"""
# ruff: noqa: SLF001 - as in clock.py

import asyncio
import sys
from collections.abc import Awaitable, Generator
from typing import Any, TypeVar

from simloop.virtual.border import sealed
from simloop.virtual.clock import VirtualLoop
from simloop.virtual.seeds import Seeds

T = TypeVar("T")


def loop_factory(*, seed: int = 0, shuffle_ties: bool = False) -> asyncio.AbstractEventLoop:
    """Return a new event loop on the virtual clock, which answers dates and randomness from `seed`.

        with asyncio.Runner(loop_factory=simloop.loop_factory) as runner:
            runner.run(main())

    It is for people who keep their own plugin or runner: it has virtual time and no provider. Write
    `functools.partial(simloop.loop_factory, seed=7)` for another seed.
    """
    return RunnersLoop(Seeds(seed), shuffle_ties=shuffle_ties)


class RunnersLoop(VirtualLoop):
    """A virtual loop that a runner runs as often as it wants, and closes."""

    _stopping: bool

    def __init__(self, seeds: Seeds, *, shuffle_ties: bool) -> None:
        super().__init__(
            shuffle_seed=seeds.stream("ties").getrandbits(64) if shuffle_ties else None
        )
        self._sealed = sealed(self, seeds)

    def run_forever(self) -> None:
        """Run until `stop` is called. Raises as `simulate`."""
        __tracebackhide__ = True
        self._check_closed()  # type: ignore[attr-defined]
        self._check_running()  # type: ignore[attr-defined]
        hooks = sys.get_asyncgen_hooks()
        with self._sealed:
            self._enter()
            try:
                while self._ready or not self._stopping:
                    self._run_once()
                    if self._stopping:
                        break
            finally:
                self._stopping = False
                asyncio._set_running_loop(None)
                self._thread_id = None
                sys.set_asyncgen_hooks(*hooks)
        if self.escapes:
            raise self.escapes.pop(0)

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until `future` is done, and return its result."""
        __tracebackhide__ = True
        return asyncio.BaseEventLoop.run_until_complete(self, future)

    def close(self) -> None:
        """Close the loop, and end its threads where they are parked."""
        threads, self._threads = self._threads, None
        if threads is not None:
            with self._sealed:
                threads.end()
        super().close()

    def stop(self) -> None:
        """Stop after the callbacks that are ready."""
        self._stopping = True
