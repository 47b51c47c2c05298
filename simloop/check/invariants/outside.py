"""Invariants on what tools do outside: the programs that they start, and requests to services.

simloop may not see which tool does it, so a request or a program belongs to the newest reply.
"""

import re
import shlex
from collections import Counter
from itertools import chain
from math import inf
from typing import Any
from urllib.parse import quote, unquote

from simloop.check.invariants import tools
from simloop.check.invariants.agents import AT_ONCE, MINUTE_NS, NS_PER_MS, RATE_LIMIT
from simloop.check.invariants.invariant import Need, Watch, invariant, of_agents
from simloop.check.invariants.requests import strings
from simloop.check.invariants.subject import PATTERNS, MainRequest, Subject, calls_of, tells
from simloop.kernel.retry import retry_after_ns
from simloop.messages import Fault, json_value
from simloop.messages import ToolCall as Called
from simloop.trace.entries import (
    Ended,
    LeftBehind,
    ProgramEnded,
    ProgramOutput,
    ProgramStarted,
    Prompt,
    Queued,
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

_WORK = (ProgramStarted, ProgramEnded, ServiceRequest, ServiceReply)
_REFUSALS = frozenset({400, 402, 403, 404, 405, 410, 413, 415, 422})
UNCERTAIN = frozenset({"lost", "timed-out", "closed"})
_UNKNOWN = frozenset({500, 502, 504})
_IDEMPOTENT = ("PUT", "DELETE")  # RFC 9110, 9.2.2
PAGES = ("pages", "total_pages", "totalPages", "page_count", "pageCount", "last_page", "lastPage")
PAGED = ("more", "has_more", "hasMore", "next", "next_page", "nextPage", "next_cursor")
_OF_ONE = ("PUT", "PATCH", "DELETE")  # which change what has the address
_LOST = frozenset({"lost", "timed-out", "refused"})
_MADE, _REFUSED, _BROKEN_SERVICE = 200, 400, 500
_PATH = re.compile(r"(?i)path|file|folder|dir|url|uri|key")
_COMMAND = re.compile(r"(?i)command|cmd|script|code|shell")
_AS_GOOD = frozenset({404, 409, 410})
_HAS_VERSIONS = re.compile(r"(?i)if-match|etag|[\"']version[\"']")
_COUNTS = re.compile(r"total_changes|\bchanges\(\)")  # of SQLite, besides a count of a cursor
_FRAMEWORKS = re.compile(r"pydantic_ai|langgraph|agents import")
_BREAKS_OFF = re.compile(r"async|hread|Executor|signal|multiprocessing")
_EMPTY = r"\W*(nothing|none|null|empty)?\W*$"
_TRIES, _SHORT = 10, 20  # the second is the length in characters of a verdict, as `allowed`
_USUAL_ENDS = (0, 1)  # `grep` finds nothing, `diff` finds something
_TRY_AGAIN = re.compile(r"(?<!not )\b(try|call|send)( \w+){0,2} again\b")
_KEYS = re.compile(r'(?<=")[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}(?=")')
_NAMED_KEY = re.compile(rf'(?i)"\w*(?:key|ref|idem|nonce|request)\w*": ?"({_KEYS.pattern})"')


@of_agents(
    "A request that a service refuses is not sent again, unless the model calls a tool again.",
    "BUGS.md C7, B15", sees=[Request, ServiceRequest, ServiceReply], begins=[ServiceRequest],
)  # fmt: skip
def refused_changes_not_repeated(subject: Subject) -> Watch:
    """A service refuses by a status that tells of the request, and not of itself or of the rate.

    Of several calls in a reply, each may send the request. One with another Idempotency-Key is
    another one.
    """
    sent: dict[int, ServiceRequest] = {}
    refused: dict[tuple[Any, ...], int] = {}
    while True:
        entry = yield
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


@invariant(
    "A request that changes a service is not sent again after it failed with an unknown end, "
    "unless both have one Idempotency-Key.",
    "BUGS.md C10, C13, D9", sees=[Request, ServiceRequest, ServiceReply],
    needs=[Need.AGENT, Need.MUTATING], begins=[ServiceRequest],
)  # fmt: skip
def uncertain_changes_not_repeated(subject: Subject) -> Watch:
    """The service may have acted on the first one. Each call of the model may make a request."""
    sent: dict[int, ServiceRequest] = {}
    uncertain: list[ServiceRequest] = []
    while True:
        entry = yield
        if type(entry) is Request:
            sent, uncertain = {}, []
        elif type(entry) is ServiceReply:
            first = sent.pop(entry.request, None)
            is_keyed = bool(first and first.once and entry.status >= _BROKEN_SERVICE)
            if first and (entry.failure in UNCERTAIN or entry.status in _UNKNOWN or is_keyed):
                uncertain.append(first)
        elif is_change(subject, entry) and entry.method not in _IDEMPOTENT:
            sent[entry.number] = entry
            asked = subject.asked
            given = "".join(call.arguments for call in asked)
            what, key = _made(entry, given)
            alike = [each for each in uncertain if _made(each, given)[0] == what]
            known = [each for each in alike if each.service == entry.service]
            tries = {_made(each, given)[1] for each in known}
            tries |= {0} if len(known) < len(alike) else set()  # no other service knows the key
            calls = Counter(call.name for call in asked)
            if key not in tries and len(tries) >= max(calls.values(), default=1):
                made = f"{entry.method} {entry.service}{entry.path}"
                return f"{made} is sent again as request {entry.number} to a service"


@of_agents(
    "An Idempotency-Key belongs to one request, and its repetitions.",
    "draft-ietf-httpapi-idempotency-key-header, Uniqueness of Idempotency-Key",
    sees=[ServiceRequest],
)
def keys_used_once(_: Subject) -> Watch:
    """A service answers a second one with what the first has done, or refuses it.

    A key may also be in the body.
    """
    made: dict[tuple[str, str], ServiceRequest] = {}
    while True:
        entry = yield
        key = entry.once or "".join(_NAMED_KEY.findall(entry.body))
        first = made.setdefault((entry.service, key), entry) if key else entry
        if tools.what_of(first) != tools.what_of(entry):
            return f"{tools.described(entry)} has the Idempotency-Key of request {first.number}"


@of_agents(
    "Of two calls of a reply that change the same thing, the second begins after the first.",
    "CWE-362, Race Condition", sees=[MainRequest, ServiceRequest, ServiceReply, ToolResult],
    begins=[ServiceRequest, ToolResult],
)  # fmt: skip
def no_lost_updates(subject: Subject) -> Watch:
    """Else the last one is another than the model has asked for last, or lacks the first change.

    It lacks that if it writes a value which no call has, under a key of an older reading. A service
    with versions refuses that. Frameworks run the calls of a reply at once.
    """
    has_versions = _HAS_VERSIONS.search(subject.source)
    reading, read = dict[int, str](), dict[str, list[Any]]()
    under_way, written = dict[int, ServiceRequest](), dict[str, ServiceRequest]()
    while True:
        entry = yield
        if type(entry) is ServiceReply:
            under_way.pop(entry.request, None)
            known = json_value(entry.body)
            if isinstance(known, dict):
                read.setdefault(reading.pop(entry.request, ""), []).append(known)
        elif type(entry) is ToolResult:
            if entry.overwrote:
                does = f"{entry.overwrote!r} of the tool {entry.name!r}"
                return f"{does} writes what was read before another call changed it"
        elif type(entry) is not ServiceRequest or has_versions:
            reading, read, under_way, written = {}, {}, {}, {}
        elif entry.method == "GET":
            at = reading[entry.number] = f"{entry.service}{entry.path}"
            read[at] = [] if written.pop(at, None) else read.get(at, [])
        elif entry.method in _OF_ONE:
            changed, does = f"{entry.service}{entry.path}", tools.described(entry)
            for one in () if _FRAMEWORKS.search(subject.source) else under_way.values():
                if f"{one.service}{one.path}" == changed and tools.what_of(one) != tools.what_of(
                    entry
                ):
                    return f"{does} is sent while request {one.number} for the same is under way"
            under_way[entry.number] = entry
            for at, known in read.items():
                is_of_it = f"{changed}/".startswith(f"{at}/") and known[1:]
                if is_of_it and _is_of(known[0], entry, subject):
                    first = written.setdefault(at, entry)
                    if first.body != entry.body:
                        read_before = f"what was read before request {first.number} changed it"
                        return f"{does} writes {read_before}"


def _is_of(reading: dict[str, Any], entry: ServiceRequest, subject: Subject) -> bool:
    given = [each for call in subject.asked for each in tools.values_of(call)]
    body = json_value(entry.body)
    own = body.items() if isinstance(body, dict) else ()
    return any(key in reading and str(value) not in given for key, value in own)


@of_agents(
    "An argument is quoted where it is a part of an address, or of a command for a shell.",
    "CWE-74, Injection", sees=[ServiceRequest, ProgramStarted],
)  # fmt: skip
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
    split = quote(text) if "/" in part and not _PATH.search(arguments) else part
    is_there = f"/{part}" in entry.path or f"/{split}" in entry.path
    return "?" in unquote(entry.path) and "?" in part and "://" not in part and is_there


def _is_raw_in_command(entry: Any, text: str, arguments: str) -> bool:
    command = "" if _COMMAND.search(arguments) or entry.args[1:2] != ("-c",) else entry.args[-1]
    forms = shlex.quote(text), f'"{text}"'
    return text != "" and text in command and not any(one in command for one in forms)


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


@of_agents(
    "No change is sent to a service, or made by a program, for a call of a reply that failed or "
    "was cut off.",
    "BUGS.md D10, D11", sees=[ServiceRequest, ProgramStarted],
)  # fmt: skip
def no_changes_for_broken_replies(subject: Subject, entry: ServiceRequest | ProgramStarted) -> str:
    """The arguments may be cut off too, and a retry would call the tool again.

    What goes on after the end of a run was begun for an earlier reply, as by a timer, and a DELETE
    of what the call does not name undoes the change of an earlier one.
    """
    replies = subject.facts.last_replies() if subject.facts.ended is None else []
    broken = [
        each for each in replies if each.calls and each.is_closed and each.finish in tools.BROKEN
    ]
    if not broken or len(broken) < len(replies) or not is_change(subject, entry):
        return ""
    if type(entry) is ServiceRequest and entry.method == "DELETE":
        given = "".join(call.arguments for each in broken for call in each.calls)
        if entry.path.rpartition("/")[2] not in given:
            return ""
    why = "failed" if broken[0].finish is None else f"ended with {broken[0].finish}"
    does = "is sent" if type(entry) is ServiceRequest else "starts"
    return f"{tools.described(entry)} {does}, and the reply to request {broken[0].number} {why}"


@of_agents(
    "A change of a database is committed before its connection is closed, and before the prompt "
    "ends; one of a tool that fails is rolled back.",
    "sqlite3, Transaction control", sees=[LeftBehind, MainRequest, Refused, ServiceReply,
    ToolResult], begins=[LeftBehind, Refused, ServiceReply, ToolResult],
)  # fmt: skip
def changes_committed(subject: Subject) -> Watch:
    """A change that is not wanted is rolled back, or an exception passes the close.

    A service may have done what fails. What it refuses may be undone, and a failure may be noted.
    """
    most = inf  # so many changes are kept without one that undoes another
    while True:
        entry = yield
        if type(entry) is LeftBehind:
            if entry.what == "transaction" and subject.facts.stop is None:
                return f"{entry.name} of a database are left without a commit at {entry.place}"
        elif type(entry) is not ToolResult:
            is_refused = getattr(entry, "status", 0) in _REFUSALS  # no service, no status
            most = inf if type(entry) is Request else int(is_refused)
        elif len(entry.kept.split("; ")) <= most and _is_refused(entry):
            what = f"the tool {entry.name!r} of call {entry.call_id!r}"
            return f"{what} returns {entry.text!r:.60}, and keeps {entry.kept!r:.120}"


def _is_refused(entry: ToolResult) -> bool:
    is_noted = not entry.kept or PATTERNS["kept on failure"].search(entry.kept)
    is_part = PATTERNS["partly"].search(entry.text) or tells(entry.text, "doubts")
    return bool(PATTERNS["refused"].search(entry.text) and not is_noted and not is_part)


@of_agents(
    "The model is told of an UPDATE or a DELETE that finds no row.", "sqlite3, Cursor.rowcount",
    sees=[ToolResult],
)  # fmt: skip
def missing_rows_told(subject: Subject, entry: ToolResult) -> str:
    """Only the last statement of a tool counts, if it has an argument, and none has changed a row.

    A tool that asks how many rows there were knows it, and so does one that reads afterwards.
    """
    if not entry.missed or _COUNTS.search(subject.source) or tells(entry.text, tool=entry.name):
        return ""
    result = f"the tool {entry.name!r} of call {entry.call_id!r} returns {entry.text!r:.60}"
    return f"{result}, and {entry.missed!r} has found no row"


def _made(request: ServiceRequest, given: str) -> tuple[tuple[str, str, str], str | int]:
    """Return what a request changes, and its key, in a header or in the body, or its number.

    A key in the body is a UUID that the model has not `given`.
    """
    keys, rest = list[str](), request.body
    for each in _KEYS.findall(request.body):
        if each not in given:
            keys.append(each)
            rest = rest.replace(each, "")
    key = request.once or " ".join(keys) or request.number
    return (request.method, request.path, rest), key


@of_agents(
    "An agent waits as long as a service asks before it sends a request again, and before a third "
    "retry in any case, and makes no ten retries in a row within a second each.",
    "BUGS.md A11, C1, C3", sees=[Request, ServiceRequest, ServiceReply], begins=[ServiceRequest],
)  # fmt: skip
def services_not_pressed(subject: Subject) -> Watch:
    """Only within the work for one call: the model may ask again at once.

    A Retry-After of over a minute is not judged, nor one that is a date, which few services send.
    """
    sent: dict[int, ServiceRequest] = {}
    failed: dict[tuple[str, str, str, str], ServiceReply] = {}
    at_once: Counter[tuple[str, str, str, str]] = Counter()
    soon: Counter[tuple[str, str, str, str]] = Counter()
    while True:
        entry = yield
        if type(entry) is Request:
            sent, failed = {}, {}
            at_once.clear()
            soon.clear()
        elif type(entry) is ServiceReply:
            first = sent.pop(entry.request, None)
            if first is not None and (entry.failure in _LOST or entry.status >= _REFUSED):
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
            if reply.status in range(_REFUSED, _BROKEN_SERVICE) and reply.status != RATE_LIMIT:
                continue  # the agent may have a new token
            if waited_ns + NS_PER_MS < least_ns <= MINUTE_NS:
                asks = f"the service asks for {clock(least_ns)}"
                return f"{again} after {clock(waited_ns)}, and {asks}"
            at_once[what] = 0 if waited_ns else at_once[what] + 1
            if at_once[what] >= AT_ONCE:
                return f"{again}: retry {at_once[what]} in a row without a wait"


@of_agents(
    "A program does not go on after the model is told that it took too long, or after a stop.",
    "BUGS.md C9, D4, D8", sees=[Prompt, StopRequested, ProgramStarted, ProgramEnded, MainRequest,
    LeftBehind], begins=[ProgramStarted],
)  # fmt: skip
def slow_programs_ended(subject: Subject) -> Watch:
    """The model may start it again, beside the first one. A program in the background may go on.

    After a stop, one in a thread may end by its own timeout.
    """
    running: dict[int, ProgramStarted] = {}
    given_up: dict[int, str] = {}
    new: set[int] = set()  # those of the newest reply
    left_ns: dict[int, int] = {}  # the end of the run that has left it
    grace_ns = subject.tool_timeout or 2 * tools.SOON_NS
    while True:
        entry = yield
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
                late = [number for number in running if given_up.get(number)]
                left_ns |= {number: entry.at_ns for number in running if number in given_up}
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
                new = set()


@of_agents(
    "The model is told of a program or a service that fails and says nothing of it itself.",
    "BUGS.md D8, D16", sees=[Prompt, Queued, StopRequested, ProgramOutput, *_WORK, MainRequest],
    begins=[ProgramStarted, ServiceReply],
)  # fmt: skip
def failed_programs_told(subject: Subject) -> Watch:
    """A result that is what the program has printed, and no more, looks like that of a success.

    So does a result without any word of a failure, if the last that its tool did was lost, or was
    a program with an exit status that means no answer such as `no`.
    """
    printed: dict[int, str] = {}
    complaining: set[int] = set()
    failed: dict[str, int] = {}
    lost = ""
    while True:
        entry = yield
        if type(entry) in {Prompt, Queued, StopRequested}:
            lost = ""
        elif type(entry) is ServiceReply:
            why = f"failed: {entry.failure}" if entry.failure else f"has status {entry.status}"
            is_lost = entry.failure in _LOST or entry.status >= _BROKEN_SERVICE
            lost = f"its last request to a service {why}" if is_lost else ""
        elif type(entry) is ProgramStarted:
            printed[entry.number], lost = "", ""
        elif type(entry) is ProgramOutput:
            printed[entry.program] = printed.get(entry.program, "") + entry.text
            if entry.stream == "stderr":
                complaining.add(entry.program)
        elif type(entry) is ProgramEnded:
            text = printed.pop(entry.program, "").strip()
            ended = "was ended by a signal" if entry.exit < 0 else f"ended with {entry.exit}"
            is_usual = entry.exit in _USUAL_ENDS and not (
                entry.exit and entry.program in complaining
            )
            lost = "" if is_usual else f"its program {ended}"
            if entry.exit and text and not tells(text):
                failed[text] = entry.exit
        elif type(entry) is Request:
            calls = chain.from_iterable(map(calls_of, subject.facts.added))
            names = {call.id: call.name for call in calls}
            for call_id, message in subject.results.items():
                if status := failed.get(message.text.strip()):
                    has = f"request {entry.number} has {message.text!r:.60} for call {call_id!r}"
                    return f"{has}, and the program ended with exit status {status}"
                said = PATTERNS["absent"].sub("", message.text.lower())
                is_one = len(subject.results) == 1 and not subject.facts.has_twins
                is_told = message.is_error or tells(said, tool=names.get(call_id, ""))
                code = lost.rpartition(" ")[2]
                if lost and is_one and not (is_told or re.search(rf"\b{code}\b", said)):
                    return f"request {entry.number} has {message.text!r:.60}, and {lost}"
            failed.clear()
            lost = ""


@of_agents(
    "The model is told of each page of a list that a service has.", "RFC 8288, Web Linking",
    sees=[MainRequest, ServiceRequest, ServiceReply], begins=[ServiceRequest],
)  # fmt: skip
def pages_told(subject: Subject) -> Watch:
    """A page says whether there is a next one. A result may say that there are more."""
    asked, pages = dict[int, str](), dict[str, list[dict[str, Any]]]()
    while True:
        entry = yield
        if type(entry) is ServiceRequest:
            asked[entry.number] = entry.path
        elif type(entry) is ServiceReply:
            page, path = json_value(entry.body), asked.pop(entry.request, "")
            at, marks = path.partition("?")[0], PAGED + PAGES * ("page" in path)
            if isinstance(page, dict) and (at in pages or any(map(page.__contains__, marks))):
                pages.setdefault(at, []).append(page)
        else:
            for message in subject.results.values() if len(subject.results) == 1 else ():
                text, is_part = message.text, tells(message.text, "cuts") or "more" in message.text
                for at, every in pages.items() if not is_part else ():
                    several = [each for n, each in enumerate(every) if each not in every[:n]]
                    texts = Counter(one for page in several for one in {*strings(page)} if one[1:])
                    own = [[one for one in strings(each) if texts[one] == 1] for each in several]
                    told = [any(one in text for one in each) for each in own]
                    goes_on = several == every and _has_next(every)
                    if all(own) and any(told) and (goes_on or not all(told)):
                        return f"request {entry.number} has {text!r:.80}: a page of {at} is missing"
            asked, pages = {}, {}


def _has_next(pages: list[dict[str, Any]]) -> bool:
    """Return whether there is a page behind these, by a mark or by their number."""
    numbers = [each for each in map(pages[-1].get, PAGES) if type(each) is int]
    return max(numbers, default=0) > len(pages) or any(map(pages[-1].get, PAGED))


@of_agents(
    "The model is not told of a change that a service refuses as of one that the service makes.",
    "BUGS.md D8, D16",
    sees=[Prompt, ServiceRequest, ServiceReply, MainRequest], begins=[ServiceRequest],
)  # fmt: skip
def refused_changes_told(subject: Subject) -> Watch:
    """The words for a refusal are those of the agent, but not those for a change of the same tool.

    What is made already may be as good as a change, and so may be what is gone after another try.
    """
    changing: dict[int, bool] = {}  # by number, whether it was sent before
    sent, told = list[object](), dict[tuple[str, str], dict[bool, int]]()
    reply: ServiceReply | None = None
    while True:
        entry = yield
        if type(entry) is ServiceRequest:
            if entry.method in tools.CHANGING:
                changing[entry.number] = tools.what_of(entry) in sent
                sent.append(tools.what_of(entry))
        elif type(entry) is ServiceReply:
            is_as_good = changing.get(entry.request, True) and entry.status in _AS_GOOD
            is_answer = entry.status >= _MADE and not is_as_good
            reply = entry if is_answer and entry.request in changing else None
        else:
            calls = {call.id: call for each in subject.facts.added for call in calls_of(each)}
            is_one = len(subject.results) == 1 and not subject.facts.has_twins
            for call_id, message in subject.results.items() if is_one else ():
                if type(entry) is Prompt or reply is None or not (call := calls.get(call_id)):
                    continue
                words, is_refused = _own_words(message.text, call, reply), reply.status >= _REFUSED
                passes_it_on = is_refused and reply.body and reply.body in message.text
                if not (message.is_error or passes_it_on or tells(words, tool=call.name)):
                    known = told.setdefault((call.name, words), {})
                    known[is_refused] = reply.status
                    if len(known) > 1 or (is_refused and _boasts(words, call.name)):
                        what = f"{message.text!r:.60} for a change that a service"
                        how = f"refused with {known[True]}, as for one that it accepted"
                        return f"request {entry.number} has {what} {how}"
            reply = None


def _boasts(text: str, name: str) -> bool:
    """Return whether a text is none, or a short one that begins with a word for a success."""
    verb = re.sub(r"[^a-z].*", "", name) or "done"
    begins = re.match(rf"(done|ok|success\w*|{verb}\w*e?d)\b|{_EMPTY}", text.lower())
    return begins is not None and len(text) <= _SHORT and "already" not in text.lower()


def _own_words(text: str, call: Called, reply: ServiceReply) -> str:
    given = json_value(call.arguments)
    for each in (reply.body, *(given.values() if isinstance(given, dict) else ())):
        text = text.replace(str(each), "")
    return re.sub(r"\w*\d\w*", "", text)


@invariant(
    "The model is not told that nothing was done where something was, or may have been.",
    "BUGS.md C9, D4, D8", needs=[Need.AGENT, Need.MUTATING],
    begins=[ToolResult, ServiceRequest, ProgramStarted], sees=[ToolResult, *_WORK, MainRequest],
)  # fmt: skip
def changes_not_denied(subject: Subject) -> Watch:
    """A service may not have answered, or has refused what comes after a change that it has made.

    The model would make the change again. Who does not know says that it may have been made. A
    program that a signal ends may have changed something.
    """
    made, sent = dict[str, str](), dict[object, str]()  # by call, what has changed something
    bodies = dict[str, str]()  # the answers to changes
    hidden = set[str]()  # the calls that fail after a change
    twice = set[str]()  # those that would make another change
    while True:
        entry = yield
        if type(entry) is ToolResult:
            if is_change(subject, entry) and not (entry.is_error or tells(entry.text)):
                made[entry.call_id] = f"its tool has returned {entry.text!r:.60}"
        elif type(entry) in (ServiceRequest, ProgramStarted) and is_change(subject, entry):
            call_id = sent[type(entry), entry.number] = tools.asked_for(subject, entry)
            made.setdefault(call_id, f"{tools.described(entry)} was made")
            if getattr(entry, "method", "PUT") not in _IDEMPOTENT and not entry.once:
                twice.add(call_id)
        elif type(entry) is ServiceRequest:  # who reads afterwards knows
            made.pop(tools.asked_for(subject, entry), None)
        elif type(entry) is ProgramEnded and entry.exit > 0:
            made.pop(sent.pop((ProgramStarted, entry.program), ""), None)
        elif type(entry) is ServiceReply:
            if not (call_id := sent.pop((ServiceRequest, entry.request), "")):
                continue
            if not entry.failure and entry.status < _REFUSED:
                bodies[call_id] = entry.body
                hidden.discard(call_id)  # it may be taken back
            elif call_id in bodies:
                hidden.add(call_id)
            elif entry.failure not in UNCERTAIN and entry.status not in _UNKNOWN:
                made.pop(call_id, None)
        elif type(entry) is Request:
            for call_id, message in subject.results.items():
                text = message.text.lower()
                is_denied = call_id in made and PATTERNS["denied"].search(text)
                asks_again = call_id in made.keys() & twice and _TRY_AGAIN.search(text)
                is_hidden = call_id in hidden and _hides_change(message.text, bodies[call_id])
                if (is_denied or asks_again or is_hidden) and not tells(text, "doubts"):
                    denied = f"request {entry.number} has {message.text!r:.80} for call {call_id!r}"
                    return f"{denied}, and {made[call_id]}"
            made, sent, bodies, hidden, twice = {}, {}, {}, set(), set()


def _hides_change(text: str, body: str) -> bool:
    """Return whether a text tells of a failure alone, and not of a change with this answer."""
    is_told = any(each in text for each in strings(json_value(body)))
    return tells(text) and not is_told and not PATTERNS["partly"].search(text)


@of_agents(
    "The failure of a tool, a program or a service is not remembered as the result of a call.",
    "BUGS.md D8", sees=[ToolStarted, ToolResult, *_WORK, MainRequest],
    begins=[ToolStarted, ProgramStarted, ServiceRequest],
)  # fmt: skip
def failures_not_remembered(subject: Subject) -> Watch:
    """If the model calls the tool again, it is tried again: it may succeed by now.

    A tool may say for how long it does not try, which is no longer than two minutes.
    """
    told: dict[tuple[str, str], tuple[str, int]] = {}
    has_begun = has_failed = False
    while True:
        entry = yield
        if type(entry) in {ToolStarted, ProgramStarted, ServiceRequest}:
            has_begun = True
        elif type(entry) is ToolResult:
            has_failed = has_failed or (entry.is_error and has_begun)
        elif type(entry) is ProgramEnded:
            has_failed = has_failed or entry.exit != 0
        elif type(entry) is ServiceReply:
            is_lost = entry.failure in _LOST or entry.status >= _BROKEN_SERVICE
            has_failed = has_failed or is_lost
        else:
            is_new = subject.facts.goes_on and not has_begun  # a shortened history tells it again
            calls = [call for message in subject.facts.added for call in calls_of(message)]
            for call in calls:
                message, work = subject.results.get(call.id), (call.name, call.arguments)
                text, until_ns = told.get(work, ("", 0))
                if message and is_new and text == message.text and entry.at_ns >= until_ns:
                    again = f"request {entry.number} answers call {call.id!r} with the same failure"
                    return f"{again}, {message.text!r:.80}, and nothing has run"
                if message and tells(message.text) and has_failed and len(calls) == 1:
                    waits_ns = 2 * MINUTE_NS if tells(message.text, "waits") else 0
                    told[work] = message.text, entry.at_ns + waits_ns  # no other call has failed
            has_begun = has_failed = False


@invariant(
    "A tool of an agent, its programs and its requests take no longer than the timeout that the "
    "agent declares, and a tool may take that long.",
    "BUGS.md B3, D8", sees=[Prompt, ToolStarted, ToolResult, *_WORK, MainRequest, Ended],
    needs=[Need.AGENT, Need.TOOL_TIMEOUT], begins=[ToolStarted, ProgramStarted, ServiceRequest],
)  # fmt: skip
def tools_broken_off_in_time(subject: Subject) -> Watch:
    """The call is answered by then, even where the tool goes on; it may take a moment to end.

    A tool that is broken off leaves no end; it has ended when a later one starts. A function in the
    only thread of an agent cannot be broken off.
    """
    most_ns = subject.tool_timeout or 0
    can_break_off = not subject.source or _BREAKS_OFF.search(subject.source)
    running: dict[object, ToolStarted | ProgramStarted | ServiceRequest] = {}
    started_ns: list[int] = []
    while True:
        entry = yield
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
        elif kind is Request:
            due = [*subject.results]
        elif kind is Ended:
            due = [*running]
        else:
            running.clear()
        is_seen = kind in (ToolResult, ProgramEnded, ServiceReply)
        for start in [running.pop(each) for each in due if each in running]:
            answer = subject.results.get(start.call_id) if type(start) is ToolStarted else None
            ran_ns = entry.at_ns - start.at_ns
            is_early = kind is Request and ran_ns < most_ns - SECOND_NS
            if is_early and answer and tells(answer.text, "timeouts"):
                broken = f"{tools.described(start)} is broken off after {clock(ran_ns)}"
                return f"{broken} and not {clock(most_ns)}: {answer.text!r:.60}"
            is_whole = is_seen and not getattr(start, "in_thread", False)  # it may go on
            later = [] if is_whole else [at_ns for at_ns in started_ns if at_ns > start.at_ns]
            if (took_ns := min(later, default=entry.at_ns) - start.at_ns) > most_ns + tools.SOON_NS:
                declared = f"the agent declares a tool_timeout of {clock(most_ns)}"
                return f"{tools.described(start)} takes {clock(took_ns)}, and {declared}"
