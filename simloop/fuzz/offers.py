"""An agent offers tools in its own requests; a search learns them from runs without faults.

Without a scenario, a model calls each tool once with plain arguments, then answers. Its replies are
the *course* of the agent: worlds disturb it. With a scenario, its script is the course, and a run
of it shows the tools.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, structs

from simloop.check.invariants.subject import tells
from simloop.check.trial import UNJUDGED, trial
from simloop.errors import CheckFailed
from simloop.fuzz.alphabet import LAST, CalledTools
from simloop.fuzz.arguments import MOST_WORDS, PLAIN_TEXTS, WORDS, Arguments, example
from simloop.messages import Message, Request, ToolMessage, ToolSpec, UserMessage, json_value
from simloop.runs import patience
from simloop.runs.isolation import can_isolate, isolated
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.scenario.designs import is_program
from simloop.scenario.people import Line
from simloop.scenario.replies import Reply, When
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import kind_of
from simloop.trace.requests import requests

Known: TypeAlias = dict[str, dict[Any, None]]
"""Values by the names of arguments, in the order in which tools have returned them."""
_ROUNDS = 4  # the most runs that look for the tools: one that ends the run hides those after it
_MOST = 60
_TYPED = [Line(say="y", times=20)]
"""The lines of a user who agrees. They end, because an agent may read until they do."""
_LONG = 20_000
_UNDO = ("cancel", "close", "decline", "delete", "drop", "reject", "release", "remove", "reset",
         "revoke", "undo", "withdraw")  # fmt: skip
_LATE: tuple[str | tuple[str, ...], ...] = ("transfer_to_", _UNDO)
_EMPTY = ("", "[]", "{}", "null", "None")
_NAMES = re.compile(  # in a prompt, such as `Ida Berg`, and what it quotes
    r"(?<=[a-z,;:] )[A-Z]\w+(?: [A-Z]\w+)*|(?<=[ (][\"'“])[\w -]{2,40}(?=[\"'”])"
).findall
_IDS = re.compile(r"\b(?=[\w-]{0,60}[A-Za-z])(?=[\w-]{0,60}\d)[A-Za-z0-9][\w-]*\w").findall


class Offered(CalledTools):
    """The tools of an agent, as the alphabet of replies calls them."""

    def __init__(
        self, tools: Mapping[str, Arguments], last: Reply = LAST, own: Collection[str] = (),
        ran: Collection[str] = (), asked: "AskedObject | None" = None,
    ) -> None:  # fmt: skip
        self.of, self.last, self.own, self._asked = tools, last, own, asked
        self.unseen = [name for name in tools if name not in ran]
        self.names = tuple(tools)

    def arguments(self, place: int, number: int) -> Mapping[str, Any]:
        """Return valid arguments: the plain ones for every other number, else an edge."""
        arguments = self.of[self.names[place]]
        return arguments.number((number + 1) // 2) if number % 2 else arguments.plain

    def answer(self, number: int) -> Mapping[str, Any]:
        asked = self._asked
        return {} if asked is None else asked.keys(asked.objects.number(number))

    def broken(self, place: int, number: int) -> Any:
        broken = self.of[self.name(place)].broken if self.of else ()
        return broken[number % len(broken)] if broken else {}


class AskedObject(Struct, frozen=True, eq=False):
    """An object that the agent asks for as an answer; `rule` tells requests beside its course."""

    objects: Arguments
    is_strict: bool = False
    tool: str = ""
    rule: When | None = None

    def keys(self, value: Any) -> dict[str, Any]:
        """Return the keys of a reply with an object, which may be the arguments of a call."""
        return {"say": "", "call": {self.tool: value}} if self.tool else {"say": json.dumps(value)}

    @property
    def plain(self) -> Reply:
        """Return the valid answer to each request."""
        return Reply(**self.keys(self.objects.plain), when=self.rule, times="always")


class Offer(Struct, frozen=True, eq=False):
    """The tools of an agent with arguments for them, its course, and the reply that ends a run.

    `ran` are the tools whose runs the trace shows: a scenario can state how they behave. `own` are
    those of them that the agent's own code calls. `first` are those in the first request: another
    agent of the program may offer the others, `later` with the places in the course from which on
    it does. `answers` are the objects that it asks for, and `input` is what its user types, if it
    reads that. `seen` counts the entries of the course by their kinds. `asks` means that a run
    ends with a question of the agent.
    """

    tools: Mapping[str, Arguments] = {}
    course: Sequence[Reply] = ()
    last: Reply = LAST
    ran: frozenset[str] = frozenset()
    first: tuple[str, ...] = ()
    later: Mapping[str, int] = {}
    own: frozenset[str] = frozenset()
    answers: tuple[AskedObject, ...] = ()
    input: Any = None
    seen: Mapping[str, int] = {}
    asks: bool = False

    @property
    def asked(self) -> AskedObject | None:
        """Return the object that the requests of the course ask for."""
        return next((each for each in self.answers if each.rule is None), None)

    def call(self, place: int, number: int = 0) -> dict[str, Any]:
        """Return a call of the first tool at a place, with the arguments of a number."""
        name = self.first[place % len(self.first)]
        return {name: self.tools[name].number(number)}


def offer_of(base: Scenario, given: RunOptions) -> Offer:
    """Return what the agent offers in runs of `base`, whose script is used if it has one.

    An agent that cannot be run offers nothing: the search shows why. The runs leave nothing here.
    """
    if base.input is None:
        base = base.model_copy(update={"input": _TYPED})
    if base.model or base.models:
        offer = _offer(base, _record(base, given), {})
        last = base.model[-1] if base.model else LAST
        return structs.replace(offer, course=base.model[:-1], last=last)
    # The function below answers everything. A further prompt would hide the tool that ends a run.
    base = base.model_copy(update={"summaries": [], "then": []})
    ending: list[str] = []
    forms: dict[str, int] = {}
    said: dict[str, list[str]] = {}
    last_form = len(PLAIN_TEXTS) + MOST_WORDS
    for _ in range(_ROUNDS + last_form):
        record = _record(base, {**given, "model": _Caller(ending, forms)})
        offer = _offer(base, record, forms)
        played = _played(record, offer)
        last = played[-1] if played else LAST
        ends = [] if ending[-1:] == [*last.call] else [*last.call]
        refused = dict[str, int]()
        for name, text in _refusals(record).items():
            before = said.setdefault(name, [])
            if not before[1:] or before[-1] != before[-2] or before[-1] == text:  # else it is news
                before.append(text)
                refused[name] = min(forms.get(name, 0) + 1, last_form)
        others = _offer(base, record, {**forms, **refused}).tools
        if not ends and all(others[name].plain == offer.tools[name].plain for name in refused):
            break
        ending += ends  # nothing was asked after it
        forms.update(refused)
    if last.call and not offer.asks:
        course = played[:-1]
    else:  # an answer before a call is that of another agent, or a title
        course = played[: max((n for n, each in enumerate(played, 1) if each.call), default=0)]
        last = LAST if offer.asked is None else offer.asked.plain
    course += [LAST.model_copy(update={"times": None}), *course[-1:]] * offer.asks  # agreed to now
    return structs.replace(offer, course=course, last=last.model_copy(update={"times": "always"}))


def _record(base: Scenario, given: RunOptions) -> Sequence[AnyEntry]:
    def run() -> list[AnyEntry]:
        return [*trial(Plan(base, given), UNJUDGED).entries]

    is_apart = can_isolate() and not is_program(base.loop or "")  # its runs are forks
    try:
        return isolated(run, limit_s=patience.PATIENCE_S) if is_apart else run()
    except CheckFailed:  # it does not end, or it ends its process
        return ()


def _played(record: Sequence[AnyEntry], offer: Offer) -> list[Reply]:
    """Return the replies of a model that calls one tool at a time, as the trace has them."""
    calls = {each.request: each for each in record if type(each) is entries.ToolCall}
    ruled = [each.rule for each in offer.answers if each.rule is not None]
    answer = LAST if offer.asked is None else offer.asked.plain
    return [
        Reply(call={calls[sent.number].name: json_value(calls[sent.number].arguments, {})})
        if sent.number in calls
        else answer.model_copy(update={"times": None})
        for sent in requests(record)
        if not any(rule.matches(sent) for rule in ruled)
    ]


def _answers(record: Sequence[AnyEntry], known: Known, *, scripted: bool) -> Iterator[AskedObject]:
    """Yield the objects that requests ask for: those of the course, then each that a rule tells.

    The course has the requests in which tools are called, or else those like the last one. It has
    those that force the model to call one tool only if there are no others.
    """
    if not (sent := [*requests(record)]):
        return
    calling = {each.request for each in record if type(each) is entries.ToolCall}
    free = [each for each in sent if each.output is None or not each.output.tool] or sent
    of_course = next((each for each in reversed(free) if each.number in calling), free[-1])
    for text, output in {each.asked_for: each.output for each in sent}.items():
        objects, is_of_course = Arguments(json_value(text), known), text == of_course.asked_for
        if output and objects.is_valid(objects.plain) and (is_of_course or not scripted):
            rule = None if is_of_course else When(output=text)
            yield AskedObject(objects, output.is_strict, output.tool, rule)


def _refusals(record: Sequence[AnyEntry]) -> dict[str, str]:
    called = {each.call_id: each for each in record if type(each) is entries.ToolCall}
    said: dict[str, str] = {}
    for message in (m for each in record if type(each) is entries.Request for m in each.added):
        if type(message) is ToolMessage and (call := called.get(message.call_id)):
            text = message.text.strip('" \n')
            if text in _EMPTY or tells(text, tool=call.name):
                for value in json_value(call.arguments, {}).values():
                    text = text.replace(str(value), "")
                said[call.name] = text
    return said


def _offer(base: Scenario, record: Sequence[AnyEntry], forms: Mapping[str, int]) -> Offer:
    schemas: dict[str, Any] = {}
    known: Known = {}
    offered: dict[str, int] = {}
    for entry in record:
        if type(entry) is entries.Request:
            keep_values(entry.added, known)
            for spec in () if entry.tools is UNSET else entry.tools:
                _keep_words([example(spec.description)], known)
                offered.setdefault(spec.name, entry.number - 1)
                schemas.setdefault(spec.name, _schema(spec))
    started = [each for each in record if type(each) is entries.ToolStarted]
    ran, own = ({each.name for each in started}, {each.name for each in started if each.own})
    scripted, given = bool(base.model or base.models), dict[str, Any]()
    for entry in record if scripted else ():
        if type(entry) is entries.ToolCall:
            given.setdefault(entry.name, json_value(entry.arguments))
    terms = {name: (known, forms.get(name, 0), given.get(name)) for name in schemas}
    tools = {name: Arguments(each, *terms[name]) for name, each in schemas.items()}
    answers = tuple(_answers(record, known, scripted=scripted))
    read = [each.ends for each in record if type(each) is entries.Input]
    typed = base.input if read else None
    if typed is _TYPED:  # an agent that reads to the end would never end
        typed = [Line(say="y", times=1 if any(read) else "always")]
    first = [name for name, place in offered.items() if not place]
    first.sort(key=lambda name: [*map(name.startswith, _LATE)])
    later = {name: place for name, place in offered.items() if place}
    names, seen = (frozenset(ran), (*first,), later, frozenset(own)), Counter(map(kind_of, record))
    asks = any(type(each) is entries.Ended and "?" in each.text for each in record)
    return Offer(tools, (), LAST, *names, answers, typed, seen, asks and not scripted)


def _schema(spec: ToolSpec) -> Any:
    return json_value(bytes(spec.parameters).decode(), {})


class _Caller:
    """A model that calls each tool once, those late and `ending` ones last, and then answers."""

    def __init__(self, ending: Sequence[str], forms: Mapping[str, int]) -> None:
        self._ending, self._forms = ending, forms
        self._called: set[str] = set()
        self._known: Known = {}

    def __call__(self, request: Request) -> Reply:
        keep_values(request.messages, self._known)
        if request.output is not None and request.output.tool:
            return _answer(request, self._known)
        _keep_words([example(spec.description) for spec in request.tools], self._known)
        due = [spec for spec in request.tools if spec.name not in self._called]
        due.sort(key=lambda spec: (spec.name in self._ending, *map(spec.name.startswith, _LATE)))
        if not due or len(self._called) >= _MOST:
            return _answer(request, self._known)
        name = due[0].name
        self._called.add(name)
        arguments = Arguments(_schema(due[0]), self._known, self._forms.get(name, 0))
        return Reply(call={name: arguments.plain})


def _answer(request: Request, known: Known) -> Reply:
    if request.output is None:
        return LAST
    objects = Arguments(json_value(request.asked_for), known)
    return AskedObject(objects, tool=request.output.tool).plain


def keep_values(messages: Iterable[Message], known: Known) -> None:
    """Keep the values that tools have returned, by their keys: a later call may need an id.

    A word with a letter and a digit in other text is an id; a tool may want names in a prompt.
    """
    for message in messages:
        if type(message) in {ToolMessage, UserMessage}:
            text = message.text[:_LONG]
            if type(message) is UserMessage:
                _keep_words(_NAMES(text), known)
            value = json_value(text) if type(message) is ToolMessage else None
            _keep([{"id": one} for one in _IDS(text)] if value is None else value, known)


def _keep_words(words: Iterable[str], known: Known) -> None:
    for word in filter(None, words):
        known.setdefault(WORDS, {})[word] = None


def _keep(value: Any, known: Known) -> None:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case list(each):
                waiting += reversed(each)
            case dict(each):
                waiting += reversed(each.values())
                for key, one in each.items():
                    if isinstance(one, str | int | float):
                        known.setdefault(key, {})[one] = None
