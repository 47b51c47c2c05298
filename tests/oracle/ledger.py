"""The ledger of a context: the messages that the next request must have, counted from the trace.

Each message comes from an entry: a prompt, a message of the queue, a reply with the answers to its
calls, a summary. The ledger adds them as the effects of the machine say, and compares the result
with each request as it was sent. Each message is read once, so that the work grows with the new
messages only. Sizes are computed here again, so that an error of the estimate is found.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simloop.check.invariants.invariant import Need, invariant
from simloop.check.invariants.subject import Subject
from simloop.engine.settings import EngineSettings
from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Feature, Machine, Run
from simloop.kernel.policies import utf8_bytes_over_4
from simloop.kernel.signals import Signal
from simloop.messages import AssistantMessage, Fault, Message, ToolCall, ToolMessage, UserMessage
from simloop.trace import entries
from simloop.trace.facts import Facts, ReceivedReply


class Shortened:
    """A context before and after the compactions between two requests.

    `before` and `after` are the messages of the two contexts, and `tokens` is the size of `after`.
    `compactions` are the entries. `removed` is the number of removed messages, and `summary` has
    the messages and the reply of the summary request that was used, both as the entries state.
    """

    __slots__ = ("after", "before", "compactions", "removed", "summary", "tokens")

    def __init__(self, before: Sequence[Message]) -> None:
        self.before = before
        self.after: Sequence[Message] = ()
        self.compactions: list[entries.Compaction] = []
        self.removed = self.tokens = 0
        self.summary: tuple[Sequence[Message], ReceivedReply] | None = None


def may_shrink(messages: Sequence[Message], keep_turns: int) -> bool:
    """Return whether a normal compaction may remove a message that is worth removing.

    A compaction keeps the newest turns and the newest user message, and it gains nothing if it
    removes only a summary.
    """
    start, turns = len(messages), 0
    while start and turns < keep_turns:
        start -= 1
        turns += type(messages[start]) is not ToolMessage
    users = 0
    for place in range(start):
        kind = type(messages[place])
        if kind is AssistantMessage or kind is ToolMessage:
            return True
        users += kind is UserMessage
    newer = any(type(m) is UserMessage for m in messages[start:])
    return users > (0 if newer else 1)


def tokens_of(message: Message) -> int:
    """Return the size of a message: a quarter of the bytes of each text, and 4 for its frame."""
    text = message.text
    if type(message) is not AssistantMessage:
        return 4 + ((len(text) + 3) >> 2 if text.isascii() else _quarter(text))
    tokens = 4 + _quarter(text) + _quarter(message.reasoning)
    for call in message.calls:
        tokens += _quarter(call.name) + _quarter(call.arguments)
    return tokens


def _quarter(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) >> 2


def difference(expected: Sequence[Message], sent: Sequence[Message], tail: Any) -> str:
    """Return the first message in which a request differs from the ledger, in words."""
    wanted = [*expected, *tail]
    for place, (one, other) in enumerate(zip(wanted, sent, strict=False)):
        if one != other:
            return f"message {place} is {_short(other)}, and must be {_short(one)}"
    if len(sent) > len(wanted):
        return f"message {len(wanted)} is {_short(sent[len(wanted)])}, and must not be there"
    return f"message {len(sent)} is missing: {_short(wanted[len(sent)])}"


def _short(message: Message) -> str:
    role = type(message).__name__.removesuffix("Message").lower()
    calls = f" with {len(message.calls)} calls" if isinstance(message, AssistantMessage) else ""
    return f"{role}{calls} {message.text[:40]!r}"


_MANY = 1_000_000
ENDS_FROM_OUTSIDE = (signals.AbortRequested, signals.WallClockExpired, signals.HookFailed)
"""The signals that end a run in every state."""


class Done:
    """What the engine of a machine has done, as the entries show it.

    `moves` counts the transitions, and `rounds` those of them that are not on a reply. At one,
    `pending` is the effect that its signal answers. `since` counts the entries that effects leave
    between the two newest transitions, by kind, and a request for a summary as `summary`; `now`
    counts those since the newest. `classified` is the newest classification of a failure; `judged`
    is the one since the newest main request, or None. `failures` is the number of the wait before
    the newest one, or 0 if the count has begun again.
    """

    def __init__(self) -> None:
        self.moves = self.rounds = 0
        self.pending: Effect | None = None
        self.asked: tuple[Effect, ...] = ()
        self.since: dict[object, int] = {}
        self.now: dict[object, int] = {}
        self.classified: entries.Classified | None = None
        self.judged: entries.Classified | None = None
        self.failures = self._newest_failures = 0

    def read(self, entry: Any) -> None:
        """Add an entry that an effect leaves, or a prompt."""
        kind: object = type(entry)
        if kind is entries.Prompt:
            self.asked, self.now, self._newest_failures = (), {}, 0
        elif kind is entries.Backoff:
            self.failures, self._newest_failures = self._newest_failures, entry.failures
        elif kind is entries.Classified:
            self.judged = self.classified = entry
        elif kind is entries.Request:
            if entry.purpose == "main":
                self.judged = None
            else:
                kind = "summary"
        if kind in LEAVES:
            self.now[kind] = self.now.get(kind, 0) + 1

    def move(self, signal: Signal, asked: tuple[Effect, ...], run: Run) -> None:
        """Add a transition."""
        self.moves += 1
        self.rounds += type(signal) is not signals.ModelReplied
        self.since, self.now = self.now, {}
        self.pending, self.asked = _answered(self.asked), asked
        if not run.error_count:
            self._newest_failures = 0


def _answered(asked: tuple[Effect, ...]) -> Effect | None:
    """Return the last effect, unless no signal answers it."""
    return asked[-1] if asked and type(asked[-1]) is not effects.TakeQueued else None


LEAVES: Mapping[object, tuple[type[Effect], str]] = {
    entries.Request: (effects.CallModel, "a request"),
    "summary": (effects.Compact, "a request for a summary"),
    entries.Compaction: (effects.Compact, "a compaction"),
    entries.Backoff: (effects.Backoff, "a wait before a retry"),
    entries.Classified: (effects.CallModel, "a classification of a failed call"),
}
"""The kinds of entries that show an effect; each effect leaves at most one."""


class Ledger:
    """The context of a conversation, computed from the trace.

    `messages`, `count` and `tokens` describe the context; after a compaction the messages are not
    known before the next request, which then has `shortened`. `measured` are the count and the
    tokens when the context was measured last. `is_late` is true if messages arrived during an
    effect that may have taken them or not. `wrong` is the difference between the newest request
    and the ledger. `waiting` are the messages of the user that no effect has taken. `unsent` is
    true if a message was taken since the newest request. `is_sure` is false while the trace does
    not show whether an effect was performed before an end from outside. `done` is what the engine
    has done.
    """

    def __init__(self, machine: Machine, settings: EngineSettings, facts: Facts) -> None:
        self.done = Done()
        self._facts = facts
        self._settings = settings
        self._sends_thoughts = settings.sent_back.reasoning
        self.estimates = settings.estimate_tokens is utf8_bytes_over_4
        self._has_queue = Feature.QUEUE not in machine.unsupported
        self.messages: list[Message] = []
        self.count = self.tokens = 0
        self.measured = (0, 0)
        self.is_late = False
        self.unsent = False
        self.is_sure = True
        self.wrong = ""
        self.wrong_tokens = ""
        self.waiting: list[entries.Queued] = []
        self.shortened: Shortened | None = None
        self.system_prompt = ""
        self.calls: list[ToolCall] = []
        self.answers: dict[str, ToolMessage] = {}
        self.tail: tuple[Message, ...] = ()
        self._open: Shortened | None = None
        self._added: list[Message] = []
        self.waited: tuple[entries.Queued, ...] = ()
        self._reply: ReceivedReply | None = None
        self._thoughts: list[str] = []
        self._thought = False
        self.tries: list[Message] = []
        self._taking: effects.TakeQueued | None = None
        self._maybe: list[entries.Queued] = []
        self._most = 0
        self._fault: Fault | None = None
        self._is_judged = False
        self._end: effects.EndRun | None = None
        self._compact: effects.Compact | None = None
        self._first_only = False
        self._closed_as: bool | None = None
        self._said = False
        self._sent, self._verified = 0, 0
        self._summary: tuple[Sequence[Message], ReceivedReply] | None = None
        for message in settings.history:
            self._add(message)

    @property
    def is_known(self) -> bool:
        """Return whether all messages of the context are known."""
        return self._open is None and self.is_sure and not self._maybe

    @property
    def opened(self) -> Shortened | None:
        """Return the compactions since the newest request, or None."""
        return self._open if self.is_sure else None

    @property
    def restarts(self) -> bool:
        """Return whether the current compaction writes the whole context anew."""
        return self._compact is not None and bool(self._compact.marker)

    # ------------------------------------------------------------------ entries

    def _begin(self, entry: entries.Prompt) -> None:
        if not self._has_queue and self.waiting and self.waiting[0].text == entry.text:
            del self.waiting[0]
        self.tries, self._reply, self._end = [], None, None
        self.unsent = False
        self.is_sure = self.is_sure and not self._maybe
        self._taking, self._maybe = None, []
        self._add(UserMessage(entry.text))

    def _queue(self, entry: entries.Queued) -> None:
        self.waiting.append(entry)
        if self._taking is not None and self._taking.queue in (None, entry.queue):
            self._maybe.append(entry)

    def _call(self, entry: entries.ToolCall) -> None:
        if self._facts.replies[entry.request] is self._reply:
            self.calls.append(ToolCall(entry.call_id, entry.name, entry.arguments))

    def _rename(self, entry: entries.CallRenamed) -> None:
        calls = self.calls
        if calls and calls[-1].id == entry.call_id:
            calls[-1] = ToolCall(entry.to_id, entry.to_name, calls[-1].arguments)

    def _think(self, entry: entries.ReasoningDelta) -> None:
        if self._facts.replies[entry.request] is self._reply:
            self._thought = True
            if self._sends_thoughts:
                self._thoughts.append(entry.text)

    def _answer(self, entry: entries.Answered) -> None:
        self.answers[entry.call_id] = ToolMessage(entry.call_id, entry.text, entry.is_error)

    def _classify(self, entry: entries.Classified) -> None:
        self._fault, self._is_judged = entry.fault, True

    def _finish(self, _: entries.Ended) -> None:
        """Commit a reply that the end of the run keeps."""
        reply, end = self._reply, self._end
        if reply is None or end is None:
            return
        if self._is_judged:  # treated as failed: the end may have come before the engine dropped it
            self.is_sure = False
            return
        has_ended = reply.is_closed
        if (has_ended or self._settings.sent_back.failed) and end.keep:
            text = reply.text
            if text or self.calls:
                self._commit(text)
        self._reply = None

    # ------------------------------------------------------------------ effects

    def follow(self, signal: Signal, asked: tuple[Effect, ...], *, stopped: bool) -> None:
        """Apply the effects that follow a signal to the ledger."""
        self.measured, self.is_late = (self.count, self.tokens), bool(self._maybe)
        self.waited = tuple(self.waiting) if self.waiting else ()
        if stopped:
            self._doubt(asked)
        elif type(signal) is signals.ModelFailed:
            self._keep_failed()
        self._taking = self._closed_as = None
        for effect in asked:
            take = _EFFECTS.get(type(effect))
            if take is not None:
                take(self, effect)

    def _call_model(self, effect: effects.CallModel) -> None:
        note = effect.note
        self.tail = (AssistantMessage(note),) if note else ()

    def _compacts(self, effect: effects.Compact) -> None:
        self._compact, self.tries = effect, []

    def _run_tools(self, effect: effects.RunTools) -> None:
        self._first_only = effect.first_only

    def _end_run(self, effect: effects.EndRun) -> None:
        self._end = effect

    def _doubt(self, asked: tuple[Effect, ...]) -> None:
        """Note that an end from outside may have come before the last effects."""
        end = asked[-1] if asked else None
        keeps = type(end) is effects.EndRun and end.keep
        if self._closed_as is not None and (self._closed_as is not keeps or not self._said):
            self.is_sure = False
        if self._taking is not None or (self._first_only and len(self.calls) > 1):
            self.is_sure = False

    def _take(self, effect: effects.TakeQueued) -> None:
        self._taking, self._maybe = effect, []
        queue = effect.queue
        taken = [each for each in self.waiting if queue in (None, each.queue)]
        self._most = len(self.waiting) + _MANY
        if effect.one:
            del taken[1:]
            self._most = 1 - len(taken)
        for each in taken:
            self._deliver(each)

    def _deliver(self, queued: entries.Queued) -> None:
        self.unsent = True
        self.waiting.remove(queued)
        self._add(UserMessage(queued.text))

    def _close(self, effect: effects.CloseStep) -> None:
        keep = effect.keep or (effect.keep_thoughts and self._thought)
        reply, self._closed_as = self._reply, keep
        if reply is None:
            return
        self._said = bool(reply.pieces or self.calls)
        if keep:
            self._commit(reply.text)
        self._reply, self.tries = None, []

    def _commit(self, text: str) -> None:
        calls = self.calls[:1] if self._first_only else self.calls
        answers = self.answers
        if text or calls or not self.tries:
            said = AssistantMessage(text, tuple(calls), "".join(self._thoughts))
            results = [answers[call.id] for call in calls if call.id in answers]
            added = [*self.tries, said, *results]
        else:
            added = self.tries
        for message in added:
            self._add(message)

    def _keep_failed(self) -> None:
        """Keep the calls of a failed reply, if the policy says so."""
        reply, policy = self._reply, self._settings.replies
        self._reply = None
        if not policy.keep_failed or reply is None:
            return
        text = reply.text
        if text or self.calls:
            fault = self._fault or reply.fault
            whole = fault is not None and fault.code in policy.failing_words
            answers = [self.answers[c.id] for c in self.calls if c.id in self.answers]
            self.tries += [AssistantMessage(text if whole else "", tuple(self.calls)), *answers]

    def _add(self, message: Message) -> None:
        self.count += 1
        if self.estimates:
            self.tokens += tokens_of(message)
        (self.messages if self._open is None else self._added).append(message)

    # ------------------------------------------------------------------ compaction

    def _shorten(self, entry: entries.Compaction) -> None:
        effect = self._compact
        shrunk = entry.tokens_after < entry.tokens_before
        self.measured, self.is_late = (self.count, self.tokens), bool(self._maybe)
        self.is_sure = self.is_sure and not self._maybe
        script = self._settings.context
        if script is None and effect is not None and effect.marker:
            self._restart(entry, effect)
        elif script is None or not script[1]:  # a script of the moments alone
            self._cut(entry)
        says = effect is not None and (script is not None or not effect.marker)
        if says and shrunk and effect.then_say:  # type: ignore[union-attr]
            self._add(UserMessage(effect.then_say))  # type: ignore[union-attr]

    def _restart(self, entry: entries.Compaction, effect: effects.Compact) -> None:
        """Put the marker, the summary and the newest message of the user in the context."""
        if entry.detail or self._summary is None or not self.is_known:
            self.is_sure = False
            return
        users = [m for m in self.messages if type(m) is UserMessage and m.text != effect.marker]
        newest = users[-1] if len(users) > 1 else UserMessage(effect.then_say)
        said = AssistantMessage(self._summary[1].text.strip())
        self.messages, self.count, self.tokens, self._verified = [], 0, 0, 0
        for message in (UserMessage(effect.marker), said, newest):
            self._add(message)

    def _cut(self, entry: entries.Compaction) -> None:
        opened = self._open or Shortened(self.messages)
        if self._open is None:
            self._open, self._added = opened, []
        if self._added:
            opened.before = [*opened.before, *self._added]
            self._added = []
        opened.compactions.append(entry)
        opened.removed += entry.messages_removed
        if entry.strategy == "summarise":
            opened.summary = self._summary
        self.count -= entry.messages_removed
        self.tokens = entry.tokens_after

    # ------------------------------------------------------------------ requests

    def _send(self, entry: entries.Request) -> None:
        request = self._facts.request
        reply = self._facts.replies[entry.number]
        self.shortened = None
        if entry.purpose != "main":
            self._summary = self._facts.sent[entry.number].messages, reply
            return
        assert request is not None
        self._reply = reply
        self.calls, self.answers = [], {}
        self._is_judged = False
        self._thoughts, self._thought, self._first_only = [], False, False
        self.wrong = self.wrong_tokens = ""
        self._compare(entry, request.messages)
        self._sent, self._verified, self.unsent = entry.number, len(self.messages), False

    def _compare(self, entry: entries.Request, sent: Any) -> None:
        """Compare the request with the ledger, and correct the ledger by it."""
        length = len(sent) - len(self.tail)
        extra = length - self.count
        if self._maybe:
            extra = self._take_late(sent, length, extra)
        opened = self._open
        if not self.is_sure:
            self._take_over(sent[:length])
        elif opened is not None:
            self.shortened, self._open = opened, None
            opened.after = sent[: max(length - len(self._added), 0)]
            opened.tokens = sum(map(tokens_of, opened.after))
            if list(sent[len(opened.after) :]) != [*self._added, *self.tail]:
                self.wrong = difference(self._added, sent[len(opened.after) :], self.tail)
            self._take_over(sent[:length])
            self._check_tokens(entry)
        elif extra or not self._is_as_expected(entry, sent, length):
            self.wrong = difference(self.messages, sent, self.tail)
            self._take_over(sent[:length])
        else:
            self._check_tokens(entry)
        self.is_sure, self._taking, self._maybe = True, None, []

    def _check_tokens(self, entry: entries.Request) -> None:
        if self.estimates and entry.tokens != self.tokens:
            self.wrong_tokens = (
                f"request {entry.number} says {entry.tokens} tokens, and its messages have "
                f"{self.tokens}"
            )

    def _is_as_expected(self, entry: entries.Request, sent: Any, length: int) -> bool:
        known = self._verified if entry.base == self._sent and entry.kept >= self._verified else 0
        whole: list[Message] = sent.messages
        if whole[known:length] != self.messages[known:]:
            return False
        return not self.tail or tuple(whole[length:]) == self.tail

    def _take_late(self, sent: Any, length: int, extra: int) -> int:
        """Take messages that arrived during the effect that takes them."""
        for each in self._maybe[: min(max(extra, 0), self._most)]:
            place = length - extra
            if sent[place] != UserMessage(each.text):
                break
            self._deliver(each)
            extra -= 1
        return extra

    def _take_over(self, messages: Sequence[Message]) -> None:
        """Replace the ledger by the sent messages; take those of the user from the queue."""
        self.messages, self.count, self.tokens = [], 0, 0
        self._open, self._added = None, []
        for message in messages:
            self._add(message)
        texts = {message.text for message in messages[-8:] if type(message) is UserMessage}
        taken = {each.queue: n for n, each in enumerate(self.waiting) if each.text in texts}
        if taken:  # a compaction may have dropped earlier messages of the queue
            self.waiting = [e for n, e in enumerate(self.waiting) if n > taken.get(e.queue, -1)]


TABLE: Mapping[type, Callable[[Ledger, Any], None]] = {
    entries.Prompt: Ledger._begin,
    entries.Queued: Ledger._queue,
    entries.Request: Ledger._send,
    entries.ReasoningDelta: Ledger._think,
    entries.ToolCall: Ledger._call,
    entries.CallRenamed: Ledger._rename,
    entries.Answered: Ledger._answer,
    entries.Classified: Ledger._classify,
    entries.Compaction: Ledger._shorten,
    entries.Ended: Ledger._finish,
}
"""The method for each kind of entry. One for all ledgers: a table of bound methods would leave each
ledger to the garbage collector."""
_EFFECTS: Mapping[type, Callable[[Ledger, Any], None]] = {
    effects.TakeQueued: Ledger._take,
    effects.CloseStep: Ledger._close,
    effects.CallModel: Ledger._call_model,
    effects.Compact: Ledger._compacts,
    effects.RunTools: Ledger._run_tools,
    effects.EndRun: Ledger._end_run,
}
"""The method for each kind of effect that changes the context."""


def ledger_of(subject: Subject) -> Ledger:
    """Return the ledger of a run, which `ledger_follows_the_run` keeps up to date."""
    shared = subject.shared
    if "ledger" not in shared:
        assert subject.machine is not None
        assert subject.settings is not None
        shared["ledger"] = Ledger(subject.machine, subject.settings, subject.facts)
    ledger: Ledger = shared["ledger"]
    return ledger


@invariant(
    "The ledger of the oracle has read each entry that changes the context.",
    "the first of the oracle: the others look at the ledger when it has read an entry",
    sees=[*TABLE, entries.Backoff, entries.Transition],
    needs=[Need.MACHINE],
)
def ledger_follows_the_run(subject: Subject, entry: Any) -> str:
    """It is never violated."""
    ledger, kind = ledger_of(subject), type(entry)
    if kind is not entries.Transition:
        ledger.done.read(entry)
        if kind in TABLE:
            TABLE[kind](ledger, entry)
    elif not subject.course.noted:
        course = subject.course
        stopped = type(course.signal) in ENDS_FROM_OUTSIDE
        ledger.done.move(course.signal, course.asked, course.run)
        ledger.follow(course.signal, course.asked, stopped=stopped)
    return ""
