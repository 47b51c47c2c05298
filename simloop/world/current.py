"""The world of the run that the calling code belongs to.

Not here: the world itself (world.py). The rule to keep: the running virtual loop decides which
world it is, so that simulations may run in several threads at once, and inside one another.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from simloop.escape import writable
from simloop.trace import entries
from simloop.virtual.border.answers import simulation_of_this_thread
from simloop.world.world import World

_WORLDS: dict[Any, list[World]] = {}
"""By virtual loop: the worlds of the runs that are under way on it, the newest last."""


def current_world() -> World | None:
    """Return the world of the run that the caller belongs to, or None outside of runs."""
    worlds = _WORLDS.get(asyncio._get_running_loop())  # noqa: SLF001 - get_running_loop raises
    if worlds is None and _WORLDS:  # perhaps a thread, in which another loop may run
        worlds = _WORLDS.get(simulation_of_this_thread())
    return worlds[-1] if worlds else None


@contextlib.contextmanager
def inhabited(world: World) -> Iterator[None]:
    """Let `current_world` return `world` to code that runs on its loop."""
    loop = world.model.loop
    worlds = _WORLDS.setdefault(loop, [])
    worlds.append(world)
    loop.on_refusal = note_refusal
    try:
        yield
    finally:
        worlds.remove(world)
        if not worlds:
            _WORLDS.pop(loop, None)
            loop.on_refusal = None


def note_refusal(text: str) -> None:
    """Write a note into the trace of the run that the caller belongs to, unless it is the last."""
    world = current_world()
    if world is None:
        return
    recorder, told = world.model.recorder, writable(text)
    last = recorder.entries[-1] if recorder.entries else None
    if not (type(last) is entries.Note and last.text == told):  # what is tried again and again
        recorder.record(entries.Note, told)


def note(text: str) -> None:
    """Write a note into the trace of the run that the caller belongs to, at the current time.

        simloop.note(f"cache miss for {key}")

    Outside of a run it does nothing, so that it may stay in the code of a product.
    """
    world = current_world()
    if world is not None:
        world.model.recorder.record(entries.Note, writable(str(text)))
