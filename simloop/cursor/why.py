"""Why a run did what it did: the reason, rule, policy or limit that decided."""

from collections.abc import Callable, Iterator
from typing import Any

from simloop.cursor.position import Position
from simloop.cursor.rows import counted
from simloop.kernel import signals
from simloop.kernel.names import describe
from simloop.kernel.retry import ExponentialBackoff
from simloop.kernel.states import BackingOff
from simloop.trace import entries
from simloop.trace.kinds import KINDS, clock
from simloop.virtual.clock.timeouts import NS_PER_MS


def why(position: Position) -> Iterator[str]:
    """Yield the sentences that say why the run is where it is, the nearest reason first."""
    yield from dict.fromkeys(_sentences(position))  # an end and its transition share reasons


def _sentences(position: Position) -> Iterator[str]:
    recording, move = position.recording, position.move
    is_last = position.place == len(recording.entries) - 1
    for each in recording.findings:
        if each.seq == position.place or is_last:
            yield from each.sentence(position.place).splitlines()
    yield from _of_entry(position)
    if move is not None and move.place != position.place:
        yield from _of_entry(Position(recording, move.place))


def _of_entry(position: Position) -> Iterator[str]:
    entry = position.entry
    if (decided := _DECIDED.get(type(entry))) is not None:
        yield from decided(position, entry)
    elif reason := KINDS[type(entry)].reason(entry):
        yield reason


def _of_move(position: Position, entry: entries.Transition) -> Iterator[str]:
    signal = entry.signal
    move = position.move
    before = "ready" if move is None else move.before
    yield f"On `{describe(signal)}` the machine goes from `{before}` to `{entry.state}`."
    match signal:
        case signals.ContextMeasured():
            yield from _of_size(position, over=signal.over)
        case signals.ModelFailed():
            yield from _of_failure(position)
        case signals.ModelReplied() | signals.StepClosed():
            yield from _of_finish(position)
        case signals.ContextCompacted(shrunk=shrunk):
            yield f"The compaction has made the context {'' if shrunk else 'no '}shorter."


def _of_size(position: Position, *, over: bool) -> Iterator[str]:
    if (settings := position.recording.settings) is None:
        return
    policy = settings.compaction
    if settings.context is not None:
        yield "The scenario decides the size of the context."
    elif policy.max_messages is not None:
        yield f"The context is compacted when it has more than {policy.max_messages} messages."
    else:
        part = f"{policy.trigger_percent} % of the window of {policy.window:,}"
        trigger = f"the trigger of {policy.trigger:,} tokens ({part})"
        if over:
            yield f"The context has reached {trigger}."
        else:
            yield f"The context is below {trigger}, or no message may be removed."


def _of_finish(position: Position) -> Iterator[str]:
    if (finish := position.newest(entries.Finish)) is None:
        return
    raw = f" (the provider says {finish.raw!r})" if finish.raw not in ("", finish.reason) else ""
    yield f"The newest reply ended with the finish reason {finish.reason}{raw}."
    yield from _at_limit(position, "total_steps")


def _of_failure(position: Position) -> Iterator[str]:
    if (judged := position.newest(entries.Classified)) is not None:
        again = "may be retried" if judged.retryable else "is not retried"
        yield f"The retry policy calls the failure {judged.error_class}, which {again}."
        machine = position.recording.machine
        if judged.retryable and machine is not None and BackingOff not in machine.legal:
            yield "This loop never retries a failed model call."
    yield from _at_limit(position, "error_count")


def _at_limit(position: Position, name: str) -> Iterator[str]:
    for counter in position.counters:
        if counter.name == name and counter.limit is not None and counter.value >= counter.limit:
            yield f"{counter.name} is {counter.value}, and its limit is {counter.limit}."


def _of_backoff(position: Position, entry: entries.Backoff) -> Iterator[str]:
    limits, policy = position.recording.limits, position.recording.retry
    most = "" if limits is None else f" of {limits.max_error_count}"
    how = ""
    if entry.retry_after:
        how = ", as Retry-After says"
    elif isinstance(policy, ExponentialBackoff):
        bounds_ms = policy.initial_delay_ms, policy.max_delay_ms
        first, longest = (clock(each_ms * NS_PER_MS) for each_ms in bounds_ms)
        jitter = f", less up to {policy.jitter:.0%} of jitter" if policy.jitter else ""
        how = f": {first} x 2^{entry.failures - 1}, at most {longest}{jitter}"
    yield f"Failure {entry.failures}{most}: the wait is {clock(entry.delay_ns)}{how}."


def _of_end(position: Position, entry: entries.Ended) -> Iterator[str]:
    limit = f" because of the limit {entry.limit}" if entry.limit else ""
    yield f"The run ends as {entry.outcome}{limit}."
    if (machine := position.recording.machine) is not None and entry.limit in machine.bounds:
        yield from _at_limit(position, machine.bounds[entry.limit].counter)
    if (stop := position.newest(entries.StopRequested)) is not None:
        yield KINDS[entries.StopRequested].reason(stop)


def _of_compaction(position: Position, entry: entries.Compaction) -> Iterator[str]:
    if entry.forced:
        yield "The compaction was forced: the reply was cut by its length, or the context too long."
    else:
        yield from _of_size(position, over=True)
    if entry.strategy:
        sizes = f"{entry.tokens_before:,} tokens became {entry.tokens_after:,}"
        yield f"The context has {counted(entry.messages_removed, 'message')} fewer: {sizes}."
    else:
        yield "It gained nothing."


def _of_hook(position: Position, entry: entries.Hook) -> Iterator[str]:
    settings = position.recording.settings
    if entry.result == "blocked":
        yield f"The hook {entry.hook} blocked the call: {entry.detail}"
    elif entry.result != "ok" and settings is not None:
        policy = settings.hook_isolation
        yield f"The hook {entry.hook} {entry.result}; the isolation policy is {policy.on_failure}."


_DECIDED: dict[type, Callable[[Position, Any], Iterator[str]]] = {
    entries.Transition: _of_move, entries.Backoff: _of_backoff,
    entries.Classified: lambda position, _: _of_failure(position),
    entries.Error: lambda position, _: _of_failure(position),
    entries.Finish: lambda position, _: _of_finish(position), entries.Ended: _of_end,
    entries.Compaction: _of_compaction, entries.Hook: _of_hook,
}  # fmt: skip
"""The kinds of entries whose reasons need more than the entry; trace/kinds.py has the others."""
