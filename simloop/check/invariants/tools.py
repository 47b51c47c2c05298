"""Invariants on the runs of tools, on their results, and on calls whose tools must not run.

The id of a call identifies a tool run, or, if the agent renames calls, the name and arguments do.
"""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote_plus

from simloop.check.invariants.agents import reply_before
from simloop.check.invariants.invariant import Need, Watch, invariant, of_agents
from simloop.check.invariants.subject import PATTERNS, MainRequest, Subject, calls_of, tells
from simloop.messages import AssistantMessage, FinishReason, Message, ToolMessage, json_value
from simloop.messages import Request as SentRequest
from simloop.messages import ToolCall as ToolCalled
from simloop.trace.entries import (
    Answered,
    CallRenamed,
    Ended,
    ProgramStarted,
    Prompt,
    Queued,
    Request,
    ServiceReply,
    ServiceRequest,
    StopRequested,
    ToolCall,
    ToolResult,
    ToolStarted,
)
from simloop.trace.facts import MAY_ACT
from simloop.world.tools import canonical_json, validator_of

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
SOON_NS = 10 * 1_000_000_000  # less than a timeout of an agent
_WORDS = re.compile(r"\w+").findall
_A_VALUE = re.compile(r'"\s*:\s*\S')  # in the JSON of arguments
_AMOUNT, _RELATIVE = PATTERNS["amounts"].search, PATTERNS["relative"].search
_CLEAR, _LONG = 4, 1_000  # characters: such results are not equal by chance, and may be cut
Deed: TypeAlias = tuple[str, bytes]
"""The name of a tool, and its arguments in one spelling."""
BROKEN = (None, FinishReason.LENGTH, FinishReason.ERROR, FinishReason.INTERRUPTED)


@invariant("The tool of a call runs at most once.", "BUGS.md C10, C13, D9, D14",
           sees=[Prompt, ToolCall, ToolStarted], begins=[ToolCall, ToolStarted])  # fmt: skip
def tool_runs_at_most_once(subject: Subject) -> Watch:
    """A retry or a repeated id must not run a tool again.

    Only an engine makes ids unique, so an agent is judged for each run anew.
    """
    machine = subject.machine is not None
    called: Counter[str] = Counter()
    started: Counter[str] = Counter()
    while entry := (yield):
        if type(entry) is Prompt:
            if not machine:
                called.clear()
                started.clear()
            continue
        call_id = entry.call_id
        if type(entry) is ToolCall:
            called[call_id] += 1
        elif started[call_id] and (machine or started[call_id] >= called[call_id]):
            return f"the tool of call {call_id!r} started again"
        else:
            started[call_id] += 1


@invariant(
    "A tool that is declared to change the world runs once for each call of it.",
    "BUGS.md C10, C13, D14; agno #10366", sees=[Prompt, ToolCall, ToolStarted, ToolResult,
    ProgramStarted, MainRequest], needs=[Need.AGENT, Need.MUTATING], begins=[ToolCall],
)  # fmt: skip
def changes_made_once(subject: Subject) -> Watch:
    """A failed or slow try may have changed the world: only the model may ask for another.

    If the result of one run answers two calls, the model believes in two changes. A function that
    no request offers, or a program, belongs to a tool: it runs once for each call with its values.
    """
    called: Counter[str] = Counter()
    started, inner = Counter[Any](), Counter[Any]()
    done: dict[str, list[str]] = {}
    answered: dict[str, set[str]] = {}
    while entry := (yield):
        if (kind := type(entry)) is Prompt:
            called -= started  # the others may have waited for the user's yes
            started.clear()
        elif kind is ToolCall:
            called[entry.name] += 1
        elif kind is Request:
            inner.clear()
            for call in [one for message in subject.facts.added for one in calls_of(message)]:
                message, texts = subject.results.get(call.id), done.get(call.name, [])
                if message is not None and _bare(message.text) in texts:
                    answered.setdefault(call.name, set()).add(call.id)
                    if len(answered[call.name]) > len(texts):
                        where = f"request {entry.number} answers call {call.id!r} with the result"
                        return f"{where} of another: {call.name!r} has not run again"
        elif not changes(entry, subject.mutating or ()):
            continue
        elif kind is ToolResult:
            if not entry.is_error and entry.text:
                done.setdefault(entry.name, []).append(_bare(entry.text))
        else:
            # Another agent may ask meanwhile, so the calls of each newest reply count.
            asked = sum(len(reply.calls) for reply in subject.facts.last_replies())
            request = subject.facts.request
            offered = [each.name for each in request.tools] if request else []
            if kind is ProgramStarted:
                counts, run, most = inner, entry.args, max(asked, 1)  # once for the turn itself
            elif not called[entry.name] and offered and entry.name not in offered:
                counts, run, most = inner, (entry.name, entry.arguments), asked
            else:
                counts, run, most = started, entry.name, called[entry.name]
            counts[run] += 1
            if counts[run] > most:
                asked_for = f"the model has asked for {most} call{'s' * (most != 1)}"
                return f"{described(entry)} runs again, and {asked_for}"


