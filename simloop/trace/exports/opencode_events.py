"""The events of document 004, derived from a trace: `session.status` and `session.error`.

Status is busy, retry (which try, why, and when the next one comes) or idle (document 004 section
2.3.2). Busy comes at each turn of the outer loop and when a wait is over; an error once, when it
ends the run; idle as the last event of every run that has an outcome, because the clean-up after
the loop runs on every exit. A run that an error of the test ends, such as a script that is used up,
has no outcome, and its trace no end.

The real program (1.18.34) emits idle twice after an error: where it catches it, and after the loop.
It does not catch the error of a content filter, which has one idle, nor an abort in the wait before
a retry, which has no error and one idle.
Not modelled of it: the update of the message between the two; busy before each try, and an error
for an overflow that is then compacted away; its own words for some failures in a retry, such as
"Provider is overloaded" for a message with "Overloaded".

Not here: the parts of a message. The rule to keep: as in pi_events.py, no line of the trace is
looked at ahead.
"""

from msgspec import UNSET, Struct

from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.signals import BackoffElapsed, Began, ContextCompacted
from simloop.messages import NO_ANSWER, Fault, Outcome
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.exports.event import Event


class Busy(Struct, frozen=True, tag_field="type", tag="busy"):
    """The loop works."""


class Retry(Struct, frozen=True, tag_field="type", tag="retry"):
    """A call failed; the next try, after `attempt` failures of this step, comes at `next_ns`."""

    attempt: int
    message: str
    next_ns: int


class Idle(Struct, frozen=True, tag_field="type", tag="idle"):
    """The run is over."""


class NamedError(Struct, frozen=True):
    """An error by the real program's name for it, such as APIError or MessageAbortedError."""

    name: str
    message: str


class StatusEvent(Event, frozen=True, tag="session.status"):
    """The session has a new status."""

    status: Busy | Retry | Idle


class SessionErrorEvent(Event, frozen=True, tag="session.error"):
    """An error ended the run."""

    error: NamedError


# A forbidden call and the last step end a run without an error (document 004, sections 1 and 2).
_NO_ERROR = frozenset({Outcome.COMPLETED, Outcome.MAX_STEPS, Outcome.BLOCKED})
_NAMES = {
    Outcome.ABORTED: "MessageAbortedError",
    Outcome.CONTEXT_LIMIT: "ContextOverflowError",
    Outcome.CONTENT_FILTERED: "ContentFilterError",
}


class OpencodeEvents:
    """The view. After an error that ends a run it emits idle `idles` times."""

    names: tuple[str, ...] = ("session.status", "session.error")

    def __init__(self, idles: int = 1) -> None:
        self._idles = idles
        self._arrived: Fault | None = None
        self._failed: Fault | None = None  # the failure of the newest try
        self._error_class = ErrorClass.UNKNOWN
        self._state = self._left = ""  # the state, and the one before it

    def feed(self, line: AnyEntry) -> list[Event]:
        """Return the events of the next line of the trace, in order."""
        match line:
            case entries.Transition():
                return self._move(line)
            case entries.Error(fault=fault):
                self._arrived = fault  # perhaps of a summary, which is no try
            case entries.Classified():
                self._failed = line.fault or self._arrived
                self._error_class = line.error_class
            case entries.Backoff():
                return [self._retry(line)]
            case entries.Ended():
                return self._end(line)
            case _:
                pass
        return []

    def _move(self, line: entries.Transition) -> list[Event]:
        kind = type(line.signal)
        self._left, self._state = self._state, line.state
        if kind is Began:
            self._failed = None
        if line.state in {"finished", "halting"}:
            return []
        again = kind in {BackoffElapsed, ContextCompacted}
        if again:
            self._failed = None
        busy = line.state == "turning" or kind is Began or again
        return [StatusEvent(at_ns=line.at_ns, status=Busy())] if busy else []

    def _retry(self, line: entries.Backoff) -> Event:
        message = self._failed.message if self._failed is not None else str(line.error_class)
        retry = Retry(line.failures, message, line.at_ns + line.delay_ns)
        return StatusEvent(at_ns=line.at_ns, status=retry)

    def _end(self, line: entries.Ended) -> list[Event]:
        idle = StatusEvent(at_ns=line.at_ns, status=Idle())
        # A loop that makes one more call after an abort in the wait comes from `halting`.
        uncaught = line.outcome is Outcome.ABORTED and self._left == "backing-off"
        if line.outcome in _NO_ERROR or uncaught:
            return [idle]
        error = NamedError(_NAMES.get(line.outcome) or self._name(), line.message)
        idles = 1 if line.outcome is Outcome.CONTENT_FILTERED else self._idles
        return [SessionErrorEvent(at_ns=line.at_ns, error=error), *[idle] * idles]

    def _name(self) -> str:
        """Return the name of a failed call, or empty for other errors such as a failed hook."""
        fault = self._failed
        if fault is None:
            return "UnknownError"
        if self._error_class is ErrorClass.OVERFLOW:
            return "ContextOverflowError"
        lost = fault.code in NO_ANSWER and not fault.code_is_type
        return "APIError" if lost or fault.status is not UNSET else "UnknownError"
