"""The fake model: plays a script as streams of parts, and counts the replies used.

A reply is a list of timed parts: every fault is a shorter list, a longer wait or a `StreamError`.
"""

import asyncio
import contextlib
import copy
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from operator import length_hint
from typing import Any, NamedTuple, Protocol, cast

from msgspec import Struct, structs

from simloop import messages as values
from simloop.errors import ScenarioError, ScriptExhausted, ScriptUnused
from simloop.messages import Finish, Part, Request, TextDelta
from simloop.world.http import Headers

TimedPart = tuple[int, Part | Exception | None]
"""Nanoseconds to wait, then a part; None waits for ever, as a stall does, and an exception is
raised, as the code of a model may do."""
Matches = Callable[[Request, str, Headers], bool]
Parties = dict[str, Matches]
"""The parties by name; a request is for the first one that it matches."""
_LISTS = (list, tuple)


class Stream(Protocol):
    """The parts of one reply. An exception of the model's code is raised by either method."""

    def due(self) -> Iterator[Part]:
        """Yield the parts that are there now."""

    async def wait(self) -> bool:
        """Wait until another part may be there. Return False if the stream has ended."""

    async def aclose(self) -> None: ...


class IteratedStream:
    """A stream that is an async iterator too, for models that wrap other models."""

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[Part]:
        return self

    async def __anext__(self: Stream) -> Part:
        while True:
            for part in self.due():
                return part
            if not await self.wait():
                raise StopAsyncIteration


class TimedStream(IteratedStream):
    """A stream of timed parts."""

    __slots__ = ("_due", "_ended", "_known", "_later", "_timed")

    def __init__(self, timed: Iterable[TimedPart]) -> None:
        self._known = timed if isinstance(timed, list | tuple) else ()  # not of a generator
        self._timed = iter(timed)
        self._due: Part | None = None  # the part that `wait` has waited for
        self._later: TimedPart | None = None
        self._ended = False

    def ahead(self) -> Finish | None:
        return next((part for _, part in self._known if type(part) is Finish), None)

    def due(self) -> Iterator[Part]:
        if self._due is not None:
            part, self._due = self._due, None
            yield part
        if self._later is not None:
            return
        for timed in self._timed:
            delay_ns, part_or_fault = timed
            if delay_ns or part_or_fault is None:
                self._later = timed
                return
            if isinstance(part_or_fault, Exception):
                raise part_or_fault.with_traceback(None)  # it may be raised again
            yield part_or_fault
        self._ended = True

    async def wait(self) -> bool:
        """Wait for the delay of the next part; a stall waits for ever."""
        if self._later is None:
            return not self._ended
        delay_ns, part = self._later
        if delay_ns:
            await asyncio.sleep(delay_ns / 1e9)
        if part is None:
            await asyncio.get_running_loop().create_future()
        self._later = None
        if isinstance(part, Exception):
            raise part.with_traceback(None)
        self._due = part
        return True

    async def aclose(self) -> None:
        self._timed, self._due, self._later, self._ended = iter(()), None, None, True


