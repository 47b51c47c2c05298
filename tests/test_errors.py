"""Errors say whose fault it is, where, and what to do."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from simloop.errors import (
    CheckFailed,
    Deadlock,
    ErrorDetails,
    ExpectationFailed,
    InternalError,
    RunawayRun,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
    SimloopError,
)

EXIT_CODES = [
    (ScenarioError, 2),
    (ScriptExhausted, 1),
    (ScriptUnused, 1),
    (CheckFailed, 1),
    (ExpectationFailed, 1),
    (Deadlock, 1),
    (RunawayRun, 1),
    (InternalError, 3),
    (SimloopError, 3),
]


@pytest.mark.parametrize(("error", "code"), EXIT_CODES)
def test_an_error_ends_the_command_line_with_the_code_of_whose_fault_it_is(
    error: type[SimloopError], code: int
) -> None:
    assert error.exit_code == code
    assert issubclass(error, AssertionError) == (code == 1)  # that of the loop under test


def test_a_scenario_error_with_all_its_parts_names_place_key_and_hint() -> None:
    error = ScenarioError(
        "429.5 is not a status",
        path=Path("a.simloop.yaml"),
        line=7,
        column=12,
        key="model.1.http.status",
        hint="write 429",
    )
    assert str(error) == (
        "a.simloop.yaml:7:12: model.1.http.status: 429.5 is not a status (write 429)"
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(ScenarioError("no prompt"), "no prompt", id="nothing-known"),
        pytest.param(ScenarioError("no prompt", path="a.yaml"), "a.yaml: no prompt", id="path"),
        pytest.param(
            ScenarioError("no prompt", path="a.yaml", line=3), "a.yaml:3: no prompt", id="line"
        ),
        pytest.param(ScenarioError("no prompt", key="prompt"), "prompt: no prompt", id="key"),
        pytest.param(ScenarioError("no prompt", hint="add one"), "no prompt (add one)", id="hint"),
    ],
)
def test_a_scenario_error_shows_the_parts_that_are_known(error: ScenarioError, text: str) -> None:
    assert str(error) == text


def test_a_failed_check_ends_with_the_command_that_reproduces_it() -> None:
    error = ExpectationFailed("expected completed, got aborted", reproduce="simloop run a")
    assert str(error) == "expected completed, got aborted\nreproduce: simloop run a"


def test_a_failed_check_without_a_command_is_its_message() -> None:
    assert str(Deadlock("nobody is ready")) == "nobody is ready"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            ScenarioError("no", path="a.yaml", line=1, column=2, key="k", hint="h"), id="scenario"
        ),
        pytest.param(RunawayRun("1000000 callbacks", reproduce="simloop run a"), id="check"),
    ],
)
def test_an_error_says_the_same_after_crossing_a_process_boundary(error: SimloopError) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_details_of_an_error_are_one_object_for_each_mistake() -> None:
    second = ScenarioError("b", path="f", line=2, column=1, key="k")
    error = ScenarioError("a", path="f", line=1, column=3, hint="h")
    error.others = (second,)
    assert ErrorDetails.of(error) == (
        ErrorDetails("ScenarioError", "a", "f", 1, 3, None, "h"),
        ErrorDetails("ScenarioError", "b", "f", 2, 1, "k"),
    )


def test_the_details_of_a_failed_check_have_the_command_apart_from_the_message() -> None:
    error = ExpectationFailed("no", key="expect.text", hint="h", reproduce="simloop run a")
    details = ErrorDetails("ExpectationFailed", "no", key="expect.text", hint="h")
    assert ErrorDetails.of(error) == (replace(details, reproduce="simloop run a"),)
    assert ErrorDetails.of(InternalError("broken")) == (ErrorDetails("InternalError", "broken"),)
