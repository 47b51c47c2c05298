"""The circumstances of an agent: the catalogue of disturbances of its course, one by one.

A circumstance that only a provider causes which breaks the contract of its API is a *breach*: a
real provider rarely does that.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, cycle, islice, product, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from msgspec import structs

from simloop.check.invariants.agents import OUTPUT_TOOL
from simloop.check.invariants.told import DONE, FAILED, PAGED, PAGES
from simloop.fuzz.alphabet import ANSWER_FAULTS, NO_WIRE, Abilities, with_answer
from simloop.fuzz.offers import AskedObject, Offer
from simloop.kernel.limits import Limits
from simloop.messages import json_value
from simloop.scenario.conversation import calls_of
from simloop.scenario.expect import REST
from simloop.scenario.people import Line, Then
from simloop.scenario.programs import Program
from simloop.scenario.programs import with_fault as with_program_fault
from simloop.scenario.replies import Http, Pace, Reply, TokenUsage, When, reply_of_fault
from simloop.scenario.schema import Queued, Scenario, ScriptedTool, Trigger
from simloop.scenario.services import Route, failing, with_fault
from simloop.virtual.clock.instants import SECOND_NS
from simloop.world import faults
from simloop.world.faults import Keys
from simloop.world.program_scripts import FILES

_DATA: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_FIRST = tuple(_DATA["first"])  # the beginnings of the names of the circumstances that come first
_PHASES, _TOOLS, _SUMMARIES = _DATA["phases"], _DATA["tools"], _DATA["summaries"]
_OF_SERVICES, _OF_PROGRAMS = _DATA["services"], _DATA["programs"]
_REPLIES, _PEOPLE, _CALLS = _DATA["replies"], _DATA["people"], _DATA["calls"]
_BROKEN_OFF, _STORMS = _DATA["broken off"], _DATA["storms"]
FURTHER, _LAST = "And then?", "And at last?"
_STORM, _MOST_STEPS, _FEW, _SIZES = 16, 40, 6, (200_000, 1_000)  # of an amount, in cents or not
_IDS = re.compile(r'"((?!\d{4}-)[\w-]*\d[\w-]*)"(?!:)')
_ENDS = ("None", "''", "False", "1")  # the marks of a last page, or the number of pages
_CHANGING = ("post", "put", "patch", "delete")
_SLOW_MS, _LEAST_SLOW = 40_000, 8  # the time until a reply of which an agent is patient
_PART_MS, _HOUR = 20_000, {"takes": 3_600 * SECOND_NS, "times": 1}  # between two parts; an answer


class WorldDraft:
    """A world in the making: the replies, and the other keys of a scenario."""

    def __init__(self, base: Scenario, offer: Offer) -> None:
        self.base, self.offer = base, offer
        self.replies = list(offer.course)
        self.rules = [each.plain for each in offer.answers if each.rule]
        self.keys: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.keys.get(key, getattr(self.base, key))

    @property
    def answer_at(self) -> int:
        """The place of the first answer, which a script of the user's has in its course."""
        ends = (n for n, each in enumerate(self.replies) if not (each.call or each.when))
        return next(ends, len(self.replies))

    def at(self, place: int) -> int:
        """Return the place of a reply: that one, or the last before the answer."""
        return min(place, len(self.replies))

    def insert(self, place: int, *replies: Reply) -> None:
        at, asked = self.at(place), self.offer.asked
        for each in reversed(replies):
            if asked and each.say and not (each.call or each.half_call):
                whole = {"say": asked.plain.say, "call": asked.plain.call}
                each = each.model_copy(update=whole)  # noqa: PLW2901
            self.replies.insert(at, each)

    def answer(self, asked: AskedObject, **keys: Any) -> None:
        """Answer once, before the valid object, with a reply of these keys."""
        reply = Reply(**keys, when=asked.rule, times=1)
        if asked.rule is None:
            self.replies.insert(self.answer_at, reply)
        else:
            self.rules.insert(0, reply)

    def reply(self, place: int) -> Reply:
        """Return the reply at a place, for once; its calls have ids of their own."""
        at = self.at(place)
        found = self.replies[at] if at < len(self.replies) else self.offer.last
        return found.model_copy(update={"times": None, "ids": []})

    def scenario(self) -> Scenario:
        replies = [*self.rules, *self.replies, self.offer.last]
        return self.base.model_copy(update={**self.keys, "model": replies})


Act: TypeAlias = Callable[[WorldDraft, int], object]
"""Brings a disturbance into a world, at a place of its course."""


class Circumstance(NamedTuple):
    """One disturbance.

    `is_breach`: only a provider that breaks its contract causes it. `stalls`: nothing ends a reply.
    """

    name: str
    act: Act
    is_breach: bool = False
    stalls: bool = False


def circumstances(base: Scenario, offer: Offer, abilities: Abilities) -> list[Circumstance]:
    """Return the circumstances that the agent can meet: by turns one of each kind, or two.

    Those that most agents have to deal with come before the others.
    """

    def rank(each: Circumstance) -> int:
        starts = (place for place, start in enumerate(_FIRST) if each.name.startswith(start))
        return next(starts, len(_FIRST))

    def can_come(each: Circumstance) -> bool:
        is_kept = abilities.breaches or not each.is_breach
        return is_kept and (abilities.bounds_streams or not each.stalls)

    kinds = (
        _failures(abilities), _cuts(abilities, offer), _calls(offer, abilities),
        _tools(base, offer), _answers(offer), _later(base, offer, abilities), _people(offer),
        _others(base, offer, abilities), _limits(offer, abilities.limits),
        _user(base, offer, abilities.limits), _services(base, offer, abilities.limits),
    )  # fmt: skip
    *others, user, services = (sorted(filter(can_come, kind), key=rank) for kind in kinds)
    turns = zip_longest(*others, user[::2], services[::2], user[1::2], services[1::2])
    return [each for turn in turns for each in turn if each is not None]


