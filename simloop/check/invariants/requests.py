"""Invariants on the messages of each request: the rules of providers, and the context.

A message enters the context once and unchanged, and only a compaction removes it. An engine must
obey this law exactly. An agent may shorten its context, add its own words and have several
conversations, so it must obey the law only in a request that continues the request before it.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from html import escape
from typing import Any

from simloop.check.invariants.invariant import Watch, invariant, of_agents
from simloop.check.invariants.subject import Break, MainRequest, Subject, Why, tells
from simloop.kernel.signals import HookFailed, ModelFailed
from simloop.messages import (
    AssistantMessage,
    FinishReason,
    Message,
    Outcome,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    json_value,
)
from simloop.messages import Request as SentRequest
from simloop.trace import entries
from simloop.trace.facts import Facts, ReceivedReply

WHOLE = (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER)
_ANY = object()
BEHIND = ("task", "thread")  # what a run may leave behind that goes on in the next one
_LOST = 3  # messages that a summary may replace although it failed, with the request for it
_PRIVATE = re.compile(r"@|\d{4}")  # what an agent may hide from its provider
_QUESTION = 20  # the length of its end, such as `? (yes/no)`
_BEGINNING, _SHORT = 12, 200  # characters: of a message, not cut; of a result, not left out
_BOUNDED = 20_000  # characters of a request for a summary, which may be cut to a limit
_STOPS = (entries.StopRequested, HookFailed)
_SEEN = (*_STOPS, ModelFailed, entries.Backoff, entries.Request)


def _broken(subject: Subject, *whys: str) -> str:
    return next((str(found) for found in subject.breaks if found.why in whys), "")


@invariant("Every call has exactly one result before the next request is sent.",
           "BUGS.md D1, D2, D3, D4, D8, D16", sees=[Break])  # fmt: skip
def answered_calls(subject: Subject, _: Any) -> str:
    """This includes calls that failed, timed out or were stopped."""
    return _broken(subject, Why.NO_RESULT, Why.MORE_RESULTS)


@invariant("Every request is one that the provider accepts.",
           "BUGS.md D1, D2, D3, D4, D8, D16", sees=[entries.RequestRefused])  # fmt: skip
def accepted_requests(_: Subject, entry: Any) -> str:
    """A provider refuses, for instance, a call without a result, and names the message."""
    return f"{entry.endpoint} is answered with status {entry.status}: {entry.text}"


@invariant("No two calls have the same id.", "BUGS.md D14", sees=[Break])
def unique_call_ids(subject: Subject, _: Any) -> str:
    """A provider refuses a request with two equal ids."""
    return _broken(subject, Why.SHARED)


@invariant("A result follows the message with its call; only other results may stand between them.",
           "BUGS.md D2, D5, D6, D22", sees=[Break])  # fmt: skip
def adjacent_results(subject: Subject, _: Any) -> str:
    """A provider refuses a result whose call is missing or stands elsewhere."""
    return _broken(subject, Why.NOT_BEHIND, Why.NOT_CALLED)


@invariant("The results of a reply are sent in the order of its calls.",
           "BUGS.md D21", sees=[entries.Request])  # fmt: skip
def results_in_call_order(subject: Subject, entry: Any) -> str:
    """Stopped calls, those of unknown tools, and old ones that come again, may be behind others."""
    facts, request = subject.facts, subject.facts.sent[entry.number]
    offered, free = set[str](), set[str]()
    if subject.machine is None:
        if facts.before is not None and facts.previous is None:
            return ""  # an SDK answers the calls of a run that has failed when the next one begins
        offered = {tool.name for tool in request.tools}
        before = facts.before.messages if facts.before else ()
        free = {*facts.running, *(each.call_id for each in before if type(each) is ToolMessage)}
    if facts.before and offered and facts.before.system_prompt != request.system_prompt:
        return ""  # an SDK hands over to another agent behind the other calls
    places, last = dict[str, int](), -1
    for message in entry.added:
        if type(message) is AssistantMessage:
            known = [each for each in message.calls if not offered or each.name in offered]
            places = {call.id: place for place, call in enumerate(known)}
            last = -1
        elif type(message) is ToolMessage and message.call_id in places:
            if places[message.call_id] < last and message.call_id not in free:
                what = f"the result of call {message.call_id!r} stands behind that of a later call"
                return f"request {entry.number}: {what}"
            last = places[message.call_id]
    return ""


@invariant("The last message of a request is a user message, a tool result or a summary.",
           "BUGS.md A3, B13", sees=[entries.Request])  # fmt: skip
def last_message_role(subject: Subject, entry: Any) -> str:
    """After its own reply, a model has no message to answer, but it may put it into a form.

    A framework lets a model go on that has only thought, or said blanks.
    """
    sent, before = subject.facts.sent, subject.facts.before
    messages = entry.added or sent[entry.number].messages
    if sent[entry.number].output and before and not before.output and subject.machine is None:
        return ""
    if not messages:
        return f"request {entry.number} has no messages"
    last = messages[-1]
    if type(last) is AssistantMessage and (last.text.strip() or last.calls or subject.machine):
        return f"the last message of request {entry.number} is a reply of the model"
    return ""


@invariant("Each main request contains the prompt of its run or a newer user message.",
           "BUGS.md B10, B12, E9", sees=[entries.Prompt, entries.Queued, entries.Request,
           entries.Ended, entries.LeftBehind])  # fmt: skip
def newest_user_message_sent(subject: Subject) -> Watch:
    """This holds also after a compaction, and in the first request after any outcome.

    The prompt may be a part of a longer message. An agent may have several conversations, so only
    the first request of its run is judged, and each request that continues it. A prompt may answer
    what an agent has asked about a call: then the request has a result of the call. A request for a
    summary has no tools. A summary stands for a prompt only if no earlier one was sent as it is.
    """
    facts, exact = subject.facts, subject.machine is not None
    waiting: list[str] = []  # queued messages that no request has contained yet
    prompt = newest = lacks = proposal = ""
    is_first = goes_on = is_direct = False
    asked = 0  # the request without tools that holds the prompt
    while entry := (yield):
        if (kind := type(entry)) is entries.Prompt:
            prompt = newest = entry.text
            is_first, lacks, asked = True, "", 0
        elif kind is entries.LeftBehind:
            goes_on = goes_on or entry.what in BEHIND
        elif kind is entries.Queued:
            waiting.append(entry.text)
        elif kind is entries.Ended:
            if entry.outcome is not Outcome.COMPLETED:
                continue
            proposal = facts.reply.text if facts.reply and "?" in entry.text[-_QUESTION:] else ""
            if lacks:
                return lacks
        elif entry.purpose == "main":
            request = facts.request
            assert request is not None
            is_there = any(_holds(request, text, exact=exact) for text in (newest, *waiting))
            is_there = is_there or (is_first and not exact and _holds_proposal(request, proposal))
            is_again = facts.previous is None and facts.goes_on and not facts.added
            if goes_on and is_again and not is_there:
                continue  # a task of an earlier run repeats its request
            if (facts.is_aside or facts.lacks_tools(request)) and not exact:
                asked = request.number if is_there else asked
                continue
            reply = facts.replies.get(asked)
            is_first = is_first and (not asked or (is_direct and is_summed(reply, request)))
            held = is_there or (facts.goes_on and not is_first)
            paused = {call.id for call in facts.paused}
            held = held or (not exact and not paused.isdisjoint(subject.results))
            continues = _continues(facts, is_summed=asked != 0 and is_summed(reply, request))
            if not held and (exact or is_first or continues):
                earlier, lacks = lacks, f"request {entry.number} does not hold the user's message"
                lacks = f"{lacks} {newest!r:.80}"
                if exact or facts.offers or earlier:
                    return earlier or lacks
                continue  # it may be for a summary, of an agent that offers no tools
            is_direct = is_direct or (is_first and is_there)
            is_first, lacks = False, ""
            known = (prompt, newest, *waiting)
            for message in entry.added if waiting else ():
                # A message of the run before stands before the prompt.
                if type(message) is UserMessage and message.text in known:
                    newest = message.text
                    if newest in waiting:
                        waiting.remove(newest)


def is_summed(reply: ReceivedReply | None, request: SentRequest) -> bool:
    """Return whether a reply is a part of a message, as a summary is."""
    text = reply.text.strip() if reply else ""
    return text in _words_in(request) and text not in {"", *(one.text for one in request.messages)}


def _holds(request: SentRequest, text: str, *, exact: bool) -> bool:
    if exact:
        return any(type(one) is UserMessage and one.text == text for one in request.messages)
    said = [request.system_prompt, *(one.text for one in request.messages)]
    newest = said[-1].strip()  # without what stands before it, such as a name or a command
    is_end = newest != "" and text.strip().endswith((f" {newest}", f"\n{newest}"))
    name, _, rest = text.partition(": ")
    texts = forms(text) | (forms(rest) if rest and name.isalnum() else set())
    held = any(form in each for form in texts for each in said)
    return is_end or held or (_PRIVATE.search(text) is not None and _has_masked(said, text))


def _has_masked(said: Iterable[str], text: str) -> bool:
    words = [each for each in text.split() if not _PRIVATE.search(each)]
    for each in said:
        at = 0
        for word in words:
            at = each.find(word, at) + 1 or len(each) + 1
        if words and at <= len(each):
            return True
    return False


def forms(text: str) -> set[str]:
    """Return a text as it is but for blanks around it, and as a part of JSON, Python or XML."""
    text = text.strip()
    as_json = (json.dumps(text, ensure_ascii=each)[1:-1] for each in (True, False))
    return {text, repr(text)[1:-1], *as_json, *(escape(text, quote=each) for each in (True, False))}


def _holds_proposal(request: SentRequest, proposal: str) -> bool:
    """Return whether a request has what the user was asked about, and has agreed to."""
    given = json_value(proposal)
    texts = [*strings(given)] if isinstance(given, dict) else [proposal]
    held = _words_in(request)
    return any(text in held for text in texts if text.strip())


def strings(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, without keys."""
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if type(value) is list else ():
        yield from strings(each)


