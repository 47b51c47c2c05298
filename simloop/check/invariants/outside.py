"""Invariants on what tools do outside: the programs that they start, and requests to services.

simloop may not see which tool does it, so a request or a program belongs to the newest reply.
"""

import re
import shlex
from collections import Counter
from math import inf
from typing import Any
from urllib.parse import quote, unquote

from simloop.check.invariants import tools
from simloop.check.invariants.agents import AT_ONCE, MINUTE_NS, NS_PER_MS, RATE_LIMIT
from simloop.check.invariants.invariant import Need, Watch, invariant, of_agents
from simloop.check.invariants.requests import strings
from simloop.check.invariants.subject import PATTERNS, MainRequest, Subject, tells
from simloop.kernel.retry import retry_after_ns
from simloop.messages import Fault, json_value
from simloop.trace.entries import (
    Ended,
    LeftBehind,
    ProgramEnded,
    ProgramStarted,
    Prompt,
    Refused,
    Request,
    ServiceReply,
    ServiceRequest,
    StopRequested,
    ToolResult,
    ToolStarted,
)
from simloop.trace.kinds import clock
from simloop.virtual.clock.instants import EPOCH_NS, SECOND_NS

WORK = (ProgramStarted, ProgramEnded, ServiceRequest, ServiceReply)
_REFUSALS = frozenset({400, 402, 403, 404, 405, 410, 413, 415, 422})
UNCERTAIN = frozenset({"lost", "timed-out", "closed"})
UNKNOWN = frozenset({500, 502, 504})
IDEMPOTENT = ("PUT", "DELETE")  # RFC 9110, 9.2.2
_OF_ONE = ("PUT", "PATCH", "DELETE")  # which change what has the address
_LOST = frozenset({"lost", "timed-out", "refused"})
REFUSED, BROKEN_SERVICE = 400, 500
_TRIES = 10
_KEYS = re.compile(r'(?<=")[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}(?=")')
_REFERENCES = re.compile(r'(?i)"\w*(?:key|ref|idem|nonce|request)\w*": ?"(.*?)"').findall
_NAMED_KEY = re.compile(rf'(?i)"\w*(?:key|ref|idem|nonce|request)\w*": ?"({_KEYS.pattern})"')


@of_agents("A request that a service refuses is not sent again, unless the model calls a tool "
           "again.", "BUGS.md C7, B15", sees=[Request, ServiceRequest, ServiceReply],
           begins=[ServiceRequest])  # fmt: skip
def refused_changes_not_repeated(subject: Subject) -> Watch:
    """A service refuses by a status that tells of the request, and not of itself or of the rate.

    Of several calls in a reply, each may send the request. Another Idempotency-Key makes another.
    """
    sent: dict[int, ServiceRequest] = {}
    refused: dict[tuple[Any, ...], int] = {}
    while entry := (yield):
        if type(entry) is Request:
            refused.clear()
        elif type(entry) is ServiceReply:
            if (first := sent.pop(entry.request, None)) is not None and entry.status in _REFUSALS:
                refused[first.once, *tools.what_of(first)] = entry.status
        else:
            sent[entry.number] = entry
            status = refused.get((entry.once, *tools.what_of(entry)))
            if status and not subject.asked[1:] and entry.method in tools.CHANGING:
                what = f"{entry.method} {entry.service}{entry.path}"
                return f"{what} is sent again as request {entry.number} after status {status}"


@invariant("A request that changes a service is not sent again after it failed with an unknown "
           "end, unless both have one Idempotency-Key.", "BUGS.md C10, C13, D9", sees=[Request,
           ServiceRequest, ServiceReply], needs=[Need.AGENT, Need.MUTATING],
           begins=[ServiceRequest])  # fmt: skip
