"""A scenario under named faults of chance, with many seeds: how often it ends in which way."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simloop.check.trial import Rules, Verdict, trial
from simloop.cli.options import Target
from simloop.cli.report import check_made, print_document
from simloop.cli.terminal import StatusLine, cells, note, out_lines, padded, plain
from simloop.cursor.recorded_run import RecordedRun
from simloop.fuzz.worlds import answering
from simloop.messages import Outcome
from simloop.page.page import page
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan, repeat
from simloop.scenario.schema import Scenario
from simloop.trace.storage import write_file
from simloop.trace.timeline import timeline
from simloop.virtual.border.seal import kept_border
from simloop.world.chance import ChanceFaults, chance_of_weather

_NO_END = "no outcome"


def play_weathers(
    target: Target, names: str, given: RunOptions, html: Path | None, *, seeds: int, form: str
) -> int:
    """Play a scenario in each weather, and print the table of the ends; a single run is shown.

    Returns 1 if a run violates an invariant, raises an error or exceeds a bound that is expected.
    """
    scenario = target.scenario()
    weathers = {name: chance_of_weather(name) for name in names.split(",")}
    begin = scenario.seed if given.get("seed") is None else given["seed"] or 0
    numbers = range(begin, begin + seeds)
    plans = {name: Plan(_weathered(scenario, each), given) for name, each in weathers.items()}
    with StatusLine(sys.stderr) as status, kept_border():
        played = [_played(name, plan, status.through(numbers)) for name, plan in plans.items()]
    rows, failing = [row for row, _ in played], [each for row, each in played if row["failed"]]
    if form == "json":
        print_document(int(bool(failing)), weathers=rows)
    else:
        if len(rows) == seeds == 1 and played[0][1].trace is not None:
            out_lines((*timeline(played[0][1].trace), ""))
        out_lines(_table(rows))
    if html is not None and not failing:
        note("no page: no run fails")
    elif html is not None and failing[0].run is not None:
        recorded = RecordedRun.of_run(failing[0].run, failing[0].run.trace, given)
        recorded.unmet = failing[0].mismatches
        write_file(html, page(recorded, html.name).encode())
        note(plain(f"written to {html}"))
    return int(bool(failing))


def _weathered(scenario: Scenario, chance: ChanceFaults) -> Scenario:
    script: dict[str, Any] = {"model": answering(scenario.model), "models": dict(scenario.models)}
    for name, party in scenario.models.items():
        script["models"][name] = party.model_copy(update={"replies": answering(party.replies)})
    return scenario.model_copy(update={"faults": chance, **script})


def _played(weather: str, plan: Plan, seeds: Iterable[int]) -> tuple[dict[str, Any], Verdict]:
    """Return the counts of a weather, and the verdict on its first run that fails, or its last."""
    ends, failed, first = Counter[str](), 0, None
    rules, shown = Rules(expectations=False), Verdict()
    for seed in seeds:
        verdict = trial(plan.fresh(), rules, seed=seed)
        check_made(verdict)
        failure, trace = verdict.failure(), verdict.trace
        ends[str(trace.outcomes[-1]) if trace and trace.footer else _NO_END] += 1
        failed += failure is not None
        shown = shown if first else verdict
        if failure is not None and first is None:
            again = repeat(plan.source, plan.given, seed, "run", "simloop.run")
            again += f" --weather {weather} --seeds 1"
            first = {"seed": seed, "name": failure.name, "text": failure.text, "reproduce": again}
    runs = {"runs": ends.total(), "outcomes": dict(ends), "failed": failed, "first": first}
    return {"weather": weather, **runs}, shown


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    met = {end for row in rows for end in row["outcomes"]}
    ends = [end for end in (*map(str, Outcome), _NO_END) if end in met]
    lines = [("weather", *ends, "FAILED", "first failing seed")]
    for row in rows:
        counts = (str(row["outcomes"].get(end, 0)) for end in ends)
        seed = str(row["first"]["seed"]) if row["first"] else "-"
        lines.append((row["weather"], *counts, str(row["failed"]), seed))
    widths = [max(map(cells, column)) for column in zip(*lines, strict=True)]
    yield from ("  ".join(map(padded, line, widths)).rstrip() for line in lines)
    for row in rows:
        if first := row["first"]:
            words = f"{row['weather']}, seed {first['seed']}: {first['name']}: {first['text']}"
            yield from ("", plain(words), f"  run it: {plain(first['reproduce'])}")
