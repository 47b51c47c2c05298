"""An invariant, which looks at one entry after the other, and the decorator that makes one."""

from collections.abc import Callable, Collection, Generator, Iterable
from enum import StrEnum
from functools import partial
from inspect import signature
from typing import Any, TypeAlias, get_args

from msgspec import Struct

from simloop.check.invariants.subject import Break, MainRequest, Subject
from simloop.kernel.effects import Effect
from simloop.kernel.signals import Signal
from simloop.kernel.states import State
from simloop.trace.entries import AnyEntry, Boundary, Footer

Watch: TypeAlias = Generator[None, Any, Any]
"""A generator that receives entries by `send`, and returns the text of the first violation."""

Check: TypeAlias = Callable[[Subject, Any], str]
"""A function that judges a single entry, and returns the text of a violation, or an empty text."""


class Need(StrEnum):
    """An input without which an invariant cannot be judged. Every invariant needs a trace."""

    MACHINE = "machine"  # a loop machine, whose engine leaves transitions, hooks and counters
    AGENT = "agent"  # an agent of the user's own, which leaves entries of the boundary alone
    LIMITS = "limits"  # declared limits: those of a machine, or `limits` of an agent
    RETRY = "retry"  # a declared retry policy: that of a machine, or `retry` of an agent
    TOOL_TIMEOUT = "tool_timeout"  # a declared bound of the tools: the time of each
    MUTATING = "mutating"  # declared tools and services that change the world
    SCENARIO = "scenario"  # the scenario of the run: its tools, hooks and replies


_OF_EVERY_RUN = frozenset({*get_args(Boundary), Footer, Break, MainRequest})
EntryKind: TypeAlias = type[AnyEntry | Footer | Signal | Effect | State | Break | MainRequest]
"""A kind of entries; the transitions by a signal, last effect or state; or some of the requests."""


class Invariant(Struct, frozen=True, eq=False):
    """A property that every run must have, which either `check` or `watch` judges."""

    name: str
    sentence: str
    source: str  # the rule, the bug or the document that it comes from
    sees: frozenset[EntryKind]  # the kinds of entries that it is given
    needs: frozenset[Need]
    watch: Callable[[Subject], Watch] | None  # called once for each conversation
    check: Check | None  # judges each entry by itself
    begins: frozenset[EntryKind]  # the kinds at whose first entry `watch` is called

    def unjudged(self, subject: Subject, given: Collection[Need]) -> str:
        """Return the reason why a run of `subject` is not judged, or an empty text.

        `given` are the needs that the subject has.
        """
        if self.needs.issubset(given):
            return subject.deviations.get(self.name, "")
        if Need.AGENT in self.needs and Need.AGENT not in given:
            return "the loop is a machine, and the invariant is for other agents"
        missing = [need.value for need in Need if need in self.needs and need not in given]
        return f"the loop declares no {' and no '.join(missing)}"


def invariant(
    sentence: str, source: str, *, sees: Iterable[EntryKind], needs: Iterable[Need] = (),
    begins: Iterable[EntryKind] = (),
) -> Callable[[Callable[[Subject], Watch] | Check], Invariant]:  # fmt: skip
    """Make an invariant from a generator function, under the function's name with hyphens.

        @invariant("A tool call runs at most once.", "BUGS.md D14", sees=[ToolStarted])
        def tool_runs_at_most_once(subject):
            started = set()
            while (entry := (yield)).call_id not in started:
                started.add(entry.call_id)
            return f"the tool of call {entry.call_id!r} started twice"

    The function gets the `Subject` of the run. It is sent the entries of the kinds in `sees`, each
    after `subject.facts` has read it, and returns the description of the first violation. It is
    sent a `Footer` when the conversation is over. One that sees only what a machine leaves needs a
    machine. One that returns before its first `yield` has nothing to judge in this run. It begins
    at the first entry that it is sent, or with `begins` at the first of those kinds; a run without
    one costs nothing. So name signals, effects and states rather than all transitions.

    An invariant that remembers nothing is a plain function of the subject and of one entry. It
    returns how the entry is wrong, or an empty text, and costs less.
    """
    kinds = frozenset(sees)
    # A machine alone leaves the others.
    needed = frozenset(needs if kinds & _OF_EVERY_RUN else [Need.MACHINE, *needs])
    begun = frozenset(begins) or kinds

    def make(function: Any) -> Invariant:
        name = function.__name__.replace("_", "-")
        plain = len(signature(function).parameters) > 1
        watch, check = (None, function) if plain else (function, None)
        return Invariant(name, sentence, source, kinds, needed, watch, check, begun)

    return make


of_agents = partial(invariant, needs=[Need.AGENT])
"""`invariant` for a property of agents of the user's own."""
