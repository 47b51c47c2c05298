"""`simloop shrink`: reduce a failing scenario to a minimal one with the same failure."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from simloop.check.replay import recorded_run
from simloop.check.trial import Failure
from simloop.cli.options import invariants_of_ones_own, run_settings, scenarios_and_files
from simloop.cli.process import signals_to_stop
from simloop.cli.terminal import StatusLine, note, out, out_lines, plain
from simloop.errors import CheckFailed, ScenarioError
from simloop.fuzz.shrink import MAX_SECONDS, Shrunk, shrink
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.scenario.catalog import SUFFIX, find
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import create, create_schema, free_path, scenario_text
from simloop.trace.codec import read_trace

_TRACE = ".jsonl"


@click.command("shrink")
@invariants_of_ones_own
@click.argument("source", metavar="SCENARIO|TRACE", shell_complete=scenarios_and_files)
@run_settings
@click.option("--out", "file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the scenario to FILE; by default to NAME.shrunk.simloop.yaml here.",
)  # fmt: skip
@click.option("--seconds", metavar="N", type=click.FloatRange(0, min_open=True),
              default=MAX_SECONDS, show_default=True,
              help="Stop after N seconds, with the smallest scenario so far.")  # fmt: skip
def command(*, source: str, given: RunOptions, file: Path | None, seconds: float) -> int:
    """Reduce a failing scenario to a minimal one with the same failure.

    SCENARIO is a file, or the name of a bundled scenario. TRACE is a file that `simloop record` or
    `simloop run --trace` has written; its scenario is reduced. A scenario fails if its run violates
    an invariant, ends with an error that it does not expect, or does not meet an expectation. The
    exit code is 1, because the reduced scenario fails too; it is 0 if the given scenario does not
    fail. Ctrl-C stops the reduction and writes the smallest scenario so far.
    """
    scenario, given = _read(source, given)
    Plan(scenario, given).loop.check()
    with signals_to_stop() as came, StatusLine(sys.stderr) as status:
        shrunk = shrink(
            scenario, given, seconds=seconds, stopped=lambda: bool(came), say=lambda at: status.say(
                f"{at.runs} runs: {at.replies} replies, {at.chars} characters"
            ),
        )  # fmt: skip
    if shrunk is None:
        out(f"{plain(source)} does not fail, so there is nothing to shrink")
        return 0
    path = _write(source, shrunk, file)
    out(scenario_text(shrunk.scenario).rstrip("\n"))
    out_lines(map(plain, _judged(shrunk.failure).split("\n")))
    before, after = _size(scenario), _size(shrunk.scenario)
    out(plain(f"reduced from {before} to {after} in {shrunk.runs} runs"))
    out(plain(f"written to {path}"))
    out(plain(f"reproduce: {_command(path)}"))
    out(plain(f"as a test: python -m pytest {shlex.quote(str(path))}"))
    if shrunk.unfinished:
        note(plain(f"the scenario may not be minimal: {shrunk.unfinished}"))
    return 128 + came[0] if came else CheckFailed.exit_code


def _read(source: str, given: RunOptions) -> tuple[Scenario, RunOptions]:
    if not source.endswith(_TRACE):
        return load_scenario(find(source)), given
    loop: Any = given.get("loop")
    try:
        scenario, recorded = recorded_run(read_trace(Path(source)), loop)
    except ScenarioError as error:
        error.path = error.path or source
        raise
    chosen: Any = {name: value for name, value in given.items() if value}
    return scenario, {**recorded, **chosen}


def _write(source: str, shrunk: Shrunk, file: Path | None) -> Path:
    stem = Path(source).name.removesuffix(SUFFIX).removesuffix(_TRACE).removesuffix(".trace")
    path = file or free_path(Path(), f"{stem}.shrunk")
    comment = f"Shrunk from {source}.\n{_judged(shrunk.failure)}\nreproduce: {_command(path)}"
    create(path, scenario_text(shrunk.scenario, comment))
    create_schema(path.parent)
    return path


def _command(path: Path) -> str:
    return f"simloop check {shlex.quote(str(path))}"


def _judged(failure: Failure) -> str:
    return f"{failure.name}: {failure.sentence}\n  {failure.text}"


def _size(scenario: Scenario) -> str:
    replies = len(scenario.model)
    chars = len(scenario_text(scenario))
    return f"{replies} {'reply' if replies == 1 else 'replies'} in {chars} characters"
