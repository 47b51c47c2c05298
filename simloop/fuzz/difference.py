"""The first difference between two loops in the same world, by their entries at the boundary.

The boundary shows the requests, the tool runs and the ends of runs, each with its time. So two
machines, two agents, or a machine and an agent can be compared. Not here: the comparison of
machines for every world (prove/likeness.py). The rule to keep: only the boundary is compared, so
that a rewritten loop equals the old one if its user sees no difference.
"""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

from simloop.escape import escape
from simloop.fuzz.play import UNJUDGED, Failure, PlayedWorld, play
from simloop.kernel.durations import format_duration
from simloop.messages import Message, Request
from simloop.runs.options import RunOptions
from simloop.runs.own_loop import GivenLoop
from simloop.runs.plan import Plan
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.requests import requests

_SHOWN = 200

COURSE, REQUESTS, TOOLS, ENDS, TIMES = (
    "same-course",
    "same-requests",
    "same-tools",
    "same-ends",
    "same-times",
)
SENTENCES = {
    COURSE: "In the same world, both loops send requests and run tools in the same order.",
    REQUESTS: "In the same world, both loops send the same requests.",
    TOOLS: "In the same world, both loops run the same tools with the same arguments.",
    ENDS: "In the same world, the runs of both loops end with the same outcome and text.",
    TIMES: "In the same world, both loops act at the same times.",
}
"""The properties that a difference violates, by their names."""


class _Seen(NamedTuple):
    """An event at the boundary: the name of its property, its content and its time."""

    name: str
    what: Any
    at_ns: int


def difference(
    scenario: Scenario, loop: GivenLoop, against: GivenLoop, **given: Any
) -> Failure | None:
    """Run a scenario on two loops and return the first difference, or None.

    `given` holds further arguments of `simloop.run` for both loops. Raises ScenarioError if one of
    the loops cannot run the scenario.
    """
    options: RunOptions = given  # type: ignore[assignment]
    return judged_against(against)(Plan(scenario, {**options, "loop": loop}))


def judged_against(against: GivenLoop) -> Callable[[Plan], Failure | None]:
    """Return a function that runs a plan on its own loop and on another one, and compares both."""

    def judge(plan: Plan) -> Failure | None:
        other: RunOptions = {**plan.given, "loop": against, "loop_options": {}, "judge_as": ""}
        return difference_of(play(plan, UNJUDGED), Plan(plan.source, other))

    return judge


def difference_of(played: PlayedWorld, against: Plan) -> Failure | None:
    """Return the first difference between a finished run and a run of another plan."""
    one, other = list(_seen(played)), list(_seen(play(against, UNJUDGED)))
    for number, (first, second) in enumerate(zip_longest(one, other)):
        if first == second:
            continue
        if first is None or second is None or first.name != second.name:
            return _failure(COURSE, f"{_named(one, number)}, and the other {_named(other, number)}")
        if first.what == second.what:
            times = format_duration(first.at_ns), format_duration(second.at_ns)
            text = f"{_named(one, number)} after {times[0]}, and the other after {times[1]}"
            return _failure(TIMES, text)
        return _failure(first.name, f"{_named(one, number)}: {_unlike(first.what, second.what)}")
    return None


def _failure(name: str, text: str) -> Failure:
    return Failure(name, text, SENTENCES[name])


def _seen(played: PlayedWorld) -> Iterator[_Seen]:
    """Yield the events of a run at the boundary, in order."""
    record = played.prepared.trace.entries
    sent = requests(record)
    for entry in record:
        if type(entry) is entries.Request:
            yield _Seen(REQUESTS, next(sent), entry.at_ns)
        elif type(entry) is entries.ToolStarted:
            yield _Seen(TOOLS, (entry.name, entry.arguments), entry.at_ns)
        elif type(entry) is entries.Ended:
            yield _Seen(ENDS, (str(entry.outcome), entry.text), entry.at_ns)
    if played.failure is not None:
        last_ns = record[-1].at_ns if record else 0
        yield _Seen(ENDS, (played.failure.name, ""), last_ns)


def _named(seen: list[_Seen], place: int) -> str:
    """Return the description of an event, such as `request 3`."""
    if place >= len(seen):
        return "nothing more"
    name, what, _ = seen[place]
    number = sum(each.name == name for each in seen[: place + 1])
    if name == REQUESTS:
        return f"request {number}"
    return f"tool run {number} ({_short(what[0])})" if name == TOOLS else f"end {number}"


def _unlike(one: Any, other: Any) -> str:
    """Return the first parts of two events that are not equal, as text."""
    if isinstance(one, Request):
        one, other = _part(one, other)
    else:
        one, other = next(pair for pair in zip(one, other, strict=True) if pair[0] != pair[1])
    return f"{_short(one)}, and the other {_short(other)}"


def _part(one: Request, other: Request) -> tuple[Any, Any]:
    """Return the first unequal parts of two requests: the roles, a message, or another field."""
    roles = _roles(one), _roles(other)
    if roles[0] != roles[1]:
        return roles
    for pair in zip(one.messages, other.messages, strict=True):
        if pair[0] != pair[1]:
            return pair
    for name in one.__struct_fields__:
        if name != "messages" and getattr(one, name) != getattr(other, name):
            return f"{name} {getattr(one, name)}", f"{name} {getattr(other, name)}"
    return "the one", "another"


def _roles(request: Request) -> str:
    return " ".join(map(_role, request.messages))


def _role(message: Message) -> str:
    return str(type(message).__struct_config__.tag)


def _short(value: Any) -> str:
    text = escape(str(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