def _continues(facts: Facts, *, is_summed: bool) -> bool:
    before, request = facts.previous, facts.request
    if before is None or request is None:
        return False
    is_known = not {*before.messages}.isdisjoint(request.messages)
    return is_known or (facts.has_some_of(request, before) and not is_summed)


def _same(made: Sequence[ToolCall], sent: Sequence[ToolCall]) -> bool:
    """Return whether calls were sent as the model made them; ids and names may have changed.

    Arguments that were parsed and written again have other spaces, and mean the same. Those that
    are no JSON cannot be sent as they are in a format that has values in their place.
    """
    return len(made) == len(sent) and all(
        one.arguments == other.arguments
        or json_value(one.arguments, _ANY) in (_ANY, json_value(other.arguments, _ANY))
        for one, other in zip(made, sent, strict=True)
    )


@of_agents("A request that offers tools has the system prompt that the one before it has, and a "
           "retry offers the tools that the failed request offers.", "BUGS.md B10, B12",
           sees=[MainRequest])  # fmt: skip
def prompt_and_tools_kept(subject: Subject) -> Watch:
    """A compaction may drop the first message, which is the system prompt, and so may a retry."""
    facts, offering = subject.facts, dict[int, SentRequest]()  # the newest of each conversation
    while entry := (yield):
        request, before = facts.request, offering.get(facts.conversation)
        assert request is not None
        if before and before.tools == request.tools and _is_cut(before, request.system_prompt):
            return f"request {entry.number} lacks the system prompt of request {before.number}"
        if request.tools:
            offering[facts.conversation] = request
        elif before is facts.before and before and facts.goes_on and not facts.added:
            reply = facts.replies.get(before.number)
            if reply is not None and reply.fault is not None:
                return f"request {entry.number} repeats request {before.number} without its tools"


