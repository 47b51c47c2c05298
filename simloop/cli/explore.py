"""`simloop explore`: visit every possible run of a loop, prove properties, and show the proof.

The command ends with 1 if a run may never end, unless the machine declares that, or if the machine
breaks a rule, so that it can guard a user's own loop in CI. The JSON of a proof names every key,
and the text states equal facts.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from pydantic import ValidationError

from simloop.check.counterexamples import (
    scenario_of_ending,
    scenario_of_lasso,
    scenario_of_violation,
)
from simloop.cli.options import Decorator, formats, loop_names, read_options
from simloop.cli.report import FORMAT_VERSION, status_for
from simloop.cli.terminal import StatusLine, note, out_exactly, out_lines, plain
from simloop.errors import ScenarioError
from simloop.kernel.checks import as_written
from simloop.kernel.durations import format_duration
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Edge, LegalMap, Machine, mermaid
from simloop.kernel.names import NAMES, describe
from simloop.kernel.states import Finished, Ready
from simloop.prove.explore import MAX_NODES, estimate
from simloop.prove.graph import Lasso, Step
from simloop.prove.proof import Longest, Proof, prove
from simloop.runs.loop import check_limits, machine_for
from simloop.scenario.catalog import SUFFIX
from simloop.scenario.designs import DESIGNS, LoopOptions
from simloop.scenario.schema import Scenario
from simloop.scenario.wording import wording
from simloop.scenario.writing import create_schema, scenario_text
from simloop.trace.storage import create_folder, write_file

_DEFAULTS = Limits()
_FLAGS = {
    "max_steps": "--max-steps",
    "max_steps_per_round": "--max-steps-per-round",
    "max_error_count": "--max-errors",
    "max_compaction_attempts": "--max-compactions",
}
_SHOWN = 12
"""The number of transitions of an example that the text shows; JSON has all of them."""


def _limit(name: str, least: int) -> Decorator:
    return click.option(
        _FLAGS[name],
        name,
        type=click.IntRange(least),
        default=getattr(_DEFAULTS, name),
        show_default=True,
        help=f"The limit `{name}`, as in a scenario; some loops do not have it.",
    )


@click.command("explore")
@click.option(
    "--loop",
    default="reference",
    show_default=True,
    metavar="NAME",
    shell_complete=loop_names,
    help="The loop design: a name, a name@version, or module:attribute for one of your own.",
)
@_limit("max_steps", 1)
@_limit("max_steps_per_round", 1)
@_limit("max_error_count", 1)
@_limit("max_compaction_attempts", 0)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the loop design, as in a scenario under `loops`; may be repeated.",
)
@click.option(
    "--through",
    default="",
    metavar="WORDS",
    help='Show the shortest lasso with a signal of these words, such as "model-replied other".',
)
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write the lasso, the shortest run to each outcome, and each counterexample to FOLDER, as "
    "scenario files.",
)
@formats("json", "mermaid")
def command(
    *,
    loop: str,
    options: tuple[str, ...],
    through: str,
    folder: Path | None,
    output_format: str,
    **limits_given: int,
) -> int:
    """Visit every run that a loop can have, and prove its properties.

    The proof says whether every run ends, and how long a run can be. It lists each outcome with the
    length of the shortest run to it, the edges of the map that no run takes, and, if a run may
    never end, the shortest cycle. The exit code is 1 if a run may never end and the machine does
    not declare that (`endless`), or if the machine violates a rule of machines.
    """
    limits = Limits(**limits_given)
    chosen = _options(loop, options)
    machine = _machine(loop, limits, chosen)
    with StatusLine(sys.stderr) as status:
        proof = prove(machine, limits, loop=loop, through=through, say=status.say)
    if output_format == "json":
        out_exactly(proof_json(proof, limits, options_of(machine)))
    elif output_format == "mermaid":
        out_exactly(proof_mermaid(proof, machine.legal))
    else:
        out_lines(plain(line) for line in proof_lines(proof, limits, chosen_in(machine)))
    if folder is not None:
        _write(folder, _scenarios(proof, limits, chosen))
    return 0 if proof.holds else 1


def _machine(loop: str, limits: Limits, options: LoopOptions) -> Machine:
    """Return the machine to explore. Raises ScenarioError for limits that it would not keep."""
    machine = machine_for(loop, limits, options)
    check_limits(loop, machine, limits)
    _check_size(loop, limits, options)
    return machine


def _check_size(loop: str, limits: Limits, options: LoopOptions) -> None:
    """Refuse limits that are higher than the defaults and would lead to too many states.

    Raises ScenarioError with the highest limit that fits, within a second: exploring until there
    are too many states takes half a minute.
    """
    if all(getattr(limits, name) <= getattr(_DEFAULTS, name) for name in _FLAGS):
        return
    estimated = estimate(lambda smaller: machine_for(loop, smaller, options), limits)
    if not estimated.limit:
        return
    flag = _FLAGS[estimated.limit]
    raise ScenarioError(
        f"under these limits there are about {estimated.states:,} states, and no more "
        f"than {MAX_NODES:,} are visited",
        key=f"{flag} {getattr(limits, estimated.limit)}",
        hint=f"lower it to about {estimated.fitting}" if estimated.fitting else "lower the limits",
    )


def options_of(machine: Machine) -> dict[str, Any]:
    """Return the options of a bundled machine; none for a user's own machine."""
    given: Any = getattr(machine, "options", None)
    return as_written(given) if _is_ours(given) else {}


