"""What a run came to, and whether that is what its scenario expects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from simloop.errors import ExpectationFailed, ScenarioError, SimloopError
from simloop.messages import Message, Outcome, Request
from simloop.scenario import loader
from simloop.scenario.durations import format_duration
from simloop.scenario.schema import Expect
from simloop.trace import entries, views
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace


@dataclass(frozen=True, slots=True)
class Counters:
    """The machine's counters at the end of a run; what they count: kernel/machine.py, `Run`."""

    error_count: int
    total_steps: int
    compaction_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a run ended.

    `text` is the model's last words, whole or cut off; `message` is what the user is told: the text
    of a completed run, or why there is none. `limit` names the limit that ended the run, or is
    empty. `elapsed_ns` is virtual time. `failures` lists what the scenario expects and is not so.
    After several prompts all this is of the last one, but for the time, which is that of all;
    `outcomes` has one for each. `files` are the files in memory at the end, `left_over` the places
    of replies that nobody asked for, and of moments that never came.
    """

    outcome: Outcome
    outcomes: tuple[Outcome, ...]
    text: str
    message: str
    limit: str
    counters: Counters
    messages: tuple[Message, ...]
    elapsed_ns: int
    trace: LoopTrace
    files: Mapping[str, str] | None = None
    left_over: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    reproduce: str = ""

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds; `elapsed_ns` is exact."""
        return self.elapsed_ns / 1e9

    @property
    def unused(self) -> int:
        """How much of the script is left over."""
        return len(self.left_over)

    @property
    def ok(self) -> bool:
        """Whether everything that the scenario expects is so."""
        return not self.failures

    @property
    def requests(self) -> list[Request]:
        """The requests exactly as sent, summaries too."""
        return list(views.requests(self.trace.entries))

    @property
    def calls(self) -> list[views.Call]:
        """The tool calls that were run: name and arguments, in the order of the starts."""
        return list(views.calls(self.trace.entries))

    @property
    def backoffs_s(self) -> list[float]:
        """The waits before retries, in virtual seconds."""
        return [delay_ns / 1e9 for delay_ns in views.backoffs_ns(self.trace.entries)]

    @property
    def hook_log(self) -> list[views.HookRun]:
        """The hooks that ran: point, name and what they did."""
        return list(views.hook_log(self.trace.entries))

    def expect(self, **expected: Any) -> Self:
        """Check what is given, in the words of `expect` in a scenario file; return the result.

            result.expect(outcome="completed", elapsed="5.12s", calls=[{"read": {"path": "a"}}])

        Raises ExpectationFailed, one line for each that does not hold, and ScenarioError for what
        cannot be expected.
        """
        if "broken_pairs" in expected:
            hint = "write it in the scenario; simloop check and simloop_run judge it"
            raise ScenarioError("a result does not judge pairing", key="broken_pairs", hint=hint)
        found = failures(loader.expected(expected), self)
        if found:
            raise ExpectationFailed("\n".join(found), reproduce=self.reproduce)
        return self

    def check(self) -> Self:
        """Return the result. Raises ExpectationFailed if it is not what the scenario expects."""
        if self.failures:
            raise ExpectationFailed("\n".join(self.failures), reproduce=self.reproduce)
        return self


def failures(expect: Expect, result: Result) -> tuple[str, ...]:
    """One line for each expectation that does not hold: what, expected, got."""
    counters = expect.counters
    outcomes = None if expect.outcomes is None else [str(outcome) for outcome in expect.outcomes]
    pairs: list[tuple[str, Any, Any]] = [
        ("error", expect.error, "none"),
        ("outcome", expect.outcome, result.outcome),
        ("outcomes", outcomes, [str(outcome) for outcome in result.outcomes]),
        ("files", expect.files, result.files),
        ("limit", expect.limit, result.limit),
        ("text", expect.text, result.text),
        ("message", expect.message, result.message),
        ("elapsed", _written(expect.elapsed), _written(result.elapsed_ns)),
        ("counters.error_count", counters.error_count, result.counters.error_count),
        ("counters.total_steps", counters.total_steps, result.counters.total_steps),
        (
            "counters.compaction_attempts",
            counters.compaction_attempts,
            result.counters.compaction_attempts,
        ),
        ("messages", expect.messages, _roles(result.messages)),
        *_from_trace(expect, result.trace.entries),
    ]
    return (*_told(pairs), *_left_over(expect, result))


def _left_over(expect: Expect, result: Result) -> Iterator[str]:
    """As the others, and what it is that is left over."""
    for line in _told([("unused", expect.unused, result.unused)]):
        yield f"{line}: {', '.join(result.left_over)}" if result.left_over else line


def failures_of_error(
    expect: Expect, error: SimloopError, trace: LoopTrace
) -> tuple[str, ...] | None:
    """The same for a run that `error` ended, if that is the expected end; else None."""
    if expect.error != type(error).__name__:
        return None
    return _told(_from_trace(expect, trace.entries))


def _told(pairs: Iterable[tuple[str, Any, Any]]) -> tuple[str, ...]:
    return tuple(
        f"expect.{name}: expected {_shown(wanted)}, got {_shown(got)}"
        for name, wanted, got in pairs
        if wanted is not None and wanted != got
    )


def _from_trace(expect: Expect, record: list[AnyEntry]) -> Iterator[tuple[str, Any, Any]]:
    """What only the trace tells; it can be long, so it is read only if something is expected."""
    if expect.requests is not None:
        # Counted, not viewed: each view holds all that was said, so all of them are quadratic.
        sent = sum(isinstance(entry, entries.Request) for entry in record)
        yield "requests", expect.requests, sent
    if expect.tools_run is not None:
        yield "tools_run", expect.tools_run, [call.name for call in views.calls(record)]
    if expect.calls is not None:
        got = [{call.name: call.arguments} for call in views.calls(record)]
        yield "calls", expect.calls, got
    if expect.backoffs is not None:
        waited = [_written(delay_ns) for delay_ns in views.backoffs_ns(record)]
        yield "backoffs", [_written(delay_ns) for delay_ns in expect.backoffs], waited
    if expect.hooks is not None:
        yield "hooks", expect.hooks, [" ".join(run) for run in views.hook_log(record)]
    if expect.sent is not None:
        yield "sent", expect.sent, [_roles(request.messages) for request in views.requests(record)]


def _roles(messages: Sequence[Message]) -> str:
    return " ".join(str(type(message).__struct_config__.tag) for message in messages)


def _written(nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else format_duration(nanoseconds)


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Outcome) else repr(value)
