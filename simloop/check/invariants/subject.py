"""The subject of a judgement: the declarations that hold for a run, its facts and its course.

A missing declaration is None, and an invariant that needs it is then not judged: simloop guesses no
limits and no policies.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from simloop.engine.settings import EngineSettings
from simloop.kernel import signals
from simloop.kernel.effects import Effect
from simloop.kernel.limits import DeclaredLimits, Limits
from simloop.kernel.machine import Machine, Run, checked_transition
from simloop.kernel.retry import RetryPolicy
from simloop.kernel.states import Ready
from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage
from simloop.runs.run import Simulation
from simloop.scenario.expect import Expect
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.facts import Facts
from simloop.world.tools import Tool

WORDS: dict[str, Any] = json.loads(Path(__file__).with_name("words.json").read_text("utf-8"))
PATTERNS = {name: re.compile(f"(?i){'|'.join(parts)}") for name, parts in WORDS["patterns"].items()}
"""Words for a change that was not made (`denied`), for what is not there (`absent`), for a failure
(`refused`) and for more than one (`partly`), and the names of what a database keeps of it."""


@lru_cache(1_000)  # several invariants ask about one text
def tells(text: str, of: str = "failures", *, tool: str = "") -> bool:
    """Return whether a text has one of the words of that list, but those of a tool's name."""
    words = (word for word in WORDS[of] if word[:4] not in tool.lower())
    return any(word in text.lower() for word in words)


class Course:
    """The course of a machine: it is pure, so the signals of a trace make its runs again."""

    def __init__(self, machine: Machine, settings: EngineSettings) -> None:
        self.machine = machine
        self.settings = settings
        self.signal: signals.Signal = signals.Began()
        self.before = self.run = _NOT_BEGUN
        self.asked: tuple[Effect, ...] = ()  # the effects that followed
        self.effect: Effect | None = None  # the last of them
        self.noted = False  # the transition is only a note
        self.wrong = ""  # why the machine does not accept the signal
        self.declared = *machine.bounds.values(), *getattr(machine, "thresholds", {}).values()
        self._flags_abort = settings.abort_is_flag

    def read(self, entry: Any) -> tuple[object, ...]:
        """Add the next transition, after the facts have read it. Return its moment.

        A moment has what an invariant can see: the signal, the last effect and the state to which
        it leads, by type.
        """
        signal = entry.signal
        kind = type(signal)
        self.noted = self._flags_abort and kind is signals.AbortRequested
        if self.noted:
            return _NOTED
        self.signal = signal
        try:
            if kind is signals.Began or self.run is _NOT_BEGUN:
                self.run = self.machine.start()
            self.before = self.run
            self.run, self.asked = checked_transition(self.machine, self.run, signal)
        except Exception as error:  # noqa: BLE001 - a machine is somebody's code
            self.wrong = f"the machine does not take {kind.__name__}: {error}"
            self.before, self.asked = self.run, ()
        self.effect, state = self.asked[-1] if self.asked else None, type(self.run.state)
        return entries.Transition, kind, type(self.effect), state

    def begin(self) -> None:
        self.run, self.asked, self.effect = _NOT_BEGUN, (), None


_NOTED = (entries.Transition, signals.AbortRequested)
_NOT_BEGUN = Run(Ready())
"""The run before the first signal: the machine has not been asked for its own."""


class Why(StrEnum):
    """The ways in which a call and its results can be wrong."""

    SHARED = "shares its id with another call"
    NO_RESULT = "has no result"
    MORE_RESULTS = "has more than one result"
    NOT_BEHIND = "has a result that does not follow its message"
    NOT_CALLED = "has a result and is in no message before it"


class Break(NamedTuple):
    """A broken pair: the number of a request, the id of a call, and the description."""

    number: int
    call_id: str
    why: str

    def __str__(self) -> str:
        return f"request {self.number}: call {self.call_id!r} {self.why}"


class MainRequest:
    """A kind of entries: the requests of conversations, without those for summaries, and asides."""


