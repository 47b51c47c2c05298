"""Invariants on what the model is told of the work of its tools outside.

A service, a program or a database does or refuses something, and a result says it.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Any

from simloop.check.invariants import outside, tools
from simloop.check.invariants.agents import MINUTE_NS, OUTPUT_TOOL, reply_before
from simloop.check.invariants.invariant import Need, Watch, invariant, of_agents
from simloop.check.invariants.outside import IDEMPOTENT, REFUSED, UNCERTAIN, UNKNOWN, WORK
from simloop.check.invariants.requests import strings
from simloop.check.invariants.subject import PATTERNS, MainRequest, Subject, calls_of, tells
from simloop.messages import Outcome, ToolCall, ToolMessage, json_value
from simloop.trace.entries import (
    Ended,
    ProgramEnded,
    ProgramOutput,
    ProgramStarted,
    Prompt,
    Queued,
    Request,
    ServiceReply,
    ServiceRequest,
    StopRequested,
    ToolResult,
    ToolStarted,
)
from simloop.virtual.clock.instants import SECOND_NS

PAGES = ("pages", "total_pages", "totalPages", "page_count", "pageCount", "last_page", "lastPage")
DONE, FAILED = PATTERNS["is done"], "failed"  # of a job
PAGED = ("more", "has_more", "hasMore", "next", "next_page", "nextPage", "next_cursor")
_AS_GOOD = frozenset({404, 409, 410})
_NOT_AGAIN, _EARLIER = PATTERNS["not again"], PATTERNS["earlier"].search
_WAS_MADE, _EMPTY = PATTERNS["made"].search, r"\W*(nothing|none|null|empty)?\W*$"
_USUAL_ENDS = (0, 1)  # `grep` finds nothing, `diff` finds something
_FAILED, _REFUSED, _TWICE = "has failed", "was refused", "calls at once have each made"
_RIGHT = "", False
_MADE, _SHORT = 200, 20  # the second is the length in characters of a verdict, as `allowed`


@of_agents("The model is told of an UPDATE or a DELETE that finds no row.",
           "sqlite3, Cursor.rowcount", sees=[ToolResult])  # fmt: skip
def missing_rows_told(subject: Subject, entry: ToolResult) -> str:
    """Only the last statement of a tool counts, if it has an argument, and none has changed a row.

    A tool that asks how many rows there were knows it, and so does one that reads afterwards. One
    that is not declared to change the world only keeps what it has read.
    """
    knows = PATTERNS["counted"].search(subject.source) or tells(entry.text, tool=entry.name)
    changing = [each for each in subject.mutating or () if "://" not in each] or [entry.name]
    if not entry.missed or knows or entry.name not in changing:
        return ""
    result = f"the tool {entry.name!r} of call {entry.call_id!r} returns {entry.text!r:.60}"
    return f"{result}, and {entry.missed!r} has found no row"


@of_agents("The model is told of a program or a service that fails and says nothing of it itself.",
           "BUGS.md D8, D16", sees=[Prompt, Queued, StopRequested, ProgramOutput, *WORK,
           MainRequest], begins=[ProgramStarted, ServiceReply])  # fmt: skip
def failed_programs_told(subject: Subject) -> Watch:
    """A result that is what the program has printed, and no more, looks like that of a success.

    So does a result without any word of a failure, if the last that its tool did was lost, or was
    a program with an exit status that means no answer such as `no`.
    """
    printed: dict[int, str] = {}
    complaining: set[int] = set()
    failed: dict[str, int] = {}
    lost = ""
    while entry := (yield):
        if type(entry) in {Prompt, Queued, StopRequested}:
            lost = ""
        elif type(entry) is ServiceReply:
            said = json_value(entry.body)
            state = said.get("state", said.get("status")) if isinstance(said, dict) else ""
            why = f"failed: {entry.failure}" if entry.failure else f"has status {entry.status}"
            why = f"says {state!r}" if state == FAILED else why
            is_lost = outside.is_lost(entry) or state == FAILED
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
            complains = entry.exit and entry.program in complaining
            lost = "" if entry.exit in _USUAL_ENDS and not complains else f"its program {ended}"
            if entry.exit and text and not tells(text):
                failed[text] = entry.exit
        elif type(entry) is Request:
            calls = chain.from_iterable(map(calls_of, subject.facts.added))
            names = {call.id: call.name for call in calls}
            for call_id, message in subject.results.items():
                if status := failed.get(message.text.strip()):
                    has = f"request {entry.number} has {message.text!r:.60} for call {call_id!r}"
                    return f"{has}, and the program ended with exit status {status}"
                absent = "" if lost.endswith(repr(FAILED)) else PATTERNS["absent"]
                said = re.sub(absent, "", message.text.lower())
                is_one = len(subject.results) == 1 and not subject.facts.has_twins
                is_told = message.is_error or tells(said, tool=names.get(call_id, ""))
                code = lost.rpartition(" ")[2]
                if lost and is_one and not (is_told or re.search(rf"\b{code}\b", said)):
                    return f"request {entry.number} has {message.text!r:.60}, and {lost}"
            failed.clear()
            lost = ""


@of_agents("The model is told of each page of a list that a service has.", "RFC 8288, Web Linking",
           sees=[MainRequest, ServiceRequest, ServiceReply], begins=[ServiceRequest])  # fmt: skip
def pages_told(subject: Subject) -> Watch:
    """A page says whether there is a next one. A result may say that there are more."""
    asked, pages = dict[int, str](), dict[str, list[dict[str, Any]]]()
    while entry := (yield):
        if type(entry) is ServiceRequest:
            asked[entry.number] = entry.path
        elif type(entry) is ServiceReply:
            page, path = json_value(entry.body), asked.get(entry.request, "")
            at, marks = path.partition("?")[0], PAGED + PAGES * ("page" in path)
            is_page = isinstance(page, dict) and entry.status < REFUSED
            if is_page and (at in pages or any(map(page.__contains__, marks))):
                pages.setdefault(at, []).append(page)
        else:
            is_one = len(subject.results) == 1 and not subject.facts.last_replies()[1:]
            for message in subject.results.values() if is_one else ():
                text, is_part = message.text, tells(message.text, "cuts") or "more" in message.text
                for at, every in pages.items() if not is_part else ():
                    new = [each for n, each in enumerate(every) if each not in every[:n]]
                    shown = [[page[key] for key in page if key not in PAGED] for page in new]
                    texts = Counter(one for each in shown for one in {*strings(each)} if one[1:])
                    own = [[one for one in strings(each) if texts[one] == 1] for each in shown]
                    told = [any(one in text for one in each) for each in own]
                    goes_on = new == every and _has_next(every, asked.values())
                    if all(own) and any(told) and (goes_on or not all(told)):
                        return f"request {entry.number} has {text!r:.80}: a page of {at} is missing"
            asked, pages = {}, {}


def _has_next(pages: list[dict[str, Any]], paths: Iterable[str]) -> bool:
    """Return whether there is a page behind these that was not asked for by a link of its own."""
    numbers = [each for each in map(pages[-1].get, PAGES) if type(each) is int]
    marks = tuple(str(each) for each in map(pages[-1].get, PAGED) if each)
    is_asked = any(mark.endswith((*paths,)) for mark in marks)
    return max(numbers, default=0) > len(pages) or (bool(marks) and not is_asked)


@of_agents("The model is not told of a change that a service refuses as of one that the service "
           "makes.", "BUGS.md D8, D16", sees=[Prompt, ServiceRequest, ServiceReply, MainRequest],
           begins=[ServiceRequest])  # fmt: skip
def refused_changes_told(subject: Subject) -> Watch:
    """The words for a refusal are those of the agent, but not those for a change of the same tool.

    What is made already may be as good as a change, and so may be what is gone after another try.
    """
    changing: dict[int, bool] = {}  # by number, whether it was sent before
    sent, told = list[object](), dict[tuple[str, str], dict[bool, int]]()
    reply: ServiceReply | None = None
    while entry := (yield):
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
                words, is_refused = _own_words(message, call, reply.body), reply.status >= REFUSED
                boasts = is_refused and _boasts(words, call.name)
                passes_it_on = is_refused and reply.body and reply.body in message.text
                passes_it_on = passes_it_on and not (boasts and re.search(r"\w", words))
                is_told = message.is_error or (tells(words, tool=call.name) and not boasts)
                if not (passes_it_on or is_told):
                    known = told.setdefault((call.name, words), {})
                    known[is_refused] = reply.status
                    if len(known) > 1 or boasts:
                        what = f"{message.text!r:.60} for a change that a service"
                        how = f"refused with {known[True]}, as for one that it accepted"
                        return f"request {entry.number} has {what} {how}"
            reply = None


@invariant("The user is told of a change that the agent asks for after its answer, and that fails.",
           "BUGS.md D8, D16", needs=[Need.AGENT, Need.MUTATING], begins=[ServiceRequest],
           sees=[MainRequest, ServiceRequest, ServiceReply, Ended])  # fmt: skip
def failed_changes_told_to_the_user(subject: Subject) -> Watch:
    """The answer of the model cannot tell of it: an agent adds some words of its own."""
    sent, failed = dict[int, ServiceRequest](), ""
    while entry := (yield):
        if (kind := type(entry)) is ServiceRequest:
            is_behind = all(each.name.startswith(OUTPUT_TOOL) for each in subject.asked)
            if is_behind and outside.is_change(subject, entry) and entry.method in tools.CHANGING:
                sent[entry.number] = entry
        elif kind is ServiceReply:
            how = f"status {entry.status}" if entry.status else entry.failure
            if 0 < entry.status < REFUSED or entry.status in _AS_GOOD:
                failed = ""  # it is made now, or who reads afterwards knows
            elif entry.request in sent:
                failed = f"{tools.described(sent[entry.request])} ends with {how}"
        elif kind is Ended and failed and entry.outcome is Outcome.COMPLETED:
            if not tells(entry.text):
                return f"the user gets {entry.text!r:.80}, and {failed}"
        else:
            sent, failed = {}, ""


@invariant("A change of which the model is told that it was made before has been made, and once.",
           "CWE-367, Time-of-check Time-of-use", needs=[Need.AGENT, Need.MUTATING],
           sees=[MainRequest, ToolStarted, ToolResult, *WORK],
           begins=[ToolStarted, ServiceRequest, ProgramStarted])  # fmt: skip
def made_before_once(subject: Subject) -> Watch:
    """A note of it is too early if it then fails, and too late for a call beside it.

    What a tool does outside counts, or else its own runs.
    """
    every = list[tuple[tools.Deed, str, str]]()  # changes, with keys, or "" and a failure
    own = dict[tuple[bool, int], tools.Deed]()
    ran = dict[str, ToolResult | None]()
    wrong = dict[tools.Deed, tuple[str, bool]]()  # why, and whether two calls have made it
    while entry := (yield):
        if type(entry) is Request:
            works = dict[tools.Deed, list[ToolCall]]()
            for call in (call for message in subject.facts.added for call in calls_of(message)):
                works.setdefault(tools.deed_of(call), []).append(call)
            is_alone = len(works) == 1
            for work, added in works.items():
                made = [(what, key) for of, what, key in every if of == work or is_alone]
                ids = [*ran] if is_alone else [each.id for each in added if not every]
                runs = [ran[each] for each in ids if each in ran]
                (why, is_twice), result = wrong.get(work, _RIGHT), subject.results.get(added[0].id)
                is_made = made or not is_alone or (ran and not (_TWICE in why or _REFUSED in why))
                said = "" if is_made or not (why and result) else _own_words(result, added[0])
                words = PATTERNS["may be"].sub("", _NOT_AGAIN.sub("", said))
                if PATTERNS["surely made"].search(words):
                    words = PATTERNS["object"].sub("", words)
                is_sure = is_twice or not (tells(words) or tells(words, "doubts"))
                is_known = _EARLIER(words) or (is_twice and _NOT_AGAIN.search(said))
                if result and is_sure and is_known:
                    return f"request {entry.number} has {result.text!r:.80}, and {why}"
                found = _wrong(made, runs, len(added), work[0])
                wrong |= {work: found} if found[1] or (is_alone and (made or runs)) else {}
            every, own, ran = [], {}, {}
        elif type(entry) is ToolResult:
            ran |= {entry.call_id: entry} if entry.call_id in ran else {}
        elif type(entry) is ProgramEnded:
            of = own.get((True, entry.program))
            every += [(of, "", _FAILED)] if of and entry.exit else []
        elif type(entry) is ServiceReply:
            of, status = own.get((False, entry.request)), entry.status
            is_sure = REFUSED <= status < outside.BROKEN_SERVICE and status not in _AS_GOOD
            if of and outside.is_lost(entry, REFUSED):
                every.append((of, "", _REFUSED if is_sure else _FAILED))
            elif not (of or outside.is_lost(entry, REFUSED)):  # a look, which may show more
                wrong = {one: why for one, why in wrong.items() if why[1] or _REFUSED in why[0]}
        elif type(entry) is ToolStarted:
            is_change = outside.is_change(subject, entry) and not entry.in_thread
            ran |= {entry.call_id: None} if is_change else {}
        elif outside.is_change(subject, entry):
            own[type(entry) is ProgramStarted, entry.number] = work = tools.deed_by(subject, entry)
            what = f"{tools.described(entry)} {getattr(entry, 'body', '')}".strip()
            every.append((work, what, getattr(entry, "once", "")))


def _wrong(
    made: list[tuple[str, str]], ran: list[ToolResult | None], asked: int, name: str
) -> tuple[str, bool]:
    if made:
        whats, keys = ({*each} for each in zip(*made, strict=True))
        if asked == len(made) > 1 == len(whats) and len(keys - {""}) != 1:
            return f"{asked} {_TWICE} {made[0][0]}", True
        has_failed = not made[-1][0] and len({each for each in made if each[0]}) == 1
        return f"{made[0][0]} {made[-1][1]}" * has_failed, False
    told = [each for each in ran if each and not tells(each.text)]
    differ = len({each.text for each in told}) == len(told) or all(each.kept for each in told)
    if len(told) == asked > 1 and differ and not any(_EARLIER(each.text) for each in told):
        return f"{asked} calls at once have each run the tool {name!r}", True
    has_failed = all(each is None or each.is_error for each in ran)
    return f"the tool {name!r} has failed" * has_failed, False


def _boasts(text: str, name: str) -> bool:
    """Return whether a text is none, or a short one that begins with a success, or tells of one."""
    verb, text = re.sub(r"[^a-z].*", "", name) or "done", text.lower()
    done = rf"(done|ok|success\w*|paid|{verb}\w*e?d)"
    begins = re.match(rf"{done}\b|{_EMPTY}", text) if len(text) <= _SHORT else None
    words = PATTERNS["object"].sub("", text)  # what a service says
    is_all = re.match(rf"(?s){done}[:.](?!.*\b(refus|rejec|fail|err|deni|but|stat))", words)
    is_told = is_all or ((begins or _WAS_MADE(text)) and not tells(text, tool=name))
    return bool(is_told) and "already" not in text


def _own_words(result: ToolMessage, call: ToolCall, body: str = "") -> str:
    text = result.text
    for each in filter(str.strip, (body, *tools.values_of(call))):
        text = text.replace(each, "")
    return re.sub(r"\w+", lambda word: word[0] * (not any(map(str.isdigit, word[0]))), text)


@invariant("The model is not told that nothing was done where something was, or may have been.",
           "BUGS.md C9, D4, D8", needs=[Need.AGENT, Need.MUTATING], begins=[ToolStarted,
           ServiceRequest, ProgramStarted], sees=[StopRequested, ToolStarted, ToolResult, *WORK,
           MainRequest])  # fmt: skip
def changes_not_denied(subject: Subject) -> Watch:
    """A service may not have answered, or has refused what comes after a change that it has made.

    The model would make the change again. Who does not know says that it may have been made. A
    program that a signal ends may have changed something, and so may a tool that was broken off.
    One in a thread goes on, and may make the change after that.
    """
    begun = dict[str, str]()  # the tools that have not ended
    late = dict[str, str]()  # what denies those that may go on
    made, sent = dict[str, str](), dict[object, str]()  # by call, what has changed something
    bodies = dict[str, str]()  # the answers to changes
    hidden = set[str]()  # the calls that fail after a change
    twice = set[str]()  # those that would make another change
    while entry := (yield):
        begun = {} if type(entry) in (StopRequested, ServiceRequest, ProgramStarted) else begun
        if type(entry) is ToolStarted:
            is_ours = outside.is_change(subject, entry)
            begun |= {entry.call_id: f"{tools.described(entry)} has not ended"} if is_ours else {}
            late.pop(entry.call_id, None)
        elif type(entry) is ToolResult:
            begun.pop(entry.call_id, None)
            knows = tells(entry.text) or PATTERNS["denied"].search(entry.text)
            if not (entry.is_error or entry.is_open or knows) and outside.is_change(subject, entry):
                made[entry.call_id] = f"its tool has returned {entry.text!r:.60}"
                if denied := late.get(entry.call_id):
                    return f"{denied}, and after that {made[entry.call_id]}"
        elif type(entry) in (ServiceRequest, ProgramStarted) and outside.is_change(subject, entry):
            call_id = sent[type(entry), entry.number] = tools.asked_for(subject, entry)
            made.setdefault(call_id, f"{tools.described(entry)} was made")
            is_new = getattr(entry, "method", "PUT") not in IDEMPOTENT and not entry.once
            twice |= {call_id} if is_new else set()
        elif type(entry) is ServiceRequest:  # who reads afterwards knows
            made.pop(tools.asked_for(subject, entry), None)
        elif type(entry) is ProgramEnded and entry.exit > 0:
            made.pop(sent.pop((ProgramStarted, entry.program), ""), None)
        elif type(entry) is ServiceReply and (
            call_id := sent.pop((ServiceRequest, entry.request), "")
        ):
            if not entry.failure and entry.status < REFUSED:
                bodies[call_id] = entry.body
                hidden.discard(call_id)  # it may be taken back
            elif call_id in bodies:
                hidden.add(call_id)
            elif entry.failure not in UNCERTAIN and entry.status not in UNKNOWN:
                made.pop(call_id, None)
        elif type(entry) is Request:
            for call_id, message in subject.results.items():
                denies, asks_again, hides = _denials(message.text, bodies.get(call_id, ""))
                is_again = asks_again and call_id in twice
                is_late = call_id in bodies and tells(message.text, "timeouts")
                is_denied = denies or is_again or (hides and (is_late or call_id in hidden))
                is_undone = denies or "cancel" in message.text or "roll" in message.text
                is_open = call_id in begun and asks_again and not is_undone
                denied = f"request {entry.number} has {message.text!r:.80} for call {call_id!r}"
                if (call_id in made and is_denied) or is_open:
                    return f"{denied}, and {(begun | made)[call_id]}"
                is_flat, *_ = max(map(_denials, message.text.split(". ")))  # any of the sentences
                late |= {call_id: denied} if is_flat else {}
            made, sent, bodies, hidden, twice, begun = {}, {}, {}, set(), set(), {}


def _denials(text: str, body: str = "") -> tuple[bool, bool, bool]:
    """Return whether a result denies a change, asks for it again, and hides the answer to it."""
    if tells(text, "doubts"):
        return False, False, False
    is_told = any(each in text for each in strings(json_value(body)))
    hides = tells(text) and not (is_told or PATTERNS["partly"].search(text))
    asks_again = PATTERNS["try again"].search(text) is not None
    made = "".join(each for each in text.split(". ") if _WAS_MADE(each))  # another one is not
    return PATTERNS["denied"].search(made or text) is not None, asks_again, hides


@of_agents("The failure of a tool, a program or a service is not remembered as the result of a "
           "call.", "BUGS.md D8", sees=[ToolStarted, ToolResult, *WORK, MainRequest],
           begins=[ToolStarted, ProgramStarted, ServiceRequest])  # fmt: skip
def failures_not_remembered(subject: Subject) -> Watch:
    """If the model calls the tool again, it is tried again: it may succeed by now.

    A tool may say for how long it does not try, which is no longer than two minutes.
    """
    told: dict[tuple[str, str], tuple[str, int]] = {}
    has_begun = has_failed = False
    while entry := (yield):
        if type(entry) in {ToolStarted, ProgramStarted, ServiceRequest}:
            has_begun = True
        elif type(entry) is ToolResult:
            has_failed = has_failed or (entry.is_error and has_begun)
        elif type(entry) is ProgramEnded:
            has_failed = has_failed or (entry.exit != 0 and has_begun)
        elif type(entry) is ServiceReply:
            has_failed = has_failed or (outside.is_lost(entry) and has_begun)
        else:
            is_new = subject.facts.goes_on and not has_begun  # a shortened history tells it again
            calls = [call for message in subject.facts.added for call in calls_of(message)]
            for call in calls:
                message, work = subject.results.get(call.id), (call.name, call.arguments)
                text, until_ns = told.get(work, (None, 0))
                reply = reply_before(subject.facts, entry)
                waited_ns = entry.at_ns - reply.at_ns if told and reply else 0
                if message and is_new and waited_ns > SECOND_NS and tells(message.text, "timeouts"):
                    why = f"answers call {call.id!r} with {message.text!r:.80}"
                    return f"request {entry.number} {why}: it has waited, and nothing has run"
                if message and is_new and text == message.text and entry.at_ns >= until_ns:
                    again = f"request {entry.number} answers call {call.id!r} with the same failure"
                    return f"{again}, {message.text!r:.80}, and nothing has run"
                if message and tells(message.text) and has_failed and len(calls) == 1:
                    waits_ns = 2 * MINUTE_NS if tells(message.text, "waits") else 0
                    told[work] = message.text, entry.at_ns + waits_ns  # no other call has failed
            has_begun, has_failed = has_begun and not calls, has_failed and not calls