def uncertain_changes_not_repeated(subject: Subject) -> Watch:
    """The service may have acted on the first one. Each call of the model may make a request."""
    sent, of, uncertain = dict[int, ServiceRequest](), dict[int, str](), list[ServiceRequest]()
    while entry := (yield):
        if type(entry) is Request:
            sent, uncertain = {}, []
        elif type(entry) is ServiceReply:
            first = sent.pop(entry.request, None)
            is_keyed = bool(first and first.once and entry.status >= BROKEN_SERVICE)
            if first and (entry.failure in UNCERTAIN or entry.status in UNKNOWN or is_keyed):
                uncertain.append(first)
        elif is_change(subject, entry) and entry.method not in IDEMPOTENT:
            sent[entry.number] = entry
            is_one = of[entry.number] = tools.asked_for(subject, entry)
            asked = subject.asked
            given = "".join(call.arguments for call in asked)
            what, key = _made(entry, given)
            own = [each for each in uncertain if not is_one or of[each.number] == is_one]
            alike = [each for each in own if _made(each, given)[0] == what]
            known = [each for each in alike if each.service == entry.service]
            tries = {_made(each, given)[1] for each in known}
            tries |= {0} if len(known) < len(alike) else set()  # no other service knows the key
            calls = 1 if is_one else max(Counter(call.name for call in asked).values(), default=1)
            if key not in tries and len(tries) >= calls:
                made = f"{entry.method} {entry.service}{entry.path}"
                return f"{made} is sent again as request {entry.number} to a service"


@of_agents("An Idempotency-Key belongs to one request, and its repetitions.",
           "draft-ietf-httpapi-idempotency-key-header, Uniqueness of Idempotency-Key",
           sees=[ServiceRequest, ServiceReply], begins=[ServiceRequest])  # fmt: skip
def keys_used_once(subject: Subject) -> Watch:
    """A service answers a second one with what the first has done, if it has not refused that.

    A key may also be in the body. One that names what is paid is that of any amount, and the model
    decides on one that it gives as a reference.
    """
    made: dict[tuple[str, str], ServiceRequest] = {}
    while entry := (yield):
        if type(entry) is ServiceReply:
            if REFUSED <= entry.status < BROKEN_SERVICE:
                made = {at: each for at, each in made.items() if each.number != entry.request}
            continue
        key = entry.once or "".join(_NAMED_KEY.findall(entry.body))
        first, made[entry.service, key] = made.get((entry.service, key)) or entry, entry
        if key and not _pay_for_one(key, first, entry, subject):
            return f"{tools.described(entry)} has the Idempotency-Key of request {first.number}"


def _pay_for_one(key: str, first: Any, entry: Any, subject: Subject) -> bool:
    own, other = json_value(first.body), json_value(entry.body)
    given = {value for call in subject.asked for value in tools.values_of(call)} - {""}
    is_again = tools.what_of(first) == tools.what_of(entry)
    if is_again or any(key in _REFERENCES(call.arguments) for call in subject.asked):
        return True
    is_one = isinstance(own, dict) and isinstance(other, dict) and own.keys() == other.keys()
    differ = [each for each in own if own[each] != other[each]] if is_one else [""]
    return all(map(PATTERNS["paid"].search, differ)) and any(each in key for each in given)


@of_agents("Of two calls of a reply that change the same thing, the second begins after the first.",
           "CWE-362, Race Condition", sees=[MainRequest, ServiceRequest, ServiceReply, ToolResult],
           begins=[ServiceRequest, ToolResult])  # fmt: skip
def no_lost_updates(subject: Subject) -> Watch:
    """Else the last one is another than the model has asked for last, or lacks the first change.

    It lacks that if it writes a value which no call has, under a key of an older reading. A service
    with versions refuses that. Frameworks run the calls of a reply at once.
    """
    has_versions = PATTERNS["versions"].search(subject.source)
    reading, read = dict[int, str](), dict[str, list[Any]]()
    under_way, written = dict[int, ServiceRequest](), dict[str, ServiceRequest]()
    while entry := (yield):
        if type(entry) is ServiceReply:
            under_way.pop(entry.request, None)
            known = json_value(entry.body)
            if isinstance(known, dict):
                read.setdefault(reading.pop(entry.request, ""), []).append(known)
        elif type(entry) is ToolResult:
            if entry.overwrote and entry.name in (subject.mutating or (entry.name,)):
                does = f"{entry.overwrote!r} of the tool {entry.name!r}"
                return f"{does} writes what was read before another call changed it"
        elif type(entry) is not ServiceRequest or has_versions:
            reading, read, under_way, written = {}, {}, {}, {}
        elif entry.method == "GET":
            at = reading[entry.number] = f"{entry.service}{entry.path}"
            read[at] = [] if written.pop(at, None) else read.get(at, [])
        elif entry.method in _OF_ONE:
            own, does = f"{entry.service}{entry.path}", tools.described(entry)
            for one in () if PATTERNS["frameworks"].search(subject.source) else under_way.values():
                if f"{one.service}{one.path}" == own and tools.what_of(one) != tools.what_of(entry):
                    return f"{does} is sent while request {one.number} for the same is under way"
            under_way[entry.number] = entry
            for at, known in read.items():
                is_of_it = f"{own}/".startswith(f"{at}/") and known[1:]
                if is_of_it and _is_of(known[0], entry, subject):
                    first = written.setdefault(at, entry)
                    if first.body != entry.body:
                        read_before = f"what was read before request {first.number} changed it"
                        return f"{does} writes {read_before}"


