"""Policies are settings: the documents' defaults, read from a file as strictly as limits are."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from simloop.kernel.policies import (
    Compaction,
    HookIsolation,
    Policies,
    ToolExecution,
)
from simloop.kernel.retry import ExponentialBackoff


def read(policy: type[object], document: dict[str, object]) -> object:
    """Read a policy as a file gives it, by the rules of JSON."""
    return TypeAdapter(policy).validate_json(json.dumps(document))


def refused(policy: type[object], document: dict[str, object]) -> list[object]:
    """List the keys that reading `document` complains about."""
    with pytest.raises(ValidationError) as found:
        read(policy, document)
    return [error["loc"] for error in found.value.errors()]


def test_a_compaction_has_the_defaults_of_the_documents() -> None:
    policy = Compaction()
    assert (policy.trigger, policy.target) == (48_000, 32_000)
    assert (policy.strategy, policy.keep_turns) == ("summarise", 4)


def test_a_loop_that_says_nothing_has_the_documents_policies_and_reports_no_long_run() -> None:
    policies = Policies()
    assert (policies.retry, policies.compaction) == (ExponentialBackoff(), Compaction())
    assert (policies.tool_execution, policies.warn_after) == (ToolExecution(), None)


def test_the_policies_of_a_loop_cannot_be_changed_by_one_of_its_runs() -> None:
    with pytest.raises(AttributeError):
        Policies().warn_after = 1  # type: ignore[misc]


def test_tools_run_as_the_loop_has_it_and_without_a_timeout_unless_told() -> None:
    policy = ToolExecution()
    assert (policy.order, policy.start, policy.timeout_ms) == (None, None, None)
    loops = ToolExecution(order="parallel", start="when-called")
    assert policy.on(loops) == loops
    told = ToolExecution(order="sequential", start="after-reply", timeout_ms=5)
    assert told.on(loops) == told


def test_a_failing_hook_is_isolated_after_five_seconds_unless_told() -> None:
    policy = HookIsolation()
    assert (policy.on_failure, policy.timeout_ms) == ("isolate", 5_000)


@pytest.mark.parametrize(
    ("key", "word", "policy"),
    [
        ("strategy", "summarise", Compaction(strategy="summarise")),
        ("strategy", "drop-oldest", Compaction(strategy="drop-oldest")),
        ("order", "sequential", ToolExecution(order="sequential")),
        ("order", "parallel", ToolExecution(order="parallel")),
        ("start", "when-called", ToolExecution(start="when-called")),
        ("start", "after-reply", ToolExecution(start="after-reply")),
        ("on_failure", "isolate", HookIsolation(on_failure="isolate")),
        ("on_failure", "fail-run", HookIsolation(on_failure="fail-run")),
        ("on_failure", "block-call", HookIsolation(on_failure="block-call")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_names_a_choice_by_its_word(key: str, word: str, policy: object) -> None:
    assert read(type(policy), {key: word}) == policy


@pytest.mark.parametrize(
    ("policy", "document"),
    [
        pytest.param(Compaction, {"window": 0}, id="no-window"),
        pytest.param(Compaction, {"trigger_percent": 0}, id="trigger-0"),
        pytest.param(Compaction, {"trigger_percent": 101}, id="trigger-101"),
        pytest.param(Compaction, {"target_percent": 0}, id="target-0"),
        pytest.param(Compaction, {"target_percent": 101}, id="target-101"),
        pytest.param(Compaction, {"keep_turns": 0}, id="keep-0"),
        pytest.param(Compaction, {"max_messages": 0}, id="messages-0"),
        pytest.param(Compaction, {"strategy": "forget"}, id="no-such-strategy"),
        pytest.param(Compaction, {"windows": 1}, id="no-such-setting"),
        pytest.param(HookIsolation, {"timeout": "0ms"}, id="hook-timeout-0"),
        pytest.param(HookIsolation, {"on_failure": "panic"}, id="no-such-isolation"),
        pytest.param(HookIsolation, {"timeout_ms": 1}, id="no-such-hook-setting"),
        pytest.param(ToolExecution, {"timeout": "0s"}, id="tool-timeout-0"),
        pytest.param(ToolExecution, {"order": "random"}, id="no-such-order"),
        pytest.param(ToolExecution, {"orders": "parallel"}, id="no-such-tool-setting"),
    ],
)
def test_a_file_cannot_set_a_policy_out_of_range(
    policy: type[object], document: dict[str, object]
) -> None:
    assert refused(policy, document) == [tuple(document)]


@pytest.mark.parametrize("value", ["64", True, 64.0], ids=["text", "yes", "decimal"])
@pytest.mark.parametrize(
    ("policy", "key"),
    [(Compaction, "window"), (HookIsolation, "timeout"), (ToolExecution, "timeout")],
    ids=["compaction", "hooks", "tools"],
)
def test_a_file_cannot_set_a_number_or_a_duration_by_anything_else(
    policy: type[object], key: str, value: object
) -> None:
    assert refused(policy, {key: value}) == [(key,)]
