"""The first difference between two loops in the same world, by what both leave at the boundary.

The boundary has the requests as sent, the tools that run, and the ends, each with its time. So two
machines, two agents, or a machine and an agent can be compared. Not here: the comparison of
machines for every world (prove/likeness.py). The rule to keep: nothing inside a loop counts, so
that a loop that was written anew is alike if its user sees no difference.
"""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

from simloop.escape import escape
from simloop.fuzz.play import UNJUDGED, Breach, PlayedWorld, play
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
    COURSE: "In the same world both loops send requests and run tools in the same order.",
    REQUESTS: "In the same world both loops send the same requests.",
    TOOLS: "In the same world both loops run the same tools with the same arguments.",
    ENDS: "In the same world the runs of both loops end alike, with the same text.",
    TIMES: "In the same world both loops do the same at the same times.",
}
"""The rules that a difference breaks, by their names."""


class _Seen(NamedTuple):
    """One thing at the boundary: the rule that it stands for, its content, its time."""

    rule: str
    what: Any
    at_ns: int


def difference(
    scenario: Scenario, loop: GivenLoop, against: GivenLoop, **given: Any
) -> Breach | None:
    """Run a scenario on two loops and return the first difference, or None if there is none.

    `given` holds further arguments of `simloop.run`, for both. Raises ScenarioError if one of the
    loops cannot run it.
    """
    options: RunOptions = given  # type: ignore[assignment]
    return judged_against(against)(Plan(scenario, {**options, "loop": loop}))


def judged_against(against: GivenLoop) -> Callable[[Plan], Breach | None]:
    """Return the judge that runs a plan on its own loop and on another one."""

    def judge(plan: Plan) -> Breach | None:
        other: RunOptions = {**plan.given, "loop": against, "loop_options": {}, "judge_as": ""}
        return difference_of(play(plan, UNJUDGED), Plan(plan.source, other))

    return judge


def difference_of(played: PlayedWorld, against: Plan) -> Breach | None:
    """Return the first difference between a run that was made and a run of another plan."""
    one, other = list(_seen(played)), list(_seen(play(against, UNJUDGED)))
    for number, (first, second) in enumerate(zip_longest(one, other)):
        if first == second:
            continue
        if first is None or second is None or first.rule != second.rule:
            return _breach(COURSE, f"{_named(one, number)}, and the other {_named(other, number)}")
        if first.what == second.what:
            times = format_duration(first.at_ns), format_duration(second.at_ns)
            text = f"{_named(one, number)} after {times[0]}, and the other after {times[1]}"
            return _breach(TIMES, text)
        return _breach(first.rule, f"{_named(one, number)}: {_unlike(first.what, second.what)}")
    return None


def _breach(rule: str, text: str) -> Breach:
    return Breach(rule, text, SENTENCES[rule])


def _seen(played: PlayedWorld) -> Iterator[_Seen]:
    """Yield what a run leaves at the boundary, in order."""
    record = played.prepared.trace.entries
    sent = requests(record)
    for entry in record:
        if type(entry) is entries.Request:
            yield _Seen(REQUESTS, next(sent), entry.at_ns)
        elif type(entry) is entries.ToolStarted:
            yield _Seen(TOOLS, (entry.name, entry.arguments), entry.at_ns)
        elif type(entry) is entries.Ended:
            yield _Seen(ENDS, (str(entry.outcome), entry.text), entry.at_ns)
    if played.breach is not None:
        last_ns = record[-1].at_ns if record else 0
        yield _Seen(ENDS, (played.breach.name, ""), last_ns)


def _named(seen: list[_Seen], place: int) -> str:
    """Return the words for one thing: the third request, a tool by its name, an end."""
    if place >= len(seen):
        return "nothing more"
    rule, what, _ = seen[place]
    number = sum(each.rule == rule for each in seen[: place + 1])
    if rule == REQUESTS:
        return f"request {number}"
    return f"tool run {number} ({_short(what[0])})" if rule == TOOLS else f"end {number}"


def _unlike(one: Any, other: Any) -> str:
    """Return the first part in which two things of one kind are not equal, of both."""
    if isinstance(one, Request):
        one, other = _part(one, other)
    else:
        one, other = next(pair for pair in zip(one, other, strict=True) if pair[0] != pair[1])
    return f"{_short(one)}, and the other {_short(other)}"


def _part(one: Request, other: Request) -> tuple[Any, Any]:
    """Return the roles of both requests, or their first unequal messages, or another part."""
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
