"""Faults that nobody planned, drawn from the seed at named sites in the parties of the world.

As in FoundationDB's BUGGIFY, a site is switched on for a whole run or not at all: faults that were
all equally rare would hide what only a cluster of them shows. Each site draws from its own stream.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, ClassVar, TypeVar

from annotated_types import Ge, Le
from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.messages import Finish, Part, Request
from simloop.virtual.clock.tasks import is_coroutine
from simloop.virtual.seeds import Seeds
from simloop.world import fake_model, tools, user_functions
from simloop.world import faults as catalogue
from simloop.world.fake_model import Model, Parties, TimedPart, WholeStream
from simloop.world.faults import ReplyFault, SiteFault, Stage

_Fault = TypeVar("_Fault", ReplyFault, SiteFault)

_SLOW_TOOL_S = 20.0
_MOST_HEARD = 4
LOST_TOOL = "the tool lost its connection"

_OF_REPLIES = tuple(fault for fault in catalogue.FAULTS if fault.site)
_OF_THE_REST = (*catalogue.SERVICE_FAULTS, *catalogue.PROGRAM_FAULTS)
_OF_OTHERS = ("tool.raises", "tool.slow", *(fault.site for fault in _OF_THE_REST))
SITES = (*(fault.site for fault in _OF_REPLIES), *_OF_OTHERS)
"""The names of the sites, in the order in which they are asked."""
USUAL_SITES = (*(fault.site for fault in _OF_REPLIES if not fault.named_only), *_OF_OTHERS)
"""The sites of a scenario that lists none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChanceFaults:
    """The probabilities of faults, and the sites of those that may take part."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}

    activate: Annotated[float, Ge(0), Le(1)] = 0.25
    """The probability that a site takes part in a run."""
    fire: Annotated[float, Ge(0), Le(1)] = 0.25
    """The probability that a site that takes part acts, each time it is asked."""
    sites: Sequence[str] = USUAL_SITES
    """The sites that may take part; by default those of `USUAL_SITES`."""


def chance_of_weather(weather: str) -> ChanceFaults:
    """Return the faults of weathers or sites, by names joined with `+`. Raises ScenarioError."""
    sites: list[str] = []
    for name in weather.split("+"):
        if name not in catalogue.WEATHERS and name not in SITES:
            known = f"there are {', '.join(catalogue.WEATHERS)}; and the sites {', '.join(SITES)}"
            raise ScenarioError(f"no weather `{name}`", key="--weather", hint=known)
        sites += catalogue.WEATHERS.get(name, (name,))
    return ChanceFaults(activate=1.0, sites=tuple(dict.fromkeys(sites)))


class FaultSites:
    """The sites of one run. `fires` asks one of them. Raises ScenarioError for an unknown site."""

    def __init__(self, chances: ChanceFaults, seeds: Seeds) -> None:
        for site in chances.sites:
            if site not in SITES:
                hint = f"there are {', '.join(SITES)}"
                raise ScenarioError(f"no fault site `{site}`", key="faults.sites", hint=hint)
        self._chances = chances
        self._seeds = seeds
        self._active: dict[str, bool] = {}

    def fires(self, site: str) -> bool:
        if site not in self._chances.sites:
            return False
        draw = self._seeds.stream(f"fault:{site}").random
        if site not in self._active:
            self._active[site] = draw() < self._chances.activate
        return self._active[site] and draw() < self._chances.fire

    def drawn(self, faults: Iterable[_Fault]) -> dict[Stage, _Fault]:
        """Return those of `faults` that happen: at most one of each stage, the last `INSTEAD`."""
        drawn: dict[Stage, _Fault] = {}
        for fault in faults:
            if fault.stage not in drawn and self.fires(fault.site):
                drawn[fault.stage] = fault
                if fault.stage is Stage.INSTEAD:
                    break
        return drawn

    def parts_heard(self) -> int:
        return self._seeds.stream("fault:model.heard").randint(1, _MOST_HEARD)


class FaultyStream(fake_model.GeneratedStream):
    """The parts of a reply that a fault may disturb. `source` is the stream of the inner model."""

    __slots__ = ("source",)

    def __init__(self, model: "FaultyModel", request: Request) -> None:
        self.source: Any = None
        super().__init__(model.disturbed(request, self))

    def ahead(self) -> Finish | None:
        """Return the finish that the inner model has for the reply, if it is known."""
        ahead = getattr(self.source, "ahead", None)
        return None if ahead is None else ahead()


class FaultyModel(Struct, eq=False):
    """A model that answers as the inner one does unless a fault fires, which `play` plays."""

    _inner: Model
    _sites: FaultSites
    _play: Callable[[ReplyFault], Sequence[TimedPart]]
    # A queue, because several replies of concurrent calls may be cut off before a retry.
    _cut_off: dict[tuple[str, str], deque[list[Part]]] = {}

    @property
    def parties(self) -> Parties | None:
        return getattr(self._inner, "parties", None)

    def stream(self, request: Request) -> FaultyStream:
        """Answer, fail at once, or fail midway; an immediate failure does not ask `inner`."""
        return FaultyStream(self, request)

    async def disturbed(self, request: Request, stream: FaultyStream) -> AsyncGenerator[Part, None]:
        drawn = self._sites.drawn(_OF_REPLIES)
        if Stage.LATE in drawn:
            delay_ns, _ = self._play(drawn[Stage.LATE])[0]
            await asyncio.sleep(delay_ns / 1e9)
        if Stage.INSTEAD in drawn:
            async for part in fake_model.TimedStream(self._play(drawn[Stage.INSTEAD])):
                yield part
            return
        broken = drawn.get(Stage.AMID)
        has_end = not broken and Stage.END not in drawn
        length = self._sites.parts_heard() if broken else inf
        said: list[Part] = []
        key = request.purpose, request.party
        again = self._cut_off.get(key)  # a retry repeats a reply that a fault cut off
        stream.source = WholeStream(again.popleft()) if again else self._inner.stream(request)
        async with contextlib.aclosing(stream.source) as parts:
            async for part in parts:
                said.append(part)
                if len(said) <= length and (has_end or not isinstance(part, Finish)):
                    yield part
        if not has_end:
            self._cut_off.setdefault(key, deque()).append(said)
        if broken:
            async for part in fake_model.TimedStream(self._play(broken)[-1:]):
                yield part


async def disturb_tool(sites: FaultSites) -> None:
    """Let a tool be slow, or fail, if a fault fires. Raises ConnectionError."""
    if sites.fires("tool.slow"):
        await asyncio.sleep(_SLOW_TOOL_S)
    if sites.fires("tool.raises"):
        raise ConnectionError(LOST_TOOL)


def faulty_tool(tool: tools.Tool, sites: FaultSites) -> tools.Tool:
    """Return a tool that behaves as `tool` does unless a fault fires."""
    function = tool.function

    async def call(**arguments: Any) -> Any:
        await disturb_tool(sites)
        result = function.function(**arguments)
        return await result if function.is_async or is_coroutine(result) else result

    return tool.with_function(user_functions.UserFunction(call, function.name))
