"""Invariants on the engine of a machine: effects run once, and signals state the facts."""

from collections.abc import Mapping
from typing import Any

from oracle.ledger import LEAVES, ledger_of, may_shrink
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.names import NAMES
from simloop.kernel.policies import Compaction
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished
from simloop.messages import FinishReason, Outcome, Queue, StopCause
from simloop.trace import entries
from simloop.trace.entries import Ended, Hook, Prompt, StopRequested, ToolStarted, Transition

_FROM_OUTSIDE = (signals.AbortRequested, signals.WallClockExpired)


_ANSWERS: Mapping[type[Effect] | None, tuple[type[Signal], ...]] = {
    None: (signals.Began,),
    effects.MeasureContext: (signals.ContextMeasured,),
    effects.Compact: (signals.ContextCompacted,),
    effects.CallModel: (
        signals.ModelReplied,
        signals.ModelFailed,
        signals.CallBlocked,
        signals.HookFailed,
    ),
    effects.RunTools: (signals.ToolsReturned, signals.HookFailed),
    effects.RefuseTools: (signals.ToolsReturned,),
    effects.CloseStep: (signals.StepClosed, signals.HookFailed),
    effects.Backoff: (signals.BackoffElapsed,),
}


_REPLIED, _FAILED = signals.ModelReplied, signals.ModelFailed


_REPLIES = (_REPLIED, _FAILED)


_GOING_ON = (*_REPLIES, signals.ToolsReturned)


@invariant(
    "The engine performs each effect of a machine exactly once, before the signal that answers it.",
    "loops.md",
    sees=[Transition],
)
def effects_run_once(subject: Subject, entry: Any) -> str:
    """An end from outside may come before or during an effect."""
    course = subject.course
    if course.noted:
        return ""
    done = ledger_of(subject).done
    signal, since = type(entry.signal), done.since
    pending = None if done.pending is None else type(done.pending)
    if since == _USUAL.get((pending, signal)):
        return ""
    if signal not in _ANSWERS.get(pending, ()) and signal not in _FROM_OUTSIDE:
        return f"{NAMES[signal]} answers {'nothing' if pending is None else NAMES[pending]}"
    for kind, count in since.items():
        effect, name = LEAVES[kind]
        if effect is not pending or count > 1:
            asked = "nothing" if pending is None else NAMES[pending]
            return f"{name} came {count} times while the machine asked for {asked}"
    if signal in _LEAVE_A_TRACE:
        missing = _missing(signal, since)
        if missing:
            return f"{NAMES[signal]} came without {missing}"
    return ""


_USUAL: Mapping[tuple[object, type[Signal]], Mapping[object, int]] = {
    (None, signals.Began): {},
    (effects.MeasureContext, signals.ContextMeasured): {},
    (effects.Compact, signals.ContextCompacted): {entries.Compaction: 1},
    (effects.CallModel, _REPLIED): {entries.Request: 1},
    (effects.CallModel, _FAILED): {entries.Request: 1, entries.Classified: 1},
    (effects.RunTools, signals.ToolsReturned): {},
    (effects.CloseStep, signals.StepClosed): {},
    (effects.Backoff, signals.BackoffElapsed): {entries.Backoff: 1},
}
"""The traces that effects leave before the signals that answer them, in nearly all transitions."""


_LEAVE_A_TRACE = frozenset(
    {_REPLIED, _FAILED, signals.CallBlocked, signals.ContextCompacted, signals.BackoffElapsed}
)


def _missing(signal: type[Signal], since: Mapping[object, int]) -> str:
    """Return the entry that the effect before `signal` must have left, if it is missing."""
    if signal is _REPLIED:
        if entries.Classified in since:
            return "a complete reply: it was classified as failed"
        return "" if entries.Request in since else "a request"
    if signal is _FAILED:
        if entries.Classified not in since:
            return "a classification of the failure"
        return "" if entries.Request in since else "a request"
    if signal is signals.CallBlocked:
        return "the call being blocked: a request was sent" if entries.Request in since else ""
    if signal is signals.ContextCompacted:
        return "" if entries.Compaction in since else "a compaction"
    return "" if entries.Backoff in since else "a wait"


