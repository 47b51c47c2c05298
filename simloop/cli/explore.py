"""`simloop explore`: what a loop can do at all, proved.

Not here: proving (check/proof.py) and how a proof reads (proofs.py). The rule to keep: it ends with
1 if a run may never end or something is wrong with the machine, so that it can guard a loop of
one's own in CI.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from simloop.check.proof import Proof, prove
from simloop.check.witness import scenario_of_ending, scenario_of_lasso, scenario_text
from simloop.cli.proofs import file_stem, proof_json, proof_lines, proof_mermaid
from simloop.cli.terminal import note, out, out_lines, plain
from simloop.errors import ScenarioError
from simloop.kernel.limits import Limits
from simloop.scenario.catalog import SUFFIX
from simloop.scenario.loops import LoopOptions, machine_for
from simloop.scenario.schema import Scenario

_DEFAULTS = Limits()


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _limit(flag: str, name: str, least: int) -> Decorator:
    return click.option(
        flag, name, type=click.IntRange(least), default=getattr(_DEFAULTS, name), show_default=True
    )


@click.command("explore")
@click.option(
    "--loop",
    default="reference",
    show_default=True,
    metavar="NAME",
    help="The loop design: a name, a name@version, or module:attribute for one of your own.",
)
@_limit("--max-steps", "max_steps", 1)
@_limit("--max-steps-per-round", "max_steps_per_round", 1)
@_limit("--max-errors", "max_error_count", 1)
@_limit("--max-compactions", "max_compaction_attempts", 0)
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
    help='Show the shortest lasso that passes a signal so described: "model-replied other".',
)
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write the lasso, and the shortest run to each outcome, there as scenario files.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "mermaid"]),
    default="text",
    show_default=True,
    help="What to print on stdout.",
)
def command(
    loop: str,
    options: tuple[str, ...],
    through: str,
    folder: Path | None,
    output_format: str,
    **limits_given: int,
) -> int:
    """Visit every run that a loop can have, and say what that proves.

    Whether every run ends, and after how much at the latest; each outcome with the shortest run to
    it; which edges of its map cannot be taken; and if a run may never end, the shortest way round.
    """
    limits = Limits(**limits_given)
    chosen = _options(loop, options)
    machine = machine_for(loop, limits, chosen)
    proof = prove(machine, limits, loop=loop, through=through)
    if output_format == "json":
        given = getattr(machine, "options", None)
        out(proof_json(proof, limits, dataclasses.asdict(given) if given else {}))
    elif output_format == "mermaid":
        out(proof_mermaid(proof, machine.legal))
    else:
        out_lines(plain(line) for line in proof_lines(proof, limits))
    if folder is not None:
        _write(folder, proof, limits, chosen)
    return 0 if proof.holds else 1


def _options(loop: str, given: tuple[str, ...]) -> LoopOptions:
    """The options of `loop`. Raises ScenarioError for those that there are not."""
    if not given:
        return LoopOptions()
    if loop not in LoopOptions.model_fields:
        raise ScenarioError(f"the loop `{loop}` takes no options", key="--option")
    pairs = dict(pair.partition("=")[::2] for pair in given)
    try:
        values = {key: _read(value) for key, value in pairs.items()}
        return LoopOptions.model_validate_json(json.dumps({loop: values}))  # as strict as a file
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ScenarioError(first["msg"], key=f"--option {place}") from error


def _read(text: str) -> Any:
    """A value as YAML reads it; a flag may go without one."""
    words = {"": True, "true": True, "false": False, "null": None}
    return int(text) if text.isascii() and text.isdigit() else words.get(text, text)


def _write(folder: Path, proof: Proof, limits: Limits, options: LoopOptions) -> None:
    for stem, scenario in _scenarios(proof, limits, options):
        file = folder / f"{stem}{SUFFIX}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as opened:
                opened.write(scenario_text(scenario))
        except OSError as error:
            raise ScenarioError(
                f"cannot be written: {error.strerror}", path=file, hint="choose another folder"
            ) from error
        note(plain(f"wrote {file}"))


def _scenarios(
    proof: Proof, limits: Limits, options: LoopOptions
) -> Iterator[tuple[str, Scenario]]:
    given: Any = {"loop": proof.loop, "limits": limits, "options": options}
    if proof.lasso is not None:
        yield "lasso", scenario_of_lasso(proof.lasso, **given)
    for state, steps in proof.endings.items():
        yield file_stem(state), scenario_of_ending(steps, **given)