def _is_cut(before: SentRequest, prompt: str) -> bool:
    """Return whether a system prompt is empty, or begins with a later paragraph of the old one."""
    first, *others = before.system_prompt.split("\n\n")
    begins = prompt[:_BEGINNING] in {each[:_BEGINNING] for each in others}
    return (begins and first not in prompt) or (prompt == "" != before.system_prompt)


@of_agents(
    "A history is not replaced by the words of a failed model call, or by a summary that is empty "
    "or cut off.",
    "BUGS.md B1, B10, B18; pi #7048", sees=[entries.Prompt, entries.Queued, entries.Request],
)  # fmt: skip
def no_failure_in_place_of_the_history(subject: Subject) -> Watch:
    """A request for a summary offers no tools, and stands between two that do.

    After an empty reply, an agent may drop messages, but not all, and has no summary to add. It may
    say that it has left some out.
    """
    facts, said = subject.facts, set[str]()
    asked: SentRequest | None = None  # the newest request for a summary
    offering: SentRequest | None = None  # the newest one with tools
    run: object = None
    told: list[Message] = []  # what stands for a summary that failed before
    begins = set[str]()  # the words before a summary
    systems = earlier = set[str]()  # the system prompts before the request, and with it
    while entry := (yield):
        if type(entry) is not entries.Request:
            said.add(entry.text)
            continue
        request = facts.sent[entry.number]
        systems, earlier = earlier, {*earlier, request.system_prompt}
        if not request.tools:
            asked = request if asked or facts.is_aside or facts.lacks_tools(request) else None
            run = facts.prompt
            continue
        last, offering = offering, request
        if asked is None or (reply := facts.replies.get(asked.number)) is None:
            continue
        history, folded, asked = last.messages if last else (), asked.messages, None
        known = {*folded, *history}.difference(told)
        gone = known.difference(request.messages)
        users = (each for each in request.messages if type(each) in {UserMessage, SummaryMessage})
        new: list[Message] = [each for each in users if each not in known and each.text not in said]
        if last is not None and request.system_prompt not in systems:
            new.append(UserMessage(request.system_prompt))
        fault, is_cut = reply.fault, reply.finish is FinishReason.LENGTH
        signs = [reply.text.strip()] if is_cut else []
        signs += [] if fault is None else [str(fault.status or fault.code), fault.message]
        is_told = any(sign in each.text for each in new for sign in signs if sign)
        is_empty = reply.finish is not None and not (reply.text.strip() or reply.calls)
        if not (is_cut or fault):
            begins |= {each.text.partition(reply.text or each.text)[0] for each in new}
        elif any(each.text.startswith((*(begins - {""}),)) for each in new):
            is_told = True
        held = "\n".join(each.text for each in new)  # a transcript may stand for the summary
        begun = {old.text[:_BEGINNING] for old in gone if old.text}
        is_known = tells(held, "left out") or sum(each in held for each in begun) > 1
        if new and (is_told or is_empty) and not is_known:
            if len(gone) > (1 if is_cut else _LOST):
                why = "is cut off" if is_cut else "failed" if is_told else "has no words"
                has = f"request {entry.number} has {new[0].text!r:.80}"
                return f"{has} for its history: the summary {why}"
            told += new
        elif (len(history) > _LOST and known.isdisjoint(request.messages)) or (
            len(folded) > _LOST and {*folded}.isdisjoint(request.messages)
        ):
            if run is facts.prompt and (fault or is_empty or is_cut) and not is_known:
                return f"request {entry.number} has nothing of its history: the summary has failed"
            asked = None