class Sent:
    """The messages of a request, read one after the other."""

    __slots__ = ("calls", "open", "results", "size")

    def __init__(self) -> None:
        self.size = 0
        self.open: dict[str, None] = {}  # calls of the newest message with calls, without a result
        self.calls: defaultdict[str, int] = defaultdict(int)  # of all messages, by id
        self.results: set[str] = set()  # behind the newest message

    def add(self, messages: Sequence[Message]) -> list[tuple[str, str]]:
        """Read the last messages of a request; return the breaks that they show, by call id."""
        found: list[tuple[str, str]] = []
        self.size += len(messages)
        for message in messages:
            if type(message) is ToolMessage:
                if (call_id := message.call_id) in self.open:
                    del self.open[call_id]
                    self.results.add(call_id)
                else:
                    found.append((call_id, self._why(call_id)))
                continue
            if self.open:
                found += [(call_id, Why.NO_RESULT) for call_id in self.open]
                self.open = {}
            self.results.clear()
            for call in calls_of(message):
                self.open[call.id] = None
                self.calls[call.id] += 1
                if self.calls[call.id] > 1:
                    found.append((call.id, Why.SHARED))
        return found + [(call_id, Why.NO_RESULT) for call_id in self.open] if self.open else found

    def _why(self, call_id: str) -> str:
        if call_id in self.results:
            return Why.MORE_RESULTS
        self.results.add(call_id)
        return Why.NOT_BEHIND if self.calls[call_id] else Why.NOT_CALLED


def calls_of(message: Message) -> Sequence[ToolCall]:
    """Return the calls of a message; only a reply has calls."""
    return message.calls if type(message) is AssistantMessage else ()


@dataclass(slots=True)
class Subject:
    """The declarations for one conversation, and its facts so far."""

    scenario: Scenario | None = None
    expected: Expect = field(default_factory=Expect)  # of the loop
    machine: Machine | None = None
    settings: EngineSettings | None = None  # of the engine; None for an agent
    limits: Limits | DeclaredLimits | None = None
    retry: RetryPolicy | None = None
    tool_timeout: int | None = None  # in ns
    source: str = ""  # of its module, if that is known
    deviations: Mapping[str, str] = field(default_factory=dict)
    mutating: Collection[str] | None = None  # what changes the world
    is_instance: bool = False  # of a class: the agent keeps its conversation
    tools: Mapping[str, Tool] = field(default_factory=dict)  # those of the world
    facts: Facts = field(default_factory=Facts)
    shared: dict[object, Any] = field(default_factory=dict)  # what invariants keep together
    breaks: list[Break] = field(init=False, default_factory=list)  # in the newest request
    course: Course = field(init=False, default=None)  # type: ignore[assignment] # of a machine
    _sent: Sent = field(init=False, default_factory=Sent)
    _newest: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.facts.is_one = self.machine is not None
        if self.machine is not None and self.settings is not None:
            self.course = Course(self.machine, self.settings)

    @classmethod
    def of(cls, run: Simulation) -> Self:
        loop = run.loop
        settings = run.settings if loop.machine is not None else None
        return cls(
            scenario=run.scenario, expected=run.expected, machine=loop.machine, settings=settings,
            limits=loop.declared_limits if settings is None else settings.limits,
            retry=loop.retry if settings is None else settings.retry,
            tool_timeout=loop.tool_timeout_ns, deviations=loop.deviations, mutating=loop.mutating,
            is_instance=settings is None and isinstance(loop.declares, type),
            source=loop.source, tools=run.scripts.tools,
        )  # fmt: skip

    def read(self, entry: AnyEntry) -> object:
        """Add the next entry. Return its kind, or its moment: see `Course.read`."""
        kind, facts = type(entry), self.facts
        facts.read(entry)
        if kind is entries.Transition:
            return self.course.read(entry) if self.machine is not None else kind
        if kind is entries.Request:
            self._pair(entry, facts)  # type: ignore[arg-type]
            moment = _MAIN if entry.purpose == "main" and not facts.is_aside else (kind,)  # type: ignore[union-attr]
            return (*moment, Break) if self.breaks else moment
        if kind is entries.Prompt and self.machine is not None:
            self.course.begin()
        return kind

    def _pair(self, entry: entries.Request, facts: Facts) -> None:
        if entry.purpose != "main":
            found = Sent().add(facts.sent[entry.number].messages)
        else:
            is_next = facts.before is not None and facts.before.number == self._newest
            if not is_next or facts.kept < self._sent.size:
                self._sent = Sent()  # another agent has asked meanwhile, or messages have gone
                self._sent.add(facts.sent[entry.number].messages[: facts.kept])
            found = self._sent.add(facts.added)
            self._newest = entry.number
        self.breaks = [Break(entry.number, *each) for each in found]

    @property
    def asked(self) -> list[ToolCall]:
        """Return the calls of the newest replies; before a pause they may have waited."""
        replies = self.facts.last_replies() or self.facts.main_replies[-1:]
        return [call for reply in replies for call in reply.calls]

    @property
    def results(self) -> dict[str, ToolMessage]:
        """Return the results that the newest main request adds to its conversation, by call id."""
        return {one.call_id: one for one in self.facts.added if type(one) is ToolMessage}


_MAIN = (entries.Request, MainRequest)
