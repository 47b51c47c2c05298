"""Running any coroutine in a simulation: virtual clock, sealed border, one seed."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from simloop.errors import CheckFailed, ScenarioError
from simloop.sim.clock import MAX_VIRTUAL_NS, VirtualLoop, run_virtual
from simloop.sim.sealed import sealed
from simloop.sim.seeds import Seeds

T = TypeVar("T")


def simulate(
    main: Coroutine[Any, Any, T],
    *,
    seed: int = 0,
    shuffle_ties: bool = False,
    max_virtual_s: float = MAX_VIRTUAL_NS / 1e9,
) -> T:
    """Run `main` on the virtual clock and return its result.

    Inside, time, dates and randomness answer from the clock and `seed`; sockets, subprocesses and
    threads are refused. `shuffle_ties` lets timers of one instant fire in an order drawn from the
    seed. Raises what `main` raises, Deadlock, RunawayRun past `max_virtual_s`, and ScenarioError
    if `main` reached for the real world.
    """
    seeds = Seeds(seed)

    async def inside() -> T:
        loop = running_loop()
        with sealed(loop, seeds):
            return await main

    ties = seeds.stream("ties").getrandbits(64) if shuffle_ties else None
    try:
        return run_virtual(inside(), shuffle_seed=ties, max_virtual_ns=round(max_virtual_s * 1e9))
    except CheckFailed as error:
        name = getattr(main, "__qualname__", "main")
        shuffled = ", shuffle_ties=True" if shuffle_ties else ""
        error.reproduce = error.reproduce or f"simloop.simulate({name}(), seed={seed}{shuffled})"
        raise


def running_loop() -> VirtualLoop:
    """The virtual loop that runs the caller. Raises ScenarioError on any other loop."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        return loop
    raise ScenarioError(
        "this needs the virtual clock", hint="run the coroutine with simloop.simulate(...)"
    )