def changes(entry: Any, mutating: Collection[str]) -> bool:
    """Return whether a tool or a program is declared to change the world."""
    if type(entry) is ProgramStarted:
        return any(f"{shlex.join(entry.args)} ".startswith(f"{each} ") for each in mutating)
    return entry.name in mutating


def changes_a_service(entry: ServiceRequest, mutating: Collection[str] | None) -> bool:
    """Return whether a request changes a service that is declared, by its address or a path."""
    address = f"{entry.service}{entry.path}".partition("?")[0] + "/"
    known = (f"{each.rstrip('/')}/" for each in mutating or () if "://" in each)
    return entry.method in CHANGING and address.startswith((*known,))


def what_of(request: ServiceRequest) -> tuple[str, str, str, str]:
    """Return what a request asks of whom, without its number and its key."""
    return request.service, request.method, request.path, request.body


def _bare(text: str) -> str:
    return "".join(text.split())


@invariant("A tool runs only for a call of the model, with the name and the arguments of the call.",
           "BUGS.md D9, D11, D14", sees=[ToolCall, CallRenamed, ToolStarted])  # fmt: skip
def only_called_tools_run(subject: Subject) -> Watch:
    """Hooks and converting loops may change the arguments, and an agent may change the ids.

    A framework may convert the arguments, and an agent may call its tools itself: a tool that
    `traced` records is not judged.
    """
    made: dict[str, list[tuple[str, str]]] = {}
    open_calls: Counter[tuple[str, str]] = Counter()
    settings = subject.settings
    exact = settings is None or not (settings.hooks.before_tool_call or settings.tool_rules.convert)
    while entry := (yield):
        if type(entry) is ToolCall:
            call = entry.name, entry.arguments
            made.setdefault(entry.call_id, []).append(call)
            open_calls[call] += 1
        elif type(entry) is CallRenamed:
            old = made[entry.call_id].pop()  # the newest call
            call = entry.to_name, old[1]
            made.setdefault(entry.to_id, []).append(call)
            open_calls[old] -= 1
            open_calls[call] += 1
        elif not entry.own:
            call = entry.name, entry.arguments
            if settings is not None:
                asked = made.get(entry.call_id, ())
                if not any(one == call if exact else one[0] == entry.name for one in asked):
                    return f"{described(entry)} runs, and the model called {asked}"
            elif not open_calls[call] and json_value(entry.arguments) is not None:
                return f"{described(entry)} runs, and no call of the model is left for it"
            open_calls[call] -= 1


def described(entry: ToolStarted | ProgramStarted | ServiceRequest) -> str:
    """Return the text for the run of a tool, a program or a request in a violation."""
    if isinstance(entry, ServiceRequest):
        return f"the request {entry.method} {entry.service}{entry.path}"
    if isinstance(entry, ProgramStarted):
        return f"the program {shlex.join(entry.args):.80}"
    return f"the tool {entry.name!r} of call {entry.call_id!r} with {entry.arguments:.80}"


@of_agents("A tool of an agent succeeds only with arguments that its schema allows, and one that "
           "changes the world with no negative amount.", "BUGS.md A9, A10, D11", sees=[ToolStarted,
           ToolResult, ServiceRequest])  # fmt: skip
def tool_arguments_fit_the_schema(subject: Subject) -> Watch:
    """The schema is that in the newest request. An agent reports other arguments to the model.

    A service looks at them itself. Arguments with other keys may have been mended. An agent may add
    some of its own, such as a session. A result with `none` tells that nothing was done.
    """
    wrong = dict[str, str]()
    while entry := (yield):
        if type(entry) is ServiceRequest:
            wrong.clear()
        elif type(entry) is ToolStarted:
            wrong[entry.call_id] = _wrong_values(subject, entry)
        else:
            is_told = entry.is_error or tells(entry.text) or "none" in entry.text.lower()
            if (found := wrong.get(entry.call_id)) and not is_told:
                return found


