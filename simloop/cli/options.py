"""The parameters that verbs share: scenarios, a seed, a loop design, and their completion."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.kernel.durations import parse_duration
from simloop.runs.loop import check_loop_exists, is_own
from simloop.runs.options import RunOptions
from simloop.scenario import catalog
from simloop.scenario.designs import DESIGNS, PROGRAM, names
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Scenario

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]

_NAMES = "a design, a version of one (opencode@1.18.34), or module:attribute"
_INSTEAD = f"Use this loop instead of the scenario's: {_NAMES}"
_SETTINGS = ("seed", "loop", "judge_as", "loop_options", "isolate")
_OF_ONE_LOOP = {"judge_as": "--judge-as", "loop_options": "--option"}


class Target(Struct, frozen=True):
    """One scenario to run; or an invalid argument, with the reason as its `file`."""

    name: str  # the bundled name, or the path as it was given
    file: Path | ScenarioError
    argument: str  # it selected the scenario: its file, a folder, or a name

    def scenario(self) -> Scenario:
        if isinstance(self.file, ScenarioError):
            raise self.file
        return load_scenario(self.file)


def targets_of(arguments: Iterable[str]) -> Iterator[Target]:
    """Return each scenario that the arguments select, once; those of a folder by their paths."""
    seen: set[Path] = set()
    for argument in arguments:
        try:
            paths = _files(argument)
        except ScenarioError as error:
            yield Target(argument, error, argument)
            continue
        for path in paths:
            if path not in seen:
                seen.add(path)
                yield Target(catalog.name_of(path) or str(path), path, argument)


def _files(argument: str) -> list[Path]:
    folder = Path(argument)
    try:
        if not folder.is_dir():
            if (bundled := catalog.find_folder(argument)) is None:
                return [catalog.find(argument)]
            folder = bundled
        below = [(path, path.relative_to(folder)) for path in folder.rglob(f"*{catalog.SUFFIX}")]
        # Hidden folders hold files of others, such as the scenarios installed in a `.venv`.
        shown = [each for each, inside in below if not any(p[0] == "." for p in inside.parts[:-1])]
        files = sorted(filter(Path.is_file, shown), key=Path.as_posix)
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise ScenarioError(f"cannot be found: {error.strerror}", path=argument) from error
    if not files:
        hides = catalog.find_folder(argument) is not None
        hint = "it hides the bundled ones of that name: go elsewhere to run those" if hides else ""
        wrong = f"no *{catalog.SUFFIX} in this folder or below it"
        raise ScenarioError(wrong, path=argument, hint=hint)
    return files


def scenarios_and_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the names that `run` and its like take; without one, the shell completes files."""
    # First, because click's script for bash drops the names that come before it.
    files = CompletionItem(incomplete, type="file")
    return [files, *scenario_names(context, parameter, incomplete)]