@of_agents("What a summary takes the place of is in the request for it: the words of the user, and "
           "the summary before.", "BUGS.md B9, B10", sees=[entries.Prompt, entries.Queued,
           entries.Ended, entries.Request])  # fmt: skip
def summaries_lose_nothing(subject: Subject) -> Watch:
    """A message may also stand beside the summary. Long ones may be cut, and long histories.

    The words of a run that is not completed may go with it.
    """
    facts, summary, said, before_run = subject.facts, "", list[str](), 0
    asked: SentRequest | None = None
    newest: SentRequest | None = None
    folded = ""  # what the summaries tell that are told in the next one
    while entry := (yield):
        if type(entry) is entries.Ended:
            if entry.outcome is not Outcome.COMPLETED:
                del said[before_run:]
            before_run = len(said)
            continue
        if type(entry) is not entries.Request:
            said.append(entry.text)
            continue
        request = facts.sent[entry.number]
        if entry.purpose != "main" or facts.lacks_tools(request):
            reply = facts.replies.get(asked.number) if asked else None
            is_told = reply and reply.text.strip() and reply.text.strip() in _words_in(request)
            folded = f"{folded}\n{_words_in(asked)}" if asked and is_told else ""
            asked = request
            continue
        last, newest = newest, request
        reply = None if asked is None else facts.replies.get(asked.number)
        words = "" if reply is None or reply.finish not in WHOLE else reply.text.strip()
        held = _words_in(request) if words else ""
        gone = {*last.messages}.difference(request.messages) if words and last else set[Message]()
        before = _words_in(last) if gone and last else ""
        # Words that stood there before may be those of a request for something else.
        is_new = words not in before or (asked and not gone.isdisjoint(asked.messages))
        if asked and gone and words in held and is_new:
            beside = held.replace(words, "")  # a summary cannot tell what it was not told
            there = f"{folded}\n{_words_in(asked)}\n{beside}"
            results = [one.text for one in (last or request).messages if type(one) is ToolMessage]
            short = [each for each in results if len(each) < _SHORT and not tells(each)]
            for text in [*said, summary, *short] if len(_words_in(asked)) < _BOUNDED else ():
                is_there = any(each[:_BEGINNING] in there for each in forms(text))
                if text[:_BEGINNING] in before and not is_there:
                    return f"request {entry.number} and its summary lack {text!r:.60}"
            summary = words
        asked, folded = None, ""