# ---------------------------------------------------------------- the model


def _failures(abilities: Abilities) -> Iterator[Circumstance]:
    """Yield what fails a request. The APIs of providers ask for waits in seconds, and not by dates.

    An agent without an SDK is to know dates as well.
    """
    is_by_sdk = abilities.bounds_streams
    failed = Reply(http=Http(status=500))
    for reply in (failed, Reply(lost="before-headers"), _repeat(failed, 3)):  # all tries of an SDK
        yield Circumstance(f"{reply}, and the call before it again", _repeated(reply))
    for times, (what, keys) in product((3, _STORM), _STORMS.items()):
        yield Circumstance(f"{times} {what}", _inserted({**keys, "times": times}))
    for fault in faults.FAULTS:
        if fault.stage is faults.Stage.INSTEAD:
            act = _inserted(fault.keys)
            yield Circumstance(fault.name, act, fault.is_breach, "stall" in fault.keys)
    for status, most in ((429, None), (503, _FEW if is_by_sdk else None)):
        for wait in faults.WAITS[1:most]:
            act = _inserted({"http": {"status": status, **wait}})
            is_soon, name = "2026" in str(wait), f"http {status} {wait}"  # the date is over soon
            is_breach = is_by_sdk and faults.NO_SECONDS.search(name) is not None
            yield Circumstance(name, _first(act) if is_soon else act, is_breach)
    waits = _inserted({"http": {"status": 429, "retry_after": "45s"}})
    yield Circumstance("a wait, then nothing", _both(_inserted({"finish": "stop"}), waits))
    for body in faults.BODIES[1:]:
        # A body of two statuses misleads by the first of them: a quota that looks like a rate.
        for status in [*dict.fromkeys((body.statuses[0], body.statuses[-1]))][: 2 - is_by_sdk]:
            keys = {"http": {"status": status, **body.keys}}
            is_breach = body.is_of_openai and not abilities.asks_openai
            yield Circumstance(f"http {status} {body.keys}", _inserted(keys), is_breach)


def _repeated(reply: Reply) -> Act:
    """Fail behind a reply, and say it again: an agent may begin its conversation anew."""
    return lambda draft, place: draft.insert(max(place, 1), reply, draft.reply(max(place - 1, 0)))


def _inserted(keys: Keys) -> Act:
    return lambda draft, place: draft.insert(place, Reply(**keys))


def _cuts(abilities: Abilities, offer: Offer | None = None) -> Iterator[Circumstance]:
    for fault in faults.FAULTS:
        if fault.stage in (faults.Stage.AMID, faults.Stage.END) and fault.name not in NO_WIRE:
            for where, say in (("a call", ""), ("a text", "Some words")):
                act, name = partial(_broken, fault, say=say), f"{fault.name} in {where}"
                yield Circumstance(name, act, fault.is_breach, "stall" in fault.keys)
        if fault.name in _AMID_ANSWERS and offer and offer.course:
            yield Circumstance(f"{fault.name} in the answer", partial(_broken, fault, is_last=True))
    for pace in ({"first_part": "20s"}, {"first_part": "170s"}, {"per_part": "15s"}):
        yield Circumstance(f"pace {pace}", partial(_changed, pace=Pace(**pace)))
    for name, keys in _REPLIES.items():
        is_breach = name == "no calls" or (name == "blank" and not abilities.asks_openai)
        yield Circumstance(name, _inserted(keys), is_breach)


_AMID_ANSWERS = ("finish length", "lost mid output", "error part overloaded_error")


def _broken(
    fault: faults.ReplyFault, draft: WorldDraft, place: int, *, say: str = "Some words",
    is_last: bool = False,
) -> None:  # fmt: skip
    """Insert a reply that breaks; the model makes it whole when it is asked again."""
    update = {key: getattr(reply_of_fault(fault), key) for key in fault.keys}
    whole = Reply(say=say) if say else draft.reply(place)
    if not (whole.say or whole.call):
        whole = Reply(say="Some words")
    is_at_end = is_last or (say and "stall" in fault.keys)  # so one of the texts is the answer
    at = draft.answer_at if is_at_end else place
    draft.insert(at, whole.model_copy(update={"finish": None, **update}))


def _changed(draft: WorldDraft, place: int, **update: Any) -> None:
    at = draft.at(place)
    draft.replies[at : at + 1] = [draft.reply(place).model_copy(update=update)]