def _wrong_values(subject: Subject, entry: ToolStarted) -> str:
    """Return what is wrong with arguments. A number may be a text, and null may be none."""
    request, arguments = subject.facts.request, json_value(entry.arguments)
    offered = () if request is None else request.tools
    spec = next((each for each in offered if each.name == entry.name), None)
    if spec is None or not isinstance(arguments, dict) or entry.call_id.startswith("own-"):
        return ""
    schema: Any = json_value(bytes(spec.parameters).decode())
    told = schema.get("properties", {}) if isinstance(schema, dict) else {}
    asked = [json_value(call.arguments) for call in subject.asked if call.id == entry.call_id]
    known = {*told}.union(*(each for each in asked if isinstance(each, dict)))
    needed = schema.get("required", ()) if isinstance(schema, dict) else ()
    texts = [key for key, each in told.items() if "'string'" in str(each)]
    given = {
        key: str(value) if type(value) is int and key in texts else value
        for key, value in arguments.items()
        if key in known and (value is not None or key in needed)
    }
    if validator_of(bytes(spec.parameters), entry.name).is_valid(given):
        taken = [key for key, value in given.items() if _AMOUNT(key) and str(value)[:1] == "-"]
        is_judged = taken and entry.name in (subject.mutating or ()) and not _RELATIVE(entry.name)
        return f"{described(entry)} runs, and {taken[0]!r} is negative" if is_judged else ""
    where = f"the schema in request {request.number}" if request else ""
    return f"{described(entry)} runs, and {where} does not allow these"


@of_agents("A tool gets no required argument that its call lacks.", "BUGS.md D11",
           sees=[ToolStarted])  # fmt: skip
def no_arguments_invented(subject: Subject, entry: Any) -> str:
    """An agent reports such a call to the model. It may mend the JSON of a call that is cut off.

    Of a tool that is called several times in a reply, nobody knows which call a run belongs to.
    """
    facts, number = subject.facts, subject.facts.asked.get(entry.call_id, 0)
    reply, request, given = facts.replies.get(number), facts.sent.get(number), None
    calls = [] if reply is None else [one for one in reply.calls if one.name == entry.name]
    spec = next((one for one in (request.tools if request else ()) if one.name == entry.name), None)
    ran = json_value(entry.arguments)
    if len(calls) != 1 or spec is None or not isinstance(ran, dict):
        return ""
    given, schema = json_value(calls[0].arguments), json_value(bytes(spec.parameters).decode())
    if given is None and not ran and _A_VALUE.search(calls[0].arguments):
        return f"{described(entry)} runs, and the call has {calls[0].arguments!r:.60}"
    required = schema.get("required") if isinstance(schema, dict) else None
    for name in required if isinstance(required, list) else ():
        is_told = name in given if isinstance(given, dict) else str(name) in calls[0].arguments
        if name in ran and not is_told and (given is None or isinstance(given, dict)):
            return f"{described(entry)} runs, and the call has no {name!r}"
    return ""


class _Run:
    """A tool run that has returned `text`, with the request whose reply called it."""

    def __init__(self, call: ToolCalled, text: str, asked: SentRequest) -> None:
        self.call, self.text, self.asked = call, text, asked
        self.is_forgotten = False  # the agent has gone back to `asked`, or before it

    def is_in(self, messages: Iterable[Message]) -> bool:
        """Return whether the model can know of this run from one of the messages."""
        called = self.call.name, self.call.arguments
        for message in messages:
            if isinstance(message, ToolMessage) and message.call_id == self.call.id:
                return True
            if isinstance(message, AssistantMessage):
                if any((one.name, one.arguments) == called for one in message.calls):
                    return True
            elif self.text and self.text in message.text:
                return True
        return False


@of_agents("A tool that has run does not run again because the agent starts its conversation "
           "again.", "BUGS.md C10, C13, D14", sees=[Prompt, ToolStarted, ToolResult, MainRequest],
           begins=[ToolStarted, MainRequest])  # fmt: skip