def scenario_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of bundled scenarios and of their themes, and `all`; read no scenario."""
    bundled = list(catalog.bundled_names())
    themes = dict.fromkeys(f"{name.rpartition('/')[0]}/" for name in bundled if "/" in name)
    return _beginning(incomplete, (catalog.ALL, *themes, *bundled))


def _beginning(incomplete: str, words: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def duration(_: click.Context, option: click.Parameter, value: str | None) -> int | None:
    """Return a duration of the command line in nanoseconds. Raises BadParameter."""
    try:
        nanoseconds = None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), param=option) from error
    if nanoseconds == 0:
        raise click.BadParameter("must be longer than 0", param=option)
    return nanoseconds


def _known(_: click.Context, __: click.Parameter, loop: str | None) -> str | None:
    if loop is not None:
        check_loop_exists(loop)
    return loop


def _known_each(_: click.Context, __: click.Parameter, loops: tuple[str, ...]) -> tuple[str, ...]:
    for loop in loops:
        check_loop_exists(loop)
    return tuple(dict.fromkeys(loops or DESIGNS))


def _read(text: str) -> Any:
    words = {"": True, "true": True, "false": False, "null": None}
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else words.get(text, text)


def _added(context: click.Context, _: click.Parameter, modules: tuple[str, ...]) -> None:
    if modules:
        from simloop.check.invariants.judge import add_invariants  # noqa: PLC0415 - most need none

        context.call_on_close(add_invariants(*modules))


_TARGETS = click.argument("targets", metavar="PATH|NAME...", nargs=-1, required=True,
    shell_complete=scenarios_and_files)  # fmt: skip
_SEED = click.option("--seed", type=click.IntRange(0, 2**63, max_open=True),
    help="Use this seed instead of the scenario's.")  # fmt: skip
loop_option = partial(click.option, metavar="NAME", callback=_known,
    shell_complete=lambda _, __, incomplete: _beginning(incomplete, names()))  # fmt: skip
_LOOP = loop_option("--loop", help=f"{_INSTEAD}.")
_LOOPS = loop_option("--loop", "loops", multiple=True, callback=_known_each,
    help=f"A loop to run: {_NAMES}; may be repeated. By default all {len(DESIGNS)} designs.",
)  # fmt: skip
_JUDGE_AS = loop_option("--judge-as", metavar="DESIGN", default="", callback=None,
    help="Check a loop of your own against the expectations for this bundled design.")  # fmt: skip
loop_options = click.option("--option", "loop_options", multiple=True, metavar="KEY=VALUE",
    callback=lambda _, __, given: {
        key: _read(value) for key, _, value in (pair.partition("=") for pair in given)
    },
    help="An option of the loop, as in a scenario under `loops`; may be repeated.")  # fmt: skip
_ISOLATE = click.option("--isolate", is_flag=True,
    help="Make each run in a process of its own, so that it shares nothing with the others.",
)  # fmt: skip
replay_loop = loop_option("--loop",
    help="Run the traces on this loop. It is required for a trace of a loop that does not come "
    f"with simloop, because replay imports no module that only the trace names. NAME is {_NAMES}.",
)  # fmt: skip
invariants_of_ones_own = click.option("--invariants", multiple=True, metavar="MODULE[:NAME]",
    expose_value=False, callback=_added,
    help="Also judge these invariants of your own; may be repeated.")  # fmt: skip
formats = click.option("--format", "output_format", type=click.Choice(["text", "json"]),
    default="text", show_default=True, help="The format of the output.")  # fmt: skip


def loop_of_program(program: str, loop: str | None) -> str:
    """Return the name of the loop that is this program. Raises UsageError if there is a loop."""
    if loop is not None:
        raise click.UsageError("give --program or --loop: a program is the loop")
    check_loop_exists(name := f"{PROGRAM}{program}")
    return name


program_option = click.option("--program", default="", metavar="COMMAND",
    help="Run this Python program as the loop: a console script with its arguments, `python -m "
    "module` or a file. {prompt} stands for the prompt, as in 'llm {prompt}'.")  # fmt: skip


def _settings(loop: Decorator, command: Command) -> Command:
    @wraps(command)
    def with_settings(**values: Any) -> Any:
        if program := values.pop("program", ""):
            values["loop"] = loop_of_program(program, values["loop"])
        given = {name: values.pop(name) for name in _SETTINGS if name in values}
        return command(given=given, **values)

    return _SEED(loop(_JUDGE_AS(loop_options(with_settings))))


def run_settings(command: Command) -> Command:
    """Give a verb the settings of a run."""
    return _settings(lambda given: _LOOP(program_option(given)), command)


def scenario_settings(command: Command) -> Command:
    """Give a verb the parameter `targets` and the settings of a run."""
    return _TARGETS(_ISOLATE(run_settings(command)))


def comparison_settings(command: Command) -> Command:
    """Give a verb `targets`, the names `loops` and the settings of a run."""
    return _TARGETS(_settings(_LOOPS, command))


def settings_by_loop(loops: Sequence[str], given: RunOptions) -> dict[str, RunOptions]:
    """Return the settings of each loop. Raises UsageError if several loops share those of one."""
    settings: dict[str, RunOptions] = {loop: {} for loop in loops}
    chosen = [loop for loop in loops if is_own(loop)] or loops
    of_one: Any = {name: given.get(name) for name in _OF_ONE_LOOP if given.get(name)}
    for name in of_one if len(chosen) > 1 else ():
        hint = "name a single --loop, or a single one of your own"
        raise click.UsageError(f"{_OF_ONE_LOOP[name]} is for one loop: {hint}")
    settings[chosen[0]] |= of_one
    return settings
