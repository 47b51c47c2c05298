"""What a run came to, and whether that is what its scenario expects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from simloop.errors import ExpectationFailed, ScenarioError
from simloop.messages import Message, Outcome, Request
from simloop.runs.account import account
from simloop.runs.mismatch import Mismatch, mismatches
from simloop.scenario import loader
from simloop.trace import views
from simloop.trace.looptrace import LoopTrace
from simloop.world.user_errors import UserError


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
    empty. `elapsed_ns` is virtual time. `mismatches` are the expectations that do not hold.
    After several prompts all this is of the last one, but for the time, which is that of all;
    `outcomes` has one for each. `files` are the files in memory at the end, `left_over` the places
    of replies that nobody asked for, and of moments that never came. `exceptions` are those that
    the caller's own functions raised, with their tracebacks; a trace does not hold them.
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
    mismatches: tuple[Mismatch, ...] = ()
    exceptions: tuple[UserError, ...] = ()
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
    def failures(self) -> tuple[str, ...]:
        """The expectations of the scenario that do not hold, one line each."""
        return tuple(map(str, self.mismatches))

    @property
    def ok(self) -> bool:
        """Whether everything that the scenario expects is so."""
        return not self.mismatches

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
        return self._judged(mismatches(loader.expected(expected), self))

    def check(self) -> Self:
        """Return the result. Raises ExpectationFailed if it is not what the scenario expects."""
        return self._judged(self.mismatches)

    def _judged(self, found: tuple[Mismatch, ...]) -> Self:
        if found:
            error = ExpectationFailed("\n".join(map(str, found)), reproduce=self.reproduce)
            error.account = account(self.trace, found, self.exceptions)
            raise error
        return self
