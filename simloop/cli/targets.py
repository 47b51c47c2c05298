"""What the arguments of `run` mean: files, folders, names of bundled scenarios.

Not here: reading the files. The rule to keep: the order is that of the arguments, and inside a
folder that of the paths, on every machine.
"""

from collections.abc import Iterator
from pathlib import Path

from simloop.errors import ScenarioError
from simloop.scenario.catalog import SUFFIX, bundled_folder, find


def files_for(argument: str) -> list[Path]:
    """The scenario files meant by one argument. Raises ScenarioError if there are none."""
    folder = Path(argument)
    if not folder.is_dir():
        return [find(argument)]
    files = sorted(_below(folder), key=Path.as_posix)
    if not files:
        raise ScenarioError(f"no *{SUFFIX} in this folder or below it", path=argument)
    return files


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob(f"*{SUFFIX}"):
        inside = path.relative_to(folder).parts[:-1]
        # Hidden folders hold what others wrote, such as the scenarios installed in a `.venv`.
        if path.is_file() and not any(part.startswith(".") for part in inside):
            yield path


def name_of(path: Path) -> str:
    """The bundled name, or the path as it was given: what `run` would take again."""
    try:
        inside = path.resolve().relative_to(bundled_folder())
    except (OSError, ValueError):
        return str(path)
    return inside.as_posix().removesuffix(SUFFIX)
