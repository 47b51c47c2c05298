"""A world without a simulation, to test its ports and the agents in it."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from simloop.messages import Request
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.fake_model import FunctionModel, Model
from simloop.world.model_port import ModelPort
from simloop.world.tools import Tool, toolbox
from simloop.world.tools_port import ToolsPort
from simloop.world.user_functions import UserError
from simloop.world.user_port import UserPort
from simloop.world.world import World

T = TypeVar("T")
E = TypeVar("E")


@dataclass(frozen=True)
class Opened:
    """A world in which a run has begun, the entries of its ports, and the exceptions they kept."""

    world: World
    entries: list[AnyEntry]
    raised: list[UserError]
    loop: VirtualLoop

    def of(self, kind: type[E]) -> list[E]:
        """Return the entries of one kind."""
        return [entry for entry in self.entries if isinstance(entry, kind)]


def in_world(
    main: Callable[[Opened], Coroutine[Any, Any, T]],
    model: Callable[[Request], Any] | Model | None = None,
    tools: Any = (),
    *,
    timeout_ms: int | None = None,
    wall_clock_ms: int | None = None,
) -> T:
    """Run `main` on the virtual clock, in the task of a run that has begun."""
    asked = model if hasattr(model, "stream") else FunctionModel(model or (lambda _: "Done."))
    box: Mapping[str, Tool] = toolbox(tools)

    async def inside() -> T:
        loop, task = running_loop(), asyncio.current_task()
        assert task is not None
        record: list[AnyEntry] = []
        raised: list[UserError] = []
        recorder = Recorder(record, loop)
        user = UserPort(recorder, loop)
        world = World(
            ModelPort(asked, recorder, loop, raised, user.cancellation),  # type: ignore[arg-type]
            ToolsPort(box, recorder, loop, raised, timeout_ms),
            user,
        )
        user.begin(task, wall_clock_ms)
        return await main(Opened(world, record, raised, loop))

    return run_virtual(inside())
