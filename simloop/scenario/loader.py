"""The conversion of a file to a Scenario; a bad file gives one line for each mistake."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError

from simloop.errors import ScenarioError
from simloop.scenario.designs import check_judge_as, check_loop, names_own
from simloop.scenario.expect import Expect
from simloop.scenario.mistakes import refusal, together, validated
from simloop.scenario.schema import Declared, Scenario
from simloop.scenario.yaml import Document, read_yaml, read_yaml_file
from simloop.virtual.seeds import Seeds
from simloop.world.chance import FaultSites


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file. Raises ScenarioError with its line and column."""
    return _validate(read_yaml_file(Path(path)))


def load_declared(path: str | Path) -> Declared:
    """Read a file of what an agent declares. Raises ScenarioError with its line and column."""
    declared: Declared = validated(read_yaml_file(Path(path)), Declared)
    return declared


def load_from_here(path: Path) -> Scenario:
    """Read a scenario file under its path relative to the current folder, if it is below that."""
    path, here = path.resolve(), Path.cwd()
    try:
        return load_scenario(path.relative_to(here) if path.is_relative_to(here) else path)
    except ScenarioError as error:
        raise error from None  # the YAML reader's error adds no information


def parse_scenario(text: str, path: str = "") -> Scenario:
    """Read a scenario from YAML text; `path` is its name in errors. Raises ScenarioError."""
    return _validate(read_yaml(text, path or "<text>")).read_from(path)


def _validate(document: Document) -> Scenario:
    scenario: Scenario = validated(document, Scenario)
    try:
        check_names_in(scenario)
    except ScenarioError as error:
        for each in (error, *error.others):
            # The name of a loop may have dots in it: `expect_on.opencode@1.18.34`.
            loc = tuple(each.key.split(".", 1 if each.key.startswith("expect_on.") else -1))
            document.put_place(each, loc)
        raise
    return scenario.read_from(document.path)


def expected(given: Mapping[str, object], key: str = "expect") -> Expect:
    """Return a caller's expectations, keyed as a file's `expect`. Raises ScenarioError."""
    try:
        return Expect.model_validate(given)
    except ValidationError as error:
        raise refusal(Expect, error, key=key) from None


def check_names_in(scenario: Scenario) -> None:
    """Raise ScenarioError with each unknown fault site, loop and judge."""
    if not (found := _mistake(_check_known, scenario.loop, "loop")):
        found += _mistake(check_judge_as, scenario.judge_as, scenario.loop)
    for other in scenario.expect_on:
        found += _mistake(_check_known, other, f"expect_on.{other}")
    if (faults := scenario.faults) is not None:
        found += _mistake(lambda: FaultSites(faults, Seeds(scenario.seed)))
    if found:
        raise together(found)


def _mistake(check: Callable[..., object], *given: object) -> list[ScenarioError]:
    try:
        check(*given)
    except ScenarioError as error:
        return [error]
    return []


def _check_known(loop: str, key: str) -> None:
    if not names_own(loop):
        check_loop(loop, key)
