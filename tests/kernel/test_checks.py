from collections.abc import Callable
from typing import Any

import pytest

from simloop import (
    Compaction,
    ExponentialBackoff,
    HookIsolation,
    Limits,
    ScenarioError,
    WireOptions,
)
from simloop import ToolExecution as Execution
from simloop.kernel.checks import as_written, written_name
from simloop.loops.opencode import OpencodeOptions
from simloop.loops.pi import PiOptions
from simloop.loops.react import ReactOptions


def test_a_word_is_kept_as_it_was_given() -> None:
    assert Execution(order="parallel").order == "parallel"
    assert HookIsolation(on_failure="fail-run").on_failure == "fail-run"
    policy = Compaction(strategy="drop-oldest")
    assert policy.strategy == "drop-oldest"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: HookIsolation(on_failure="fail"), "hook_isolation.on_failure: 'fail' is none of"),  # type: ignore[arg-type]
        (lambda: Compaction(window=-5), "compaction.window: -5 is too small: must be at least 1"),
        (lambda: Compaction(trigger_percent=101), "compaction.trigger_percent: 101 is too large"),
        (lambda: ExponentialBackoff(jitter=5), "retry.jitter: 5 is too large: must be at most 1"),
        (lambda: ExponentialBackoff(jitter=float("nan")), "retry.jitter: nan is too small"),
        (lambda: Limits(max_steps="3"), "limits.max_steps: '3' is no number that fits here"),  # type: ignore[arg-type]
        (lambda: Limits(max_steps=True), "limits.max_steps: True is no number that fits here"),
        (lambda: Execution(timeout_ms=0), "tool_execution.timeout_ms: 0 is too small"),
    ],
)
def test_what_a_file_could_not_say_is_refused_in_python_too(
    make: Callable[[], object], says: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        make()
    assert str(refused.value).startswith(says)


def test_what_may_be_left_out_may_be_none() -> None:
    assert Execution(timeout_ms=None).timeout_ms is None
    assert Limits(max_wall_clock_ms=None).max_wall_clock_ms is None


def test_a_share_may_be_a_whole_number() -> None:
    assert ExponentialBackoff(jitter=1).jitter == 1


def test_a_flag_stays_as_it_was_given() -> None:
    assert PiOptions(parallel=True).parallel is True
    assert OpencodeOptions(calls_go_on=False).calls_go_on is False
    assert ReactOptions(all_calls=True).all_calls is True


@pytest.mark.parametrize("value", [1, 0, "yes", "true", None, []], ids=repr)
def test_what_only_looks_like_a_truth_value_is_no_flag(value: object) -> None:
    with pytest.raises(ScenarioError) as refused:
        ReactOptions(all_calls=value)  # type: ignore[arg-type]
    assert str(refused.value) == f"loops.react.all_calls: {value!r} is neither true nor false"


def test_a_flag_takes_no_word() -> None:
    with pytest.raises(ScenarioError, match=r"loops\.pi\.parallel: 'no' is neither true nor false"):
        PiOptions(parallel="no")  # type: ignore[arg-type]


def test_a_word_stands_among_flags_and_a_number_is_still_checked() -> None:
    assert OpencodeOptions(steps="advise").steps == "advise"
    with pytest.raises(ScenarioError, match=r"loops\.opencode\.max_retries: True is no number"):
        OpencodeOptions(max_retries=True)


def test_settings_are_written_with_the_keys_of_a_file_and_their_units() -> None:
    written = as_written(Limits(max_wall_clock_ms=1_500))
    assert written["max_wall_clock"] == "1.5s"
    assert written["model_call_timeout"] == "600s"
    assert (written["max_steps"], written_name("max_steps")) == (100, "max_steps")
    assert not any(name.endswith("_ms") for name in written)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"framing": "crfl"}, r"wire\.framing: 'crfl' is none of lf, crlf, bytes, "),
        ({"framing": ["cr"]}, r"wire\.framing: \['cr'\] is none of "),
        ({"pings": 1}, r"wire\.pings: 1 is neither true nor false"),
        ({"rate_limit_tokens": -1}, r"wire\.rate_limit_tokens: -1 is too small"),
    ],
)
def test_options_of_the_wire_are_checked_when_they_are_made(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ScenarioError, match=said):
        WireOptions(**given)
