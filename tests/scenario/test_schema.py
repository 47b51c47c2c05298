import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from incases import check_each, in_cases
from pydantic import ValidationError

from simloop.errors import ScenarioError
from simloop.kernel.durations import format_duration
from simloop.kernel.limits import Limits
from simloop.kernel.policies import (
    Compaction,
    CompactionStrategy,
    HookIsolation,
    OnHookFailure,
    ToolExecution,
    ToolOrder,
)
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import Outcome
from simloop.scenario.catalog import bundled_folder, schema_text
from simloop.scenario.expect import Expect
from simloop.scenario.loader import parse_scenario
from simloop.scenario.replies import Reply
from simloop.scenario.schema import HookPoint, Scenario, ScriptedHook, ScriptedTool, TypeName
from simloop.scenario.yaml import read_yaml_file

BUNDLED = sorted(bundled_folder().rglob("*.simloop.yaml"))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text("abcdefgh_", min_size=1, max_size=8)
DURATIONS = st.integers(0, 10**15).map(format_duration)
COUNTS = st.integers(1, 1000)

REPLIES = st.one_of(
    st.fixed_dictionaries(
        {"say": TEXTS.filter(bool) | st.lists(TEXTS, min_size=1, max_size=3)},
        optional={
            "think": TEXTS,
            "finish": st.sampled_from(["stop", "length", "other", "odd"]),
            "steps": COUNTS,
            "usage": st.fixed_dictionaries({"input": COUNTS}),
            "pace": st.fixed_dictionaries({"first_part": DURATIONS, "per_token": DURATIONS}),
            "times": COUNTS | st.just("always"),
            "when": st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"])}),
        },
    ),
    st.fixed_dictionaries(
        {"call": st.dictionaries(NAMES, st.dictionaries(NAMES, TEXTS), min_size=1, max_size=2)}
    ),
    st.fixed_dictionaries(
        {
            "http": st.fixed_dictionaries(
                {"status": st.integers(400, 599)},
                optional={"retry_after": DURATIONS, "code": NAMES},
            )
        }
    ),
    st.fixed_dictionaries({"stall": st.sampled_from(["before-headers", "after-headers"])}),
)
TOOLS = st.one_of(
    st.fixed_dictionaries(
        {"parameters": st.dictionaries(NAMES, st.sampled_from(get_args(TypeName)), max_size=3)},
        optional={
            "returns": TEXTS | st.dictionaries(NAMES, st.integers(-(2**63), 2**63)),
            "takes": DURATIONS,
        },
    ),
    st.fixed_dictionaries({"raises": TEXTS}, optional={"timeout": COUNTS.map("{}ms".format)}),
)
HOOKS = st.fixed_dictionaries(
    {"at": st.sampled_from(get_args(HookPoint))}, optional={"takes": DURATIONS, "raises": TEXTS}
)
POLICIES: dict[str, st.SearchStrategy[Any]] = {
    "limits": st.builds(Limits, max_steps=COUNTS, max_wall_clock_ms=COUNTS | st.none()),
    "retry": st.builds(ExponentialBackoff, initial_delay_ms=COUNTS, jitter=st.floats(0, 1)),
    "compaction": st.builds(
        Compaction, window=COUNTS, strategy=st.sampled_from(get_args(CompactionStrategy))
    ),
    "tool_execution": st.builds(ToolExecution, order=st.sampled_from(get_args(ToolOrder))),
    "hook_isolation": st.builds(HookIsolation, on_failure=st.sampled_from(get_args(OnHookFailure))),
    "expect": st.builds(
        Expect,
        outcome=st.sampled_from(Outcome) | st.none(),
        elapsed=DURATIONS | st.none(),
        backoffs=st.lists(DURATIONS, max_size=3) | st.none(),
    ),
}
SCENARIOS = st.fixed_dictionaries(
    {"prompt": TEXTS},
    optional={
        "title": TEXTS,
        "seed": st.integers(0, 2**63 - 1),
        "model": st.lists(REPLIES, max_size=3),
        "tools": st.dictionaries(NAMES, TOOLS, max_size=2),
        "hooks": st.lists(HOOKS, max_size=2),
        "abort": st.fixed_dictionaries({"at": DURATIONS}),
        **POLICIES,
    },
).map(lambda fields: Scenario(**dict[str, Any](fields)))


@given(SCENARIOS)
def test_a_scenario_dumped_to_json_is_a_scenario_file(scenario: Scenario) -> None:
    dumped = json.dumps(json.loads(scenario.model_dump_json(exclude_defaults=True, by_alias=True)))
    assert parse_scenario(dumped) == scenario