def no_tools_run_again_after_a_restart(subject: Subject) -> Watch:
    """An agent that starts its run again after an error may pay twice.

    A conversation that has its answer is over, and the next one may call the tool again. So may one
    that begins with another message, a shortened one, and one whose tool has failed. A tool of
    which the trace has no run has run when the agent sends its result.
    """
    facts = subject.facts
    running: dict[str, ToolCalled] = {}
    recorded: set[str] = set()  # the tools whose runs the trace has
    runs: list[_Run] = []
    while entry := (yield):
        if (kind := type(entry)) is Prompt:
            running, runs = {}, []
        elif kind is ToolResult:
            started = running.pop(entry.call_id, None)
            request = facts.sent.get(facts.asked.get(entry.call_id, 0))
            if started is not None and request is not None and not entry.is_error:
                runs.append(_Run(started, entry.text, request))
        elif kind is Request:
            if (before := facts.before) is not None:
                for call, text in _told(facts.added, recorded):
                    if said := _again(runs, call, before):
                        return said
                    runs.append(_Run(call, text, before))
            if facts.goes_on and facts.added:
                continue
            sent = facts.sent[entry.number].messages
            reply, of = reply_before(facts, entry), facts.conversation_of
            own = [run for run in runs if of.get(run.asked.number) == facts.conversation]
            if reply is not None and reply.finish in MAY_ACT and not reply.calls:
                runs = [run for run in runs if run not in own]
            for run in own:
                run.is_forgotten |= sent == run.asked.messages[: len(sent)]
        else:
            recorded.add(entry.name)
            call = running[entry.call_id] = ToolCalled(entry.call_id, entry.name, entry.arguments)
            request = facts.sent.get(facts.asked.get(entry.call_id, 0))
            if request is not None and (said := _again(runs, call, request)):
                return said


def _told(messages: Iterable[Message], recorded: set[str]) -> Iterator[tuple[ToolCalled, str]]:
    """Yield the calls of tools without runs in the trace, with the results that are sent."""
    calls: dict[str, ToolCalled] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.calls}
        elif isinstance(message, ToolMessage) and message.call_id in calls:
            call = calls.pop(message.call_id)
            has_failed = message.is_error or tells(message.text, tool=call.name)
            if call.name not in recorded and not has_failed:
                yield call, message.text


def _again(runs: Iterable[_Run], call: ToolCalled, asked: SentRequest) -> str:
    value = json_value(call.arguments)
    for run in runs:
        if not run.is_forgotten or run.is_in(asked.messages):
            continue
        if run.call.name == call.name and json_value(run.call.arguments) == value:
            what = f"the tool {call.name!r} of call {call.id!r} with {call.arguments:.80}"
            shows = f"request {asked.number} does not show it"
            return f"{what} runs again: it has run for call {run.call.id!r}, and {shows}"
    return ""


@of_agents(
    "The model is told of a tool that fails.",
    "BUGS.md D8, D16; openai-agents #2013", sees=[Prompt, Queued, StopRequested, ToolStarted,
    ToolResult, MainRequest], begins=[ToolStarted],
)  # fmt: skip
def failures_told(subject: Subject) -> Watch:
    """An agent has its own words for it; a result without any word of a failure tells of none.

    A tool that the agent has called again, with success, has not failed. What a tool calls inside
    has an id of its own. A tool that was broken off has no result.
    """
    failed: dict[str, tuple[str, str]] = {}
    while entry := (yield):
        if (kind := type(entry)) is ToolResult:
            failed = {one: each for one, each in failed.items() if each[0] != entry.name}
            if entry.is_error:
                failed[entry.call_id] = entry.name, entry.text.removeprefix("Error: ")
        elif kind is ToolStarted:
            if not entry.in_thread:
                failed[entry.call_id] = entry.name, "it has not ended"
        elif kind is not Request:
            failed.clear()
        else:
            reply = reply_before(subject.facts, entry)
            ids = [call.id for call in reply.calls] if reply else []
            inner = [call_id for call_id in failed if call_id.startswith("own-")]
            inside = [failed.pop(each) for each in inner]  # of the calls that this request answers
            if inside and len(subject.results) == 1:
                failed = dict.fromkeys(subject.results, inside[0])
            for call_id, message in subject.results.items():
                name, why = failed.pop(call_id, ("", ""))
                is_told = message.is_error or why in message.text or tells(message.text, tool=name)
                if name and not is_told and len({*ids}) == len(ids):
                    has = f"request {entry.number} has {message.text!r:.60} for call {call_id!r}"
                    return f"{has}, and the tool {name!r} failed: {why:.80}"