def _words_in(request: SentRequest) -> str:
    return "\n".join([request.system_prompt, *(each.text for each in request.messages)])


@invariant("If a tool of a reply has run, the next request contains the reply, with its text and "
           "its calls unchanged.", "BUGS.md C10, C13, D9, D13", sees=[entries.ToolStarted,
           entries.ToolResult, entries.ServiceRequest, entries.Ended, MainRequest])  # fmt: skip
def replies_with_calls_kept(subject: Subject) -> Watch:
    """Otherwise the model does not know that its tools ran, and calls them again.

    This holds also for a tool that started before its reply was cut off. Of a tool that an agent
    runs itself, the result in the request is the only sign. The tools in the world are not judged
    for an agent that did not end at the moment of a stop: its clean-up may have been cut off, too.
    """
    facts, machine, is_cut = subject.facts, subject.machine is not None, False
    # By the id, or by what an agent may not change, for each conversation.
    ran: dict[int, set[str | tuple[str, str]]] = {}
    failed, changed = set[str](), False
    while entry := (yield):
        if (kind := type(entry)) in (entries.ToolResult, entries.ServiceRequest):
            failed |= {entry.call_id} if kind is entries.ToolResult and entry.is_error else set()
            changed = changed or (kind is entries.ServiceRequest and entry.method != "GET")
            continue
        if type(entry) is entries.ToolStarted:
            its = facts.conversation_of.get(facts.asked.get(entry.call_id, 0), 0)
            ran.setdefault(its, set()).update((entry.call_id, (entry.name, entry.arguments)))
            continue
        if type(entry) is entries.Ended:
            is_cut = not machine and facts.stop is not None and entry.at_ns > facts.stop.at_ns
            continue
        ran, is_cut = {} if is_cut else ran, False
        newly_ran = ran.pop(facts.conversation, set()) | ran.pop(0, set())
        has_changed, changed = changed, False
        reply = None if facts.before is None else facts.replies.get(facts.before.number)
        if reply is None or reply.finish not in WHOLE or not facts.goes_on:
            continue
        is_broken_off = not machine and facts.previous is None
        if is_broken_off and (not facts.added or _is_in_system_prompt(reply, facts)):
            continue  # the turn was taken back as a whole, and the same prompt came again
        if not machine:
            newly_ran |= subject.results.keys() - facts.ran
        made = [each for one in reply.calls for each in (one.id, (one.name, one.arguments))]
        if newly_ran.isdisjoint(made):
            continue
        if is_broken_off and _is_noted(subject, reply, failed, has_changed=has_changed):
            continue  # after a stop, say
        # A turn that was broken off may be told by its calls alone.
        if wrong := _unlike(reply, facts.added, may_lack_text=is_broken_off):
            return f"request {entry.number} {wrong}"


