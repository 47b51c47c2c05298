"""`simloop invariants`: the list of the invariants, with their sources."""

from collections.abc import Mapping

import click

from simloop.check.invariants.judge import all_invariants, choose
from simloop.check.invariants.subject import Subject
from simloop.cli.options import invariants_of_ones_own, loop_option
from simloop.cli.terminal import out, out_lines, plain
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.scenario.schema import Scenario


@click.command("invariants")
@invariants_of_ones_own
@loop_option("--loop",
    help="Also show the invariants that are not judged for this loop, with the reasons. NAME is a "
    "design, a version of one, or module:attribute for your own.")  # fmt: skip
def command(*, loop: str | None) -> None:
    """List the invariants: the properties that every run must have.

    `simloop check` and `simloop fuzz` judge each run by every invariant whose needs the loop meets.
    A scenario lists known violations of its loop under `violates`. Below each is its source: rows
    of scenarios/BUGS.md, the list of real bugs, or a page of docs/ in the repository.
    """
    invariants = all_invariants()
    reasons: Mapping[str, str] = {}
    if loop is not None:
        plan = Plan(Scenario(prompt="Go.", model=[]), {"loop": loop})
        reasons = choose(Subject.of(Simulation(plan)), invariants).unjudged
    for each in invariants:
        needs = f"; needs {', '.join(sorted(each.needs))}" if each.needs else ""
        lines = [f"{each.name}: {each.sentence}", f"    {each.source}{needs}"]
        lines += [f"    not judged: {reasons[each.name]}"] if each.name in reasons else []
        out_lines(map(plain, lines))
    judged = len(invariants) - len(reasons)
    count = f"{len(invariants)} invariants"
    out(count if loop is None else f"{count}, {judged} of them judged for {plain(loop)}")
