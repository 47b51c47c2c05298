"""One scenario on several loop designs: one row for each.

Each loop runs once, a file is read once, and a scenario that a loop cannot express gives a row with
the reason, never a missing row.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from simloop.check.trial import Until, Verdict, verify
from simloop.errors import CheckFailed, ErrorDetails, ScenarioError, SimloopError
from simloop.runs.options import RunOptions
from simloop.runs.result import Mismatch, calls_of
from simloop.scenario.designs import DESIGNS
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.looptrace import LoopTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of a scenario on one loop.

    `cannot` says why the loop cannot express it; all else is then empty. `outcome` is empty if
    `error`, the name of an error, replaced it; an unfinished script leaves both. `earlier` are the
    outcomes of the prompts before the last one. Retries are `model_calls` of their own; requests
    for a summary are no turns of the loop and are counted apart, as `summaries`. Counts and time
    are None if nothing was run. `failures` are the expectations for that loop that do not hold, and
    the errors that it does not expect; `mismatches` and `errors` have them as data. `verdict` may
    be dropped: a trace can be long, and the other values do not need it.
    """

    loop: str
    cannot: str = ""
    outcome: str = ""
    earlier: tuple[str, ...] = ()
    error: str = ""
    model_calls: int | None = None
    summaries: int | None = None
    tool_runs: int | None = None
    elapsed_ns: int | None = None
    text: str = ""
    failures: tuple[str, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    errors: tuple[ErrorDetails, ...] = ()
    reproduce: str = ""
    exit_code: int = 0
    verdict: Verdict | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, loop: str, verdict: Verdict) -> Self:
        if verdict.cannot:
            return cls(loop=loop, cannot=verdict.cannot, errors=_details(verdict), verdict=verdict)
        trace = verdict.trace
        footer = trace.footer if trace else None
        outcomes = tuple(map(str, trace.outcomes if trace else ()))
        counts = None if trace is None else _purposes(trace)
        ended_by = verdict.worst or verdict.ended_by
        return cls(
            loop=loop,
            outcome=outcomes[-1] if footer else "",
            earlier=outcomes[:-1] if footer else outcomes,
            error="" if ended_by is None else type(ended_by).__name__,
            model_calls=None if counts is None else counts["main"],
            summaries=None if counts is None else counts["summary"],
            tool_runs=None if trace is None else len(calls_of(trace)),
            elapsed_ns=None if trace is None else trace.elapsed_ns,
            text=trace.ends[-1].text if trace and footer else "",
            failures=(*verdict.failures, *map(_told, verdict.errors)),
            mismatches=verdict.mismatches,
            errors=_details(verdict),
            reproduce=_reproduce(verdict),
            exit_code=verdict.exit_code,
            verdict=verdict,
        )

    @property
    def ok(self) -> bool | None:
        """Return whether the run went as expected of that loop; None if it cannot be expressed."""
        return None if self.cannot else not self.exit_code

    @property
    def ending(self) -> str:
        """Return the outcome, or the name of the error in its place, or `cannot`."""
        return "cannot" if self.cannot else self.outcome or self.error

    @property
    def endings(self) -> str:
        return ", ".join((*self.earlier, self.ending))

    def went_as(self, other: "Row") -> bool:
        return _way(self) == _way(other)


def compare(
    source: Scenario | Path,
    loops: Sequence[str] | Mapping[str, RunOptions] = tuple(DESIGNS),
    *,
    seed: int | None = None,
) -> list[Row]:
    """Run a scenario once on each loop, in that order; a mapping gives each loop its options.

    Raises nothing for errors of the scenario or a loop: see `Row.failures`. A file that cannot be
    read gives an equal error in each row.
    """
    try:
        scenario = load_scenario(source) if isinstance(source, Path) else source
    except ScenarioError as error:
        return unread(error, tuple(loops))
    options: Mapping[str, RunOptions] = loops if isinstance(loops, Mapping) else {}
    rows = []
    for loop in loops:
        given: RunOptions = {**options.get(loop, {}), "loop": loop, "seed": seed}
        rows.append(Row.of(loop, verify(scenario, Until.END, **given)))
    return rows


def unread(error: SimloopError, loops: Sequence[str]) -> list[Row]:
    """Return the rows of a scenario that cannot be read because of this error."""
    verdict = Verdict(errors=[error])
    return [Row.of(loop, verdict) for loop in loops]


def _way(row: Row) -> tuple[object, ...]:
    ending = (row.cannot, row.earlier, row.outcome, row.error, row.text)
    return (*ending, row.model_calls, row.summaries, row.tool_runs, row.elapsed_ns)


def _purposes(trace: LoopTrace) -> Counter[str]:
    return Counter(each.purpose for each in trace.entries if type(each) is entries.Request)


def _details(verdict: Verdict) -> tuple[ErrorDetails, ...]:
    return tuple(details for error in verdict.errors for details in ErrorDetails.of(error))


def _told(error: SimloopError) -> str:
    said = error.finding() if isinstance(error, CheckFailed) else str(error)
    return f"{type(error).__name__}: {said}"


def _reproduce(verdict: Verdict) -> str:
    if verdict.failures and verdict.result:
        return verdict.result.reproduce
    found = (error.reproduce for error in verdict.errors if isinstance(error, CheckFailed))
    return next(found, "")
