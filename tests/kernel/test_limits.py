"""Limits carry the documents' defaults and refuse what bounds nothing."""

import json
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import FrozenInstanceError, asdict, replace
from pickle import dumps, loads

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from simloop.errors import ScenarioError
from simloop.kernel.checks import written_name
from simloop.kernel.limits import DeclaredLimits, Limits

SEEDED = settings(derandomize=True)
MINIMA = {
    "max_steps": 1,
    "max_steps_per_round": 1,
    "max_error_count": 1,
    "max_compaction_attempts": 0,
    "max_wall_clock_ms": 1,
    "first_part_timeout_ms": 1,
    "model_call_timeout_ms": 1,
}


def read(document: dict[str, object]) -> Limits:
    """Read limits as a file gives them, by the rules of JSON."""
    return TypeAdapter(Limits).validate_json(json.dumps(document))


def test_the_defaults_are_those_of_the_documents() -> None:
    assert asdict(Limits()) == {
        "max_steps": 100,
        "max_steps_per_round": 20,
        "max_error_count": 3,
        "max_compaction_attempts": 2,
        "max_wall_clock_ms": None,
        "first_part_timeout_ms": 180_000,
        "model_call_timeout_ms": 600_000,
    }


@pytest.mark.parametrize(("name", "minimum"), MINIMA.items())
def test_the_minimum_is_accepted_and_one_under_it_refused_by_name(name: str, minimum: int) -> None:
    assert asdict(Limits(**{name: minimum}))[name] == minimum
    with pytest.raises(ScenarioError) as refused:
        Limits(**{name: minimum - 1})
    told = f"limits.{name}: {minimum - 1} is too small: must be at least {minimum}"
    assert str(refused.value) == told


@pytest.mark.parametrize("name", sorted(set(MINIMA) - {"max_wall_clock_ms"}))
def test_only_the_wall_clock_can_be_without_a_limit(name: str) -> None:
    with pytest.raises(ScenarioError):
        Limits(**{name: None})  # type: ignore[arg-type]


@SEEDED
@given(name=st.sampled_from(sorted(MINIMA)), value=st.integers(max_value=10**12 - 1))
def test_python_and_a_file_accept_the_same_numbers(name: str, value: int) -> None:
    document: dict[str, object] = {written_name(name): f"{value}ms" if "_ms" in name else value}
    if value >= MINIMA[name]:
        assert read(document) == Limits(**{name: value})
        return
    with pytest.raises(ValidationError):
        read(document)
    with pytest.raises(ScenarioError):
        Limits(**{name: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("max_step", 3, id="unknown-name"),
        pytest.param("max_steps", "3", id="text"),
        pytest.param("max_steps", 3.0, id="decimal"),
        pytest.param("max_steps", True, id="yes"),
        pytest.param("max_steps", None, id="null"),
        pytest.param("max_wall_clock", 300, id="no-unit"),
        pytest.param("max_wall_clock", "300", id="text-without-unit"),
        pytest.param("max_wall_clock", "1500us", id="finer-than-milliseconds"),
        pytest.param("max_wall_clock", "0s", id="no-time"),
        pytest.param("max_wall_clock_ms", 300, id="unit-in-the-name"),
        pytest.param("first_part_timeout", None, id="no-timeout"),
    ],
)
def test_a_file_sets_a_limit_only_by_a_whole_number_or_a_duration(key: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        read({key: value})
    assert [error["loc"] for error in refused.value.errors()] == [(key,)]


def test_limits_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Limits().max_steps = 5  # type: ignore[misc]


@pytest.mark.parametrize("copied", [copy, deepcopy, replace, lambda limits: loads(dumps(limits))])
def test_only_the_limits_that_were_set_are_declared_also_in_a_copy(
    copied: Callable[[Limits], Limits],
) -> None:
    limits = Limits(max_steps=8, max_error_count=3)
    assert limits == copied(limits) == Limits(max_steps=8)
    assert copied(limits).declared == DeclaredLimits(max_steps=8, max_error_count=3)
    assert Limits(max_steps=8).declared == DeclaredLimits(max_steps=8)
    assert read({"max_steps": 8}).declared == DeclaredLimits(max_steps=8)
