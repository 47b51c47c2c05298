"""The world: all that an agent may touch; and the world of the run that the caller belongs to."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from simloop.escape import writable
from simloop.trace import entries
from simloop.virtual.clock.loop import loop_here
from simloop.world import model_port, tools_port, user_port


class World(Struct, frozen=True):
    """The parts of the world of one conversation. Each records what passes through it.

    reply = await world.model.reply(messages, tools=world.tools.specs)
    result = await world.tools.run(call)
    messages += [UserMessage(text) for text in world.user.take()]

    `offline` and `absent` are patterns of the hosts and the programs that are meant not to be
    there: `*.example.com` is any host below that domain.
    """

    model: model_port.ModelPort
    tools: tools_port.ToolsPort
    user: user_port.UserPort
    provider: Any = None
    """The endpoint, which answers the agent's requests over HTTP (wire)."""
    offline: Sequence[str] = ()
    absent: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Let the native client end an agent that is to stop before it begins anything new."""
        self.model.turn = self.tools.turn = self.user.turn


def current_world() -> World | None:
    """Return the world of the run that the caller belongs to, or None outside of runs."""
    if (loop := loop_here()) is None:
        return None
    left = loop.worlds_of_threads.get(threading.get_ident()) if loop.worlds_of_threads else None
    return left or (loop.worlds[-1] if loop.worlds else None)


@contextlib.contextmanager
def inhabited(world: World) -> Iterator[None]:
    """Let `current_world` return `world` to code that runs on its loop."""
    loop = world.model.loop
    loop.worlds.append(world)
    loop.on_refusal = note_refused
    try:
        yield
    finally:
        loop.worlds.remove(world)
        if not loop.worlds and not loop.worlds_of_threads:
            loop.on_refusal = None


def note_refused(what: str, name: str, asked: str, place: str) -> None:
    """Record what the caller asked for and did not get, unless the newest entry equals it."""
    if (world := current_world()) is None:
        return
    # A refusal is no failure: reports list those that nobody means.
    patterns = {"host": world.offline, "program": world.absent}.get(what, ())
    meant = any(fnmatchcase(name.lower(), each.lower()) for each in patterns)
    asked, recorder = writable(asked), world.model.recorder
    last = recorder.entries[-1] if recorder.entries else None
    if type(last) is entries.Refused and (last.what, last.asked) == (what, asked):
        return  # much is tried for ever
    recorder.record(entries.Refused, what, asked, place, meant)


def note(text: str) -> None:
    """Write a note into the trace of the run that the caller belongs to, at the current time.

        simloop.note(f"cache miss for {key}")

    Outside of a run it does nothing, so that it may stay in the code of a product.
    """
    if (world := current_world()) is not None:
        world.model.recorder.record(entries.Note, writable(str(text)))
