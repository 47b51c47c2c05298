"""An invariant, and the decorator that makes one from a function.

Not here: giving it the entries of a run (judge.py). The rule to keep: an invariant looks at one
entry after the other and keeps its own state, so that a run can be stopped at the first violation.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from simloop.check.invariants.subject import Subject
from simloop.trace.entries import AnyEntry, Footer

Watch: TypeAlias = Generator[None, Any, str]
"""A generator that is sent entries, and returns the description of the first violation."""


class Need(StrEnum):
    """An input without which an invariant cannot be judged. Every invariant needs a trace."""

    MACHINE = "machine"  # a loop machine, whose engine leaves transitions, hooks and counters
    AGENT = "agent"  # an agent of the user's own, which leaves entries of the boundary alone
    LIMITS = "limits"  # declared limits: those of a machine, or `limits` of an agent
    RETRY = "retry"  # a declared retry policy: that of a machine, or `retry` of an agent
    SCENARIO = "scenario"  # the scenario of the run: its tools, hooks and replies


@dataclass(frozen=True, slots=True)
class Invariant:
    """A property that every run must have.

    `sentence` states it. `source` names the rule, the bug or the document that it comes from.
    `sees` are the kinds of entries that `watch` is sent; it is called once for each conversation.
    """

    name: str
    sentence: str
    source: str
    sees: tuple[type[AnyEntry | Footer], ...]
    needs: frozenset[Need]
    watch: Callable[[Subject], Watch]

    def unjudged(self, subject: Subject) -> str:
        """Return the reason why a run of `subject` is not judged, or an empty text."""
        missing = [need.value for need in Need if need in self.needs and not _has(subject, need)]
        if Need.AGENT.value in missing:
            return "this loop is a machine"
        if missing:
            return f"this loop has no {' and no '.join(missing)}"
        return subject.deviations.get(self.name, "")


def _has(subject: Subject, need: Need) -> bool:
    if need is Need.AGENT:
        return subject.machine is None
    return getattr(subject, need.value) is not None


def invariant(
    sentence: str,
    source: str,
    *,
    sees: Iterable[type[AnyEntry | Footer]],
    needs: Iterable[Need] = (),
) -> Callable[[Callable[[Subject], Watch]], Invariant]:
    """Make an invariant from a generator function, under the function's name with hyphens.

        @invariant("A tool call runs at most once.", "BUGS.md D14", sees=[ToolStarted])
        def exactly_once_tools(subject):
            started = set()
            while (entry := (yield)).call_id not in started:
                started.add(entry.call_id)
            return f"the tool of call {entry.call_id!r} started twice"

    The function gets the `Subject` of the run. It is sent the entries of the kinds in `sees`, each
    after `subject.facts` has read it, and returns the description of the first violation. It is
    sent a `Footer` when the conversation is over. One that returns before its first `yield` has
    nothing to judge in this run.
    """

    def make(watch: Callable[[Subject], Watch]) -> Invariant:
        name = watch.__name__.replace("_", "-")
        return Invariant(name, sentence, source, tuple(sees), frozenset(needs), watch)

    return make
