"""The result of a run, its comparison with expectations, and the account of a run that failed.

The text of models, tools and exceptions in an account passes through `escape`.
"""

import operator
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Self

from msgspec import Struct, field

from simloop.errors import CannotExpress, ExpectationFailed, ScenarioError
from simloop.escape import escape
from simloop.kernel.durations import format_duration
from simloop.messages import Counters, Message, Outcome, Request, ToolMessage, ToolSpec, json_value
from simloop.runs.plan import scripted_tools, stated
from simloop.scenario import loader
from simloop.scenario.conversation import PastMessage, SentRequest, differing, written
from simloop.scenario.expect import REST, Contains, CountBounds, Expect, ExpectedCounters, Span
from simloop.scenario.schema import Scenario
from simloop.trace import entries, looptrace
from simloop.trace.entries import AnyEntry, Header
from simloop.trace.looptrace import Call, LoopTrace
from simloop.trace.requests import requests
from simloop.trace.timeline import timeline
from simloop.virtual.border.output import NAMES, Output
from simloop.world.agent import Ending
from simloop.world.file_tools import file_tools
from simloop.world.files import Files
from simloop.world.program_scripts import command_line, pattern_of
from simloop.world.tools import Tool, wrong_arguments
from simloop.world.user_functions import UserError

LINES = 16
MOST_PRINTED = 20
_WIDTH = 200
_SHORT, _BEFORE, _AFTER = 100, 30, 60
_UNSAID = " (a scenario that names no outcome expects this)"
_NO_COUNTERS = " (an agent of your own has no counters; expect `requests`)"


class Mismatch(Struct, frozen=True):
    """An expectation that does not hold.

    `expected` and `got` are plain values, durations as text. `seq` is the number of the first entry
    that shows it, or None if only the end of the run shows it.
    """

    key: str
    expected: Any
    got: Any
    seq: int | None = None
    note: str = ""

    def __str__(self) -> str:
        expected, got = self._sides()
        return f"expect.{self.key}: expected {expected}, got {got}{self.note}"

    def lines(self) -> list[str]:
        """Return the text; a long difference of a request has its two sides below each other."""
        expected, got = self._sides()
        if not self.key.startswith("sent") or len(str(self)) <= _SHORT:
            return [str(self)]
        return [f"expect.{self.key}:", f"  expected {expected}", f"  got      {got}{self.note}"]

    def _sides(self) -> tuple[str, str]:
        """Return both values; those of a request are cut around their first difference."""
        sides = self.expected, self.got
        texts = [each if isinstance(each, str) else _shown(each) for each in sides]
        if not self.key.startswith("sent") or max(map(len, texts)) <= _SHORT:
            return _shown(sides[0]), _shown(sides[1])
        pairs = enumerate(zip_longest(*texts))
        start = max(0, next((place for place, (a, b) in pairs if a != b), 0) - _BEFORE)
        end = start + _BEFORE + _AFTER
        cut = [f"{'...' * (start > 0)}{one[start:end]}{'...' * (len(one) > end)}" for one in texts]
        return repr(cut[0]), repr(cut[1])