def chosen_in(machine: Machine) -> dict[str, Any]:
    """Return the options that differ from those of the design without a version."""
    options = options_of(machine)
    given: Any = getattr(machine, "options", None)
    # Match by the options' class: a user's own loop may have the options of a design.
    designs = [name for name, each in DESIGNS.items() if isinstance(given, each.options)]
    usual = options_of(machine_for(designs[0], Limits())) if designs else {}
    return {name: value for name, value in options.items() if value != usual[name]}


def _is_ours(options: Any) -> bool:
    return isinstance(options, tuple(each.options for each in DESIGNS.values()))


def _options(loop: str, given: tuple[str, ...]) -> LoopOptions:
    """Return the options of `loop`. Raises ScenarioError for unknown options."""
    if not given:
        return LoopOptions()
    key, values = LoopOptions.key_of(loop), read_options(given)
    try:
        return LoopOptions.model_validate_json(json.dumps({key: values}))  # as strict as a file
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message, hint = wording(first)
        if first["type"] == "unexpected_keyword_argument":
            message = "unknown key"
            hint = f"known here: {', '.join(as_written(DESIGNS[key].options()))}"
        place = ".".join(str(part) for part in first["loc"])
        raise ScenarioError(message, key=f"--option {place}", hint=hint) from error


def _write(folder: Path, made: Iterator[tuple[str, Callable[[], Scenario]]]) -> None:
    """Write all of the files, or none if one of them exists; print what no scenario can show."""
    texts = {folder / f"{stem}{SUFFIX}": scenario_text(scenario) for stem, scenario in _shown(made)}
    for file in texts:
        if file.exists():
            hint = "choose another folder, or delete it first"
            raise ScenarioError("this file exists already", path=file, hint=hint)
    for file, text in texts.items():
        create_folder(folder)
        write_file(file, text.encode())
        note(plain(f"wrote {file}"))
    if texts:
        create_schema(folder)


def _scenarios(
    proof: Proof, limits: Limits, options: LoopOptions
) -> Iterator[tuple[str, Callable[[], Scenario]]]:
    """Yield the name of each scenario, and what makes it."""
    given: Any = {"loop": proof.loop, "limits": limits, "options": options}
    for state, steps in proof.endings.items():
        yield file_stem(state), partial(scenario_of_ending, steps, **given)
    if proof.lasso is not None:
        yield "lasso", partial(scenario_of_lasso, proof.lasso, **given)
    for number, violation in enumerate(proof.violations, start=1):
        yield f"wrong-{number}", partial(scenario_of_violation, violation, **given)


def _shown(made: Iterator[tuple[str, Callable[[], Scenario]]]) -> Iterator[tuple[str, Scenario]]:
    """Yield the scenarios that the simulator can show; print the others to stderr."""
    for stem, make in made:
        try:
            yield stem, make()
        except ScenarioError as error:
            note(plain(f"{stem} is not written: {error}"))


def proof_lines(proof: Proof, limits: Limits, options: Mapping[str, Any]) -> Iterator[str]:
    """Return the proof as text; it lists the options that are not the default."""
    visited = f"{proof.states:,} states and {proof.transitions:,} transitions visited"
    yield f"{proof.loop}: {_whether_it_ends(proof)} ({visited})"
    yield f"limits       {', '.join(f'{name} {getattr(limits, name)}' for name in _FLAGS)}"
    yield f"bounds       {', '.join(proof.bounds) or 'none'}"
    if proof.endless:
        yield f"endless      {proof.endless}"
    if proof.undeclared:
        yield f"undeclared   {', '.join(proof.undeclared)}: no bound, so not proved to be kept"
    if options:
        yield f"options      {', '.join(f'{name} {_written(v)}' for name, v in options.items())}"
    if proof.longest is not None:
        yield from _longest_lines(proof.longest)
    yield from _outcome_lines(proof)
    taken = proof.edges - len(proof.untaken)
    yield f"map          {taken} of {proof.edges} edges can be taken under these limits and options"
    for edge, reason in proof.untaken.items():
        yield f"             not taken: {_edge_text(edge)}{f' ({reason})' if reason else ''}"
    if proof.lasso is not None:
        yield from _lasso_lines(proof.lasso)
    for violation in proof.violations:
        yield f"WRONG        {violation.what}"
        yield from step_lines(violation.counterexample)