@invariant("A tool ends before its call is answered in a request.", "BUGS.md D4, D8, D10",
           sees=[Prompt, ToolStarted, ToolResult, Answered, MainRequest, Ended],
           begins=[ToolStarted])  # fmt: skip
def tool_ends_before_its_answer(subject: Subject) -> Watch:
    """A cancelled tool ends without a result; a tool that goes on has a late result.

    Only an engine must have ended all its tools at the end of the run. No stop interrupts a thread,
    so a tool in one may go on after a run that was stopped, or if it is told to have no end yet, or
    to have failed if it changes nothing: it may find out in time that it was given up.
    """
    facts, given_up = subject.facts, set[str]()
    running: dict[str, ToolStarted] = {}
    answered: dict[str, str] = {}  # calls whose tools may go on, with the place of the answer
    machine = subject.machine is not None
    while entry := (yield):
        if (kind := type(entry)) is ToolStarted:
            running[entry.call_id] = entry
            answered.pop(entry.call_id, None)
        elif kind is ToolResult:
            has_failed = entry.is_error or tells(entry.text)
            if entry.call_id in answered and not (has_failed and entry.call_id in given_up):
                what = f"the tool {entry.name!r} of call {entry.call_id!r}"
                return f"{what} ends after {answered[entry.call_id]}"
            running.pop(entry.call_id, None)
        elif kind is Answered:
            if running.pop(entry.call_id, None) is not None:
                answered[entry.call_id] = "its call was answered"
        elif kind is Prompt:
            answered.clear()
            running.clear()
        elif running:
            where = "the end of the run" if kind is Ended else f"request {entry.number}"
            if machine:
                return f"the tool of call {next(iter(running))!r} has not ended before {where}"
            sent = facts.request.messages if kind is Request and facts.request else ()
            replied = {message.call_id for message in sent if type(message) is ToolMessage}
            for call_id in [one for one in running if kind is Ended or one in replied]:
                told, tool = subject.results.get(call_id), running.pop(call_id)
                is_reading = tool.name not in (subject.mutating or (tool.name,))
                words = "failures" if is_reading else "doubts"
                is_told = told is not None and tells(told.text, words)
                goes_on = is_told if kind is Request else facts.stop is not None
                if not (tool.in_thread and goes_on):
                    answered[call_id] = where
                given_up |= {call_id} if tool.in_thread and told and tells(told.text) else set()


@invariant("The end of one tool does not cancel another tool of the same reply.",
           "BUGS.md D3, D4, D15", sees=[Prompt, StopRequested, Queued, ToolStarted, ToolResult,
           MainRequest], begins=[StopRequested, Queued, ToolStarted, ToolResult])  # fmt: skip
def no_tool_cancelled_by_another(subject: Subject) -> Watch:
    """The times show it: the request follows when the other tool ends, after a few seconds.

    An agent may have its own timeouts, which are longer, and may break its tools off for a message
    of the user. Nothing cancels a tool in a thread: `tool_ends_before_its_answer` judges it.
    """
    running: dict[str, ToolStarted] = {}
    ended_ns, stopped, interrupted = -1, False, False
    while entry := (yield):
        if (kind := type(entry)) is ToolStarted:
            running[entry.call_id] = entry
        elif kind is ToolResult:
            running.pop(entry.call_id, None)
            ended_ns = entry.at_ns
        elif kind is Request:
            answered = subject.results
            for call_id, start in () if stopped or interrupted else running.items():
                is_soon = start.at_ns <= ended_ns == entry.at_ns < start.at_ns + SOON_NS
                if call_id in answered and is_soon and not start.in_thread:
                    return f"{described(start)} was ended when another tool of its batch ended"
            running = {each: start for each, start in running.items() if each not in answered}
            interrupted = False
        elif kind is Queued:
            interrupted = True
        else:
            running, stopped = {}, kind is StopRequested


@of_agents("An agent sends a tool result as the tool returned it.", "BUGS.md D8, D9, D20",
           sees=[ToolStarted, ToolResult, Queued, StopRequested, Prompt, MainRequest])  # fmt: skip