def _is_noted(
    subject: Subject, reply: ReceivedReply, failed: Collection[str], *, has_changed: bool
) -> bool:
    """Return whether the model is told what ran, or what may have changed something."""
    added, names = subject.facts.added, subject.mutating or ()
    notes = "\n".join(one.text for one in added if type(one) is AssistantMessage)
    by_name = bool(names) and not (has_changed and any("://" in each for each in names))
    gone = {*failed, *(() if has_changed else subject.facts.running)}  # a stop has ended these
    made = [one for one in reply.calls if not by_name or (one.name in names and one.id not in gone)]
    due = [(one.name, *strings(json_value(one.arguments))) for one in made]
    return bool(notes) and all(any(each in notes for each in words if each[2:]) for words in due)


def _is_in_system_prompt(reply: ReceivedReply, facts: Facts) -> bool:
    """Return whether the system prompt has got a text of a call, as one that shows a state does."""
    before, request = facts.before, facts.request
    given = [text for call in reply.calls for text in strings(json_value(call.arguments))]
    now, then = (each.system_prompt if each else "" for each in (request, before))
    return any(text and text in now and text not in then for text in given)


def _unlike(reply: ReceivedReply, added: Sequence[Message], *, may_lack_text: bool) -> str:
    """Return how new messages of a request differ from the reply before it, or an empty text."""
    if not (sent := [one for one in added if type(one) is AssistantMessage and one.calls]):
        return "lacks the reply to the one before it, whose tools ran"
    # A call that broke off comes last, and on the wire it looks like a whole one.
    end = len(reply.calls) if reply.has_half_call else None
    # LangChain writes calls whose arguments are no JSON behind the others.
    orders = reply.calls, sorted(reply.calls, key=lambda call: json_value(call.arguments) is None)
    texts = [one.text for one in sent if any(_same(each, one.calls[:end]) for each in orders)]
    if not texts:
        return "has other calls than those of the reply to the one before it"
    changed = f"has the reply {texts[0]!r:.80}, and the model said {reply.text!r:.80}"
    is_kept = reply.text.strip() in map(str.strip, texts) or (may_lack_text and not texts[0])
    return "" if is_kept else changed


def _told(subject: Subject, why: Callable[[ReceivedReply], bool]) -> Watch:
    """Return the first forbidden reply in a request, with its reason from `why`.

    A text that another, good reply had too is allowed. So is a reply that the stop of its run cut
    off, or whose failure had not reached the loop yet, and one whose tools have run meanwhile.
    """
    facts, settings = subject.facts, subject.settings
    if settings is not None and settings.replies.keep_failed:
        return ""
    machine, is_dealt_with = subject.machine is not None, False
    before = facts.main_replies[-8:]
    reply: ReceivedReply | None = before[-1] if before else None
    # An agent may make several calls at once.
    still_open = [each for each in before[:-1] if not each.is_closed]
    forbidden: set[str] = set()

    def is_forbidden(reply: ReceivedReply) -> bool:
        return why(reply) and not reply.is_stopped

    while entry := (yield):
        kind = type(entry)
        is_failed = kind is entries.Transition and type(entry.signal) is ModelFailed
        if is_failed or kind is entries.Backoff:
            is_dealt_with = True
            continue
        if kind is entries.Error or kind is entries.StreamCut:
            continue
        if kind is not entries.Request:  # a failing hook stops its run, too
            if reply is not None and not is_dealt_with:
                late = machine or not reply.is_closed or reply.at_ns == entry.at_ns
                reply.is_stopped = reply.is_stopped or late
            continue
        is_dealt_with = False
        replies = [*still_open, reply] if reply else []
        forbidden.update(each.text for each in replies if each.text and is_forbidden(each))
        still_open = [each for each in replies if not each.is_closed]
        reply = facts.replies[entry.number]
        for message in facts.added if forbidden and entry.purpose == "main" else ():
            if (
                type(message) is AssistantMessage
                # The text of the retry may follow in the same message.
                and message.text.startswith(tuple(forbidden))
                and facts.ran.isdisjoint([call.id for call in message.calls])
                and all(  # a line of the agent may follow
                    not f"{message.text}\n".startswith(f"{each.text}\n") or is_forbidden(each)
                    for each in (*facts.main_replies, *facts.replies.values())
                )
            ):
                return f"request {entry.number} has the reply {message.text!r:.80}"