def _is_of(reading: dict[str, Any], entry: ServiceRequest, subject: Subject) -> bool:
    given = [e.removesuffix(".0") for call in subject.asked for e in tools.values_of(call)]
    body = json_value(entry.body)
    own = body.items() if isinstance(body, dict) else ()
    return any(key in reading and str(value).removesuffix(".0") not in given for key, value in own)


@of_agents("An argument is quoted where it is a part of an address, or of a command for a shell.",
           "CWE-74, Injection", sees=[ServiceRequest, ProgramStarted])  # fmt: skip
def arguments_quoted(subject: Subject, entry: ServiceRequest | ProgramStarted) -> str:
    """A question mark, or a slash that is none of a path, begins another address."""
    raw = _is_raw_in_path if isinstance(entry, ServiceRequest) else _is_raw_in_command
    for call in subject.asked:
        for text in strings(json_value(call.arguments)):
            if raw(entry, text, call.arguments):
                what = f"{tools.described(entry)} has the text {text!r:.60}"
                return f"{what} of call {call.id!r} as it is"
    return ""


def _is_raw_in_path(entry: Any, text: str, arguments: str) -> bool:
    part = text.partition("#")[0]
    split = quote(text) if "/" in part and not PATTERNS["paths"].search(arguments) else part
    is_there = any(f"{sign}{part}" in entry.path for sign in "/=") or f"/{split}" in entry.path
    return "?" in unquote(entry.path) and "?" in part and "://" not in part and is_there


def _is_raw_in_command(entry: Any, text: str, arguments: str) -> bool:
    is_shell = entry.args[1:2] == ("-c",) and not PATTERNS["commands"].search(arguments)
    command = entry.args[-1] if is_shell else ""
    forms = shlex.quote(text), f'"{text}"'
    return text != "" and text in command and not any(one in command for one in forms)


@of_agents("A change has the 0 or the false that its call gives, and each cent of an amount.",
           "Python, Truth Value Testing", sees=[ServiceRequest])  # fmt: skip
def numbers_passed_on(subject: Subject, entry: ServiceRequest) -> str:
    """`fee or 20` and `int(1150.1 * 100)` break it. The least may be 1, and a PUT has a sum."""
    sent, given = json_value(entry.body), [json_value(call.arguments) for call in subject.asked]
    if entry.method == "POST" and isinstance(sent, dict) and len(given) == 1:
        for name, value in given[0].items() if isinstance(given[0], dict) else ():
            other = sent.get(name)
            is_other = other is True if value is False else type(other) is int and other > 1
            if type(value) in (bool, int) and not value and is_other:
                return f"{tools.described(entry)} has {name!r} {other!r}, and its call {value!r}"
            cents = value * 100 // 1 if type(value) is float else None
            if cents is not None and cents in sent.values() and cents != round(value * 100):
                return f"{tools.described(entry)} has {cents:.0f}, and its call {name!r} {value!r}"
    return ""


@of_agents("Nothing is done with a value in which the arguments of a call break off.",
           "BUGS.md D11", sees=[ToolStarted, ServiceRequest])  # fmt: skip
def no_half_values(subject: Subject, entry: ToolStarted | ServiceRequest) -> str:
    """Nobody knows how it goes on. An agent may add the braces that a call lacks."""
    text = subject.asked[0].arguments.rstrip() if len(subject.asked) == 1 else ""
    is_tool = type(entry) is ToolStarted
    sent = json_value(entry.arguments if is_tool else entry.body)  # type: ignore[union-attr]
    values = [str(each) for each in sent.values()] if isinstance(sent, dict) else []
    values += [] if is_tool else [unquote(entry.path.rpartition("/")[2])]  # type: ignore[union-attr]
    for each in values if text and json_value(text) is None else ():
        if each and text.endswith(each):
            return f"{tools.described(entry)} has {each!r:.60}, in which its call breaks off"
    return ""


