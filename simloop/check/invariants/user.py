"""Invariants on what the user does: messages during a run, the next prompt, and a stop.

A message is delivered when a request holds its text, alone or in a longer message; a message that
an agent leaves in the queue is the next prompt. An abort may come after an agent takes a message
and before it sends the message. So if an agent does not go on with an aborted run, it may lose the
messages of that run.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from simloop.check.invariants import agents
from simloop.check.invariants.agents import RATE_LIMIT, has_failed, has_overflowed, is_answer
from simloop.check.invariants.invariant import Need, Watch, invariant, of_agents
from simloop.check.invariants.outside import UNCERTAIN, is_change
from simloop.check.invariants.requests import BEHIND, forms, is_summed
from simloop.check.invariants.subject import PATTERNS, MainRequest, Subject, calls_of, tells
from simloop.check.invariants.tools import CHANGING, described, what_of
from simloop.messages import FinishReason, Message, Outcome, Queue, StopCause, UserMessage
from simloop.messages import Request as SentRequest
from simloop.trace import entries
from simloop.trace.facts import Facts
from simloop.virtual.clock.timeouts import GRACE_NS

_SHORT, _SHORT_CHARS = 4, 4_000
"""The most messages or calls, and characters, of a conversation that counts as short."""
_WINDOW, _MOST = 20, 60  # messages: an agent may keep no more, and keeps some of so many
_IDLE_NS = 15 * 60 * 10**9  # after which a session may end
_SERVED = (entries.ServiceRequest, entries.ServiceReply)
_REDIRECTS, _BROKEN = 300, 500  # the statuses below the first are successes
_WORDS = re.compile(r"\w[\w-]*\w").findall
_REASONS = ("timeouts", "doubts", "bounds", "steps")  # why an agent does no more
_STOPPED = {StopCause.ABORT: Outcome.ABORTED, StopCause.WALL_CLOCK: Outcome.TIMED_OUT}


class _Waiting:
    """The messages of each queue that no request has held, in the order of sending."""

    def __init__(self) -> None:
        self._queues: dict[Queue, deque[str]] = {queue: deque() for queue in Queue}

    def add(self, entry: entries.Queued) -> None:
        self._queues[entry.queue].append(entry.text)

    def deliver(self, text: str) -> str:
        """Remove the messages that `text` delivers; return a message that it skips, or ""."""
        queues = [queue for queue in self._queues.values() if queue]
        if (first := [queue[0] for queue in queues if text in queue]) and text not in first:
            return first[0]
        for queue in queues:
            while queue and queue[0] in text:
                queue.popleft()
        return ""

    def drop(self, texts: Sequence[str]) -> None:
        """Remove messages that an aborted run may have taken."""
        for queue in self._queues.values():
            for text in texts:
                if text in queue:
                    queue.remove(text)

    @property
    def texts(self) -> list[str]:
        return [text for queue in self._queues.values() for text in queue]


def _goes_on(request: SentRequest, aborted: str, prompt: str) -> bool:
    """Return whether a request has the prompt of an aborted run before its own."""
    texts = _of_user(request.messages)
    newest = max((place for place, text in enumerate(texts) if text == prompt), default=None)
    return aborted in texts[:newest]


def _of_user(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if type(message) is UserMessage]


@of_agents("The next request contains each message that the agent takes from the queue, in the "
           "order in which the user sent them.", "BUGS.md B12, D5, E9", sees=[entries.Prompt,
           entries.Queued, entries.Request, entries.Ended, entries.Footer])  # fmt: skip
def queued_messages_delivered(subject: Subject) -> Watch:
    """If messages are queued at the end of a run, and none is the next prompt, they were taken.

    A message that is skipped is lost, or comes too late. A stop may come after an agent takes a
    message and before it sends it. So if a prompt skips a message, the next request decides.
    """
    facts, waiting = subject.facts, _Waiting()
    aborted: str | None = None  # the prompt of an aborted run that no request has followed
    undecided: list[str] = []  # what waited at its end, and may be lost
    said: set[str] = set()
    prompt = passed = ""
    beside: list[str] = []  # new in requests without tools, as for a plan
    taken: list[str] = []  # queued at the end of the run before, and not the prompt
    there: list[str] = []  # queued at the end of the newest run
    completed = False
    while entry := (yield):
        if (kind := type(entry)) is entries.Queued:
            said.add(entry.text)
            waiting.add(entry)
        elif kind is entries.Ended:
            completed = entry.outcome is Outcome.COMPLETED
            there = waiting.texts
            if entry.outcome is Outcome.ABORTED:
                aborted, undecided = prompt, there
        elif kind is entries.Footer:
            if lost := [text for text in there if completed and text not in undecided]:
                return f"{lost[0]!r:.80} was taken from the queue, and no request has it"
        elif kind is entries.Prompt:
            # A prompt from the queue shows that the messages after it are there, too.
            prompt, taken = entry.text, [] if entry.text in said else there
            passed, completed = waiting.deliver(entry.text), False
        elif (asked := facts.request) and (
            entry.purpose != "main" or facts.is_aside or facts.lacks_tools(asked)
        ):
            beside += _of_user(facts.added)
        elif asked:
            is_new = aborted is not None and not _goes_on(asked, aborted, prompt)
            kept = [text for text in beside if text in _of_user(asked.messages)]
            texts, lost = [*kept, *_of_user(facts.added)], undecided if is_new else []
            beside = []
            aborted, undecided = None, []
            waiting.drop(lost)
            before = texts[: texts.index(prompt) if prompt in texts else 0]
            if passed and passed not in [*lost, *before]:
                return _out_of_order(prompt, passed)
            passed = ""
            for text in texts:
                if early := waiting.deliver(text):
                    return _out_of_order(text, early)
            if lost := [text for text in taken if text in waiting.texts]:
                lacks = f"and request {entry.number} lacks it"
                return f"{lost[0]!r:.80} was taken from the queue, {lacks}"
            taken = []


def _out_of_order(text: str, passed: str) -> str:
    return f"{text!r:.80} is delivered before {passed!r:.80}, which was sent earlier"


@of_agents("An agent that keeps its conversation, as an instance of a class does, keeps it after "
           "every run, with the answer to the prompt before.", "BUGS.md E4, E9",
           sees=[entries.Prompt, entries.Restarted, MainRequest, entries.Ended])  # fmt: skip
def conversation_kept_between_prompts(subject: Subject) -> Watch:
    """A function may also begin anew with every prompt, and any agent after a failure.

    An agent may shorten a long conversation, so only short ones are judged. Of an agent that has
    prepared its answer with other system prompts, the request for the answer is judged.
    """
    memory = _Memory(subject)
    while entry := (yield):
        found = ""
        if type(entry) is entries.Ended:
            found = memory.end(entry)
        elif type(entry) is entries.Restarted:
            memory.completed = False
        elif type(entry) is entries.Prompt:
            memory.begin(entry)
        elif subject.facts.request is not None:
            found = memory.ask(subject.facts.request)
        if found:
            return found


@invariant("A conversation keeps what a failed or stopped run of it has changed.",
           "BUGS.md C9, C10, D4", needs=[Need.AGENT, Need.MUTATING], sees=[entries.Prompt,
           entries.ToolResult, *_SERVED, MainRequest, entries.Ended])  # fmt: skip
def changes_of_broken_runs_kept(subject: Subject) -> Watch:
    """Else the model makes them again. A function may begin anew, unless it keeps other prompts.

    A call that was made before may have changed nothing more, and a change that nobody has asked
    for may undo those before. If the next request has anything but what the run began with and the
    new prompt, that may tell of the changes.
    """
    facts, mutating = subject.facts, subject.mutating or ()
    changing = set[int]()  # the requests to services
    tried, made = set[tuple[str, str]](), dict[str, tuple[str, str]]()
    before = set[str]()  # the calls that have changed the world in the run before
    keeps, pending = subject.is_instance and _CONVERSATION not in subject.deviations, ""
    prompt = ended = ""
    steps = subject.limits.max_steps if subject.limits else 0
    window = max(_WINDOW, min(2 * steps + 2, _MOST // 2))  # it has all messages of a prompt
    was, sent_now = list[SentRequest](), list[SentRequest]()  # in the run before and in this one
    while entry := (yield):
        if (kind := type(entry)) is entries.Prompt:
            is_of_one = _speaker(prompt) == _speaker(entry.text)
            before = {call for call, work in made.items() if work not in tried and is_of_one}
            tried, made = tried | {*made.values()}, {}
            prompt, was, sent_now = entry.text, sent_now, []
        elif kind is entries.Ended:
            is_amid = 0 < steps <= len(sent_now) and any(e.calls for e in facts.last_replies())
            ended = _ENDED.get(entry.outcome, "reached its limit" * is_amid)
        elif kind is entries.ServiceRequest:
            changing |= {entry.number} if is_change(subject, entry) else set()
            made = made if subject.asked or entry.method not in CHANGING else {}
        elif kind is entries.Request and facts.request is not None:
            request = facts.request
            calls = {call.id: call for each in request.messages for call in calls_of(each)}
            lost = f"request {entry.number} has lost the calls that changed something"
            if not sent_now and was:
                keeps = keeps or was[0].messages[-1] in request.messages[:-1]
                if before and before.isdisjoint(calls) and ended:
                    number, told = was[-1].number, [each.text for each in was[-1].messages]
                    told += [facts.replies[number].text] if number in facts.replies else []
                    is_short = sum(map(len, told)) < 2 * _SHORT_CHARS and len(told) <= window
                    is_short = is_short and not any(map(has_overflowed, facts.replies.values()))
                    is_lost = is_short and _adds(request, prompt, was, _words(facts, tried))
                    pending = f"{lost} in the run before, which {ended}" * is_lost
                if keeps and pending:
                    return pending
            if (gone := made.keys() - calls) and _begins_again(facts, request, gone):
                return f"{lost}, and begins again where the run has been before"
            sent_now.append(request)
            done = {each for each, result in subject.results.items() if not tells(result.text)}
            kept = [call for call in calls.values() if call.name in mutating and call.id in done]
            # A summary may tell of those that are gone.
            made = {each: work for each, work in made.items() if each not in gone}
            made |= {call.id: (call.name, call.arguments) for call in kept}
        elif _has_changed(entry, mutating, changing):
            asked = subject.asked
            ids = [entry.call_id] if kind is entries.ToolResult else [each.id for each in asked]
            made |= {each.id: (each.name, each.arguments) for each in asked if each.id in ids}


def _begins_again(facts: Facts, request: SentRequest, gone: Collection[str]) -> bool:
    """Return whether the newest request with those calls began so, and has got no answer."""
    for number, each in reversed(facts.sent.items()):
        if any(call.id in gone for message in each.messages for call in calls_of(message)):
            is_same = each.system_prompt == request.system_prompt
            began = is_same and each.messages[: len(request.messages)] == request.messages
            return began and not is_answer(facts.replies[number])
    return False


def _adds(request: SentRequest, prompt: str, to: Iterable[SentRequest], telling: set[str]) -> bool:
    """Return whether a request has what one of others had, and the prompt, and nothing else.

    It may also have what the first of them had before its own prompt, or a note on its end that
    tells neither what was done nor that something may have been.
    """
    known = [each.messages for each in to if each.system_prompt == request.system_prompt]
    known += [each[:-1] for each in known[:1]]
    *begun, last = request.messages or [UserMessage("")]
    alike = [begun]
    if begun and type(note := begun[-1]) is not UserMessage and not tells(note.text, "doubts"):
        alike += [begun[:-1]] if telling.isdisjoint(_WORDS(note.text)) else []
    return last.text in prompt and any([*each] in alike for each in known)


def _words(facts: Facts, done: Collection[tuple[str, str]]) -> set[str]:
    said = (each.text for each in facts.replies.values())
    return {word for text in (*said, *chain.from_iterable(done)) for word in _WORDS(text)}


_CONVERSATION = "conversation-kept-between-prompts"
_ENDED = {Outcome.FAILED: "failed", Outcome.ABORTED: "was stopped"}


def _has_changed(entry: Any, mutating: Collection[str], changing: Collection[int]) -> bool:
    if type(entry) is entries.ToolResult:
        return entry.name in mutating and not entry.is_error
    is_reply = type(entry) is entries.ServiceReply and entry.request in changing
    return is_reply and (0 < entry.status < _REDIRECTS or entry.failure in UNCERTAIN)


class _Lack(NamedTuple):
    """A request has nothing of the conversation before it: its messages and the last answer."""

    number: int
    prompt: str
    old: Collection[Message]
    answer: str


class _Memory:
    """The conversation of an agent with its user, as far as its requests show it."""

    def __init__(self, subject: Subject) -> None:
        self.facts, self.is_instance = subject.facts, subject.is_instance
        self.completed = self.answered = False  # the run before, and any run
        self.kept: int | None = None  # requests that go on, and that begin anew
        self.forgot: int | None = None
        self.lack: _Lack | None = None  # in this run
        self.newest = self.text = ""  # the prompt, and the text of the run before
        self.said = ""  # the text of the last run that was completed
        self.prompts = set[str]()  # those before the newest
        self.is_first = False
        self.may_be_short = False  # the model has called it too long
        self.is_of_one = True  # user and session: this prompt and the one before
        self.began_ns = 0
        self.systems = set[str]()  # the system prompts of requests that prepare an answer
        self.current = set[str]()  # those of this run
        self.holding = set[str]()  # those of requests that have gone on with the conversation
        self.answering = ""  # that of the request for the newest answer

    def begin(self, entry: entries.Prompt) -> None:
        prompt, is_late = entry.text, entry.at_ns - self.began_ns > _IDLE_NS
        self.began_ns = entry.at_ns
        if is_late:
            self.kept, self.answered = None, False
        self.is_first, self.current, self.lack = True, set(), None
        self.prompts.add(self.newest)
        is_of_one = not self.newest or _speaker(self.newest) == _speaker(prompt)
        self.is_of_one = is_of_one and not is_late
        self.newest = prompt

    def end(self, ended: entries.Ended) -> str:
        lack, was_completed, self.text = self.lack, self.completed, ended.text
        is_told = has_failed(ended, self.facts.reply)  # as an answer
        self.completed = ended.outcome is Outcome.COMPLETED and not is_told
        if lack is not None and self.completed:
            # What a first prompt left may go with its failure.
            self.forgot = lack.number if self.answered else None
            if self.is_instance and was_completed and lack.answer:
                what = f"request {lack.number} has nothing of the conversation before its prompt"
                return f"{what}, which ended with the answer {lack.answer!r:.80}"
        if self.kept is not None and self.forgot is not None:
            goes_on = f"request {self.kept} goes on with the conversation before its prompt"
            return f"{goes_on}, and request {self.forgot} has forgotten it"
        self.answered = self.answered or self.completed
        self.said = ended.text.strip() if self.completed else self.said
        last = self.facts.request.system_prompt if self.facts.request else ""
        if self.completed:
            last = self.answering = _answering(self.facts, ended.text) or self.answering
        self.systems |= self.current - {last}
        return ""

    def ask(self, request: SentRequest) -> str:
        """Return how the first request of a run has lost a part of the conversation."""
        facts, before, was_first = self.facts, self.facts.before, self.is_first
        self.current.add(request.system_prompt)
        self.may_be_short = self.may_be_short or any(map(has_overflowed, facts.replies.values()))
        if self.lack is not None and _has_some(request, self.lack):
            self.lack = None  # that request was for something else, such as a summary
        prepares = request.system_prompt in self.systems - {self.answering}
        goes_on = before is not None and not {*before.messages}.isdisjoint(request.messages)
        self.is_first = was_first and prepares
        if goes_on and facts.previous is None:
            self.holding.add(request.system_prompt)
        if self.is_first or not was_first or before is None or not self.is_of_one:
            return ""
        reply = facts.replies.get(before.number)
        size = max(len(before.messages), len(reply.calls) if reply else 0)
        is_long = self.may_be_short or size > _MOST or _is_long(facts, before, request)
        old = {*before.messages} - {*map(UserMessage, _of_user(request.messages[-1:]))}
        if facts.previous is not None or is_long or not old:
            return ""
        if before.output is not None and reply and reply.text.strip() not in self.text:
            return ""  # it was asked for an object, and not for the answer
        answer = "" if self.completed else self.said
        answer = reply.text.strip() if reply is not None and is_answer(reply) else answer
        lack = _Lack(request.number, self.newest, old, answer)
        if not _has_some(request, lack):
            # Of several agents, some need no conversation.
            is_other = self.holding and request.system_prompt not in self.holding
            newest = "".join(_of_user(request.messages[-1:]))
            is_quoted = any(each.text and each.text in newest for each in old)
            self.lack = None if is_other or is_quoted else lack
            return ""
        self.kept = request.number
        if size > _SHORT:
            return ""
        if self.completed and answer and not _has_answer(request, lack):
            return f"request {request.number} lacks the answer before its prompt: {answer!r:.80}"
        if self.completed and (lost := _lost_prompt(before, request, self.prompts)):
            return f"request {request.number} lacks an earlier prompt: {lost!r:.80}"
        return ""


def _has_some(request: SentRequest, lack: _Lack) -> bool:
    known = not {*lack.old}.isdisjoint(request.messages)
    return known or (lack.answer != "" and _has_answer(request, lack))


def _has_answer(request: SentRequest, lack: _Lack) -> bool:
    """Return whether a request has the answer, perhaps in a transcript in one message."""
    answer, is_new = lack.answer, lack.answer not in lack.prompt
    return any(
        answer in each.text and (type(each) is not UserMessage or (is_new and each.text != answer))
        for each in request.messages
    )


def _answering(facts: Facts, text: str) -> str:
    """Return the system prompt of the request for the text of a run, or of its last request."""
    of_run = facts.main_replies[facts.earlier_replies :]
    numbers = [each.number for each in of_run if each.text.strip() and each.text.strip() in text]
    asked = facts.sent.get(numbers[-1] if numbers else 0, facts.request)
    return asked.system_prompt if asked else ""


def _speaker(prompt: str) -> str:
    """Return the name before a colon, of an agent that serves several users."""
    name, colon, _ = prompt.partition(": ")
    return name if colon and name.isalnum() else ""


def _lost_prompt(before: SentRequest, request: SentRequest, prompts: Collection[str]) -> str:
    """Return an earlier prompt that a request lacks, or "", as if it begins with a summary."""
    is_shortened = request.messages[0] not in before.messages
    said = "\n".join(_of_user(request.messages))
    known = () if is_shortened else _of_user(before.messages)
    lost = (text for text in known if not any(form in said for form in forms(text)))
    return next((text for text in lost if text in prompts), "")


def _is_long(facts: Facts, before: SentRequest, request: SentRequest) -> bool:
    """Return whether an agent may shorten its conversation, or has asked for a summary of it."""
    between = [*filter(None, map(facts.sent.get, range(before.number, request.number)))]
    has_asked = any(
        each.number in facts.asides or each.purpose != "main"
        or (not each.tools and is_summed(facts.replies.get(each.number), request))
        for each in between
    )  # fmt: skip
    without = facts.lacks_tools(request) or facts.lacks_tools(before)
    newest = (message for each in (*between, request) for message in each.messages[-1:])
    said = [each.text for each in (*before.messages, *newest)]
    said += [call.arguments for each in before.messages for call in calls_of(each)]
    said += [facts.replies[before.number].text] if before.number in facts.replies else []
    return sum(map(len, said)) > _SHORT_CHARS or without or has_asked


@of_agents("An answer that the model has continued reaches the user whole.",
           "BUGS.md C6, E8", sees=[entries.Prompt, MainRequest, entries.Ended])  # fmt: skip
def continued_answers_are_whole(subject: Subject) -> Watch:
    """An agent may also ask for a shorter answer, which replaces the one that was cut off."""
    facts, parts, is_first = subject.facts, list[str](), True
    while entry := (yield):
        reply = facts.reply if type(entry) is entries.Ended else facts.replies.get(
            0 if facts.before is None else facts.before.number
        )  # fmt: skip
        if type(entry) is entries.Prompt or reply is None:
            parts, is_first = [], True
        elif type(entry) is not entries.Ended:
            asked = _of_user(facts.added)
            is_cut = reply.finish is FinishReason.LENGTH and not reply.calls and reply.text.strip()
            # The words of a new prompt may be the result of a call.
            goes_on = PATTERNS["going on"].search(asked[-1]) if asked else not is_first
            is_first = False
            goes_on = goes_on and any(reply.text.strip() in each.text for each in facts.added)
            parts = [*parts, reply.text] if is_cut and goes_on else []
        elif entry.outcome is Outcome.COMPLETED and is_answer(reply) and reply.text in entry.text:
            for part in parts:
                if part.strip() not in entry.text:
                    return f"the answer {entry.text!r:.80} lacks its beginning: {part!r:.80}"


def _ends_the_run(subject: Subject, stop: entries.StopRequested) -> bool:
    """Return whether a request to stop ends a run at once. In some designs an abort is a flag."""
    is_flag = subject.settings is not None and subject.settings.abort_is_flag
    return stop.cause is not StopCause.ABORT or not is_flag


@invariant("After a stop, the run sends no request and starts no tool.", "BUGS.md C9, D7, D10",
           sees=[entries.StopRequested, entries.Prompt, entries.Request, entries.ToolStarted,
           entries.LeftBehind, entries.ServiceRequest, entries.ServiceReply],
           begins=[entries.StopRequested, entries.LeftBehind, entries.ServiceRequest])  # fmt: skip
def nothing_starts_after_stop(subject: Subject) -> Watch:
    """This holds during a reply, between two tools and in a backoff.

    No stop interrupts a thread, so a tool that an agent calls in one is not judged. Nor is one that
    its code calls at the moment of the stop: a task that was ready before runs first. A task or a
    thread that a completed run has left behind is not stopped. A request to a service may clean up,
    unless the stop has broken it off, or it has failed, or the run has changed nothing.
    """
    sent, broken_off = dict[int, entries.ServiceRequest](), dict[tuple[str, ...], int]()
    stop: entries.StopRequested | None = None
    goes_on, under_way = False, set[int]()  # an earlier run; the requests to services at the stop
    has_changed = has_threads = PATTERNS["threads"].search(subject.source) is not None
    while entry := (yield):
        if (kind := type(entry)) is entries.StopRequested:
            if _ends_the_run(subject, entry):
                stop, under_way = entry, set() if has_threads else {*sent}
        elif kind is entries.Prompt:
            stop, has_changed = None, has_threads or goes_on
            broken_off.clear()
        elif kind is entries.ServiceReply:
            fails = entry.failure or entry.status >= _BROKEN or entry.status == RATE_LIMIT
            is_ours = stop and (entry.failure == "closed" or (fails and entry.request in under_way))
            if begun := sent.pop(entry.request, None):
                is_early = stop is None or begun.seq < stop.seq  # not for the clean-up
                is_try = is_early and begun.method != "DELETE" and is_change(subject, begun)
                if is_ours or (fails and is_try):  # by itself, it may be due again at the stop
                    broken_off[what_of(begun)] = 0 if is_ours else 1
        elif kind is entries.ServiceRequest:
            open_still = {what_of(each) for number, each in sent.items() if number in under_way}
            sent[entry.number] = entry
            is_new = entry.method == "POST" and is_change(subject, entry) and not has_changed
            has_changed = has_changed or (is_new and stop is None)
            late_ns, own = entry.at_ns - stop.at_ns if stop else 0, what_of(entry)
            is_again = own in open_still or late_ns >= broken_off.get(own, late_ns + 1)
            if stop and ((is_new and late_ns) or is_again):
                again = f"{described(entry)} is sent{'' if is_new else ' again'}"
                return f"{again} after the run was stopped ({stop.cause}, entry {stop.seq})"
        elif stop is None:
            goes_on = goes_on or (kind is entries.LeftBehind and entry.what in BEHIND)
        elif (kind is entries.LeftBehind and entry.what != "stop") or (
            kind is entries.Request and goes_on and _is_of_others(subject.facts, entry)
        ):
            continue
        elif kind is not entries.ToolStarted or not (
            entry.in_thread or (entry.own and entry.at_ns == stop.at_ns)
        ):
            what = f"request {entry.number} is sent" if kind is entries.Request else "a tool starts"
            if kind is entries.LeftBehind:
                what = f"the agent goes on at {entry.place}"
            return f"{what} after the run was stopped ({stop.cause}, entry {stop.seq})"


def _is_of_others(facts: Facts, entry: entries.Request) -> bool:
    """Return whether a request has not the words of the prompt, or repeats one of a run before."""
    prompt, request = facts.prompt, facts.sent[entry.number]
    is_again = facts.previous is None and facts.goes_on and not facts.added
    said = [] if prompt is None else [each for each in request.messages if prompt.text in each.text]
    return is_again or not said


@of_agents("A stop ends one run: no call of a later run is answered as stopped.",
           "BUGS.md D10", sees=[entries.Ended, entries.ServiceRequest, entries.Input, MainRequest],
           begins=[entries.Ended])  # fmt: skip
def stop_ends_one_run(subject: Subject) -> Watch:
    """An event that tells tools of a stop is made anew for each run, or cleared.

    The results of two tools say the same at once, and no service was asked. Calls that are not made
    because something has failed before, or because a person must look at it, say why.
    """
    said = dict[str, set[str]]()
    while entry := (yield):
        if type(entry) is not entries.Request:
            said = {}
            continue
        reply = agents.reply_before(subject.facts, entry)
        is_at_once = reply is not None and reply.at_ns == entry.at_ns
        texts = {each.text for each in subject.results.values()} if is_at_once else set()
        names = {call.name for each in subject.facts.added for call in calls_of(each)}
        stops = PATTERNS["stopped"].search
        if len(texts) == 1 and stops(text := min(texts)) and not stops(" ".join(names)):
            said.setdefault(text, set()).update(names)
            if len(said[text]) > 1 and not any(tells(text, each) for each in _REASONS):
                tools = " and ".join(sorted(said[text]))
                return f"request {entry.number} has {text!r:.60} for {tools}"


@invariant("A stopped run ends within the grace period for cleanup code.",
           "BUGS.md C9, D4", sees=[entries.Ended])  # fmt: skip
def stopped_run_ends_in_time(subject: Subject, entry: Any) -> str:
    """A tool may say how long it outlives a cancellation; who hears nothing, or waits, has none.

    A framework waits for a function that it has called in a thread.
    """
    facts, stop = subject.facts, subject.facts.stop
    if stop is None or not _ends_the_run(subject, stop):
        return ""
    is_in_thread = type(facts.earlier) is entries.LeftBehind and facts.earlier.what == "thread"
    if is_in_thread and PATTERNS["frameworks"].search(subject.source):
        return ""
    tools = {} if subject.scenario is None else subject.scenario.tools
    grace_ns = GRACE_NS + max((tool.outlives_cancel or 0 for tool in tools.values()), default=0)
    late_ns = entry.at_ns - stop.at_ns
    running = [each for several in facts.running.values() for each in several]
    does_nothing = running and type(facts.earlier) is entries.StopRequested
    grace_ns -= bool(does_nothing and not any(each.in_thread for each in running))
    grace_ns -= type(facts.earlier) is entries.Sleep
    return f"the run ends {late_ns / 1e6:g} ms after the stop" if late_ns > grace_ns else ""


@invariant("A stopped run has the outcome that belongs to the stop, and no other run has such an "
           "outcome.", "BUGS.md C9, D9", sees=[entries.Ended])  # fmt: skip
def outcome_matches_stop(subject: Subject, entry: Any) -> str:
    """The outcome of an abort is aborted; that of the time limit is timed-out.

    A model call that fails because its request was aborted also has the outcome aborted.
    """
    facts = subject.facts
    stops, reply = facts.stops, facts.reply
    fitting = {_STOPPED[stop.cause] for stop in stops}
    if not stops:
        if entry.outcome in _STOPPED.values() and (reply is None or reply.fault is None):
            return f"the run ends as {entry.outcome}, and no stop was requested"
    elif _ends_the_run(subject, stops[0]) and entry.outcome not in fitting:
        return f"the run was stopped ({stops[0].cause}), and ends as {entry.outcome}"
    return ""
