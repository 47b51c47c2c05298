"""Invariants on pauses: an agent asks its user, and goes on when the answer comes.

Between two prompts an agent may be restarted, and has nothing but what it has stored. It pauses if
it completes its run while calls of the model are open, and asks whether their tools may run.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain, product
from typing import Any
from urllib.parse import unquote

from simloop.check.invariants import tools
from simloop.check.invariants.invariant import Need, Watch, invariant, of_agents
from simloop.check.invariants.outside import UNCERTAIN, WORK, is_change
from simloop.check.invariants.subject import PATTERNS, MainRequest, Subject, calls_of, tells
from simloop.check.invariants.tools import changes_a_service, deed_by, deed_of, described, what_of
from simloop.messages import ToolCall, json_value
from simloop.trace import entries

_ENDS = (entries.Prompt, entries.Restarted)  # which end a pause
_CHOICE = re.compile(r"[(\[]y/n[)\]]", re.IGNORECASE).findall
_YES = frozenset({"y", "yes"})
_WORDS, _NUMBERS = re.compile(r"[^\W\d_]+").findall, re.compile(r"\d+").findall
_PLAIN = re.compile(r"[\w .:-]+").fullmatch
_REFUSED = 400
_BEGINNING = 12  # characters of a text, of which a question may cut the others


@of_agents(
    "A tool that has run before a pause does not run again after it, unless the model asks again.",
    "BUGS.md C10, D14; langgraph #3126", begins=[entries.ToolCall],
    sees=[*_ENDS, entries.ToolCall, entries.ToolStarted, entries.ToolResult, entries.ServiceRequest,
          entries.ServiceReply],
)  # fmt: skip
def no_tools_run_again_after_a_pause(subject: Subject) -> Watch:
    """An agent that begins the interrupted step anew may pay twice.

    A tool that has failed may run again, or one for a call since the pause. Runs with equal name
    and arguments count; where a framework converts the arguments, the calls of that name do. So do
    equal changes of a declared service that come before the model is asked, without a key.
    """
    asked: Counter[tools.Deed] = Counter()
    named: Counter[str] = Counter()
    due: set[str] = set()  # calls whose tools have not run
    before: Counter[tools.Deed] = Counter()  # runs before the newest pause
    since: Counter[tools.Deed] = Counter()
    running: dict[str, tools.Deed] = {}
    ended: Counter[tools.Deed] = Counter()
    changing: dict[int, entries.ServiceRequest] = {}
    changed, done = set[tuple[str, ...]](), set[tuple[str, ...]]()  # before the pause, and since
    while entry := (yield):
        if (kind := type(entry)) is entries.ServiceRequest:
            if not entry.once and changes_a_service(entry, subject.mutating):
                if what_of(entry) in changed and subject.facts.request is None:
                    return f"{described(entry)} is sent before the pause, and again after it"
                changing[entry.number] = entry
        elif kind is entries.ServiceReply:
            if (sent := changing.pop(entry.request, None)) and 0 < entry.status < _REFUSED:
                done.add(what_of(sent))
        elif kind is entries.ToolCall:
            asked[deed_of(entry)] += 1
            named[entry.name] += 1
            due.add(entry.call_id)
        elif kind is entries.ToolStarted:
            work = running[entry.call_id] = deed_of(entry)
            calls = 0 if entry.call_id in due else asked[work] or named[entry.name]
            due.discard(entry.call_id)
            if before[work] and 0 < calls <= before[work] + since[work]:
                return f"{described(entry)} has run before the pause, and runs again after it"
            since[work] += 1
        elif kind is entries.ToolResult:
            work = running.pop(entry.call_id, (entry.name, b""))
            if entry.is_error:
                since[work] -= 1
            else:
                ended[work] += 1
        else:
            before.update(ended)
            ended, since, running = Counter(), Counter(), {}
            changed, done = (done if subject.facts.paused else set()), set()


@invariant("A change that the user refuses is not made.", "BUGS.md D9", begins=[entries.Input],
           needs=[Need.AGENT, Need.MUTATING], sees=[entries.Input, entries.ToolStarted,
           entries.ProgramStarted, entries.ServiceRequest, MainRequest])  # fmt: skip
def refused_changes_not_made(subject: Subject) -> Watch:
    """The answer to a question with `y/n` is no, or the end of the input, or an empty line at `N`.

    As many refusals as the reply has calls refuse them all; of fewer, it is not clear which.
    """
    refusals: list[entries.Input] = []
    while entry := (yield):
        if type(entry) is entries.Input:
            refusals = [*refusals, entry] if _refuses(entry) else []
        elif type(entry) is entries.Request:
            refusals = []
        elif len(refusals) >= max(len(subject.asked), 1) and is_change(subject, entry):
            answer = "the end of the input" if refusals[-1].ends else repr(refusals[-1].text)
            asked = f"the user has answered {refusals[-1].prompt!r:.80} with {answer}"
            return f"{described(entry)} runs, and {asked}"


def _refuses(entry: entries.Input) -> bool:
    question, answer = entry.prompt.lower(), entry.text.strip().lower()
    if "y/n" not in question or PATTERNS["giving up"].search(question):
        return False
    return entry.ends or answer in {"n", "no"} or (not answer and "y/N" in entry.prompt)


@invariant("Of equal changes in a reply, the user is asked about each before it is made.",
           "BUGS.md D9", needs=[Need.AGENT, Need.MUTATING], begins=[entries.Ended, entries.Input],
           sees=[entries.Prompt, entries.Request, entries.Input, entries.ToolStarted,
           entries.ProgramStarted, entries.ServiceRequest, entries.Ended])  # fmt: skip
def changes_asked_about(subject: Subject) -> Watch:
    """The answer is yes, and the question has a text of one call alone, but none of another one.

    An agent may ask about large changes alone; the question then has a number that no call has.
    """
    said, agreed = "", False
    while entry := (yield):
        if (kind := type(entry)) is entries.Ended:
            said = entry.text
        elif kind is entries.Request:
            said, agreed = "", False
        elif kind is entries.Prompt or kind is entries.Input:
            said += entry.prompt if kind is entries.Input else ""
            agreed = "?" in said and entry.text.strip().lower() in _YES
        elif agreed and is_change(subject, entry):
            told = (unquote(getattr(entry, each, "")) for each in ("arguments", "path", "body"))
            does = " ".join([*told, *getattr(entry, "args", ())])
            times = Counter(chain.from_iterable({*_texts(each)} for each in subject.asked))
            # What two calls have tells of neither. A tool that starts may still refuse.
            own = [x for x, n in times.items() if n == 1 or kind is entries.ToolStarted]
            calls = {call: [x for x in _texts(call) if x in own] for call in subject.asked}
            named = [each for each, own in calls.items() if _has_one(said, own)]
            unnamed = [each for each in calls if each not in named]
            known = {*_NUMBERS(" ".join(each.arguments for each in named))}
            unnamed = unnamed if known.issuperset(_NUMBERS(said)) else []
            for call in (each for each in unnamed if _has_one(does, calls[each])):
                if any(_is_as_large(call, each) for each in named):
                    return f"{described(entry)} runs, and the user has agreed to {said!r:.120}"


def _is_as_large(call: Any, other: Any, *, least: int = 0) -> bool:
    mine, its = json_value(call.arguments), json_value(other.arguments)
    both = [(mine.get(key), value) for key, value in its.items()]
    numbers = [pair for pair in both if {*map(type, pair)} <= {int, float}]
    is_larger = len(numbers) >= least and all(own >= value for own, value in numbers)
    return call.name == other.name and is_larger


@invariant("A tool that asks the user before a change asks before each one.", "BUGS.md D9",
           needs=[Need.AGENT, Need.MUTATING], begins=[entries.Input, entries.Prompt],
           sees=[entries.Ended, entries.Prompt, entries.Input, entries.ToolStarted,
           entries.ToolResult, entries.ServiceRequest, MainRequest])  # fmt: skip
def tools_ask_each_time(subject: Subject) -> Watch:
    """It asks while it runs, or ends the run with a question about the only call of a reply.

    One with smaller numbers, or with another result, may need no question.
    """
    said, answered, agreed = "", set[str](), set[str]()
    runs, allowed = dict[str, Any](), dict[object, Any]()  # by the beginnings of their results
    while entry := (yield):
        only = {call.id: call for call in subject.asked if len(subject.asked) == 1}
        if (kind := type(entry)) is entries.Ended:
            said = entry.text
        elif kind in (entries.Input, entries.Prompt):
            said, ids = (entry.prompt, [entry.asked_by]) if kind is entries.Input else (said, only)
            answered |= {*ids} if "?" in said else set()
            agreed |= {*ids} if "?" in said and entry.text.strip().lower() in _YES else set()
        elif kind in (entries.ToolStarted, entries.ServiceRequest):
            own = {entry.call_id: entry} if kind is entries.ToolStarted else only
            runs |= own if is_change(subject, entry) else {}
        else:
            ended = {entry.call_id: entry} if kind is entries.ToolResult else subject.results
            for call_id, result in ended.items():
                if (run := runs.pop(call_id, None)) is None or tells(result.text):
                    continue
                more = {*_NUMBERS(result.text)} - {*_NUMBERS(run.arguments)}
                did = run.name, *_WORDS(result.text)[:2], *sorted(more)
                if call_id in agreed:
                    allowed[did] = run
                first = None if call_id in answered else allowed.get(did)
                if first and _is_as_large(run, first, least=1):
                    made = f"the tool {run.name!r} of call {call_id!r} ends without a question"
                    return f"{made}, and the user has agreed to {first.arguments:.120} alone"


@of_agents(
    "An answer of the user reaches the call that asked for it.",
    "BUGS.md D9; langgraph #6533", sees=[*_ENDS, entries.StopRequested, entries.Input,
    entries.ToolCall, entries.ToolStarted, MainRequest, entries.Ended],
    begins=[entries.ToolCall, entries.Input, entries.StopRequested],
)  # fmt: skip
def answers_reach_their_calls(subject: Subject) -> Watch:
    """Shown by a line for another tool or two questions, an answer in another result, or a tool.

    The tool runs after a pause, and its call was answered before: the approval was for another one.
    """
    question, answers = "", dict[str, str]()
    made: dict[str, entries.ToolCall] = {}
    answered: set[str] = set()
    earlier: set[str] = set()  # the calls before the newest pause
    is_stopped = False  # once: its question may stay on the screen
    while entry := (yield):
        if (kind := type(entry)) is entries.StopRequested:
            is_stopped = True
        elif kind is entries.Input:
            if entry.asked_by and entry.read_by and entry.asked_by != entry.read_by:
                asks = f"the tool of call {entry.asked_by!r} asks {entry.prompt!r:.80}"
                return f"{asks}, and that of call {entry.read_by!r} reads the answer"
            if len(_CHOICE(entry.prompt)) > 1 and not is_stopped:
                return f"the user is asked {entry.prompt!r:.120}, and one line cannot answer both"
        elif kind is entries.ToolCall:
            made[entry.call_id] = entry
            answered.discard(entry.call_id)
            earlier.discard(entry.call_id)
        elif kind is entries.ToolStarted:
            if (call := made.get(entry.call_id)) is None or entry.call_id not in answered & earlier:
                continue
            # The run of a function is that of the first call with these arguments, or of another.
            due = [deed_of(one) for call_id, one in made.items() if call_id not in answered]
            if deed_of(call) == deed_of(entry) and deed_of(entry) not in due:
                return f"{described(entry)} runs after a pause, and its call was answered before"
        elif kind is entries.Request:
            results = subject.results
            answered |= results.keys()
            for asker, text in answers.items():
                is_lost = asker in results and text not in results[asker].text
                for other, message in results.items() if is_lost else ():
                    if text in message.text and text not in answers.get(other, ""):
                        has = f"request {entry.number} has that as the result of call {other!r}"
                        return f"the user answers {text!r:.80} to call {asker!r}, and {has}"
        elif kind is entries.Ended:
            question = entry.text
        else:
            earlier, text = set(made), getattr(entry, "text", "")
            asking = [one.id for one in subject.facts.paused if _has_one(question, _texts(one))]
            answers |= dict.fromkeys(asking, text) if asking[:1] == asking and text[3:] else {}


def _has_one(text: str, words: Iterable[str]) -> bool:
    ends = (re.escape(word) + r"(?!\w)" * (len(word) < _BEGINNING) for word in words)
    return any(re.search(rf"(?<!\w){each}", text) for each in ends)


def _texts(call: ToolCall) -> list[str]:
    """Return the beginnings of its texts that look the same wherever they are."""
    value = json_value(call.arguments)
    values = value.values() if isinstance(value, dict) else ()
    plain = (each for each in values if type(each) is str and _PLAIN(each))
    return [each[:_BEGINNING] for each in plain]


@invariant("A change that a tool does not make again after one unknown end, it does not make again "
           "after another.", "BUGS.md C10, C13, D9", needs=[Need.AGENT, Need.MUTATING],
           sees=[entries.Prompt, entries.StopRequested, *WORK, MainRequest],
           begins=[entries.ServiceRequest, entries.ProgramStarted])  # fmt: skip
def unknown_ends_treated_alike(subject: Subject) -> Watch:
    """An answer was lost, was late, or was not awaited because of a stop; a program was killed.

    The model calls the tool again. Who has looked at more in between, or has waited, knows more.
    """
    sent = dict[tuple[bool, int], tools.Deed]()  # calls, by what they have sent
    fresh, stop = set[tools.Deed](), ""  # calls of the reply
    ends = dict[tools.Deed, tuple[str, int, set[Any]]]()  # when, and what was read since
    made, not_made = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    while entry := (yield):
        if (kind := type(entry)) in (entries.Prompt, entries.StopRequested):
            stop = "a stop" if kind is entries.StopRequested else ""
        elif kind in (entries.ServiceReply, entries.ProgramEnded):
            is_program = kind is entries.ProgramEnded
            if call := sent.pop((is_program, entry.program if is_program else entry.request), None):
                ends.pop(call, None)
                lost = "" if is_program else entry.failure
                if (is_program and entry.exit < 0) or lost in UNCERTAIN:
                    how = f"an answer that is {lost}" if lost else "a program that was killed"
                    ends[call] = stop or how, entry.at_ns, set()
        elif kind is not entries.Request and not is_change(subject, entry):
            for *_, looks in ends.values():
                looks.add(entry.args if kind is entries.ProgramStarted else what_of(entry))
        elif kind is not entries.Request:
            call = deed_by(subject, entry)
            if call not in fresh and call in ends and not getattr(entry, "once", ""):
                made.append((call[0], entry.at_ns, *ends[call]))
            sent[kind is entries.ProgramStarted, entry.number] = call
            fresh.add(call)
        else:
            for each in chain.from_iterable(map(calls_of, subject.facts.added)):
                call, told = deed_of(each), subject.results.get(each.id)
                if call in ends.keys() - fresh and told and tells(told.text):
                    not_made.append((call[0], entry.at_ns, *ends[call]))
            fresh.clear()
        pairs = product(made, not_made)
        for (name, at, how, since, looks), (other, late, why, then, seen) in pairs:
            if name == other and how != why and looks <= seen and at - since <= 2 * (late - then):
                return f"the tool {name!r} makes its change again after {how}, and not after {why}"