def sent_result_matches_tool_result(subject: Subject) -> Watch:
    """An agent may put words around a text, and cut a long text; later, it may replace the text.

    A result that arrives at the time of a stop, or later, may not have reached the agent. An agent
    may break off its tools for a message of the user, and so miss that one of them has failed. A
    framework has its own words for the result of a tool that `traced` records, and cuts none of a
    short one. If the next call has begun later, alone, before a stop, the result is known.
    """
    facts, own, passed, known = subject.facts, set[str](), set[str](), set[str]()
    returned: dict[str, list[ToolResult]] = {}  # several results, if the model repeated an id
    began, earlier = dict[str, int](), set[str]()  # the times; the ids of earlier runs
    stopped = broken_off = False
    while entry := (yield):
        if (kind := type(entry)) is ToolResult:
            if not stopped and not (entry.is_error and (broken_off or entry.call_id in own)):
                returned.setdefault(entry.call_id, []).append(entry)
        elif kind is ToolStarted:
            if len(facts.running) == 1:
                passed |= {one for one in returned if began.get(one, entry.at_ns) < entry.at_ns}
            began[entry.call_id] = entry.at_ns
            if entry.own:
                own.add(entry.call_id)
            if entry.call_id in earlier:  # a new conversation may use ids again
                earlier.discard(entry.call_id)
                returned.pop(entry.call_id, None)
        elif kind is Queued:
            broken_off = True
            returned = _before_ns(entry.at_ns, returned, but_failed=True)
        elif kind is StopRequested:
            stopped, known = True, passed
            there = {each: got for each, got in returned.items() if each in passed}
            returned = _before_ns(entry.at_ns, returned) | there
        elif kind is Prompt:
            stopped = False
            earlier = set(returned)
        else:
            for message in facts.added:
                if type(message) is not ToolMessage:
                    continue
                results = returned.get(message.call_id, [])
                changed = _cut if message.call_id in own else _changed
                whys = [changed(message, each) for each in results]
                if message.call_id in known and results:
                    whys = [whys[0] or _doubted(message, results[0])]
                if whys and all(whys):
                    return f"request {entry.number}: {whys[0]}"
                if len(results) == 1:
                    del returned[message.call_id]
            broken_off, passed, known = False, set(), set()


def _doubted(message: ToolMessage, result: ToolResult) -> str:
    is_lost = tells(message.text, "doubts") and not tells(result.text, "doubts")
    told = f"the result of call {message.call_id!r} is {message.text!r:.80} after a stop"
    return f"{told}, and its tool has returned {result.text!r:.80}" * is_lost


@of_agents(
    "An agent does not send the result of one call as that of another.",
    "BUGS.md D14; langgraph #6533", sees=[ToolStarted, ToolResult, ServiceRequest, ServiceReply,
    MainRequest], begins=[ToolStarted, ServiceRequest],
)  # fmt: skip
def results_not_crossed(subject: Subject) -> Watch:
    """The whole text of another result in the place of the own one is no other wording of it.

    A call may have the result of a further run of its tool, and a tool that was broken off none. A
    request to a service that has all words of a call is for that call.
    """
    ran: dict[str, tuple[str, str]] = {}
    results: dict[str, ToolResult] = {}
    made, bodies = dict[int, str](), dict[str, list[str]]()  # for calls, by services
    while entry := (yield):
        if type(entry) is ToolStarted:
            ran[entry.call_id] = entry.name, entry.arguments
        elif type(entry) is ToolResult:
            results[entry.call_id] = entry
        elif type(entry) is ServiceRequest:
            newest = {call.id for call in subject.asked}
            bodies = {call_id: sent for call_id, sent in bodies.items() if call_id in newest}
            made[entry.number] = asked_for(subject, entry)
        elif type(entry) is ServiceReply:
            bodies.setdefault(made.pop(entry.request, ""), []).append(entry.body)
        elif found := _astray(subject.results, bodies):
            return f"request {entry.number} answers call {found}"
        for call_id, message in subject.results.items() if type(entry) is Request else ():
            own, sent = results.get(call_id), _bare(message.text)
            is_own = own is not None and (not own.text or _bare(own.text) in sent)
            if len(sent) < _CLEAR or is_own or call_id not in ran:
                continue
            for other, each in results.items():
                is_known = own is not None or not each.is_error
                if is_known and _bare(each.text) == sent and ran.get(other) != ran[call_id]:
                    where = f"request {entry.number} answers call {call_id!r}"
                    return f"{where} with the result of call {other!r}: {message.text!r:.80}"