def _whether_it_ends(proof: Proof) -> str:
    if proof.lasso is not None:
        return f"a run may never end{', on purpose' if proof.endless else ''}"
    return "every run ends" if proof.terminates else "not proved that every run ends, see WRONG"


def _written(value: Any) -> str:
    return json.dumps(value).strip('"')


def _longest_lines(longest: Longest) -> Iterator[str]:
    yield f"longest run  {longest.transitions:,} transitions"
    yield f"             {longest.model_calls:,} model calls"
    yield f"             {longest.tool_rounds:,} tool rounds"
    asked = format_duration(longest.backoff_asked_ns)
    backoff = format_duration(longest.backoff_ns)
    yield f"             {backoff} of backoff, {asked} if the provider asks for it"


def _outcome_lines(proof: Proof) -> Iterator[str]:
    head = "outcomes"
    for state, steps in proof.endings.items():
        ended = f"{state.outcome}{f' by {state.limit}' if state.limit else ''}"
        yield f"{head:<13}{ended} in {_count(steps)}"
        head = ""


def _lasso_lines(lasso: Lasso) -> Iterator[str]:
    yield f"lasso        after {_count(lasso.prefix)}, then endlessly in {_count(lasso.cycle)}"
    yield from step_lines(lasso.prefix)
    yield "             round:"
    yield from step_lines(lasso.cycle)


def step_lines(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the last transitions of an example, one on a line."""
    skipped = len(steps) - _SHOWN
    if skipped > 1:
        yield f"             ... {_count(steps[:skipped])} before"
        steps = steps[skipped:]
    for step in steps:
        yield f"             {describe(step.signal):<48} -> {describe(step.run.state)}"


def _count(steps: Sequence[Step]) -> str:
    return f"{len(steps):,} transition{'s' * (len(steps) != 1)}"


def _edge_text(edge: Edge) -> str:
    state, signal, target = (NAMES[kind] for kind in edge)
    return f"{state} -> {target} on {signal}"


def proof_json(proof: Proof, limits: Limits, options: dict[str, Any]) -> str:
    """Return the proof as one JSON object."""
    lasso = proof.lasso
    document = {
        "format_version": FORMAT_VERSION,
        "status": status_for(0 if proof.holds else 1),
        "loop": proof.loop,
        "limits": {name: getattr(limits, name) for name in _FLAGS},
        "bounds": list(proof.bounds),
        "undeclared": list(proof.undeclared),
        "options": options,
        "terminates": proof.terminates,
        "endless": proof.endless,
        "states": proof.states,
        "transitions": proof.transitions,
        "longest_run": None if proof.longest is None else asdict(proof.longest),
        "outcomes": [
            {"outcome": state.outcome, "limit": state.limit, "example": steps_json(steps)}
            for state, steps in proof.endings.items()
        ],
        "lasso": lasso and {"prefix": steps_json(lasso.prefix), "cycle": steps_json(lasso.cycle)},
        "edges": proof.edges,
        "untaken": [
            {**_edge_json(edge), "reason": reason} for edge, reason in proof.untaken.items()
        ],
        "violations": [
            {"what": violation.what, "counterexample": steps_json(violation.counterexample)}
            for violation in proof.violations
        ],
    }
    return json.dumps(document, indent=2)


def steps_json(steps: Iterable[Step]) -> list[dict[str, str]]:
    """Return all transitions of an example."""
    return [{"signal": describe(step.signal), "state": describe(step.run.state)} for step in steps]


def _edge_json(edge: Edge) -> dict[str, str]:
    return {key: NAMES[kind] for key, kind in zip(("state", "signal", "to"), edge, strict=True)}


def proof_mermaid(proof: Proof, legal: LegalMap) -> str:
    """Return the edges that can be taken; those of the lasso have a star."""
    return mermaid(legal, without=proof.untaken, marked=_edges_of(proof.lasso))


def _edges_of(lasso: Lasso | None) -> set[Edge]:
    edges: set[Edge] = set()
    state: type[Struct] = Ready
    for step in () if lasso is None else (*lasso.prefix, *lasso.cycle):
        edges.add((state, type(step.signal), type(step.run.state)))
        state = type(step.run.state)
    return edges


def file_stem(state: Finished) -> str:
    """Return the file name, without its ending, of a scenario that shows this end."""
    limit = re.sub(r"[^a-z0-9]+", "-", state.limit.lower()).strip("-")  # a machine chooses the word
    return "-".join(filter(None, (str(state.outcome), limit)))
