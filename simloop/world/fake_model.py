"""The fake model: plays a script, counts the replies used, and records every request.

A reply is a list of timed parts and nothing else. Every fault of a provider is a shorter list, a
longer wait or a `StreamError`, so there is one way to play it all.
"""

import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from simloop.errors import ScenarioError, ScriptExhausted, ScriptUnused
from simloop.messages import (
    Finish,
    FinishReason,
    Part,
    Request,
    TextDelta,
    ToolCallDelta,
    ToolCallPart,
)
from simloop.world.streams import TimedPart, TimedStream, WholeStream


class ScriptedFailure(Exception):  # noqa: N818 - something that the script lets fail
    """An error that a scripted model, tool or hook raises; the simulator treats it as user code."""


class Model(Protocol):
    """An object that answers requests. A failed call is a `StreamError` part, not an exception."""

    def stream(self, request: Request) -> AsyncIterator[Part]:
        """Answer one request, part by part."""
        ...


class Playable(Protocol):
    """Something that can be played as a reply."""

    def play(self, first_call: int) -> Sequence[TimedPart]:
        """Return the timed parts. Calls without an id are numbered from `call-<first_call>`."""
        ...


class ScriptEntry(Struct, frozen=True):
    """One entry of a script: what to play, how often, for which requests, and where it stands.

    `times` None is any number, at least once. `matches` None is an ordered entry, else a rule.
    """

    reply: Playable
    position: str
    times: int | None = 1
    matches: Callable[[Request], bool] | None = None


class Script:
    """Entries for one purpose. Rules go first, in order; then the next ordered entry."""

    def __init__(self, entries: Iterable[ScriptEntry], name: str) -> None:
        self._entries = entries = tuple(entries)
        self.name = name
        self._rules = tuple([entry for entry in entries if entry.matches is not None])
        self._ordered = tuple([entry for entry in entries if entry.matches is None])
        self._next = 0
        self._played = {entry.position: 0 for entry in entries}

    def add(self, entries: Iterable[ScriptEntry]) -> None:
        """Add entries after the others, during the run too."""
        for entry in entries:
            self._entries += (entry,)
            if entry.matches is None:
                self._ordered += (entry,)
            else:
                self._rules += (entry,)
            self._played[entry.position] = 0

    def choose(self, request: Request) -> ScriptEntry:
        """Return the entry that answers `request`. Raises ScriptExhausted if there is none."""
        for rule in self._rules:
            unspent = rule.times is None or self._played[rule.position] < rule.times
            if unspent and rule.matches is not None and rule.matches(request):
                self._played[rule.position] += 1
                return rule
        while self._next < len(self._ordered):
            entry = self._ordered[self._next]
            if entry.times is None or self._played[entry.position] < entry.times:
                self._played[entry.position] += 1
                return entry
            self._next += 1
        ordered, rules = len(self._ordered), len(self._rules)
        replies = "1 ordered reply" if ordered == 1 else f"{ordered} ordered replies"
        matched = f", and none of its rules matches ({rules})" if rules else ""
        raise ScriptExhausted(
            f"the script has no reply for request {request.number}: "
            f"the run used {replies}{matched}",
            key=self.name,
            hint="add a reply, or let one play `times: always`",
        )

    @property
    def replies(self) -> int:
        """Return the number of replies, without those of entries that may always be used."""
        return sum(entry.times or 0 for entry in self._entries)

    def unused(self) -> list[str]:
        """Return the positions of entries that were played less often than expected."""
        played = self._played
        return [
            each.position for each in self._entries if played[each.position] < (each.times or 1)
        ]


class FakeModel:
    """Plays one script to main requests and one to summary requests.

    `requests` holds every request, as sent.
    """

    def __init__(self, main: Iterable[ScriptEntry], summary: Iterable[ScriptEntry] = ()) -> None:
        self.requests: list[Request] = []
        self._scripts = {"main": Script(main, "model"), "summary": Script(summary, "summaries")}
        self._calls = 0
        # By the position of the reply: how many calls it has, and whether it takes no time.
        self._known: dict[str, tuple[int, bool]] = {}

    def stream(self, request: Request) -> TimedStream | WholeStream:
        """Play the reply that the script has for `request`. Raises ScriptExhausted if none."""
        self.requests.append(request)
        entry = self._scripts[request.purpose].choose(request)
        timed = entry.reply.play(self._calls + 1)
        if entry.position not in self._known:
            self._known[entry.position] = _count_calls(timed), _is_whole(timed)
        calls, is_whole = self._known[entry.position]
        self._calls += calls
        return WholeStream([part for _, part in timed]) if is_whole else TimedStream(timed)  # type: ignore[misc]

    def add(self, main: Iterable[ScriptEntry]) -> None:
        """Add entries for main requests after the others, during the run too."""
        self._scripts["main"].add(main)

    @property
    def replies(self) -> int:
        """Return the number of replies, without those of entries that may always be used."""
        return sum(script.replies for script in self._scripts.values())

    def unused(self) -> list[str]:
        """Return the positions of the replies that were not requested, or not often enough."""
        return [position for script in self._scripts.values() for position in script.unused()]

    def check_account(self) -> None:
        """Raise ScriptUnused with the positions of the replies that were not used up."""
        unused = self.unused()
        if unused:
            sent = len(self.requests)
            raise ScriptUnused(
                f"the run made {sent} request{'s' * (sent != 1)} and did not use "
                f"{', '.join(unused)}",
                key=unused[0],
                hint="find out why the run ended early, or delete the unused replies",
            )


_LISTS = (list, tuple)


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
        """Play the reply that the function returns for `request`."""
        self.requests.append(request)
        answer = self._function(request)
        if type(answer) in _LISTS:  # the usual answer: the questions to any other one are slow
            return WholeStream(answer)
        return self._later(answer) if inspect.isawaitable(answer) else self._play(answer)

    async def _later(self, answer: Awaitable[Any]) -> AsyncGenerator[Part, None]:
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
            return WholeStream(self._said(answer))
        if type(answer) in _LISTS:  # of an async function
            return WholeStream(answer)
        return TimedStream((0, part) for part in self._parts(answer))

    def _said(self, text: str) -> Sequence[Part]:
        stop = Finish(FinishReason.STOP, "stop")
        return (TextDelta(text), stop) if text else (stop,)

    def _parts(self, answer: Any) -> Iterable[Part]:
        if isinstance(answer, Iterable):
            return answer
        raise ScenarioError(
            f"the model function returned {type(answer).__name__}",
            key="model",
            hint="return text, a Reply, or parts",
        )


def _is_whole(timed: Iterable[TimedPart]) -> bool:
    return not any(
        delay_ns or part is None or isinstance(part, Exception) for delay_ns, part in timed
    )


def _count_calls(timed: Iterable[TimedPart]) -> int:
    parts = [part for _, part in timed]
    whole = [part.call.id for part in parts if type(part) is ToolCallPart]
    broken_off = {part.call_id for part in parts if type(part) is ToolCallDelta}.difference(whole)
    return len(whole) + len(broken_off)