def asked_for(
    subject: Subject, entry: ServiceRequest | ProgramStarted, calls: Iterable[ToolCalled] = ()
) -> str:
    """Return the id of the only call, or of the one whose arguments are there, or an empty text."""
    ended, calls = subject.facts.ran - subject.facts.running.keys(), calls or subject.asked
    given = {call.id: {*_WORDS(" ".join(values_of(call)).lower())} for call in calls}
    given = {one: words for one, words in given.items() if one not in ended} or given
    for only in given, subject.facts.running:
        if len(only) == 1:
            return next(iter(only))
    is_sent = isinstance(entry, ServiceRequest)
    has = f"{entry.service}{entry.path} {entry.body}" if is_sent else shlex.join(entry.args)  # type: ignore[union-attr]
    plain = re.sub(r"\\.", " ", has), json_value(has.partition(" ")[2], "")
    sent = {*_WORDS(unquote_plus(f"{has} {plain}").lower())}
    # A call without words fits all, and a change may have numbers that a tool has computed.
    texts = {each: {one for one in words if not one.isdigit()} for each, words in given.items()}
    fitting = sorted(
        (len(words & sent), getattr(entry, "method", "GET") == "GET" and words <= sent, each)
        for each, words in given.items()
        if texts[each] <= sent
    )
    is_one = fitting[-1:] and (len(fitting) == 1 or fitting[-1][:2] > fitting[-2][:2])
    # Another call, of which the tool leaves some words out, may have more of them.
    is_one = is_one and fitting[-1][0] >= max(len(words & sent) for words in given.values())
    return fitting[-1][2] if is_one and fitting[-1][0] and all(given.values()) else ""


def deed_of(call: Any) -> Deed:
    """Return the deed of a call, which an equal one shares."""
    value = json_value(call.arguments)
    return call.name, call.arguments.encode() if value is None else canonical_json(value)


def deed_by(subject: Subject, entry: ServiceRequest | ProgramStarted) -> Deed:
    """Return the deed of the call that is asked for, or of several equal ones, or an empty one."""
    works = {deed_of(call): call for call in subject.asked}
    of = asked_for(subject, entry, works.values())
    return next((work for work, call in works.items() if call.id == of), ("", b""))


def values_of(call: ToolCalled) -> Iterator[str]:
    """Yield the values of the arguments of a call as texts."""
    given = json_value(call.arguments)
    yield from map(str, given.values() if isinstance(given, dict) else ())


def _astray(results: Mapping[str, ToolMessage], bodies: Mapping[str, list[str]]) -> str:
    for call_id, message in results.items():
        text = _bare(message.text)
        is_own = any(_bare(own) in text for own in bodies.get(call_id, [""]))
        for other, several in bodies.items() if not is_own else ():
            body = several[-1]
            if other and len(body) >= _CLEAR and _bare(body) in text:
                return f"{call_id!r} with what a service has sent for call {other!r}: {body!r:.80}"
    return ""


def _before_ns(
    at_ns: int, returned: Mapping[str, list[ToolResult]], *, but_failed: bool = False
) -> dict[str, list[ToolResult]]:
    return {
        call_id: results
        for call_id, results in returned.items()
        if results[-1].at_ns < at_ns or (but_failed and not results[-1].is_error)
    }


def _changed(message: ToolMessage, result: ToolResult) -> str:
    if message.text == result.text:
        if message.is_error is result.is_error:
            return ""
        return f"whether the result of call {message.call_id!r} is an error has changed"
    if result.text in message.text or len(result.text) > _LONG:
        return ""
    told = f"the result of call {message.call_id!r} is {message.text!r:.80}"
    return f"{told}, and its tool returned {result.text!r:.80}"


def _cut(message: ToolMessage, result: ToolResult) -> str:
    text, whole = message.text.strip(), result.text.strip()
    part, every = _bare(text), _bare(whole)
    is_cut = _CLEAR <= len(part) < len(every) <= _LONG and every.startswith(part)
    if not is_cut or text.isnumeric():
        return ""
    return f"the result of call {message.call_id!r} is cut to {text!r:.80} from {whole!r:.80}"


@of_agents("An agent answers a call with the result of a tool run for the same arguments.",
           "BUGS.md D9, D14", sees=[ToolStarted, ToolResult, ServiceRequest, ProgramStarted,
           MainRequest], begins=[ToolStarted, ServiceRequest, ProgramStarted])  # fmt: skip
