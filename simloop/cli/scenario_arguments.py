"""The meaning of the arguments PATH|NAME: files, folders, names of bundled scenarios.

Not here: reading the files. The rule to keep: the order is that of the arguments, and inside a
folder that of the paths, on every machine.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.scenario.catalog import SUFFIX, find, find_folder, name_of


class Target(Struct, frozen=True):
    """One scenario to run; or an invalid argument, with the reason as its `file`.

    `name` is the bundled name or the path as it was given, and `run` accepts it again. `argument`
    is the argument that selected the scenario: the file, a folder that contains it, or a name.
    """

    name: str
    file: Path | ScenarioError
    argument: str


def targets_of(arguments: Iterable[str]) -> Iterator[Target]:
    """Return each scenario that the arguments select, once."""
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
                yield Target(name_of(path) or str(path), path, argument)


def _files(argument: str) -> list[Path]:
    """Return the files that one argument selects. Raises ScenarioError if there are none."""
    folder = Path(argument)
    try:
        if not folder.is_dir():
            bundled = find_folder(argument)
            if bundled is None:
                return [find(argument)]
            folder = bundled
        files = sorted(_below(folder), key=Path.as_posix)
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise ScenarioError(f"cannot be found: {error.strerror}", path=argument) from error
    if not files:
        hides = find_folder(argument) is not None
        hint = "it hides the bundled ones of that name: go elsewhere to run those" if hides else ""
        raise ScenarioError(f"no *{SUFFIX} in this folder or below it", path=argument, hint=hint)
    return files


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob(f"*{SUFFIX}"):
        inside = path.relative_to(folder).parts[:-1]
        # Hidden folders hold files of others, such as the scenarios installed in a `.venv`.
        if path.is_file() and not any(part.startswith(".") for part in inside):
            yield path
