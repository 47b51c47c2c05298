"""`simloop step`: step through a run in the terminal, forwards and backwards.

Not here: the replayer, which is a package of its own (simloop_tui). The rule to keep: what prevents
the start of the replayer is one message on stderr, before the terminal is touched.
"""

import shlex
import sys
from importlib.util import find_spec
from typing import Any

import click

from simloop.cli.completion import scenarios_and_files
from simloop.cli.options import run_settings
from simloop.errors import ScenarioError
from simloop.runs.options import RunOptions
from simloop.scenario.catalog import find
from simloop.scenario.expectations import Expectations

_CRASHED = 3  # Textual has printed the traceback


@click.command("step")
@run_settings
@click.argument("named", metavar="TRACE|SCENARIO|NAME", shell_complete=scenarios_and_files)
def command(
    *,
    named: str,
    seed: int | None,
    loop: str | None,
    judge_as: str,
    loop_options: dict[str, Any],
    expect_on: Expectations | None,
) -> int:
    """Step through a run in the terminal, forwards and backwards.

    TRACE is a file that `simloop record` or `simloop run --trace` has written. A SCENARIO file, or
    the NAME of a bundled scenario, is run first. The keys are in the last line, and behind `?`.
    """
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise ScenarioError("the replayer needs a terminal", hint=f"use: {_as_text(named)}")
    if find_spec("textual") is None:
        raise ScenarioError("the replayer needs textual", hint="pip install 'agent-simloop[tui]'")
    given: RunOptions = {
        "seed": seed, "loop": loop, "judge_as": judge_as, "loop_options": loop_options,
        "expect_on": expect_on,
    }  # fmt: skip
    return _step(named, given)


def _step(named: str, given: RunOptions) -> int:
    # They bring Textual along, which no other verb needs, and which need not be installed.
    from simloop_tui.app import StepApp  # noqa: PLC0415
    from simloop_tui.opening import is_trace, opened_scenario  # noqa: PLC0415
    from simloop_tui.screens.loading import LoadingScreen  # noqa: PLC0415
    from simloop_tui.screens.replay import ReplayScreen  # noqa: PLC0415
    from simloop_tui.session import Session  # noqa: PLC0415

    loop = given.get("loop")
    if is_trace(named):
        app = StepApp(LoadingScreen(named, loop if isinstance(loop, str) else None))
    else:  # run before the terminal is touched, so that its errors are told as those of `run`
        app = StepApp(ReplayScreen(Session(opened_scenario(find(named), **given), named)))
    error = app.run()
    if error is not None:
        raise error
    return _CRASHED if app.return_code else 0


def _as_text(named: str) -> str:
    """Return the command that prints the same facts as text."""
    if named.endswith(".jsonl"):
        return f"simloop show {shlex.quote(named)} --at 0"
    return f"simloop run {shlex.quote(named)} --trace run.jsonl && simloop show run.jsonl --at 0"