def is_change(subject: Subject, entry: Any) -> bool:
    """Return whether a tool, a program or a request changes the world.

    A request does by its service, or by the tool that sends it: an agent that declares services has
    named all that change.
    """
    if not isinstance(entry, ServiceRequest):
        return tools.changes(entry, subject.mutating or ())
    known, names = subject.mutating or (), {call.name for call in subject.asked}
    by_tool = bool(names) and names.issubset(known) and not any("://" in each for each in known)
    return (by_tool and entry.method in tools.CHANGING) or tools.changes_a_service(entry, known)


def is_lost(reply: ServiceReply, least: int = BROKEN_SERVICE) -> bool:
    """Return whether a service has not answered, or with a status of at least that."""
    return reply.failure in _LOST or reply.status >= least


@of_agents("No change is sent to a service, or made by a program, for a call of a reply that "
           "failed or was cut off.", "BUGS.md D10, D11", sees=[ServiceRequest,
           ProgramStarted])  # fmt: skip
def no_changes_for_broken_replies(subject: Subject, entry: ServiceRequest | ProgramStarted) -> str:
    """The arguments may be cut off too, and a retry would call the tool again.

    What goes on after the end of a run was begun for an earlier reply, as by a timer, and a DELETE
    of what the call does not name undoes the change of an earlier one.
    """
    replies = subject.facts.last_replies() if subject.facts.ended is None else []
    broken = [one for one in replies if one.calls and one.is_closed and one.finish in tools.BROKEN]
    if not broken or len(broken) < len(replies) or not is_change(subject, entry):
        return ""
    if type(entry) is ServiceRequest and entry.method == "DELETE":
        given = "".join(call.arguments for each in broken for call in each.calls)
        if entry.path.rpartition("/")[2] not in given:
            return ""
    why = "failed" if broken[0].finish is None else f"ended with {broken[0].finish}"
    does = "is sent" if type(entry) is ServiceRequest else "starts"
    return f"{tools.described(entry)} {does}, and the reply to request {broken[0].number} {why}"


@of_agents("A change of a database is committed before its connection is closed, and before the "
           "prompt ends; one of a tool that fails is rolled back.", "sqlite3, Transaction control",
           sees=[LeftBehind, MainRequest, Refused, ServiceReply, ProgramEnded, ToolResult],
           begins=[LeftBehind, Refused, ServiceReply, ProgramEnded, ToolResult])  # fmt: skip
def changes_committed(subject: Subject) -> Watch:
    """A change that is not wanted is rolled back, or an exception passes the close.

    A service or program may have done what fails. A refusal may be undone, and a failure noted.
    """
    most = inf  # so many changes are kept without one that undoes another
    while entry := (yield):
        if type(entry) is LeftBehind:
            if entry.what == "transaction" and subject.facts.stop is None:
                return f"{entry.name} of a database are left without a commit at {entry.place}"
        elif type(entry) is not ToolResult:
            is_refusal = getattr(entry, "status", 0) in _REFUSALS or getattr(entry, "exit", 0) > 0
            most = inf if type(entry) is Request else int(is_refusal)
        elif len(entry.kept.split("; ")) <= most and _is_refused(entry):
            what = f"the tool {entry.name!r} of call {entry.call_id!r}"
            return f"{what} returns {entry.text!r:.60}, and keeps {entry.kept!r:.120}"


def _is_refused(entry: ToolResult) -> bool:
    is_noted = not entry.kept or PATTERNS["kept on failure"].search(entry.kept)
    text = entry.text.replace("CHECK constraint", "")  # words of SQLite
    text = text.replace("already", "") if PATTERNS["denied"].search(text) else text  # "Not lent: "
    is_part = PATTERNS["partly"].search(text) or tells(text, "doubts")
    return bool(PATTERNS["refused"].search(entry.text) and not is_noted and not is_part)


def _made(request: ServiceRequest, given: str) -> tuple[tuple[str, str, str], str | int]:
    """Return what a request changes, and its key, in a header, or one of its own, or its number."""
    keys, rest = list[str](), request.body
    for each in _KEYS.findall(request.body):
        if each not in given:
            keys.append(each)
            rest = rest.replace(each, "")
    return (request.method, request.path, rest), request.once or " ".join(keys) or request.number


@of_agents("An agent waits as long as a service asks before it sends a request again, and before a "
           "third retry in any case, and makes no ten retries in a row within a second each.",
           "BUGS.md A11, C1, C3", sees=[Request, ServiceRequest, ServiceReply],
           begins=[ServiceRequest])  # fmt: skip
