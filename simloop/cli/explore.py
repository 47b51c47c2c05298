"""`simloop explore`: visit every possible run of a loop, prove properties, show the proof."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from simloop.cli.options import Decorator, formats, loop_option, loop_options
from simloop.cli.report import print_document
from simloop.cli.terminal import StatusLine, out_lines, plain
from simloop.kernel.durations import format_duration
from simloop.kernel.limits import Limits
from simloop.kernel.names import NAMES, describe
from simloop.prove.graph import Step
from simloop.prove.proof import Proof, prove
from simloop.runs.loop import machine_for
from simloop.scenario.designs import LoopOptions

_FLAGS = {
    "max_steps": "--max-steps", "max_steps_per_round": "--max-steps-per-round",
    "max_error_count": "--max-errors", "max_compaction_attempts": "--max-compactions",
}  # fmt: skip
_SHOWN = 12  # the number of transitions of an example that the text shows; JSON has all of them


def _limit(name: str, least: int) -> Decorator:
    return click.option(_FLAGS[name], name, type=click.IntRange(least),
        default=getattr(Limits(), name), show_default=True,
        help=f"The limit `{name}`, as in a scenario; some loops do not have it.")  # fmt: skip


@click.command("explore")
@loop_option("--loop", default="reference", show_default=True,
    help="The loop design: a name, a name@version, or module:attribute for one of your own.",
)  # fmt: skip
@_limit("max_steps", 1)
@_limit("max_steps_per_round", 1)
@_limit("max_error_count", 1)
@_limit("max_compaction_attempts", 0)
@loop_options
@formats
def command(*, loop: str, loop_options: dict[str, Any], output_format: str, **given: int) -> int:
    """Visit every run that a loop can have, and prove its properties.

    The proof says whether every run ends, and how long a run can be. It lists each outcome with the
    length of the shortest run to it, the edges of the map that no run takes, and, if a run may
    never end, the shortest cycle. The exit code is 1 if a run may never end and the machine does
    not declare that (`endless`), or if the machine violates a rule of machines.
    """
    limits = Limits(**given)
    chosen = LoopOptions().joined(loop, loop_options) if loop_options else LoopOptions()
    with StatusLine(sys.stderr) as status:
        proof = prove(machine_for(loop, limits, chosen), limits, loop=loop, say=status.say)
    exit_code = 0 if proof.holds else 1
    if output_format == "json":
        print_document(exit_code, **proof_json(proof, limits))
    else:
        out_lines(plain(line) for line in proof_lines(proof, limits))
    return exit_code


def proof_lines(proof: Proof, limits: Limits) -> Iterator[str]:
    """Return the proof as text."""
    visited = f"{proof.states:,} states and {proof.transitions:,} transitions visited"
    ends = "every run ends" if proof.terminates else "not proved that every run ends, see WRONG"
    if proof.lasso is not None:
        ends = f"a run may never end{', on purpose' if proof.endless else ''}"
    yield f"{proof.loop}: {ends} ({visited})"
    yield f"limits       {', '.join(f'{name} {getattr(limits, name)}' for name in _FLAGS)}"
    yield f"bounds       {', '.join(proof.bounds) or 'none'}"
    if proof.endless:
        yield f"endless      {proof.endless}"
    if proof.undeclared:
        yield f"undeclared   {', '.join(proof.undeclared)}: no bound, so not proved to be kept"
    if proof.longest is not None:
        yield f"longest run  {proof.longest.transitions:,} transitions"
        yield f"             {proof.longest.model_calls:,} model calls"
        yield f"             {proof.longest.tool_rounds:,} tool rounds"
        backoff = format_duration(proof.longest.backoff_ns)
        asked = format_duration(proof.longest.backoff_asked_ns)
        yield f"             {backoff} of backoff, {asked} if the provider asks for it"
    for number, (state, steps) in enumerate(proof.endings.items()):
        ended = f"{state.outcome}{f' by {state.limit}' if state.limit else ''}"
        yield f"{'' if number else 'outcomes':<13}{ended} in {_count(steps)}"
    taken = proof.edges - len(proof.untaken)
    yield f"map          {taken} of {proof.edges} edges can be taken under these limits and options"
    for edge, reason in proof.untaken.items():
        before, signal, after = (NAMES[kind] for kind in edge)
        why = f" ({reason})" if reason else ""
        yield f"             not taken: {before} -> {after} on {signal}{why}"
    if proof.lasso is not None:
        prefix, cycle = proof.lasso.prefix, proof.lasso.cycle
        yield f"lasso        after {_count(prefix)}, then endlessly in {_count(cycle)}"
        yield from step_lines(prefix)
        yield "             round:"
        yield from step_lines(cycle)
    for violation in proof.violations:
        yield f"WRONG        {violation.what}"
        yield from step_lines(violation.counterexample)


def step_lines(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the last transitions of an example, one on a line."""
    if (skipped := len(steps) - _SHOWN) > 1:
        yield f"             ... {_count(steps[:skipped])} before"
        steps = steps[skipped:]
    for step in steps:
        yield f"             {describe(step.signal):<48} -> {describe(step.run.state)}"


def _count(steps: Sequence[Step]) -> str:
    return f"{len(steps):,} transition{'s' * (len(steps) != 1)}"


def proof_json(proof: Proof, limits: Limits) -> dict[str, Any]:
    """Return the keys of the proof in JSON."""
    lasso = proof.lasso
    return {
        "loop": proof.loop, "limits": {name: getattr(limits, name) for name in _FLAGS},
        "bounds": list(proof.bounds), "undeclared": list(proof.undeclared),
        "terminates": proof.terminates, "endless": proof.endless,
        "states": proof.states, "transitions": proof.transitions,
        "longest_run": None if proof.longest is None else asdict(proof.longest),
        "outcomes": [{"outcome": end.outcome, "limit": end.limit, "example": steps_json(steps)}
                     for end, steps in proof.endings.items()],
        "lasso": lasso and {"prefix": steps_json(lasso.prefix), "cycle": steps_json(lasso.cycle)},
        "edges": proof.edges,
        "untaken": [{"state": NAMES[state], "signal": NAMES[signal], "to": NAMES[to], "reason": why}
                    for (state, signal, to), why in proof.untaken.items()],
        "violations": [{"what": each.what, "counterexample": steps_json(each.counterexample)}
                       for each in proof.violations],
    }  # fmt: skip


def steps_json(steps: Iterable[Step]) -> list[dict[str, str]]:
    """Return all transitions of an example."""
    return [{"signal": describe(step.signal), "state": describe(step.run.state)} for step in steps]