class WholeStream(IteratedStream):
    """A stream whose parts are all there, so that the list itself is iterated."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = iter(parts)

    def ahead(self) -> Finish | None:
        return next((part for part in copy.copy(self.parts) if type(part) is Finish), None)

    def due(self) -> Iterator[Part]:
        """Return the iterator of the parts; a later call goes on where the caller stopped."""
        return self.parts

    async def wait(self) -> bool:
        """Return whether parts are left; none is ever waited for."""
        return length_hint(self.parts) > 0

    async def aclose(self) -> None:
        self.parts = iter(())


class GeneratedStream(IteratedStream):
    """The stream of a model that is an async generator, or any async iterator."""

    __slots__ = ("_due", "_ended", "_iterator")

    def __init__(self, parts: Any) -> None:
        self._iterator = aiter(parts)
        self._due: list[Part] = []
        self._ended = False

    def due(self) -> Iterator[Part]:
        while self._due:
            yield self._due.pop()

    async def wait(self) -> bool:
        if self._ended:
            return False
        try:
            self._due.append(await anext(self._iterator))
        except StopAsyncIteration:
            self._ended = True
        return not self._ended

    async def aclose(self) -> None:
        """Close the generator, so that its clean-up runs now and not when Python collects it."""
        self._ended = True
        self._due.clear()
        if (close := getattr(self._iterator, "aclose", None)) is not None:
            await close()


def stream_of(answer: Any) -> Stream:
    """Return the stream of an answer: a stream, or an async iterator of parts."""
    return cast("Stream", answer) if hasattr(answer, "due") else GeneratedStream(answer)


class ScriptedFailure(OSError):  # noqa: N818 - something that the script lets fail
    """An error that a scripted model, tool or hook raises, as if a disk were full."""


class Model(Protocol):
    """An object that answers requests. A failed call is a `StreamError` part, not an exception."""

    def stream(self, request: Request) -> AsyncIterator[Part]:
        """Answer one request, part by part."""


class ScriptEntry(Struct, frozen=True):
    """One entry of a script: what to play, how often, for which requests, and where it stands."""

    play: Callable[[int], Sequence[TimedPart]]  # gets the number of the first call without an id
    position: str
    times: int | None = 1  # None is any number, at least once
    matches: Callable[[Request], bool] | None = None  # None is an ordered entry, else a rule


class Script(Struct, eq=False):
    """Entries for one purpose or party. Rules go first, in order; then the next ordered entry."""

    name: str
    party: str = ""  # its name; empty for the requests that are of none of `parties`
    parties: Iterable[str] = ()
    played: dict[str, int] = {}
    _entries: list[ScriptEntry] = []
    _rules: list[ScriptEntry] = []
    _ordered: list[ScriptEntry] = []
    _next: int = 0

    def add(self, entries: Iterable[ScriptEntry]) -> None:
        for entry in entries:
            self._entries.append(entry)
            (self._ordered if entry.matches is None else self._rules).append(entry)
            self.played[entry.position] = 0

    def choose(self, request: Request) -> ScriptEntry:
        """Return the entry that answers `request`. Raises ScriptExhausted if there is none."""
        for rule in self._rules:
            unspent = rule.times is None or self.played[rule.position] < rule.times
            if unspent and rule.matches is not None and rule.matches(request):
                self.played[rule.position] += 1
                return rule
        while self._next < len(self._ordered):
            entry = self._ordered[self._next]
            if entry.times is None or self.played[entry.position] < entry.times:
                self.played[entry.position] += 1
                return entry
            self._next += 1
        ordered, rules = len(self._ordered), len(self._rules)
        replies = "1 ordered reply" if ordered == 1 else f"{ordered} ordered replies"
        matched = f", and none of its rules matches ({rules})" if rules else ""
        missing = f"no reply of {self.party} is left" if self.party else "the script has no reply"
        parties = ", ".join(self.parties)
        none = f", which fits no `when` of {parties}" if parties else ""
        hint = "add a reply, or let one play `times: always`"
        if self.party or parties:
            hint = "add a reply, let one play `times: always`, or mend the `when` of its party"
        message = f"{missing} for request {request.number}{none}: the run used {replies}{matched}"
        raise ScriptExhausted(message, key=self.name, hint=hint)

    @property
    def replies(self) -> int:
        """Return the number of replies, without those of entries that may always be used."""
        return sum(entry.times or 0 for entry in self._entries)

    def unused(self) -> list[str]:
        """Return the positions of entries that were played less often than expected."""
        played = self.played
        return [one.position for one in self._entries if played[one.position] < (one.times or 1)]


class PartyScript(NamedTuple):
    """The requests that are for one party, and its replies."""

    matches: Matches
    entries: Sequence[ScriptEntry]


def party_of(parties: Parties, request: Request, model: str, headers: Headers) -> Request:
    """Return a request with the name of its party; only main requests have one."""
    names = (name for name, matches in parties.items() if matches(request, model, headers))
    name = next(names, "") if request.purpose == "main" else ""
    return structs.replace(request, party=name) if name else request


class FakeModel:
    """Plays a script to main requests, one to summary requests, and one to those of each party."""

    def __init__(
        self, main: Iterable[ScriptEntry], summary: Iterable[ScriptEntry] = (),
        parties: Mapping[str, PartyScript] | None = None,
    ) -> None:  # fmt: skip
        self.requests: list[Request] = []  # every one, as sent
        self.parties: Parties = {}
        self._scripts = {  # by purpose and party
            ("main", ""): Script("model", parties=self.parties),
            ("summary", ""): Script("summaries"),
        }
        self.add(main)
        self._scripts["summary", ""].add(summary)
        for name, party in (parties or {}).items():
            self.add_party(name, party)
        self._calls = 0
        # By the position of the reply: how many calls it has, and whether it takes no time.
        self._known: dict[str, tuple[int, bool]] = {}

    def stream(self, request: Request) -> TimedStream | WholeStream:
        """Play the reply that the script has for `request`. Raises ScriptExhausted if none."""
        self.requests.append(request)
        entry = self._scripts[request.purpose, request.party].choose(request)
        timed = entry.play(self._calls + 1)
        if entry.position not in self._known:
            is_later = (ns or part is None or isinstance(part, Exception) for ns, part in timed)
            self._known[entry.position] = _count_calls(timed), not any(is_later)
        calls, is_whole = self._known[entry.position]
        self._calls += calls
        return WholeStream([part for _, part in timed]) if is_whole else TimedStream(timed)  # type: ignore[misc]

    def add(self, main: Iterable[ScriptEntry], party: str = "") -> None:
        """Add entries for main requests after the others, or for a party, during the run too."""
        self._scripts["main", party].add(main)

    def add_party(self, name: str, party: PartyScript) -> None:
        self.parties[name] = party.matches
        self._scripts["main", name] = Script(f"models.{name}.replies", name)
        self.add(party.entries, name)

    @property
    def is_empty(self) -> bool:
        """Return whether no script has an entry: a mocking library then answers for the model."""
        return not any(script._entries for script in self._scripts.values())  # noqa: SLF001

    @property
    def replies(self) -> int:
        return sum(script.replies for script in self._scripts.values())

    @property
    def played(self) -> dict[str, int]:
        """Return how often each entry was played, by its position."""
        several = [script.played for script in self._scripts.values()]
        return {position: times for each in several for position, times in each.items()}

    def unused(self) -> list[str]:
        return [position for script in self._scripts.values() for position in script.unused()]

    def check_account(self) -> None:
        """Raise ScriptUnused with the positions of the replies that were not used up."""
        if unused := self.unused():
            sent = len(self.requests)
            made = f"the run made {sent} request{'s' * (sent != 1)}"
            hint = "find out why the run ended early, or delete the unused replies"
            told = f"{made} and did not use {', '.join(unused)}"
            raise ScriptUnused(told, key=unused[0], hint=hint)


class FunctionModel:
    """Asks a Python function for each reply.

    The function gets the Request and returns text, a playable reply, or parts, all at once or from
    a generator; it may be async, or an async generator.
    """

    def __init__(self, function: Callable[[Request], Any]) -> None:
        self._function = function
        self.requests: list[Request] = []
        self._calls = 0

    def stream(self, request: Request) -> AsyncIterator[Part]:
        self.requests.append(request)
        answer = self._function(request)
        if type(answer) in _LISTS:  # the usual answer: the questions to any other one are slow
            return WholeStream(answer)
        return self._later(answer) if inspect.isawaitable(answer) else self._play(answer)

    async def _later(self, answer: Any) -> AsyncIterator[Part]:
        async with contextlib.aclosing(self._play(await answer)) as parts:
            async for part in parts:
                yield part

    def _play(self, answer: Any) -> Any:
        if hasattr(answer, "play"):
            timed = answer.play(self._calls + 1)
            self._calls += _count_calls(timed)
            return TimedStream(timed)
        if hasattr(answer, "__aiter__"):
            return answer
        if isinstance(answer, str):
            stop = Finish(values.FinishReason.STOP, "stop")
            return WholeStream((TextDelta(answer), stop) if answer else (stop,))
        if isinstance(answer, Iterable):
            return TimedStream((0, part) for part in answer)
        message = f"the model function returned {type(answer).__name__}"
        raise ScenarioError(message, key="model", hint="return text, a Reply, or parts")


def _count_calls(timed: Iterable[TimedPart]) -> int:
    whole, begun = [], set()
    for _, part in timed:
        if type(part) is values.ToolCallPart:
            whole.append(part.call.id)
        elif type(part) is values.ToolCallDelta:
            begun.add(part.call_id)
    return len(whole) + len(begun.difference(whole))