@invariant("The context contains no reply to a model call that failed.", "BUGS.md C13, D6",
           sees=(entries.Error, *_SEEN), begins=(entries.Error, *_STOPS))  # fmt: skip
def no_failed_replies_in_context(subject: Subject) -> Watch:
    """The reply to a retry replaces the parts that arrived before the failure."""
    return _told(subject, lambda reply: reply.fault is not None)


@invariant("The context contains no reply whose stream has not ended, or has ended without a "
           "finish reason.", "BUGS.md C6, D6", sees=(entries.StreamCut, *_SEEN),
           begins=(entries.StreamCut, entries.Request, *_STOPS))  # fmt: skip
def no_incomplete_replies_in_context(subject: Subject) -> Watch:
    """The model has not completed such a reply."""
    return _told(subject, lambda reply: reply.fault is None and reply.finish is None)


@of_agents("A request contains each message of the conversation at most once.",
           "BUGS.md B6, C13, D22", sees=[entries.Prompt, entries.Queued,
           entries.Request])  # fmt: skip
def no_duplicate_messages(subject: Subject) -> Watch:
    """Messages that were said several times with the same words may occur as often."""
    facts = subject.facts
    said: Counter[tuple[type, str]] = Counter()
    replies: list[ReceivedReply] = []  # that are not counted yet
    sent_in: defaultdict[int, Counter[tuple[type, str]]] = defaultdict(Counter)
    newest = Counter[int]()  # the numbers of the requests that were counted
    while entry := (yield):
        if type(entry) is not entries.Request:
            said[UserMessage, entry.text] += 1
            continue
        before = None if facts.before is None else facts.replies.get(facts.before.number)
        ended = [each for each in replies if each.is_closed or each is before]
        said.update((AssistantMessage, each.text) for each in ended if each.fault is None)
        replies = [each for each in replies if each not in ended]
        replies.append(facts.replies[entry.number])
        if entry.purpose != "main" or facts.request is None:
            continue
        added: Sequence[Message] = facts.added
        sent = sent_in[facts.conversation]
        is_next = facts.before is not None and facts.before.number == newest[facts.conversation]
        newest[facts.conversation] = entry.number
        if facts.before is None or not is_next or facts.kept < len(facts.before.messages):
            sent.clear()
            added = facts.request.messages
        for message in added:
            if (words := _words(message))[1] and words in said:
                sent[words] += 1
                if sent[words] > said[words]:
                    return f"request {entry.number} has {words[1]!r:.80} {sent[words]} times"


def _words(message: Message) -> tuple[type, str]:
    called = type(message) is AssistantMessage and message.calls
    return type(message), "" if called or type(message) is ToolMessage else message.text


@of_agents("The system prompt stands once in a request.", "mcp-agent #89", sees=[entries.Request])
def one_system_prompt(subject: Subject, entry: Any) -> str:
    """A provider joins a second one to the first, or reads it as a message of the user."""
    request = subject.facts.sent[entry.number]
    prompt = request.system_prompt
    paragraphs = prompt.split("\n\n")
    middle = len(paragraphs) // 2
    doubled = middle and paragraphs[:middle] == paragraphs[middle:]
    said = (each.text for each in request.messages if type(each) is UserMessage)
    if not doubled and not (prompt and prompt in said):
        return ""
    return f"request {entry.number} has the system prompt {prompt!r:.60} twice"