def services_not_pressed(subject: Subject) -> Watch:
    """Only within the work for one call: the model may ask again at once.

    A Retry-After of over a minute is not judged, nor one that is a date, which few services send.
    """
    sent: dict[int, ServiceRequest] = {}
    failed: dict[tuple[str, str, str, str], ServiceReply] = {}
    at_once: Counter[tuple[str, str, str, str]] = Counter()
    soon: Counter[tuple[str, str, str, str]] = Counter()
    while entry := (yield):
        if type(entry) is Request:
            sent, failed = {}, {}
            at_once.clear()
            soon.clear()
        elif type(entry) is ServiceReply:
            if (first := sent.pop(entry.request, None)) is not None and is_lost(entry, REFUSED):
                failed[tools.what_of(first)] = entry
        else:
            sent[entry.number], what = entry, tools.what_of(entry)
            if (reply := failed.pop(what, None)) is None or subject.asked[1:]:
                continue
            asked = Fault("", headers=(("retry-after", reply.retry_after),))
            is_date = reply.retry_after.endswith("GMT")
            least_ns = 0 if is_date else retry_after_ns(asked, EPOCH_NS + reply.at_ns) or 0
            waited_ns = entry.at_ns - reply.at_ns
            again = f"{tools.described(entry)} is sent again as request {entry.number}"
            soon[what] = soon[what] + 1 if waited_ns < SECOND_NS else 0
            if soon[what] >= _TRIES:
                return f"{again}: retry {soon[what]} in a row within a second"
            if reply.status in range(REFUSED, BROKEN_SERVICE) and reply.status != RATE_LIMIT:
                continue  # the agent may have a new token
            if waited_ns + NS_PER_MS < least_ns <= MINUTE_NS:
                asks = f"the service asks for {clock(least_ns)}"
                return f"{again} after {clock(waited_ns)}, and {asks}"
            at_once[what] = 0 if waited_ns else at_once[what] + 1
            if at_once[what] >= AT_ONCE:
                return f"{again}: retry {at_once[what]} in a row without a wait"


@of_agents("A program does not go on after the model is told that it took too long, or after a "
           "stop.", "BUGS.md C9, D4, D8", sees=[Prompt, StopRequested, ProgramStarted, ProgramEnded,
           MainRequest, LeftBehind], begins=[ProgramStarted])  # fmt: skip
def slow_programs_ended(subject: Subject) -> Watch:
    """The model may start it again, beside the first one. A program in the background may go on.

    After a stop, one that a thread or a task waits for may end by its own timeout.
    """
    running: dict[int, ProgramStarted] = {}
    given_up: dict[int, str] = {}
    new: set[int] = set()  # those of the newest reply
    left_ns: dict[int, int] = {}  # the end of the run that has left it
    grace_ns = subject.tool_timeout or 2 * tools.SOON_NS
    in_thread = False
    while entry := (yield):
        if (kind := type(entry)) is ProgramStarted:
            running[entry.number] = entry
            new.add(entry.number)
        elif kind is StopRequested:
            given_up |= dict.fromkeys(new.intersection(running), "")
        elif kind is Request:
            new = set()
            texts = [message.text for message in subject.results.values()]
            if len(texts) == 1 and tells(texts[0], "timeouts"):
                given_up |= dict.fromkeys(running, texts[0])
        else:
            late = [number for number, ns in left_ns.items() if entry.at_ns > ns + grace_ns]
            if kind is LeftBehind:
                in_thread = in_thread or entry.what in ("task", "thread")
                left = [number for number in running if number in given_up]
                late = [number for number in left if given_up[number] or not in_thread]
                left_ns |= dict.fromkeys(left, entry.at_ns)
            elif kind is ProgramEnded:
                late = [number for number in late if number == entry.program]
            for number in late:
                goes_on = f"{tools.described(running[number])} goes on at the end of the run"
                told = given_up[number]
                why = f"the model is told {told!r:.80}" if told else "the user has stopped it"
                return f"{goes_on}, and {why}"
            if kind is ProgramEnded:
                running.pop(entry.program, None)
                left_ns.pop(entry.program, None)
            elif kind is Prompt:
                running = {number: running[number] for number in left_ns}
                new, in_thread = set(), False


