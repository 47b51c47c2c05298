"""The scenarios that ship with simloop, found by name.

Not here: reading them (loader.py). The rule to keep: one function knows the two places where they
can be, beside the package in a checkout and inside it in a wheel.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from simloop.errors import ScenarioError
from simloop.scenario.loader import load_scenario

SUFFIX = ".simloop.yaml"
ALL = "all"
"""In the place of a name: every bundled scenario."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One bundled scenario. `name` is `theme/stem`."""

    name: str
    path: Path
    title: str
    loop: str


def bundled_folder() -> Path:
    """The folder of the bundled scenarios: `_scenarios` in a wheel, `scenarios` in a checkout.

    The packaged folder goes first, but an editable install puts it where this file is not.
    """
    package = Path(__file__).resolve().parent.parent
    packaged = package / "_scenarios"
    return packaged if packaged.is_dir() else package.parent / "scenarios"


def bundled() -> Iterator[Listed]:
    """Every bundled scenario, in order of its name. Raises ScenarioError if one cannot be read."""
    for name, path in sorted(_paths().items()):
        scenario = load_scenario(path)
        yield Listed(name, path, scenario.title, scenario.loop)


def find(name: str) -> Path:
    """The file meant by `name`: a path, `theme/stem`, or a stem that only one scenario has.

    Raises ScenarioError, naming the nearest, if there is none or more than one.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    paths = _paths()
    if name not in paths and _exists(name):
        return Path(name)
    if name in paths:
        return paths[name]
    same_stem = [known for known in sorted(paths) if known.rpartition("/")[2] == name]
    if len(same_stem) == 1:
        return paths[same_stem[0]]
    if same_stem:
        raise ScenarioError(f"`{name}` is the name of several: {', '.join(same_stem)}")
    stems = {known.rpartition("/")[2]: known for known in sorted(paths)}
    themes = {f"{known.rpartition('/')[0]}/" for known in paths}
    close = difflib.get_close_matches(name, [*sorted(themes), *paths, *stems], n=1)
    nearest = f"did you mean `{stems.get(close[0], close[0])}`? " if close else ""
    raise ScenarioError(
        f"there is no scenario `{name}`", hint=f"{nearest}see them with: simloop list"
    )


def find_folder(name: str) -> Path | None:
    """The folder meant by ALL, or by a theme with a slash behind it; None if there is none."""
    if name == ALL:
        return bundled_folder()
    if name.endswith("/") and any(known.startswith(name) for known in _paths()):
        return bundled_folder() / name
    return None


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # longer than a file's name can be, or with a NUL in it
        return False


def _paths() -> dict[str, Path]:
    folder = bundled_folder()
    return {
        path.relative_to(folder).as_posix().removesuffix(SUFFIX): path
        for path in sorted(folder.rglob(f"*{SUFFIX}"))
    }
