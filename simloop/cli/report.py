"""The result of a scenario that a verb has run, as text, and as JSON that names every key."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict
from pydantic import BaseModel

from simloop.check.trial import Verdict
from simloop.cli.options import Target
from simloop.cli.terminal import explain, json_text, out, out_lines, padded, plain, verdict_word
from simloop.errors import AgentNotMade, CheckFailed, ErrorDetails, ScenarioError, SimloopError
from simloop.kernel.durations import format_duration
from simloop.runs.result import Mismatch, Result, printed, refused_lines
from simloop.trace import entries
from simloop.trace.looptrace import LoopTrace
from simloop.virtual.border.output import NAMES

FORMAT_VERSION = 3

Status: TypeAlias = Literal["ok", "failed", "error", "cannot"]
_STATUS: tuple[Status, ...] = ("ok", "failed", "error")
_WORDS = ("ok", "FAILED", "ERROR")
_WIDTH = max(len(word) for word in _WORDS)
_OF_AN_END = ("outcome", "limit", "text", "message", "elapsed_ns", "counters", "exit")


class Report(Struct):
    """One scenario and its verdict. It has not failed if `loop`, if given, cannot express it."""

    name: str
    path: Path | None = None
    verdict: Verdict = field(default_factory=Verdict)
    loop: str = ""

    @classmethod
    def on(cls, target: Target) -> Self:
        """Return a report on a target to run; it is final if the target is invalid."""
        if isinstance(target.file, ScenarioError):
            return cls(target.name, verdict=Verdict(errors=[target.file]))
        return cls(target.name, target.file)

    @property
    def cannot(self) -> str:
        return self.verdict.cannot if self.loop else ""

    @property
    def exit_code(self) -> int:
        return 0 if self.cannot else self.verdict.exit_code

    @property
    def elapsed_ns(self) -> int:
        return self.verdict.trace.elapsed_ns if self.verdict.trace else 0

    def lines(self, name_width: int = 0) -> Iterator[str]:
        """Yield one line, then the expectations that do not hold, and what a failed run printed."""
        if self.cannot:
            yield f"cannot  {padded(plain(self.name), name_width)}  {plain(self.cannot)}"
            return
        yield verdict_line(word_for(self.exit_code), self.name, self._ending(), name_width)
        verdict = self.verdict
        if self.exit_code and verdict.scenario is not None and verdict.scenario.about:
            yield from indented(iter([f"world: {verdict.scenario.about}"]))
        yield from indented(line for each in verdict.mismatches for line in each.lines())
        run = verdict.result or verdict.ended_by  # an error that is expected leaves no result
        if verdict.failures and isinstance(run, Result | CheckFailed):
            yield from indented(iter([f"reproduce: {run.reproduce}"]))
        if self.exit_code:
            yield from indented(printed(verdict.output))
        if verdict.trace is not None:
            yield from indented(refused_lines(verdict.trace))

    def explain(self) -> None:
        for error in () if self.cannot else self.verdict.errors:
            explain(error)

    def _ending(self) -> str:
        scenario, trace = self.verdict.scenario, self.verdict.trace
        if scenario is None or trace is None:
            return "not run"
        requests = sum(isinstance(entry, entries.Request) for entry in trace.entries)
        ended = f"{', '.join(trace.outcomes)} in" if trace.footer else "no outcome after"
        asked = f"{requests} request{'s' * (requests != 1)}"
        differs = ", not the same when run again" if self.verdict.deterministic is False else ""
        return f"{ended} {format_duration(self.elapsed_ns)} (virtual), {asked}{differs}"

    def json_format(self) -> dict[str, Any]:
        """Return one of `runs`, with null for an unknown value."""
        verdict = self.verdict
        header = verdict.trace.header if verdict.trace else None
        return {
            "name": self.name, "status": status_for(self.exit_code, cannot=bool(verdict.cannot)),
            "path": str(self.path) if self.path else None,
            "title": verdict.scenario.title if verdict.scenario else None,
            "loop": header.loop if header else None, "seed": header.seed if header else None,
            **_ended(verdict.trace),
            "outcomes": list(verdict.trace.outcomes if verdict.trace else ()),
            "failures": failures_of(verdict.mismatches), "errors": errors_of(verdict.errors),
            **{name: verdict.output.text(name) for name in NAMES},
        }  # fmt: skip


def _ended(trace: LoopTrace | None) -> dict[str, Any]:
    if trace is None or trace.footer is None:
        return dict.fromkeys(_OF_AN_END)
    end = trace.ends[-1]
    found = {name: getattr(end, name, None) for name in _OF_AN_END}
    counters = None if end.counters is None else asdict(end.counters)
    return {**found, "elapsed_ns": trace.footer.elapsed_ns, "counters": counters}


R = TypeVar("R", bound=Report)


def made(reports: Iterable[R], loop: object) -> Iterator[R]:
    """Yield the reports of runs on `loop`, which the command line names, unless it is None."""
    for report in reports:
        if loop is not None:
            check_made(report.verdict)
        yield report


def check_made(verdict: Verdict) -> None:
    """Raise the error of an agent that cannot be made: it would be the error of every run."""
    for error in verdict.errors:
        if isinstance(error, AgentNotMade):
            error.path = None  # it is not that of one scenario
            raise error


def print_each(reports: Iterable[Report], name_width: int, *, counted: bool = True) -> int:
    """Print a verdict as soon as each has ended, then a count. Return the worst exit code."""
    tally = Tally()
    for report in reports:
        tally.add(report.exit_code)
        out_lines(report.lines(name_width))
        report.explain()
    if counted:
        out(str(tally))
    return tally.exit_code


def print_json(reports: Iterable[Report]) -> int:
    """Print one object when all have ended, and each error to stderr when it occurs."""
    documents, exit_code = [], 0
    for report in reports:
        documents.append(report.json_format())
        exit_code = max(exit_code, report.exit_code)
        report.explain()
    print_document(exit_code, runs=documents)
    return exit_code


def print_document(exit_code: int, **parts: Any) -> None:
    """Print the results of a verb as one object."""
    document = {"format_version": FORMAT_VERSION, "status": status_for(exit_code), **parts}
    out(json_text(document, indent=2))


def word_for(exit_code: int) -> str:
    """Return the word that describes this exit code."""
    return _WORDS[min(exit_code, 2)]


def verdict_line(word: str, name: str, ending: str, name_width: int = 0) -> str:
    """Return a line like `ok      retry/rate-limit  completed in 5s`, safe to print."""
    return f"{verdict_word(word, _WIDTH)}  {padded(plain(name), name_width)}  {plain(ending)}"


def indented(lines: Iterator[str]) -> Iterator[str]:
    """Return the lines below a verdict, indented and safe to print."""
    return (f"{'':{_WIDTH}}  {plain(line)}" for line in lines)


class Tally(Struct):
    """The number of scenarios by result."""

    words: Counter[str] = field(default_factory=Counter)
    exit_code: int = 0

    def add(self, exit_code: int, *, cannot: bool = False) -> None:
        """Count one more report; a scenario that a loop cannot express has not passed."""
        self.words["cannot" if cannot else word_for(exit_code)] += 1
        self.exit_code = max(self.exit_code, exit_code)

    def __str__(self) -> str:
        passed, failed, errors = (self.words[word] for word in _WORDS)
        others = {"failed": failed, f"error{'s' * (errors != 1)}": errors}
        others["cannot be expressed"] = self.words["cannot"]
        parts = [f"{count} {what}" for what, count in others.items() if count]
        return ", ".join([f"{passed} passed", *parts])


def status_for(exit_code: int, *, cannot: bool = False) -> Status:
    """Return `failed` for a wrong loop, `error` for a wrong file, call or simloop, or `cannot`."""
    return "cannot" if cannot else _STATUS[min(exit_code, 2)]


def failures_of(mismatches: Iterable[Mismatch]) -> list[dict[str, Any]]:
    """Return the expectations that do not hold: `key`, `expected`, `got`, `seq`, `message`."""
    return [
        {"key": f"expect.{each.key}", "expected": _plain(each.expected), "got": _plain(each.got),
         "seq": each.seq, "message": str(each)}
        for each in mismatches
    ]  # fmt: skip


def errors_of(errors: Iterable[SimloopError]) -> list[dict[str, Any]]:
    """Return one object for each mistake: its type, message and place, or null."""
    return [dataclasses.asdict(details) for error in errors for details in ErrorDetails.of(error)]


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return value