@invariant("A tool of an agent, its programs and its requests take no longer than the timeout that "
           "the agent declares, and a tool may take that long.", "BUGS.md B3, D8", sees=[Prompt,
           ToolStarted, ToolResult, *WORK, Request, Ended], needs=[Need.AGENT,
           Need.TOOL_TIMEOUT], begins=[ToolStarted, ProgramStarted, ServiceRequest])  # fmt: skip
def tools_broken_off_in_time(subject: Subject) -> Watch:
    """The call is answered by then, even where the tool goes on; it may take a moment to end.

    A tool that is broken off leaves no end; it has ended when a later one starts. A function in the
    only thread of an agent cannot be broken off. Where tools work outside, the agent may break that
    work off, and simloop slows each tool of its own besides. A tool may wait for the user.
    """
    most_ns, given = subject.tool_timeout or 0, subject.scenario
    slowed = given.tools if given and (given.services or given.programs) else {}
    can_break_off = not subject.source or PATTERNS["breaks off"].search(subject.source)
    running: dict[object, ToolStarted | ProgramStarted | ServiceRequest] = {}
    started_ns: list[int] = []
    while entry := (yield):
        kind, due = type(entry), list[object]()
        if kind is ProgramStarted or (kind is ToolStarted and can_break_off):
            running[entry.call_id if kind is ToolStarted else entry.number] = entry
            started_ns.append(entry.at_ns)
        elif kind is ServiceRequest:
            if any(reply.calls for reply in subject.facts.last_replies()):
                running[kind, entry.number] = entry
        elif kind is ServiceReply:
            due = [(ServiceRequest, entry.request)]
        elif kind is ToolResult:
            due = [entry.call_id]
        elif kind is ProgramEnded:
            due = [entry.program]
        elif kind is Request:  # one for a summary has all that was before
            due = [*(subject.results if entry.purpose == "main" else running)]
        elif kind is Ended:
            due = [*running]
        else:
            running.clear()
        is_seen = kind in (ToolResult, ProgramEnded, ServiceReply)
        for start in [running.pop(each) for each in due if each in running]:
            answer = subject.results.get(start.call_id) if type(start) is ToolStarted else None
            ran_ns = entry.at_ns - start.at_ns
            is_given_up = answer is not None and tells(answer.text, "timeouts")
            if answer and is_given_up and kind is Request and ran_ns < most_ns - SECOND_NS:
                broken = f"{tools.described(start)} is broken off after {clock(ran_ns)}"
                return f"{broken} and not {clock(most_ns)}: {answer.text!r:.60}"
            if type(start) is ToolStarted and start.own:
                tool = slowed.get(start.name)
                is_slowed = tool is not None and (tool.takes or tool.hangs)
                if is_slowed and kind is ToolResult and start.in_thread:
                    running[start.call_id] = start  # its answer may say that it was broken off
                if given and (given.input or (is_slowed and not is_given_up)):
                    continue
            is_whole = is_seen and not getattr(start, "in_thread", False)  # it may go on
            later = [] if is_whole else [at_ns for at_ns in started_ns if at_ns > start.at_ns]
            if (took_ns := min(later, default=entry.at_ns) - start.at_ns) > most_ns + tools.SOON_NS:
                declared = f"the agent declares a tool_timeout of {clock(most_ns)}"
                return f"{tools.described(start)} takes {clock(took_ns)}, and {declared}"


@invariant("The requests of a call take no longer in all than the timeout that the agent declares.",
           "BUGS.md B3, D8", sees=[Prompt, ServiceRequest, MainRequest],
           needs=[Need.AGENT, Need.TOOL_TIMEOUT], begins=[ServiceRequest])  # fmt: skip
def calls_broken_off_in_time(subject: Subject) -> Watch:
    """All its tries count, and the waits between them."""
    most_ns, sent_ns = subject.tool_timeout or 0, list[int]()
    while entry := (yield):
        if type(entry) is ServiceRequest:
            sent_ns += [entry.at_ns] * (len(subject.asked) == 1)
        else:
            began_ns = min(sent_ns, default=entry.at_ns)
            took_ns = 0 if type(entry) is Prompt else entry.at_ns - began_ns
            if took_ns > most_ns + tools.SOON_NS:
                takes = f"the requests before request {entry.number} take {clock(took_ns)}"
                return f"{takes}, and the agent declares a tool_timeout of {clock(most_ns)}"
            sent_ns.clear()