@invariant(
    "Tools run only when the machine requests it, and every call of the reply is answered.",
    "BUGS.md D3, D11, D20",
    sees=[ToolStarted, signals.ToolsReturned],
    needs=[Need.MACHINE],
)
def tool_batches_complete(subject: Subject, entry: Any) -> str:
    """Calls that start when they arrive run during the model call; a refused reply runs none."""
    course, ledger = subject.course, ledger_of(subject)
    runs: tuple[type[Effect], ...] = (effects.RunTools,)
    if course.settings.tool_execution.start == "when-called":
        runs = (effects.RunTools, effects.CallModel)
    if type(entry) is ToolStarted:
        effect = course.effect
        if type(effect) not in runs:
            what = "nothing" if effect is None else NAMES[type(effect)]
            return f"the tool of call {entry.call_id!r} starts while the machine asks for {what}"
    else:
        for call in ledger.calls:
            if call.id not in ledger.answers:
                return f"call {call.id!r} of the reply has no answer"
    return ""


@invariant(
    "The signal for a reply states the finish reason, the text, the calls and the steps of "
    "the reply.",
    "BUGS.md C6, C4",
    sees=[signals.ModelReplied],
)
def reply_signal_matches_reply(subject: Subject, entry: Any) -> str:
    """The finish words that a program does not know count as other ones."""
    course, facts = subject.course, subject.facts
    reading = course.settings.replies
    plain = reading.finish_words is None
    signal = entry.signal
    reply = facts.reply
    if reply is None or reply.fault is not None or not reply.is_closed:
        return "a signal reports a reply that did not end"
    finish = reply.finish or FinishReason.INTERRUPTED
    if signal.finish is not finish and (plain or signal.finish is not FinishReason.OTHER):
        return f"the reply ended with {finish}, and the signal states {signal.finish}"
    text = any(piece and not piece.isspace() for piece in reply.pieces)
    if signal.text is not text:
        return f"the reply has {'' if text else 'no '}text, and the signal states the opposite"
    calls = bool(reply.calls)
    if signal.calls is not calls and not (signal.calls and ledger_of(subject).tries):
        return f"the reply has {len(reply.calls)} calls, and the signal states the opposite"
    if signal.steps != max(1, reply.steps):
        return f"the reply reports {reply.steps} steps, and the signal states {signal.steps}"
    return ""


@invariant(
    "The signal for a measured context states correctly whether the context exceeds its "
    "trigger and can be shortened.",
    "BUGS.md B7, B8, B5",
    sees=[signals.ContextMeasured],
)
def context_signal_matches_context(subject: Subject, entry: Any) -> str:
    """The policy sets the trigger in tokens or in messages."""
    course, signal = subject.course, entry.signal
    policy, ledger = course.settings.compaction, ledger_of(subject)
    count, tokens = ledger.measured
    over = _is_over(policy, tokens, count)
    if not ledger.is_sure or ledger.is_late or (not over and not signal.over):
        return ""
    if course.settings.context is not None or not ledger.estimates:
        return ""
    if signal.over and not over:
        size = f"{tokens} tokens in {count} messages"
        return f"the context of {size} is reported as over the trigger"
    if ledger.is_known and signal.over is not may_shrink(ledger.messages, policy.keep_turns):
        told, may = ("over", "nothing") if signal.over else ("within", "something")
        size = f"the context of {tokens} tokens"
        return f"{size} is reported as {told} the trigger, and {may} can be removed"
    return ""


def _is_over(policy: Compaction, tokens: int, count: int) -> bool:
    if policy.max_messages is not None:
        return count > policy.max_messages
    return tokens >= policy.window * policy.trigger_percent // 100


@invariant(
    "The signal at the end of a step states correctly whether user messages are queued.",
    "BUGS.md B12",
    sees=[effects.CloseStep, signals.AbortRequested, signals.StepClosed],
)
def queue_signal_matches_queue(subject: Subject) -> Watch:
    """A message that arrives at the same time as the end of a step may wait for the next step."""
    ledger = ledger_of(subject)
    begun = 0
    while True:
        entry = yield
        signal = entry.signal
        if type(signal) is not signals.StepClosed:
            begun = entry.seq
            continue
        for queue, said in ((Queue.STEERING, signal.steering), (_FOLLOW_UP, signal.follow_up)):
            waits = [each for each in ledger.waited if each.queue is queue]
            if said and not waits:
                return f"a signal reports a {queue} message, and none is queued"
            if not said and waits and (waits[0].at_ns < entry.at_ns or waits[0].seq < begun):
                return f"a {queue} message is queued, and the signal does not report it"


_FOLLOW_UP = Queue.FOLLOW_UP


