"""The scenarios that ship with simloop, by name, and what the owner of a loop expects of them."""

import contextlib
import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.scenario import loader, schema
from simloop.scenario.expect import Expect, ExpectedCounters
from simloop.scenario.mistakes import did_you_mean

SUFFIX = ".simloop.yaml"
_ALIKE = 0.7  # at the default of 0.6, `nope` matches `openai`
ALL = "all"
"""The word that stands for every bundled scenario, in place of a name."""


class Listed(Struct, frozen=True):
    """One bundled scenario. `name` is `theme/stem`."""

    name: str
    path: Path
    title: str
    loop: str


def bundled_folder() -> Path:
    """Return the folder of the bundled scenarios, in a wheel or in a checkout."""
    return _folder_of(__file__)


@cache
def _folder_of(module: str) -> Path:
    package = Path(module).resolve().parent.parent
    packaged = package / "_scenarios"
    return packaged if packaged.is_dir() else package.parent / "scenarios"


def schema_text() -> str:
    """Return the JSON Schema of scenario files, as the text that `simloop schema` prints."""
    return (bundled_folder() / "schema.json").read_text("utf-8")


def bundled() -> Iterator[Listed]:
    """Yield the bundled scenarios in order of their names. Raises ScenarioError for a bad file."""
    for name, path in sorted(_paths().items()):
        scenario = loader.load_scenario(path)
        yield Listed(name, path, scenario.title, scenario.loop)


def bundled_names() -> list[str]:
    """Return the names of the bundled scenarios, in order, without reading the files."""
    return sorted(_paths())


def find_bundled(name: str) -> Path:
    """Return the file of a bundled scenario. Raises ScenarioError, naming the nearest."""
    if find_folder(name) is not None:
        hint = f"see them with: simloop list {name}"
        raise ScenarioError(f"`{name}` names several scenarios", hint=hint)
    return _named(name)


def find(name: str) -> Path:
    """Return the file of `name`: a path, `theme/stem`, or a stem that only one scenario has.

    Raises ScenarioError, naming the nearest, if no file or more than one file matches.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    with contextlib.suppress(OSError, ValueError):  # longer than a file's name can be, or a NUL
        if name not in _paths() and Path(name).exists():
            return Path(name)
    return _named(name)


def _named(name: str) -> Path:
    paths = _paths()
    if name in paths:
        return paths[name]
    same_stem = [known for known in sorted(paths) if known.rpartition("/")[2] == name]
    if len(same_stem) == 1:
        return paths[same_stem[0]]
    if same_stem:
        raise ScenarioError(f"`{name}` is the name of several: {', '.join(same_stem)}")
    stems = {known.rpartition("/")[2]: known for known in sorted(paths)}
    known = [*sorted({f"{known.rpartition('/')[0]}/" for known in paths}), *paths, *stems]
    close = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
    nearest = f"did you mean `{stems.get(close[0], close[0])}`? " if close else ""
    message = f"there is no scenario `{name}`"
    raise ScenarioError(message, hint=f"{nearest}see them with: simloop list")


def find_folder(name: str) -> Path | None:
    """Return the folder of ALL, or of a theme followed by a slash; None if there is none."""
    if name == ALL:
        return bundled_folder()
    if name.endswith("/") and any(known.startswith(name) for known in _paths()):
        return bundled_folder() / name
    return None


def name_of(path: str | Path) -> str:
    """Return the name of the bundled scenario in the file at `path`; empty for other files."""
    try:
        inside = Path(path).resolve().relative_to(bundled_folder())
    except (OSError, ValueError):
        return ""
    return inside.as_posix().removesuffix(SUFFIX)


def _paths() -> dict[str, Path]:
    return _paths_in(bundled_folder())


@cache
def _paths_in(folder: Path) -> dict[str, Path]:
    files = sorted(folder.rglob(f"*{SUFFIX}"))
    return {file.relative_to(folder).as_posix().removesuffix(SUFFIX): file for file in files}


def expectations(
    scenario: schema.Scenario, loop: str, judge_as: str, own: Any, *, is_agent: bool
) -> Expect:
    """Return the expectations for `loop`: its `own`, or else those of the scenario.

    `own` is the attribute `expect_on` of a loop of the user's own: expectations by the names of
    bundled scenarios, or None. Raises ScenarioError.
    """
    if own is not None and (of_loop := stated(own, scenario)) is not None:
        return of_loop
    expect = scenario.expected_of(loop, judge_as)
    is_for_all = is_agent and expect is scenario.expect and scenario.path
    return without_engine(expect) if is_for_all and name_of(scenario.path) else expect


def without_engine(expect: Expect) -> Expect:
    """Return expectations without those of an engine: counters, messages and backoffs."""
    unseen = {"counters": ExpectedCounters(), "messages": None, "backoffs": None}
    return expect.model_copy(update=unseen)


def stated(given: Any, scenario: schema.Scenario) -> Expect | None:
    """Return what the author of a loop expects of a scenario, or None. Raises ScenarioError."""
    if not isinstance(given, Mapping):
        message = f"expectations are a mapping, not {type(given).__name__}"
        hint = "such as {'retry/rate-limit': {'outcome': 'failed'}}"
        raise ScenarioError(message, key="expect_on", hint=hint)
    known = bundled_names()
    for name in given:
        if name not in known:
            message = f"there is no bundled scenario `{name}`"
            hint = f"{did_you_mean(str(name), known)} see them with: simloop list".lstrip()
            raise ScenarioError(message, key=f"expect_on.{name}", hint=hint)
    name = name_of(scenario.path)
    return loader.expected(given[name], f"expect_on.{name}") if name in given else None