def _answers(offer: Offer) -> Iterator[Circumstance]:
    for number, asked in enumerate(offer.answers):
        plain = json.dumps(asked.objects.plain)
        half = plain[: len(plain) // 2]
        broken = [json.dumps(each) for each in asked.objects.broken[:6]]
        cut = {"half_call": {asked.tool: half}} if asked.tool else {"say": half}
        kept: list[dict[str, Any]] = [
            {**cut, "finish": "length"}, {"say": "I cannot do that.", "finish": "refusal"},
            {"finish": "content_filter"},
            *({"http": {"status": status}} for status in (500, 429) if asked.rule),
            *(asked.keys(each) for each in asked.objects.edges[:8]),
            *(asked.keys(each) for each in asked.objects.broken[:6] if asked.tool),
        ]  # fmt: skip
        for keys in kept:
            yield Circumstance(f"the answer {number} {keys}", _answered(asked, keys))
        for say in (*broken, f"```json\n{plain}\n```", f"Here it is: {plain} Anything else?", half,
                    "I have no such object.", "", "{}", "null", "[]"):  # fmt: skip
            if not asked.tool and not asked.objects.is_valid(json_value(say, say)):
                act = _answered(asked, {"say": say, "finish": "stop"})
                name = f"the answer {number} is {say!r}"
                yield Circumstance(name, act, is_breach=asked.is_strict)


def _answered(asked: AskedObject, keys: Keys) -> Act:
    return lambda draft, _: draft.answer(asked, **keys)


# ---------------------------------------------------------------- calls


def _calls(offer: Offer, abilities: Abilities) -> Iterator[Circumstance]:
    unknown = _inserted({"call": {"no_such_tool": {"a": 1}}})
    yield Circumstance("unknown tool", unknown, is_breach=not offer.tools)
    if not offer.first:
        return
    first, second = offer.call(0), offer.call(1, 1)
    name, text = calls_of(first)[0]
    half, every = text[: len(text) // 2] or "{", [offer.call(n) for n in range(len(offer.first))]
    parts = {
        "first": [first], "second": [second], "again": [offer.call(0, 1)], "every": every,
        "every twice": [each for each in every for _ in range(2)],
        "12": [offer.call(place, place) for place in range(12)], "unknown": [{"no_such_tool": {}}],
        "half": [{name: half}], "begun": [{offer.first[-1]: "{"}], "none": [{name: ""}],
        "a brace more": [{name: f"{text}}}"}],
    }  # fmt: skip
    for what, keys in _CALLS.items():
        made: dict[str, Any] = {"call": [each for part in keys["call"] for each in parts[part]]}
        if half_call := keys.get("half_call"):
            made["half_call"] = parts[half_call][0]
        is_own = keys.get("finish") == "stop" or "interleave" in keys  # of APIs as OpenAI's is
        yield Circumstance(what, _inserted({**keys, **made}), is_own and not abilities.asks_openai)
    again = _inserted({"call": first, "times": "always" if abilities.ends else _STORM})
    yield Circumstance("a call again and again", again)
    several = [first, second]
    for what, value in (("null", "null"), ("a list", "[1]")):
        act = _inserted({"call": {name: value}})
        yield Circumstance(f"{what} as arguments", act, is_breach=True)
    for ids in (["a", "a"], ["", ""], ["call-1", "call-2"]):
        yield Circumstance(f"ids {ids}", _inserted({"call": several, "ids": ids}), is_breach=True)
    own = {tool: offer.tools[tool] for tool in offer.first}
    broken = {tool: [*each.broken[:6], json.dumps(each.plain)[:-2]] for tool, each in own.items()}
    # The last of many has a further key, which no schema forbids.
    edges = {tool: [*each.edges[:10], *each.edges[10:][-1:]] for tool, each in own.items()}
    for what, given, times in (("broken", broken, 1), ("edge", edges, 1), ("edge", edges, 4)):
        turns = zip_longest(*([{tool: one} for one in each] for tool, each in given.items()))
        for number, turn in enumerate(islice(turns, 6 if times > 1 else None)):
            act = _inserted({"call": [each for each in turn if each] * times})
            yield Circumstance(f"{what} {number} of each tool, {times} at once", act)


def _later(base: Scenario, offer: Offer, abilities: Abilities) -> Iterator[Circumstance]:
    if offer.later:
        place = max(offer.later.values())
        ran = offer.ran & offer.tools.keys()
        own = structs.replace(offer, first=(*offer.later,), later={}, ran=ran)
        for each in filter(None, chain(*zip_longest(_calls(own, abilities), _tools(base, own)))):
            late = partial(lambda act, draft, at: act(draft, max(at, place)), each.act)
            yield each._replace(name=f"{each.name}, later", act=late)


def _limits(offer: Offer, limits: Limits | None) -> Iterator[Circumstance]:
    if limits is None:
        return
    for kind, most, keys in (
        ("steps", limits.max_steps, {"say": "Hm.", "call": offer.call(0)} if offer.first else {}),
        ("errors", limits.max_error_count, {"http": {"status": 500}}),
    ):
        for more in (-1, 3) if keys and most <= _MOST_STEPS else ():
            if most + more > 0:
                act = _inserted({**keys, "times": most + more})
                yield Circumstance(f"{more} to the limit of {kind}", _first(act))
                then = _first(_both(_inserted({"finish": "stop"}), act))
                yield Circumstance(f"{more} to the limit of {kind}, then nothing", then)
    if not offer.first:
        return
    call, failed = Reply(call=offer.call(0)), Reply(http=Http(status=500))
    tries, steps = limits.max_error_count + 2, limits.max_steps
    if tries < min(steps, _MOST_STEPS):
        yield Circumstance("a failure before each reply", _begun([failed, call] * tries))
    cut = Reply(say="Some words", lost="mid-output")
    ends = ("1 failure", failed), ("3 failures", _repeat(failed, 3)), ("a lost stream", cut)
    for what, fails in ends if 1 < steps <= _MOST_STEPS else ():  # 3 are all tries of an SDK
        amid = [_repeat(call, steps - 1), fails, _repeat(call, steps)]
        yield Circumstance(f"{what} before the last step", _begun(amid))
    made = dict(pair for each in offer.course for pair in calls_of(each.call))
    for name, text in made.items() if 1 < steps <= _MOST_STEPS else ():
        all_steps = _begun([_repeat(Reply(call={name: text}), steps + 3)])
        yield Circumstance(f"{name} to the limit of steps", _both(all_steps, _further))
    last_ms = limits.max_wall_clock_ms or 0
    late = min(steps, max(_LEAST_SLOW, last_ms // _SLOW_MS + 2), _MOST_STEPS)
    slow_ms = last_ms // max(late - 2, 1)
    if 0 < slow_ms <= _SLOW_MS:  # several conversations at once share the slow replies
        slow = call.model_copy(update={"times": 2 * late, "pace": Pace(first_part=f"{slow_ms}ms")})
        yield Circumstance("slow replies past the deadline", _begun([slow]))
        words = ["word "] * max(3 * last_ms // (4 * _PART_MS), 1)  # a long time, and again
        lost = Reply(say=words, lost="mid-output", times=tries, pace=Pace(per_part=f"{_PART_MS}ms"))
        yield Circumstance("slow replies that are lost past the deadline", _begun([lost]))


def _repeat(reply: Reply, times: int) -> Reply:
    return reply.model_copy(update={"times": times})


def _begun(replies: Sequence[Reply]) -> Act:
    return lambda draft, _: draft.insert(0, *replies)


# ---------------------------------------------------------------- tools, the user, other parties


def _tools(base: Scenario, offer: Offer) -> Iterator[Circumstance]:
    """Yield the ends of tools whose runs simloop sees, alone and beside another call."""
    for name in (name for name, tool in base.tools.items() if tool.answers):
        for keys in ANSWER_FAULTS:
            yield Circumstance(f"{name} {keys} once", partial(_answering, name, keys))
    for name in sorted(offer.ran - offer.tools.keys()):  # the course runs it inside of a tool
        for keys in _TOOLS:
            if keys.keys() & {"raises", "takes", "hangs"}:
                yield Circumstance(f"{name} {keys}, inside", _tool(base, name, keys, []))
    names = [name for name in offer.first if name in offer.ran]
    stopped, beside = list[Circumstance](), list[Circumstance]()
    for name in names:
        others = [names[(names.index(name) + 1) % len(names)]] if len(names) > 1 else []
        for other in others:
            act = _tool(base, name, {"takes": "2s"}, [{name: 0}, {other: 0}])
            beside.append(Circumstance(f"{name} takes 2s beside {other}", act))
        # Most wait longer than 9 s; the other one has ended before.
        slow = _tool(base, name, {"takes": "9s"}, [*({each: 0} for each in others), {name: 0}])
        stop = _both(slow, _a_minute_later, _stopped(at="5s"))
        stopped.append(Circumstance(f"{name} is stopped", stop))
    yield from stopped[:1]
    for name in names[:1]:
        act = _tool(base, name, {"takes": "20s"}, [{name: n} for n in range(12)])
        yield Circumstance(f"{name} takes 20s, 12 times at once", act)  # more than run at once
    for turn, (number, keys) in product(range(len(names)), enumerate(_TOOLS)):  # each first once
        name = names[(number + turn) % len(names)]
        if (turn, number) == (1, 0):  # each has come once
            yield from chain(beside, stopped[1:])
        if turn and not keys.keys() & {"raises", "takes"}:
            continue
        if name in offer.own and keys.keys() & {"returns", "returns_chars", "cancels"}:
            continue  # the agent's own code uses what its function returns, and cancels it
        yield Circumstance(f"{name} {keys}", _tool(base, name, keys, [{name: 0}]))
        if len(names) > 1 and not turn and keys.keys() & {"raises", "takes", "hangs"}:
            other = names[(number + 1) % len(names)]
            act = _tool(base, name, keys, [{name: 0}, {other: 0}])
            beside.append(Circumstance(f"{name} {keys} beside {other}", act))
    for name in names:
        fails = _tool(base, name, {"raises": "the disk is full"}, [{name: 0}])
        yield Circumstance(f"{name} fails twice", _both(fails, fails))


def _tool(base: Scenario, name: str, keys: Keys, calls: Sequence[Mapping[str, int]]) -> Act:
    known = base.tools.get(name)
    plain = {} if known is None else {
        key: getattr(known, key) for key in ("description", "parameters", "json_schema")
    }  # fmt: skip
    tool = ScriptedTool(**plain, **keys)

    def act(draft: WorldDraft, place: int) -> None:
        draft.keys["tools"] = {**draft.get("tools"), name: tool}
        own = draft.offer.tools
        if made := [{one: own[one].number(n)} for each in calls for one, n in each.items()]:
            draft.insert(place, Reply(call=made))

    return act


def _people(offer: Offer) -> Iterator[Circumstance]:
    for name, (goes_on, lines) in _PEOPLE.items() if isinstance(offer.input, list) else ():
        typed = [*map(Line.model_validate, lines), *(offer.input if goes_on else ())]
        act = partial(lambda lines, draft, _: draft.keys.update(input=lines), typed)
        yield Circumstance(f"the user types {name}", act)


def _answering(name: str, keys: Keys, draft: WorldDraft, place: int) -> None:
    tools = draft.get("tools")
    draft.keys["tools"] = {**tools, name: with_answer(tools[name], keys, place)}


def _user(base: Scenario, offer: Offer, limits: Limits | None) -> Iterator[Circumstance]:
    yield Circumstance("a further prompt", _further)
    for nth, phase in product((1, 2), _PHASES):
        yield Circumstance(f"abort after {phase} {nth}", _stopped(after=phase, nth=nth))
    for keys, wait in (({"http": {"status": 503}, "times": 2}, "100ms"),
                       ({"pace": {"first_part": "20s"}, "say": "Late."}, "5s")):  # fmt: skip
        yield Circumstance(f"abort in {keys}", _both(_inserted(keys), _stopped(at=wait)))
    at_once = _first(_inserted({"say": "At once."}))
    yield Circumstance("an answer and a further prompt", _both(at_once, _further))
    cut = {"a cut in `call`": {"call": offer.call(0), "finish": "length"}} if offer.first else {}
    for what, keys in {**_BROKEN_OFF, **cut}.items():
        yield Circumstance(f"a further prompt after {what}", _both(_inserted(keys), _further))
    yield from _of_course(offer, limits) if offer.course else ()
    yield Circumstance("the second prompt is refused", partial(_in_second, http={"status": 401}))
    halt = _both(_in_second, _stopped(after="request", nth=2))
    yield Circumstance("the second prompt is stopped", halt)
    yield Circumstance("the second prompt is answered", _in_second)
    asks = offer.first or base.models  # else a summary is asked for as an answer is
    if asks:
        broken = [*_SUMMARIES.values()][1:]
        yield Circumstance("many prompts, with summaries that break", _many(_WHOLE, 12, broken))
        yield Circumstance("a long talk, with summaries that break", _long(_WHOLE, 0, broken))
        yield Circumstance("a long talk, summed up twice", _long(_WHOLE, 0))
    for what, summary in _SUMMARIES.items() if asks else [(", summed up", _WHOLE)]:
        yield Circumstance(f"a long conversation{what}", _long(summary))
        yield Circumstance(f"many prompts{what}", _many(summary))
    yield Circumstance("more prompts than most agents keep", _many(_WHOLE, 40))
    steps = min(11, limits.max_steps - 1 if limits else 11)
    yield Circumstance("a long prompt, and further ones", partial(_steps, steps))
    for what, (times, keys) in _DATA["begins"].items() if offer.first else ():
        fails = _many(_WHOLE, begins=[Reply(**keys, times=times)])
        yield Circumstance(f"many prompts, each with {what} at first", fails)
    slow, stop = {**_WHOLE, "pace": {"first_part": "40s"}}, _stopped(at="20s")
    for what, act in (("a long conversation", _long(slow)), ("many prompts", _many(slow))):
        yield Circumstance(f"{what}, stopped in a summary", _both(act, stop))
    for phase in ("request", "tool-started", "finish"):
        yield Circumstance(f"a message after {phase}", partial(_told, phase))
    yield Circumstance("two messages after request", _both(*[partial(_told, "request")] * 2))
    for before, words in ((0, "last"), (1, "last but one")) if offer.course else ():
        late = partial(_told, "request", before_last=before)
        yield Circumstance(f"a message after the {words} request", late)
    if offer.first and limits and limits.max_steps <= _MOST_STEPS:
        looks = Reply(call=offer.call(0), times=limits.max_steps)
        yield Circumstance("the limit of steps after the calls", partial(_after_calls, looks))


def _of_course(offer: Offer, limits: Limits | None) -> Iterator[Circumstance]:
    what, rest = "each call of the course", partial(_rested, limits)
    two, other = partial(_twice, _changed_texts), _both(_one_by_one, rest)
    for end, reply in ("refusal", Reply(http=Http(status=401))), ("stop", None):
        after = partial(_after_calls, reply)
        yield Circumstance(f"a {end} after the calls", after)
        yield Circumstance(f"two things in {what}, and a {end} after", _both(two, after))
    yield Circumstance(f"{what} twice", partial(_twice, str))
    yield Circumstance(f"{what} twice, and again", _both(_twice_and_again, rest))
    yield Circumstance(f"two things in {what}", two)
    yield Circumstance(f"{what}, then for another thing", other)
    given = "".join(text for each in offer.course for _, text in calls_of(each.call))
    for size in _SIZES if re.search(r'": ?\d', given) else ():
        yield Circumstance(f"{what} with the number {size}, one by one", _both(_sized(size), other))
    for place, words in (-1, "last"), (-2, "last but one"), (0, "first"):
        both = _both(partial(_twice, partial(_changed_one, place=place)), _all_again)
        yield Circumstance(f"{what}, also with another {words} argument at once", both)


def _after_calls(end: Reply | None, draft: WorldDraft, _: int) -> None:
    """Let the model make all its calls in a run that ends so, or is stopped, and ask twice more."""
    calls = [each for each in draft.replies if each.call]
    draft.replies = calls if end is None else [*calls, end]
    draft.keys["then"] = [*_then(draft, FURTHER), _LAST]
    if end is None:
        draft.keys["abort"] = Trigger(after="request", nth=len(calls) + 1)


def _all_again(draft: WorldDraft, _: int, *, times: int = 1) -> None:
    """Let the model do again what it has done, some minutes later."""
    size, given = len(draft.replies), draft.get("then")
    draft.replies += [draft.reply(size), *map(draft.reply, range(size))] * times
    draft.keys["then"] = [*given, *[Then(say="Do it again.", after="5m"), *given] * times]


def _both(*acts: Act) -> Act:
    return lambda draft, place: [each(draft, place) for each in acts]


def _first(act: Act) -> Act:
    """Let a circumstance come before the course, which would count to a limit, too."""
    return lambda draft, _: act(draft, 0)


def _stopped(**trigger: Any) -> Act:
    return _both(lambda draft, _: draft.keys.update(abort=Trigger(**trigger)), _further)


def _further(draft: WorldDraft, _: int) -> None:
    draft.keys["then"] = _then(draft, FURTHER)


def _then(draft: WorldDraft, *further: str | Then) -> list[Any]:
    """Return the further prompts of a world; without any before a restart, these come first."""
    given = draft.get("then")
    is_anew = not given or (isinstance(given[0], Then) and given[0].restart)
    return [*further, *given] if is_anew else given


def _a_minute_later(draft: WorldDraft, _: int) -> None:
    """Prompt again when all that a stop has left running has ended."""
    prompts = _then(draft, FURTHER)
    prompts = prompts if FURTHER in prompts else [*prompts, FURTHER]  # the stop may be in the last
    said = [each.model_dump() if isinstance(each, Then) else {"say": each} for each in prompts]
    draft.keys["then"] = [Then(**{**each, "after": "1m"}) for each in said]


def _steps(times: int, draft: WorldDraft, _: int) -> None:
    """Answer once, then make the calls of the course so often, and ask twice more."""
    end = draft.reply(len(draft.replies))
    made = [draft.reply(n) for n, each in enumerate(draft.replies) if each.call]
    calling = [each for each in made if OUTPUT_TOOL not in dict(calls_of(each.call))]
    draft.replies = [end, *islice(cycle(calling), times), end]
    draft.keys["then"] = [*_then(draft, FURTHER), _LAST]


def _in_second(draft: WorldDraft, _: int, **keys: Any) -> None:
    """Answer at once, answer the second prompt otherwise, and ask a third time."""
    end = draft.reply(len(draft.replies))
    draft.replies = [end, Reply(**keys) if keys else end]
    draft.keys["then"] = [*_then(draft, FURTHER), _LAST]


_FULL = TokenUsage(input=180_000, output=9_000)
_WHOLE = {"say": "In short."}


def _long(keys: Keys, calls: int = 12, broken: Sequence[Keys] = ()) -> Act:
    """Let all say and call so much that most agents shorten their history, with a summary.

    An agent asks for a summary without its tools, and may wait for its user before a call.
    """

    def act(draft: WorldDraft, _: int) -> None:
        made = [draft.offer.call(n, n) for n in range(calls)] if draft.offer.first else []
        draft.replies = draft.replies if calls else []
        draft.insert(0, Reply(say=["some words " * 3_000], call=made, usage=_FULL, times=2))
        _summed(draft, keys, "first words", broken)
        said = [Then(say=each * 3_000) for each in ("first words ", "second words ")]
        more: list[str | Then] = [*said, FURTHER, _LAST]
        draft.keys["then"] = _then(draft, *more) if calls else [*draft.get("then"), *more]

    return act


def _many(
    keys: Keys, prompts: int = 12, broken: Sequence[Keys] = (), *, begins: Sequence[Reply] = ()
) -> Act:
    """Prompt so often that an agent that keeps the newest messages drops others, of any kind.

    The numbers of calls have no period: it could hide a call that is cut off from its result.
    """

    def act(draft: WorldDraft, _: int) -> None:
        end = draft.reply(len(draft.replies))
        for number in range(prompts if draft.offer.first else 0):
            calls = [draft.offer.call(place, place) for place in range(number % 2 + 1)]
            draft.replies += [*begins, *[Reply(call=calls)] * (number.bit_count() % 3), end]
        _summed(draft, keys, "Prompt 2.", broken)
        # No more in a minute than a limit for users allows.
        more = (Then(say=f"Prompt {n + 2}.", after="19s") for n in range(prompts))
        draft.keys["then"] = [*draft.get("then"), *more]

    return act


def _summed(draft: WorldDraft, keys: Keys, early: str, broken: Sequence[Keys]) -> None:
    """Answer each request for a summary so: an agent asks for it by its purpose, or without tools.

    Another model answers so if it gets the text `early`, or fails at all requests.
    """
    if draft.offer.first and not draft.offer.answers:
        is_whole = keys.keys() == {"say"}
        first = [Reply(when=When(tools=[]), say="At first.", times=1)] if is_whole else []
        draft.rules += [*first, Reply(when=When(tools=[]), **keys, times="always")]
    some = broken if draft.offer.answers or not broken else [*broken, keys, *broken]
    draft.rules[:0] = [Reply(**each, when=When(tools=[]), times=1) for each in some]
    draft.keys["summaries"] = [Reply(**keys, times="always")]
    if keys.keys() != {"say"}:
        when = {"conversation": {"contains": early}} if "pace" in keys else None
        said = Reply.model_validate({**keys, "when": when, "times": "always"})
        draft.keys["models"] = {
            name: each.model_copy(update={"replies": [said, *(each.replies if when else ())]})
            for name, each in draft.get("models").items()
        }


def _told(phase: str, draft: WorldDraft, _: int, *, before_last: int | None = None) -> None:
    number = len(draft.get("queue")) + 1
    nth = 1 if before_last is None else max(len(draft.replies) + 1 - before_last, 1)
    message = Queued(say=f"Message {number}.", after=phase, nth=nth)
    draft.keys["queue"] = [*draft.get("queue"), message]


def _twice(other: Callable[[str], Any], draft: WorldDraft, _: int, *, alone: bool = False) -> None:
    """Make each call twice at once, the second time with other arguments, or only that one."""
    for n, reply in enumerate(draft.replies):
        made = [(name, text, other(text)) for name, text in calls_of(reply.call)]
        both = [(name, (text, _allowed(draft, name, text, more))) for name, text, more in made]
        calls = [{name: each} for name, two in both for each in two[alone:]]
        draft.replies[n] = reply.model_copy(update={"call": calls, "ids": []}) if calls else reply


def _allowed(draft: WorldDraft, name: str, text: str, other: Any) -> Any:
    """Return other arguments that the tool allows: edges in place of words that it does not list.

    If others differ, such words stay: two things may be done to one account.
    """
    tool, given = draft.offer.tools.get(name), json_value(text)
    if tool is None or not (isinstance(given, dict) and isinstance(other, dict)):
        return other
    changed = {key: other.get(key) for key in given if other.get(key) != given[key]}
    kept = {key: x for key, x in changed.items() if tool.is_valid({**given, key: x})}
    for key in changed if not kept else ():
        edges = [each[key] for each in tool.edges if type(each.get(key)) is type(given[key])]
        tried = (each for each in edges if each not in given.values())
        kept[key] = next((x for x in tried if tool.is_valid({**given, key: x})), given[key])
    return {**given, **kept} if {**given, **kept} != given else other


def _twice_and_again(draft: WorldDraft, _: int) -> None:
    slow = dict.fromkeys(sorted(draft.offer.ran), ScriptedTool(takes="1s"))
    draft.keys["tools"] = slow | {**draft.get("tools")}
    once = [draft.reply(place) for place in range(len(draft.replies))]
    _twice(str, draft, 0)
    pairs = zip(draft.replies, once, strict=True)
    draft.replies = [one for both in pairs for one in both[: 2 if both[1].call else 1]]


def _one_by_one(draft: WorldDraft, _: int, *, again: bool = True) -> None:
    """Make each call in a reply of its own, and then again with another last argument."""
    replies, draft.replies = draft.replies, []
    for reply in replies:
        given = calls_of(reply.call)
        more = {one: _allowed(draft, *one, _changed_one(one[1])) for one in given}
        made = [(name, (text, *[more[name, text]] * again)) for name, text in given]
        calls = [{name: each} for name, several in made for each in several]
        alone = [reply.model_copy(update={"call": each, "ids": []}) for each in calls]
        draft.replies += alone or [reply]


_alone = partial(_one_by_one, again=False)


def _second_again(draft: WorldDraft, _: int) -> None:
    draft.replies = [one for n, each in enumerate(draft.replies) for one in [each] * (n % 2 + 1)]


def _rested(limits: Limits | None, draft: WorldDraft, _: int) -> None:
    """Answer before the limit of steps, and go on after a further prompt."""
    most, end = limits.max_steps - 1 if limits else 0, draft.reply(len(draft.replies))
    made = draft.replies
    parts = [made[n : n + most] for n in range(0, len(made), most)] if most > 0 else [made]
    draft.replies = [*chain.from_iterable([*part, end] for part in parts[:-1]), *parts[-1]]
    draft.keys["then"] = [*draft.get("then"), *[FURTHER] * (len(parts) - 1)]


def _valued(change: Callable[[Any], Any], text: str) -> Any:
    given = json_value(text)
    values = given.items() if isinstance(given, dict) else ()
    other = {key: new for key, each in values if (new := change(each)) is not None}
    return {**given, **other} if other else text


_changed_texts = partial(_valued, lambda each: f"other-{each}" if type(each) is str else None)


def _sized(size: int) -> Act:
    """Give each number of a call that size, if its tool allows that."""
    sized = partial(_valued, lambda each: size if type(each) in (int, float) else None)
    return partial(_twice, sized, alone=True)


def _changed_one(text: str, place: int = -1) -> Any:
    """Return arguments of which one, the last by default, is another text, number or boolean."""
    given = json_value(text)
    if not isinstance(given, dict) or not given:
        return text
    key, value = [*given.items()][max(place, -len(given))]
    changed = f"other-{value}" if type(value) is str else not value
    return {**given, key: value + 1 if type(value) in (int, float) else changed}


def _services(base: Scenario, offer: Offer, limits: Limits | None) -> Iterator[Circumstance]:
    for (words, (times, keys)), name in product(_OF_SERVICES.items(), base.services):
        stage = faults.Stage.LATE if "takes" in keys else faults.Stage.INSTEAD
        fault = faults.SiteFault(f"service {words}", stage, keys)
        act = _disturbed("services", name, fault, with_fault, times)
        yield Circumstance(f"{name} {words}", act, stalls="stall" in keys)
    for name, routes in base.services.items():
        yield from _routes(name, routes)
        late = [each.model_copy(update={"takes": 5 * SECOND_NS}) for each in routes]
        first = [_first_answer(each) for each in routes]
        crossed = _both(_with_services(name, [*first, *routes]), partial(_twice, _changed_texts))
        yield Circumstance(f"{name} is late with the first of two calls", crossed)
        for words, (status, has_other) in _DATA["refusals"].items():
            refusal = {"status": status, "times": 1}
            refused = [Route.model_validate({each: f"/{REST}", **refusal}) for each in _CHANGING]
            acts = (_one_by_one, partial(_rested, limits)) if has_other else (_alone, _all_again)
            done = _both(*acts, _with_services(name, [*refused, *late]))
            yield Circumstance(f"{words} at {name}, which is late", done)
    if base.services:
        yield Circumstance("all is done again, with services", _all_again)
    fails = partial(faults.SiteFault, stage=faults.Stage.INSTEAD)
    asks = fails("service asks for a wait", keys=_OF_SERVICES["asks for a wait"][1])
    for name in base.services if any(len(calls_of(each.call)) > 1 for each in offer.course) else ():
        alone = _both(_one_by_one, _disturbed("services", name, asks, with_fault, 2))
        yield Circumstance(f"{name} asks for a wait, and each call is alone", alone)
    calls = _inserted({"call": [offer.call(n) for n in range(len(offer.first))]})
    for name, method in product(base.services, ("get", *_CHANGING) if offer.first[1:] else ()):
        routes = base.services[name]
        if held := [each.model_copy(update=_HOUR) for each in routes if getattr(each, method)]:
            act = _both(calls, _with_services(name, [*held, *routes]))
            yield Circumstance(f"all tools, and a {method.upper()} to {name} takes an hour", act)
    lost = faults.SERVICE_FAULTS[-1]
    for name, method in product(base.services, _CHANGING):
        routes = [each for each in base.services[name] if getattr(each, method)]
        for route in routes:
            others = with_fault(base.services[name], lost, _STORM, of=method)
            stall = _with_services(name, [route.model_copy(update=_HOUR), *others])
            again = _both(_alone, stall, _stopped(at="4s"), partial(_all_again, times=2))
            what = f"{method.upper()} {getattr(route, method)} to {name}"
            yield Circumstance(f"a stop, then lost answers, of a {what}", again)
            for words, keys in _DATA["ends after a stop"].items() if route is routes[0] else ():
                breaks: Any = {method: getattr(route, method), **keys, "times": _STORM}
                ends = _with_services(name, [Route(**breaks), *base.services[name]])
                stop = _both(ends, _a_minute_later, _stopped(at="4s"))
                yield Circumstance(f"a stop, then {words}, of a {what}", stop)
    refuses = fails("service refuses", keys=_OF_SERVICES["refuses"][1])
    several = product([*faults.SERVICE_FAULTS[1:], asks, refuses], (1, 4))  # all tries of one call
    broken, gone = (fails(f"service.{n}", keys={"status": n}) for n in (500, 504))
    for name, (fault, times) in product(base.services, [(broken, 1), (gone, 4), *several]):
        for method in _CHANGING:  # a read before would use the fault up
            if any(getattr(route, method) for route in base.services[name]):
                change = partial(with_fault, of=method)
                # Each call is alone, so that it is known whose request fails.
                words, more = ("4 ", (_all_again,)) if times > 1 else ("", ())
                apart = _both(_alone, _disturbed("services", name, fault, change, times), *more)
                yield Circumstance(f"{words}{fault.site} of a {method.upper()} to {name}", apart)


def _routes(name: str, routes: list[Route]) -> Iterator[Circumstance]:
    """Yield what fails in one route of a service, and what has a further page."""
    for nth, route in enumerate(routes):
        put, what = partial(_before, name, routes, nth), f"route {nth} of {name}"
        more = (_alone, _all_again) if route.get else ()
        yield Circumstance(f"{what} fails", _both(put(failing(route, 4)), *more))  # all tries
        said: Any = route.json if isinstance(route.json, dict) else {}
        states = ("tells of a failure", FAILED), ("is never done", "running")
        for key, (words, state) in product(("state", "status"), states if route.get else ()):
            if DONE.match(str(said.get(key))):
                job = put(route.model_copy(update={"json": {**said, key: state}}))
                yield Circumstance(f"{what} {words}", _both(_alone, job))
        if key := next((each for each in PAGED + PAGES if repr(said.get(each, 0)) in _ENDS), ""):
            others = json_value(_IDS.sub(r'"other-\1"', json.dumps(said)))
            link = f"{name}{route.get}{'&' if '?' in str(route.get) else '?'}page=2"
            for mark in {0: (True,), 1: (2,)}.get(said[key]) or ("2", link):
                once = route.model_copy(update={"json": {**others, key: mark}, "times": 1})
                yield Circumstance(f"{what} has two pages, {mark}", _both(_alone, put(once)))


def _before(name: str, routes: list[Route], nth: int, route: Route) -> Act:
    return _with_services(name, [*routes[:nth], route, *routes[nth:]])


def _first_answer(route: Route) -> Route:
    known: Any = route.json
    more = {**known, "first": True} if isinstance(known, dict) else known
    more = [*known, *known[:1]] if isinstance(known, list) else more
    return route.model_copy(update={"takes": SECOND_NS, "times": 1, "json": more})


def _others(base: Scenario, offer: Offer, abilities: Abilities) -> Iterator[Circumstance]:
    two = partial(_twice, _changed_texts)
    for name, given in base.programs.items():
        yield Circumstance(f"{name} is not there", _with_programs(name, {}))
        if given != FILES:  # a shell over files has no answers
            for words, keys in _OF_PROGRAMS.items():
                answers = [
                    each.model_copy(update=keys) if isinstance(each, Program) else each
                    for each in (given if isinstance(given, list) else [given])
                ]
                ends = _with_programs(name, {name: answers})
                yield Circumstance(f"{name} {words}", _both(_alone, ends))
                if offer.first:
                    both = _both(partial(_twice, str), ends)
                    yield Circumstance(f"{name} {words}, for two calls", both)
                stop = _both(ends, _a_minute_later, _stopped(at="5s"))
                acts = (two, _alone, _second_again, stop, _all_again) if offer.first else (stop,)
                if "takes" in keys:
                    yield Circumstance(f"{name} {words}, and is stopped", _both(*acts))
    for phase in ("service-request", "program-started"):
        sent = offer.seen.get(phase, 0)
        for nth in range(1, min(2 * sent, 8) + 1):
            stop = _both(_a_minute_later, _stopped(after=phase, nth=nth))
            if nth <= sent:
                yield Circumstance(f"abort after {phase} {nth}", stop)
            yield Circumstance(f"abort after {phase} {nth} of two calls", _both(two, stop))
    for key, several, change in (
        ("services", faults.SERVICE_FAULTS, with_fault),
        ("programs", faults.PROGRAM_FAULTS, with_program_fault),
    ):
        for name in getattr(base, key):
            for fault, times in product(several, (1, 4)):
                act = _disturbed(key, name, fault, change, times)
                yield Circumstance(f"{times} {fault.site} of {name}", act)
                if fault is several[-1]:
                    what = f"{times} {fault.site} of {name}, and the first calls again"
                    again = _both(lambda draft, _: draft.insert(1, draft.reply(0)), act)
                    yield Circumstance(what, again)
    for each in chain(_failures(abilities), _cuts(abilities)) if base.models else ():
        for name in base.models:
            yield each._replace(name=f"{each.name} for {name}", act=partial(_for_party, name, each))


def _for_party(name: str, each: Circumstance, draft: WorldDraft, place: int) -> None:
    known = draft.get("models")
    *course, last = known[name].replies
    inner = WorldDraft(draft.base, Offer(course=course, last=last))
    each.act(inner, place)
    changed = known[name].model_copy(update={"replies": inner.scenario().model})
    draft.keys["models"] = {**known, name: changed}


def _with_services(name: str, routes: list[Route]) -> Act:
    return lambda draft, _: draft.keys.update(services={**draft.get("services"), name: routes})


def _with_programs(name: str, answers: Keys) -> Act:
    def others(draft: WorldDraft) -> dict[str, Any]:
        known, program = draft.get("programs").items(), name.split(maxsplit=1)[0]
        gone = {name} | {one for one, _ in known if not answers and one.split()[0] == program}
        return {one: each for one, each in known if one not in gone}

    return lambda draft, _: draft.keys.update(programs={**others(draft), **answers})


def _disturbed(key: str, name: str, fault: Any, change: Callable[..., Any], times: int) -> Act:
    def act(draft: WorldDraft, _: int) -> None:
        known = draft.get(key)
        if name in known:  # it may be a program that is not there
            draft.keys[key] = {**known, name: change(known[name], fault, times)}

    return act