@invariant(
    "The machine receives signals about stops, blocked calls and failed hooks exactly when "
    "these occur.",
    "BUGS.md D7, C9",
    sees=[
        Prompt,
        StopRequested,
        Hook,
        signals.AbortRequested,
        signals.WallClockExpired,
        signals.HookFailed,
        signals.CallBlocked,
        signals.ToolsReturned,
        *_REPLIES,
    ],
    needs=[Need.MACHINE],
    begins=[
        StopRequested,
        Hook,
        signals.AbortRequested,
        signals.WallClockExpired,
        signals.HookFailed,
        signals.CallBlocked,
        signals.ToolsReturned,
    ],
)
def stop_signals_match_stops(subject: Subject) -> Watch:
    """A failed hook blocks a call, or ends the run, only if the policy says so.

    The decision of a hook is reported with the next transition; a call that starts early is part
    of the step of its reply.
    """
    course, engine = subject.course, ledger_of(subject).done
    stops: set[object] = set()
    done: dict[object, int] = {}
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            stops.clear()
            done.clear()
        elif kind is StopRequested:
            stops.add(entry.cause)
        elif kind is Hook:
            on_failure = course.settings.hook_isolation.on_failure
            done.update(dict.fromkeys(_consequences(entry, on_failure), engine.rounds))
        else:
            told, before = type(entry.signal), engine.rounds - 1
            cause, name = _CAUSES.get(told, (None, ""))
            if cause is not None and cause not in stops and done.get(cause) != before:
                return f"a signal reports {name} that did not occur"
            last = engine.rounds if told is _REPLIED else before  # a reply begins no round
            forbids = done.get("before_llm_call") == last and told in _REPLIES
            if (forbids or done.get("hook") == last) and told in _GOING_ON:
                return f"a hook ended the step, and the machine receives {NAMES[told]}"
            if told is signals.ToolsReturned and type(engine.pending) is effects.RunTools:
                was = done.get("before_tool_call") == before
                if entry.signal.blocked is not was and StopCause.ABORT not in stops:
                    blocked = "blocked" if was else "not blocked"
                    return f"a call was {blocked}, and the signal states the opposite"


_CAUSES: Mapping[type[Signal], tuple[object, str]] = {
    signals.AbortRequested: (StopCause.ABORT, "an abort"),
    signals.WallClockExpired: (StopCause.WALL_CLOCK, "a timeout"),
    signals.HookFailed: ("hook", "a failed hook that ends the run"),
    signals.CallBlocked: ("before_llm_call", "a blocked model call"),
}


def _consequences(hook: Hook, on_failure: str) -> tuple[str, ...]:
    """Return the point that a hook has blocked, or `hook` if its failure ends the run."""
    if hook.result == "blocked":
        return (hook.point,)
    if hook.result == "ok":
        return ()
    if on_failure == "fail-run":
        return ("hook",)
    return (hook.point,) if on_failure == "block-call" else ()


@invariant(
    "A run ends once, with the outcome, the limit and the message of the last state of its "
    "machine.",
    "BUGS.md E8, D19",
    sees=[Prompt, signals.Began, Finished, Ended],
    needs=[Need.MACHINE],
    begins=[Finished, Ended],
)
def end_matches_machine(subject: Subject) -> Watch:
    """After the last state, only the answers to open calls follow."""
    course = subject.course
    finished: Finished | None = None
    while True:
        entry = yield
        if type(entry) is Prompt:
            finished = None
        elif type(entry) is Transition:
            if finished is not None and not course.noted:
                return f"a finished machine receives {NAMES[type(entry.signal)]}"
            state = course.run.state
            finished = state if type(state) is Finished else None
        else:
            wrong = _wrong_end(entry, finished, subject)
            if wrong:
                return wrong


def _wrong_end(entry: Ended, finished: Finished | None, subject: Subject) -> str:
    course, done = subject.course, ledger_of(subject).done
    if finished is None:
        return f"the run ends as {entry.outcome}, but its machine has not finished"
    if (entry.outcome, entry.limit) != (finished.outcome, finished.limit):
        said = f"{finished.outcome} {finished.limit}".strip()
        return f"the run ends as {entry.outcome} {entry.limit}".strip() + f", its machine as {said}"
    for kind in done.now:
        return f"{LEAVES[kind][1]} came after the machine had finished"
    end = course.effect
    if type(end) is not effects.EndRun:
        return ""
    return _wrong_message(entry, end, subject)


def _wrong_message(entry: Ended, end: effects.EndRun, subject: Subject) -> str:
    course, reply = subject.course, subject.facts.reply
    words = "" if reply is None else reply.text
    told = end.message or entry.outcome.message(errors=course.run.error_count, cause="\0")
    if entry.outcome is Outcome.COMPLETED or end.text_first:
        told = words or (told if end.text_first else "")
    first, names_cause, last = told.partition("\0")
    if names_cause and entry.message.startswith(first) and entry.message.endswith(last):
        return ""
    if entry.message == told:
        return ""
    return f"the message of the run is {entry.message[:60]!r}, not {told[:60]!r}"
