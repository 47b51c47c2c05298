"""`simloop step`: step through a run in the terminal, forwards and backwards."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from simloop.cli import options
from simloop.cursor.recorded_run import is_trace
from simloop.errors import ScenarioError, install_hint
from simloop.runs.options import RunOptions

_CRASHED = 3  # Textual has printed the traceback


@click.command("step")
@options.invariants_of_ones_own
@options.run_settings
@options.loop_option("--against",
    help="Show the run beside one of the scenario on this other loop.")  # fmt: skip
@click.argument("named", metavar="[TRACE|SCENARIO|NAME]", required=False,
                shell_complete=options.scenarios_and_files)  # fmt: skip
@click.argument("other", metavar="[OTHER]", required=False,
                shell_complete=options.scenarios_and_files)  # fmt: skip
def command(*, named: str | None, other: str | None, against: str | None, given: RunOptions) -> int:
    """Step through a run in the terminal, forwards and backwards.

    TRACE is a file that `simloop record` or `simloop run --trace` has written. A SCENARIO file, or
    the NAME of a bundled scenario, is run first. The cursor starts at the entry where the run first
    goes wrong. With OTHER, a second trace or scenario, both runs are shown side by side, with the
    cursor on the first difference. Without an argument, the traces of failed tests and the
    scenarios are listed, to open one of them. The keys are in the last line, and behind `?`.
    """
    if other is not None and against is not None:
        raise click.UsageError("--against takes one run, and not two")
    if named is None and (against or any(one not in (None, "", {}) for one in given.values())):
        raise click.UsageError("the settings of a run need a trace or a scenario")
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        hint = "use: simloop show TRACE --at 0, of a trace that `simloop run --trace` writes"
        raise ScenarioError("the replayer needs a terminal", hint=hint)
    if find_spec("textual") is None:
        raise ScenarioError("the replayer needs textual", hint=install_hint("tui"))
    return _step(named, other, against, given)


def _step(named: str | None, other: str | None, against: str | None, given: RunOptions) -> int:
    # They bring Textual along, which no other verb needs, and which need not be installed.
    from simloop_tui.app import StepApp  # noqa: PLC0415
    from simloop_tui.runs import opened, opened_against, opened_pair  # noqa: PLC0415
    from simloop_tui.screens.library import LibraryScreen, LoadingScreen, screen_of  # noqa: PLC0415

    first: Any  # a screen
    if named is None:
        first = LibraryScreen(Path())
    elif other is not None:
        first = LoadingScreen(f"{named} and {other}", lambda: opened_pair(named, other, given))
    elif against is not None:
        first = LoadingScreen(named, lambda: opened_against(named, against, given))
    elif is_trace(named):
        first = LoadingScreen(named, lambda: opened(named, given))
    else:  # run before the terminal is touched, so that its errors are told as those of `run`
        first = screen_of(opened(named, given))
    app = StepApp(first)
    if (error := app.run()) is not None:
        raise error
    return _CRASHED if app.return_code else 0