class Result(Struct, frozen=True, kw_only=True):
    """The end of a run, and its comparison with the expectations.

    `text` is the model's last text, whole or cut off. `message` is the message to the user: the
    text of a completed run, or the reason why there is none. `limit` names the limit that ended
    the run, or is empty. `elapsed_ns` is virtual time. `mismatches` are the expectations that do
    not hold. After several prompts these describe the last one, except the time, which is the
    total; `outcomes` has one outcome per prompt. `files` are the files in memory at the end.
    `unused_places` are those of unused replies and of the user's actions that never happened.
    `exceptions` are those that the caller's own functions raised, with their tracebacks; a trace
    does not hold them. `bodies` are the raw bodies of the requests over HTTP, by their numbers, if
    the run kept them (`keep_bodies=True`). `exit` is the exit status of a whole program, and
    `through` the framework that let the scripted failure of a tool end the run.
    """

    outcome: Outcome
    outcomes: tuple[Outcome, ...]
    text: str
    message: str
    limit: str
    counters: Counters | None
    messages: tuple[Message, ...]
    elapsed_ns: int
    trace: LoopTrace
    files: Mapping[str, str] | None = None
    unused_places: tuple[str, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    exceptions: tuple[UserError, ...] = ()
    reproduce: str = ""
    bodies: Mapping[int, bytes] = field(default_factory=dict)
    exit: int | None = None
    through: str = ""  # as in the `Ended` entry of the trace

    @property
    def elapsed_s(self) -> float:
        """Return the elapsed virtual seconds; `elapsed_ns` is exact."""
        return self.elapsed_ns / 1e9

    @property
    def unused(self) -> int:
        """Return the number of unused replies and actions of the script."""
        return len(self.unused_places)

    @property
    def failures(self) -> tuple[str, ...]:
        """Return the expectations of the scenario that do not hold, one line each."""
        return tuple(map(str, self.mismatches))

    @property
    def ok(self) -> bool:
        """Return whether every expectation of the scenario holds."""
        return not self.mismatches

    @property
    def requests(self) -> list[Request]:
        """Return the requests exactly as sent, including those for summaries."""
        return list(requests(self.trace.entries))

    @property
    def calls(self) -> list[looptrace.Call]:
        """Return the tool calls that ran: name and arguments, in the order of their starts.

        A function of an agent that is not traced counts when a request has its result.
        """
        return [call for _, call in calls_of(self.trace)]

    @property
    def backoffs_s(self) -> list[float]:
        """Return the waits before retries, in virtual seconds."""
        return [e.delay_ns / 1e9 for e in self.trace.entries if isinstance(e, entries.Backoff)]

    def expect(self, **expected: Any) -> Self:
        """Check the given expectations, keyed as `expect` in a scenario file; return the result.

            result.expect(outcome="completed", elapsed="5.12s", calls=[{"read": {"path": "a"}}])

        Raises ExpectationFailed, with one line for each expectation that does not hold, and
        ScenarioError for an invalid expectation.
        """
        if "violates" in expected:
            hint = "write it in the scenario; simloop check and simloop_run judge it"
            raise ScenarioError("a result does not judge invariants", key="violates", hint=hint)
        return self._judged(mismatches(loader.expected(expected), self))

    def check(self) -> Self:
        """Return the result. Raises ExpectationFailed if an expectation does not hold."""
        return self._judged(self.mismatches)

    def _judged(self, found: tuple[Mismatch, ...]) -> Self:
        if found:
            error = ExpectationFailed("\n".join(map(str, found)), reproduce=self.reproduce)
            error.account = account(self.trace, found, self.exceptions)
            raise error
        return self


def unmet_in(trace: LoopTrace, expect: Expect) -> tuple[Mismatch, ...]:
    """Return the expectations that a recorded run does not meet, as far as its trace shows them.

    A trace holds no files and no unused replies, and of a conversation the requests alone. A trace
    without a footer is a part of a run, of which nothing is expected.
    """
    if trace.footer is None or not trace.ends:
        return ()
    end = {name: getattr(trace.ends[-1], name) for name in Ending.__struct_fields__}
    total_ns = trace.elapsed_ns
    result = Result(**end, outcomes=trace.outcomes, messages=(), elapsed_ns=total_ns, trace=trace)
    unseen = dict.fromkeys(("files", "unused", "messages"))
    return mismatches_by_default(expect.model_copy(update=unseen), result)


def mismatches(expect: Expect, result: Result) -> tuple[Mismatch, ...]:
    """Return the expectations that a run with this result does not meet."""
    if not expect.model_fields_set:
        return ()
    unused = result.unused_places
    note = f": {', '.join(unused)}" if unused else ""
    found = [*_at_the_end(expect, result), *in_trace(expect, result.trace)]
    return (*found, *_compared("unused", expect.unused, len(unused), None, note))


def mismatches_by_default(expect: Expect, result: Result) -> tuple[Mismatch, ...]:
    """Return the unmet expectations; where no end is stated, every prompt must complete."""
    found = mismatches(expect, result)
    if expect.says_how_it_ends or all(each is Outcome.COMPLETED for each in result.outcomes):
        return found
    if len(result.outcomes) == 1:
        return (Mismatch("outcome", Outcome.COMPLETED, result.outcome, note=_UNSAID), *found)
    got = [str(outcome) for outcome in result.outcomes]
    return (Mismatch("outcomes", [str(Outcome.COMPLETED)] * len(got), got, note=_UNSAID), *found)


def _at_the_end(expect: Expect, result: Result) -> Iterator[Mismatch]:
    if expect.error is not None:
        yield Mismatch("error", expect.error, "none")
    outcomes = [str(outcome) for outcome in result.outcomes]
    yield from _compared("outcome", expect.outcome, result.outcome)
    ends = [end.seq for end in result.trace.ends]
    yield from _listed("outcomes", expect.outcomes, outcomes, ends)
    for name in ("files", "limit", "text", "message"):
        yield from _compared(name, getattr(expect, name), getattr(result, name))
    note = " (only a whole program has an exit status)" if result.exit is None else ""
    yield from _compared("exit", expect.exit, result.exit, note=note)
    yield from _elapsed(expect, result.trace.entries, result.elapsed_ns)
    for name in ExpectedCounters.model_fields:
        wanted, got = getattr(expect.counters, name), getattr(result.counters, name, None)
        note = "" if result.counters else _NO_COUNTERS
        yield from _compared(f"counters.{name}", wanted, got, note=note)
    roles = _roles(result.messages)
    if expect.messages is not None and not _roles_fit(expect.messages, roles):
        yield Mismatch("messages", expect.messages, roles)


def _elapsed(expect: Expect, record: list[AnyEntry], got: int) -> Iterator[Mismatch]:
    if (wanted := expect.elapsed) is None or _holds(wanted, got):
        return
    latest = wanted.max if isinstance(wanted, Span) else wanted
    late = (e.seq for e in record if latest is not None and e.at_ns > latest)
    expected = wanted if isinstance(wanted, Span) else format_duration(wanted)
    yield Mismatch("elapsed", expected, format_duration(got), next(late, None))


def mismatches_so_far(expect: Expect, trace: LoopTrace, elapsed_ns: int) -> tuple[Mismatch, ...]:
    """Return the expectations for a time and a trace that a run does not meet so far."""
    return (*_elapsed(expect, trace.entries, elapsed_ns), *in_trace(expect, trace))


def in_trace(expect: Expect, trace: LoopTrace) -> Iterator[Mismatch]:
    """Yield the unmet expectations of the entries, which are read only for those that are set."""
    record = trace.entries
    if expect.requests is not None:
        yield from _requests(expect.requests, record)
    if expect.tools_run is not None or expect.calls is not None:
        calls = calls_of(trace)
        seqs = [seq for seq, _ in calls]
        names = [call.name for _, call in calls]
        got = [{call.name: call.arguments} for _, call in calls]
        yield from _listed("tools_run", expect.tools_run, names, seqs)
        yield from _listed("calls", expect.calls, got, seqs, _call_fits)
    if expect.backoffs is not None:
        waits = expect.backoffs
        wanted = [each if isinstance(each, str) else format_duration(each) for each in waits]
        found = _of_kind(entries.Backoff)(record)
        waited, seqs = [format_duration(e.delay_ns) for e in found], [e.seq for e in found]
        yield from _listed("backoffs", wanted, waited, seqs)
    if expect.sent is not None:
        seqs = [each.seq for each in _of_kind(entries.Request)(record)]
        asked = list(zip(seqs, requests(record), strict=True))
        for name, listed in expect.sent_by_key().items():
            of_all, party = name == "sent", name.removeprefix("sent.")
            own = [each for each in asked if of_all or each[1].party == party]
            yield from _sent(name, listed, own)
    for key, seen, view, fits in _SEEN:
        if (wanted := getattr(expect, key)) is not None:
            found = list(seen(record))
            shown, seqs = [view(each) for each in found], [each.seq for each in found]
            got = found if key == "services" else shown
            yield from _listed(key, wanted, got, seqs, fits, shown=shown)


def _requests(wanted: Any, record: list[AnyEntry]) -> Iterator[Mismatch]:
    # Counted, not viewed: each view holds all messages so far, so all views are quadratic.
    sent = _of_kind(entries.Request)(record)
    for name, count in (wanted if isinstance(wanted, dict) else {"": wanted}).items():
        seqs = [entry.seq for entry in sent if name in ("", entry.party)]
        most = count.max if isinstance(count, CountBounds) else count
        seq = seqs[most] if most is not None and len(seqs) > most else None
        yield from _compared(f"requests.{name}" if name else "requests", count, len(seqs), seq)


def _sent(
    name: str, wanted: Sequence[str | SentRequest], sent: Sequence[tuple[int, Request]]
) -> Iterator[Mismatch]:
    got, whole = [request for _, request in sent], _whole(wanted)
    place = _first_stray(whole, got, lambda one, other: next(_unlike(one, other), None) is None)
    if place is None:
        return
    seq = sent[place][0] if place < len(sent) else None
    if REST not in whole and place < min(len(whole), len(got)) and type(whole[place]) is not str:
        key, one, other = next(_unlike(whole[place], got[place]))
        yield Mismatch(f"{name}.{place}.{key}", one, other, seq)
    else:
        said = [each if isinstance(each, str) else _roles_in(each) for each in whole]
        yield Mismatch(name, said, [_roles(each.messages) for each in got], seq)


def _whole(wanted: Sequence[str | SentRequest]) -> list[str | SentRequest]:
    before, whole = list[PastMessage](), list[str | SentRequest]()
    for each in wanted:
        if isinstance(each, SentRequest) and each.adds is not None:
            each = each.model_copy(update={"messages": [*before, *each.adds]})  # noqa: PLW2901
        before = (each.messages if isinstance(each, SentRequest) else None) or []
        whole.append(each)
    return whole


def nearest_sent(expect: Expect, trace: LoopTrace) -> Iterator[str]:
    """Yield which expected request the last one of a run is like, and where it first differs."""
    asked = list(requests(trace.entries))
    known = [
        (f"{name}.{place}", list(_unlike(each, asked[-1])))
        for name, listed in expect.sent_by_key().items()
        for place, each in enumerate(_whole(listed) if asked else ())
        if isinstance(each, SentRequest)
    ]
    if not known:
        return
    name, found = min(known, key=lambda each: len(each[1]))
    differs = [f"differs: {Mismatch(f'{name}.{key}', *sides)}" for key, *sides in found]
    said = f"request {asked[-1].number} is most like expect.{name}"
    yield f"{said}, and {(differs or ['asks the same'])[0]}"


def _roles_in(wanted: SentRequest) -> str:
    named = [next(iter(each.model_dump(exclude_defaults=True))) for each in wanted.messages or ()]
    return REST if wanted.messages is None else " ".join(named)


def _unlike(wanted: str | SentRequest, sent: Request) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(wanted, str):
        roles = _roles(sent.messages)
        if not _roles_fit(wanted, roles):
            yield "", wanted, roles
        return
    if wanted.system not in (None, sent.system_prompt):
        yield "system", wanted.system, sent.system_prompt
    tools = [each.name for each in sent.tools]
    if wanted.tools not in (None, tools):
        yield "tools", wanted.tools, tools
    for place, (one, other) in enumerate(zip_longest(wanted.messages or (), sent.messages)):
        if wanted.messages is None:
            return
        if one is None or other is None:
            given = "no message" if one is None else one.model_dump(exclude_defaults=True)
            yield f"messages.{place}", given, "no message" if other is None else written(other)
        elif (found := differing(one, other)) is not None:
            yield f"messages.{place}.{found[0]}", *found[1:]


def _of_kind(kind: type[AnyEntry]) -> Callable[[list[AnyEntry]], list[Any]]:
    return lambda record: [entry for entry in record if type(entry) is kind]


def _compared(
    key: str, wanted: Any, got: Any, seq: int | None = None, note: str = ""
) -> Iterator[Mismatch]:
    if wanted is not None and not _holds(wanted, got):
        yield Mismatch(key, wanted, got, seq, note)


def _listed(
    key: str, wanted: Sequence[Any] | None, got: Sequence[Any], seqs: list[int],
    fits: Callable[[Any, Any], bool] = operator.eq, *, shown: Sequence[Any] | None = None,
) -> Iterator[Mismatch]:  # fmt: skip
    if (place := None if wanted is None else _first_stray(wanted, got, fits)) is not None:
        seq = seqs[place] if place < len(seqs) else None
        yield Mismatch(key, wanted, got if shown is None else shown, seq)


def _holds(wanted: Any, got: Any) -> bool:
    match wanted:
        case CountBounds() if got is None:
            return False
        case CountBounds(min=least, max=most) | Span(min=least, max=most):
            return bool((least is None or got >= least) and (most is None or got <= most))
        case Contains():
            return wanted.fits(got)
        case _:
            return bool(wanted == got)


def _first_stray(
    wanted: Sequence[Any], got: Sequence[Any], fits: Callable[[Any, Any], bool] = operator.eq
) -> int | None:
    """Return the index of the first item of `got` that does not fit, or of the first missing one.

    Return None if all fit. `...` in `wanted` stands for any number of items. The function follows
    all possible next places of `wanted` at once, so no order of `...` makes it exponential.
    """
    following = _after_rest(wanted, [0])
    for place, item in enumerate(got):
        reached = [
            each if wanted[each] == REST else each + 1
            for each in following
            if each < len(wanted) and (wanted[each] == REST or fits(wanted[each], item))
        ]
        if not (following := _after_rest(wanted, reached)):
            return place
    return None if len(wanted) in following else len(got)


def _after_rest(wanted: Sequence[Any], places: list[int]) -> list[int]:
    reached = list(dict.fromkeys(places))
    for place in reached:  # as it grows
        if place < len(wanted) and wanted[place] == REST and place + 1 not in reached:
            reached.append(place + 1)
    return reached


def _roles_fit(wanted: str, got: str) -> bool:
    return _first_stray(wanted.split(), got.split()) is None


def _call_fits(wanted: dict[str, Any], got: dict[str, Any]) -> bool:
    return wanted == got or (wanted.keys() == got.keys() and list(wanted.values()) == [REST])


def _request_in_words(entry: entries.ServiceRequest) -> Any:
    asked = f"{entry.method} {entry.service}{entry.path}"
    return {asked: json_value(entry.body, entry.body)} if entry.body else asked


def _request_fits(wanted: Any, got: entries.ServiceRequest) -> bool:
    asked, body = (wanted, REST) if isinstance(wanted, str) else next(iter(wanted.items()))
    method, _, target = asked.partition(" ")
    path = got.path if "?" in target else got.path.partition("?")[0]
    url = path if target.startswith("/") else f"{got.service}{path}"
    is_of_body = body in (REST, got.body) or body == json_value(got.body, got.body)
    return is_of_body and method.upper() == got.method and target == url


_SEEN: tuple[tuple[str, Callable[[list[AnyEntry]], Iterable[Any]], Any, Any], ...] = (
    ("hooks", _of_kind(entries.Hook), lambda e: f"{e.point} {e.hook} {e.result}", operator.eq),
    ("services", _of_kind(entries.ServiceRequest), _request_in_words, _request_fits),
    ("programs", _of_kind(entries.ProgramStarted), lambda e: command_line(e.args),
     lambda wanted, got: pattern_of(wanted).fullmatch(got)),
    ("asked", _of_kind(entries.Input), lambda e: e.prompt, operator.eq),
    ("refused", looptrace.refused, lambda e: f"{e.what} {e.asked}", operator.eq),
)  # fmt: skip
"""By key of `expect`: the entries that show it, each in the words of a file, and how these fit."""


def _roles(messages: Sequence[Message]) -> str:
    return " ".join(str(type(message).__struct_config__.tag) for message in messages)


def _shown(value: Any) -> str:
    match value:
        case CountBounds() | Span() | Contains() | Outcome():
            return str(value)
        case list():
            return repr([str(each) if isinstance(each, Outcome) else each for each in value])
        case _:
            return repr(value)


def calls_of(trace: LoopTrace) -> list[tuple[int, Call]]:
    """Return the calls that were run, each with the number of the entry that shows it, in order."""
    started = [entry for entry in trace.entries if type(entry) is entries.ToolStarted]
    recorded = zip((entry.seq for entry in started), looptrace.calls(started), strict=True)
    return sorted((*recorded, *_seen_calls(trace)), key=lambda call: call[0])


def _seen_calls(trace: LoopTrace) -> list[tuple[int, Call]]:
    """Return the calls that only the messages of an agent show, with the entry of their result.

    The agent has offered the tool, the arguments fit, a later request has a result, and no tool of
    this name is recorded in the run. A call that the agent itself denies is therefore here, too.
    """
    record = trace.entries
    if any(type(entry) is entries.Transition for entry in record):
        return []  # the engine of a machine records each call that it runs
    asked = {entry.call_id: entry for entry in record if type(entry) is entries.ToolCall}
    if not asked:
        return []
    ran = {entry.name for entry in record if type(entry) is entries.ToolStarted}
    refused = {entry.call_id for entry in record if type(entry) is entries.ToolResult}
    sent = [entry for entry in record if type(entry) is entries.Request]
    offered = {spec.name: spec for entry in sent for spec in entry.tools or ()}
    of_world = _specs_of_world(trace.header)
    found = []
    for seq, message in [(entry.seq, each) for entry in sent for each in entry.added]:
        call = asked.pop(message.call_id, None) if type(message) is ToolMessage else None
        if call is None or call.name in ran or call.call_id in refused:
            continue
        spec = offered.get(call.name)
        is_own = call.name not in of_world or of_world[call.name] not in (None, spec)
        if (arguments := _fitting(spec, call.arguments) if is_own else None) is not None:
            found.append((seq, Call(call.name, arguments)))
    return found


def check_tool_settings(scenario: Scenario, loop: str, trace: LoopTrace) -> None:
    """Raise CannotExpress if a tool has settings and the agent runs a function without them."""
    if not scenario.tools:
        return
    named = (call.name for _, call in _seen_calls(trace))
    lost = {name: stated(scenario.tools[name]) for name in named if name in scenario.tools}
    if not (keys := [f"tools.{name}.{setting}" for name, each in lost.items() for setting in each]):
        return
    functions = ", ".join(f"`{name}`" for name, each in lost.items() if each)
    error = CannotExpress(loop, [f"its own code runs {functions}, without {', '.join(keys)}"])
    error.key = keys[0]
    advice = f"put @simloop.traced on {functions}, or wrap it with sim.tool"
    error.hint = f"{advice}; if the agent denies the call, remove the settings"
    raise error


def _specs_of_world(header: Header) -> dict[str, ToolSpec | None]:
    python = (name.removeprefix("tool ") for name in header.python if name.startswith("tool "))
    known: dict[str, ToolSpec | None] = dict.fromkeys(python)
    if bytes(header.scenario) == b"null":
        return known
    scenario = Scenario.model_validate_json(bytes(header.scenario))
    files = {} if scenario.files is None else file_tools(Files({}))
    return {name: tool.spec for name, tool in {**files, **scripted_tools(scenario)}.items()} | known


def _fitting(spec: ToolSpec | None, text: str) -> dict[str, Any] | None:
    """Return the arguments of a call if its tool takes them: an agent refuses others itself."""
    if spec is None:
        return None
    arguments = json_value(text or "{}")
    schema = json_value(bytes(spec.parameters).decode())
    if schema is None or not isinstance(arguments, dict):
        return None
    try:
        tool = Tool(lambda: None, name=spec.name, parameters=schema)
        return None if wrong_arguments(tool, arguments) else arguments
    except ScenarioError:  # the agent's own schema cannot be checked
        return arguments


def account(trace: LoopTrace, found: Sequence[Mismatch], raised: Sequence[UserError]) -> str:
    """Return the last lines up to the first wrong entry, or the end, and the last exception."""
    wrong = min((each.seq for each in found if each.seq is not None), default=None)
    heading, shown = "the end of the run:", trace
    if wrong is not None:
        heading = "the run up to the first entry that is wrong:"
        shown = LoopTrace(trace.header, list(trace.entries[: wrong + 1]))
    lines = heading, *deque(timeline(shown), maxlen=LINES)
    return "\n".join(("", *lines, *last_raised(raised), *refused_lines(trace), ""))


def last_raised(raised: Sequence[UserError]) -> Iterator[str]:
    """Yield an empty line and the traceback of the last exception of the user's code."""
    if not raised:
        return
    last = raised[-1]
    before = f", the last of {len(raised)} exceptions" if len(raised) > 1 else ""
    yield ""
    yield f"raised by {escape(last.where)}{before}:"
    for line in last.lines():
        indent = len(line) - len(line.lstrip(" "))
        yield " " * indent + escape(line[indent:], _WIDTH)


def refused_lines(trace: LoopTrace) -> Iterator[str]:
    """Yield a line for each thing that the world refused, and that the scenario does not name."""
    refused = looptrace.refused(trace.entries)
    if found := Counter((each.what, each.asked, each.place) for each in refused):
        yield "refused, because the scenario does not have it (see offline and absent):"
    for (what, asked, place), count in found.items():
        called = f", asked at {place}" if place else ""
        times = f" ({count} times)" if count > 1 else ""
        yield f"  {escape(f'{what} {asked}{called}{times}', _WIDTH)}"


def printed(output: Output) -> Iterator[str]:
    """Yield the last lines that the user's code has printed, under the name of each stream."""
    for name in NAMES:
        if lines := output.text(name).splitlines():
            cut = f", the last {MOST_PRINTED} of {len(lines)} lines" * (len(lines) > MOST_PRINTED)
            yield f"captured {name}{cut}:"
            yield from (f"  {escape(line, _WIDTH)}" for line in lines[-MOST_PRINTED:])
