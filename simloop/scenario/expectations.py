"""The expectations that the owner of a loop has of the bundled scenarios, by their names.

They stand in a file, or in the attribute `expect_on` of a machine or an agent, because the bundled
scenarios belong to simloop. Not here: the expectations in a scenario itself (schema.py). The rule
to keep: a name that no bundled scenario has is an error, because it would never be looked at.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from simloop.errors import ScenarioError
from simloop.scenario.catalog import bundled_names, name_of
from simloop.scenario.expect import Expect
from simloop.scenario.loader import findings
from simloop.scenario.schema import Scenario
from simloop.scenario.strict import Lax
from simloop.scenario.wording import refusal
from simloop.scenario.yaml import read_yaml_file


class Expectations(Struct, frozen=True):
    """Expectations of bundled scenarios by their names; `path` names the file that states them."""

    by_name: Mapping[str, Expect]
    path: str


def load_expectations(path: Path) -> Expectations:
    """Read a file of expectations. Raises ScenarioError with the place of each mistake."""
    document, content = read_yaml_file(path), dict[str, Lax[Expect]]
    try:
        by_name = TypeAdapter(content).validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise findings(document, error, content) from error
    wrong = list(_unknown(by_name))
    for each in wrong:
        each.path = document.path
        each.line, each.column = document.locate((each.key,), key=True)
    _raise(wrong)
    return Expectations(by_name, str(path))


def stated(given: Any, scenario: Scenario) -> Expect | None:
    """Return the expectation of a bundled scenario in `given`; None if it has none.

    `given` is of a file, or an `expect_on` as people write it in Python. Raises ScenarioError.
    """
    if isinstance(given, Expectations):
        return given.by_name.get(name_of(scenario.path))
    if not isinstance(given, Mapping):
        raise ScenarioError(
            f"expectations are a mapping, not {type(given).__name__}",
            key="expect_on",
            hint="such as {'retry/rate-limit': {'outcome': 'failed'}}",
        )
    wrong = list(_unknown(given))
    for each in wrong:
        each.key = f"expect_on.{each.key}"
    _raise(wrong)
    name = name_of(scenario.path)
    if name not in given:
        return None
    try:
        return Expect.model_validate(given[name])
    except ValidationError as error:
        raise refusal(Expect, error, key=f"expect_on.{name}") from None


def _unknown(names: Iterable[Any]) -> Iterator[ScenarioError]:
    """Yield an error for each name that no bundled scenario has."""
    known = bundled_names()
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            nearest = f"did you mean `{close[0]}`? " if close else ""
            yield ScenarioError(
                f"there is no bundled scenario `{name}`",
                key=str(name),
                hint=f"{nearest}see them with: simloop list; a file of your own has its own expect",
            )


def _raise(wrong: list[ScenarioError]) -> None:
    if wrong:
        first, *others = wrong
        first.others = tuple(others)
        raise first