def no_result_of_other_arguments(subject: Subject) -> Watch:
    """An agent may remember results, and answer a call without a tool in its own words.

    A framework may convert the arguments of a tool that `traced` records, which is not judged then.
    Where services alone are seen, the result names an argument of the other call.
    """
    facts, has_begun, told = subject.facts, False, dict[tuple[str, str], dict[str, Any]]()
    ran, results = dict[str, tuple[str, object]](), set[tuple[str, str]]()
    all_ran = list[tuple[str, object]]()  # calls may share an id
    while entry := (yield):
        kind = type(entry)
        has_begun = has_begun or kind in {ToolStarted, ServiceRequest, ProgramStarted}
        if kind is ToolStarted:
            ran[entry.call_id] = work = entry.name, json_value(entry.arguments)
            reply = facts.replies.get(facts.asked.get(entry.call_id, 0))
            asked = () if reply is None else reply.calls
            if entry.own and work not in [(one.name, json_value(one.arguments)) for one in asked]:
                ran[entry.call_id] = entry.name, None  # it may be that of any call
            all_ran.append(ran[entry.call_id])
        elif kind is ToolResult:
            if entry.text and not entry.is_error:
                results.add((entry.name, _bare(entry.text)))
        elif kind not in {ServiceRequest, ProgramStarted}:
            sent = subject.results
            for call in [call for message in facts.added for call in calls_of(message)]:
                if call.id in ran or call.id not in sent:
                    continue
                work = call.name, _bare(sent[call.id].text)
                given, others = json_value(call.arguments), told.setdefault(work, {})
                is_of_other = any(_names(work[1], each, given) for each in others.values())
                said = sent[call.id].text
                is_told = tells(said) or PATTERNS["earlier"].search(said)
                is_new = call.id not in others and not is_told
                others[call.id] = given
                is_known = work in results and not _has_run(call, all_ran)
                if is_known or (is_of_other and is_new and not has_begun):
                    where = f"request {entry.number} answers call {call.id!r}"
                    return f"{where} with a result of {call.name!r} for other arguments"
            has_begun = False


def _names(text: str, one: Any, other: Any) -> bool:
    """Return whether a text has an argument of one call, and not that of the other."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return False
    both = [(str(one[key]), str(other[key])) for key in one if key in other]
    return any(len(a) >= _CLEAR and _bare(a) in text and _bare(b) not in text for a, b in both)


def _has_run(call: ToolCalled, ran: Collection[tuple[str, object]]) -> bool:
    """Return whether a tool ran for a call, with fewer arguments perhaps, or with defaults, too."""
    given = json_value(call.arguments or "{}")
    alike = (got for name, got in ran if name == call.name)
    return any(got in (given, None) or _is_part(given, got) for got in alike)


def _is_part(one: Any, other: Any) -> bool:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return False
    shared = one.keys() & other.keys()
    return len(shared) == min(len(one), len(other)) and all(one[k] == other[k] for k in shared)


@invariant("No tool runs for a call of a reply that failed or was cut off.",
           "BUGS.md D10, D11", sees=[ToolStarted, MainRequest])  # fmt: skip
def no_tools_for_broken_replies(subject: Subject, entry: Any) -> str:
    """The arguments may be cut off too, and a retry would call the tool again.

    A tool whose runs the trace does not have has run if its result tells of no failure.
    """
    facts, settings = subject.facts, subject.settings
    if settings is not None and settings.tool_execution.start == "when-called":
        return ""
    if type(entry) is ToolStarted:
        reply = facts.replies.get(facts.asked.get(entry.call_id, 0))
        if reply is None or not reply.is_closed or reply.finish not in BROKEN:
            return ""
        why = "failed" if reply.finish is None else f"ended with {reply.finish}"
        return f"{described(entry)} runs, and the reply to request {reply.number} {why}"
    for call in [one for message in facts.added for one in calls_of(message)]:
        reply, result = facts.replies.get(facts.asked.get(call.id, 0)), subject.results.get(call.id)
        if reply is None or result is None or reply.finish is not FinishReason.LENGTH:
            continue
        is_told = tells(result.text) or tells(result.text, "cuts")
        if result.text and not (is_told or result.is_error or call.id in facts.ran):
            what = f"request {entry.number} has the result {result.text!r:.40} of {call.name!r}"
            return f"{what}, and the reply to request {reply.number} ended with {reply.finish}"
    return ""
