"""Unplanned faults, drawn from the seed at named sites in the model and the tools.

Two levels, as in FoundationDB's BUGGIFY: a site is switched on for a whole run or not at all, and
while it is on it fires now and then. So one run suffers from a few faults often, and another one
from others; faults that were all equally rare would hide what only a cluster of them shows.
Not here: planned faults, which are written in the script. The rule to keep: each site draws from a
stream of its own, so a new site changes nothing at the others.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le

from simloop.errors import ScenarioError
from simloop.messages import Fault, Finish, Part, Request, StreamError
from simloop.virtual.clock.awaitables import is_coroutine
from simloop.virtual.seeds import Seeds
from simloop.world.fake_model import Model
from simloop.world.streams import GeneratedStream, WholeStream
from simloop.world.tools import Tool
from simloop.world.user_function import UserFunction

_SLOW_S = 20.0
# A reply that is lost on the way is lost after so many parts at most.
_MOST_HEARD = 4

_BEFORE_OUTPUT: Mapping[str, Fault] = {
    "model.rate-limit": Fault("429 Too Many Requests", status=429),
    "model.rate-limit-with-wait": Fault(
        "429 Too Many Requests", status=429, headers=(("retry-after", "7"),)
    ),
    "model.server-error": Fault("500 Internal Server Error", status=500),
    "model.overloaded": Fault("529 Overloaded", status=529),
    "model.lost-before-headers": Fault("connection lost before headers", code="connection"),
    "model.overflow": Fault("400 prompt is too long", status=400, code="context_length_exceeded"),
}
_MID_OUTPUT: Mapping[str, Fault] = {
    "model.lost-mid-output": Fault("connection lost mid output", code="connection"),
    "model.error-part": Fault("Overloaded", code="overloaded_error"),
}
SITES = (
    *_BEFORE_OUTPUT, *_MID_OUTPUT, "model.slow", "model.stall", "model.unfinished",
    "tool.raises", "tool.slow",
)  # fmt: skip
"""The names of the sites, in the order in which they are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChanceFaults:
    """The probabilities of faults. `activate`: a site is on in a run; `fire`: it acts when asked.

    `sites` limits them to some of `SITES`; by default all take part.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}

    activate: Annotated[float, Ge(0), Le(1)] = 0.25
    """The probability that a site takes part in a run."""
    fire: Annotated[float, Ge(0), Le(1)] = 0.25
    """The probability that a site that takes part acts, each time it is asked."""
    sites: Sequence[str] = SITES
    """The sites that may take part."""


class FaultSites:
    """The sites of one run. `fires` asks one of them.

    Raises ScenarioError for an unknown site.
    """

    def __init__(self, chances: ChanceFaults, seeds: Seeds) -> None:
        for site in chances.sites:
            if site not in SITES:
                known = ", ".join(SITES)
                raise ScenarioError(
                    f"no fault site `{site}`", key="faults.sites", hint=f"there are {known}"
                )
        self._chances = chances
        self._seeds = seeds
        self._active: dict[str, bool] = {}

    def fires(self, site: str) -> bool:
        """Return whether the fault of that site happens now."""
        if site not in self._chances.sites:
            return False
        draw = self._seeds.stream(f"fault:{site}").random
        if site not in self._active:
            self._active[site] = draw() < self._chances.activate
        return self._active[site] and draw() < self._chances.fire

    def draw_up_to(self, name: str, most: int) -> int:
        """Return a number from 1 to `most`."""
        return self._seeds.stream(f"fault:{name}").randint(1, most)


class FaultyStream(GeneratedStream):
    """The parts of a reply that a fault may disturb. `source` is the stream of the inner model."""

    __slots__ = ("source",)

    def __init__(self, model: "FaultyModel", request: Request) -> None:
        self.source: Any = None
        super().__init__(model.disturbed(request, self))

    def ahead(self) -> Finish | None:
        """Return the finish that the inner model has for the reply, if it is known."""
        ahead = getattr(self.source, "ahead", None)
        return None if ahead is None else ahead()

    def __aiter__(self) -> AsyncIterator[Part]:
        return self

    async def __anext__(self) -> Part:
        part: Part = await anext(self._iterator)
        return part


class FaultyModel:
    """A model that answers as `inner` does unless a fault fires."""

    def __init__(self, inner: Model, sites: FaultSites) -> None:
        self._inner = inner
        self._sites = sites
        # A queue, because several replies of concurrent calls may be cut off before a retry.
        self._cut_off: dict[str, deque[list[Part]]] = {}

    def stream(self, request: Request) -> FaultyStream:
        """Answer, fail at once, or fail midway; an immediate failure does not ask `inner`."""
        return FaultyStream(self, request)

    async def disturbed(self, request: Request, stream: FaultyStream) -> AsyncGenerator[Part, None]:
        """Yield the parts of `stream`."""
        for site, fault in _BEFORE_OUTPUT.items():
            if self._sites.fires(site):
                yield StreamError(fault)
                return
        if self._sites.fires("model.slow"):
            await asyncio.sleep(_SLOW_S)
        if self._sites.fires("model.stall"):
            await asyncio.get_running_loop().create_future()
        broken = next((f for site, f in _MID_OUTPUT.items() if self._sites.fires(site)), None)
        unfinished = self._sites.fires("model.unfinished")
        length = self._sites.draw_up_to("model.heard", _MOST_HEARD) if broken is not None else None
        said: list[Part] = []
        stream.source = self._source(request)
        async with contextlib.aclosing(stream.source) as parts:
            async for part in parts:
                said.append(part)
                last = isinstance(part, Finish)
                if not (last and unfinished) and (
                    length is None or (len(said) <= length and not last)
                ):
                    yield part
        if broken is not None or unfinished:
            self._cut_off.setdefault(request.purpose, deque()).append(said)
        if broken is not None:
            yield StreamError(broken)

    def _source(self, request: Request) -> Any:
        """Return the stream of the inner model; a retry repeats a reply that a fault cut off."""
        again = self._cut_off.get(request.purpose)
        return WholeStream(again.popleft()) if again else self._inner.stream(request)


async def disturb_tool(sites: FaultSites) -> None:
    """Let a tool be slow, or fail, if a fault fires. Raises ConnectionError."""
    if sites.fires("tool.slow"):
        await asyncio.sleep(_SLOW_S)
    if sites.fires("tool.raises"):
        raise ConnectionError("the tool lost its connection")


def faulty_tool(tool: Tool, sites: FaultSites) -> Tool:
    """Return a tool that behaves as `tool` does unless a fault fires."""
    function = tool.function

    async def call(**arguments: Any) -> Any:
        await disturb_tool(sites)
        result = function.function(**arguments)
        return await result if function.is_async or is_coroutine(result) else result

    return tool.with_function(UserFunction(call, function.name))
