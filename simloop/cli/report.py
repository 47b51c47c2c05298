"""What became of a scenario that `run` was asked for, as text and as JSON.

Not here: running it. The rules to keep: `json_format` names every key, so that a consumer can rely
on it, and `FORMAT_VERSION` grows when a key changes its meaning or goes.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from simloop.cli.terminal import plain, verdict_word
from simloop.errors import SimloopError
from simloop.scenario.durations import format_duration
from simloop.scenario.result import Counters, Result
from simloop.scenario.schema import Expect, Scenario
from simloop.trace import entries
from simloop.trace.entries import Footer
from simloop.trace.looptrace import LoopTrace

FORMAT_VERSION = 1
_WORDS = ("ok", "FAILED", "ERROR")
_WIDTH = max(len(word) for word in _WORDS)


@dataclass(slots=True)
class Report:
    """One scenario and how far it came: found, read, run, judged.

    `errors` are what kept it from the next stage, and a trace that could not be written.
    """

    name: str
    path: Path | None = None
    scenario: Scenario | None = None
    trace: LoopTrace | None = None
    result: Result | None = None
    errors: list[SimloopError] = field(default_factory=list)

    @property
    def failures(self) -> tuple[str, ...]:
        """The expectations that do not hold."""
        return self.result.failures if self.result else ()

    @property
    def exit_code(self) -> int:
        """The worst of what happened."""
        return max([1 if self.failures else 0, *(error.exit_code for error in self.errors)])

    @property
    def word(self) -> str:
        """`ok`, `FAILED` (the loop is wrong) or `ERROR` (the file, the call or simloop is)."""
        return _WORDS[min(self.exit_code, 2)]

    def verdict(self, name_width: int = 0) -> Iterator[str]:
        """One line, and below it one for each expectation that does not hold."""
        word = verdict_word(self.word, _WIDTH)
        yield f"{word}  {plain(self.name).ljust(name_width)}  {self._ending()}"
        if self.result and self.failures:
            indent = " " * (_WIDTH + 2)
            for line in (*self.failures, f"reproduce: {self.result.reproduce}"):
                yield f"{indent}{plain(line)}"

    def _ending(self) -> str:
        if self.scenario is None or self.trace is None:
            return "not run"
        kinds = self.trace.entries
        requests = sum(isinstance(entry, entries.Request) for entry in kinds)
        footer = self.trace.footer
        last_ns = kinds[-1].at_ns if kinds else 0
        ended = f"{footer.outcome} in" if footer else "no outcome after"
        time = format_duration(footer.elapsed_ns if footer else last_ns)
        asked = f"{requests} request{'s' * (requests != 1)}"
        nothing = ", nothing was expected" if self.scenario.expect == Expect() else ""
        return f"{ended} {time} (virtual), {asked}{nothing}"

    def json_format(self) -> dict[str, Any]:
        """One of `runs`: null for what is not known; `error` only where there is one."""
        header = self.trace.header if self.trace else None
        document: dict[str, Any] = {
            "name": self.name,
            "path": str(self.path) if self.path else None,
            "title": self.scenario.title if self.scenario else None,
            "loop": header.loop if header else None,
            "seed": header.seed if header else None,
            **_ended(self.trace.footer if self.trace else None),
            "failures": list(self.failures),
        }
        if self.errors:
            worst = max(self.errors, key=lambda error: error.exit_code)
            document["error"] = {"type": type(worst).__name__, "message": str(worst)}
        return document


def _ended(footer: Footer | None) -> dict[str, Any]:
    if footer is None:
        return dict.fromkeys(("outcome", "limit", "text", "message", "elapsed_ns", "counters"))
    counters = Counters(footer.error_count, footer.total_steps, footer.compaction_attempts)
    return {
        "outcome": footer.outcome,
        "limit": footer.limit,
        "text": footer.text,
        "message": footer.message,
        "elapsed_ns": footer.elapsed_ns,
        "counters": asdict(counters),
    }


def count(words: Counter[str]) -> str:
    """The closing line, from the words of all reports: `18 passed, 1 failed, 1 error`."""
    passed, failed, errors = (words[word] for word in _WORDS)
    parts = [f"{passed} passed"]
    if failed:
        parts.append(f"{failed} failed")
    if errors:
        parts.append(f"{errors} error{'s' * (errors != 1)}")
    return ", ".join(parts)