def test_scenarios_share_no_default_that_can_be_changed() -> None:
    one, other = Scenario(prompt="Go."), Scenario(prompt="Go.")
    one.model.append(Reply(say="Done."))
    assert other.model == []
    hash(one.expect)  # it holds nothing that can be changed, so both may have the same


@pytest.mark.parametrize(
    "given",
    [
        {"model": [Reply(say="Noon.").model_copy(update={"steps": -1})]},
        {"expect": Expect().model_copy(update={"requests": -1})},
    ],
)
def test_what_was_changed_unchecked_is_checked_in_a_scenario(given: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match="must be at least 0"):
        Scenario(prompt="x", **given)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]], ids=repr)
def test_what_json_cannot_carry_is_no_result_of_a_tool(value: Any) -> None:
    with pytest.raises(ScenarioError, match=r"^ScriptedTool\.returns: this is not JSON"):
        ScriptedTool(returns=value)


def test_a_shell_that_waits_for_no_time_is_refused() -> None:
    with pytest.raises(ScenarioError, match="shell_timeout: a command needs at least 1ms"):
        Scenario(prompt="x", shell_timeout="1us")


def test_the_text_of_a_model_shows_what_differs_from_the_defaults() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(say="Done.", times=2)])
    assert repr(scenario) == "Scenario(prompt='Go.', model=[Reply(say='Done.', times=2)])"


def test_a_scenario_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="Instance is frozen"):
        Scenario(prompt="Hi").seed = 3


@pytest.mark.parametrize("model", [Scenario, ScriptedTool, ScriptedHook, Expect])
def test_unknown_keys_are_refused_in_python_too(model: type[Any]) -> None:
    with pytest.raises(ScenarioError, match=rf"^{model.__name__}\.pro.*: unknown key"):
        model(prompt="Hi", promt="Hi", at="before_llm_call")


MEANING: dict[str, set[str]] = {
    "block": {"before_llm_call", "before_tool_call"},
    "system_prompt": {"before_llm_call"},
    "hide_tools": {"before_llm_call"},
    "add_tools": {"before_llm_call"},
    "arguments": {"before_tool_call"},
    "result": {"after_tool_call"},
    "tool": {"before_tool_call", "after_tool_call"},
    "takes": set(get_args(HookPoint)),
    "raises": set(get_args(HookPoint)),
    "name": set(get_args(HookPoint)),
}
VALUES: dict[str, Any] = {
    "hide_tools": ["x"],
    "add_tools": {"x": {}},
    "arguments": {"x": 1},
    "takes": "1s",
}


@in_cases(product(MEANING, get_args(HookPoint)))
def test_a_hook_does_only_what_has_a_meaning_at_its_point(field: str, point: str) -> None:
    given_fields = {"at": point, field: VALUES.get(field, "x")}
    if point in MEANING[field]:
        assert ScriptedHook.model_validate(given_fields).at == point
    else:
        with pytest.raises(ValidationError, match=f"`{field}` has no meaning at {point}"):
            ScriptedHook.model_validate(given_fields)


def test_the_short_form_of_parameters_is_a_closed_object() -> None:
    tool = ScriptedTool(parameters={"path": "string", "lines": "integer?"})
    assert tool.schema_of_arguments() == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["path"],
        "additionalProperties": False,
    }


def properties(schema: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        for name, prop in schema.get("properties", {}).items():
            yield f"{where}.{name}", prop
        for key, inner in schema.items():
            title = inner.get("title", key) if isinstance(inner, dict) else where
            yield from properties(inner, str(title))


def test_an_editor_has_a_sentence_to_show_for_every_key() -> None:
    silent = [
        name
        for name, prop in properties(json.loads(schema_text()))
        if not prop.get("description", "").endswith(".")
    ]
    assert silent == []


def test_an_editor_refuses_unknown_keys_everywhere() -> None:
    schema = Scenario.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    open_ones = [m["title"] for m in models if m.get("additionalProperties", True) is not False]
    assert [name for name in open_ones if not schema["$defs"].get(name, {}).get("enum")] == []


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Validator:
    """A validator as an editor has one: built once, because that takes longer than a check."""
    return jsonschema_rs.validator_for(Scenario.model_json_schema())


def test_an_editor_accepts_every_bundled_scenario(validator: jsonschema_rs.Validator) -> None:
    def is_accepted(path: Path) -> None:
        assert [error.message for error in validator.iter_errors(read_yaml_file(path).data)] == []

    check_each(is_accepted, BUNDLED)
