"""Without any one of its mends the reference loop fails the scenarios that guard it.

A mend is taken away by the option or the setting that turns it off, or by another value for a table
or a method. The scenario passes before, and must fail then: by what it expects, by its transcript,
or because the run ends in no result at all. LoopBench has faults for the mends without a switch.
"""

import asyncio
import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from test_bundled import unpaired

from simloop.engine.context import Compacted
from simloop.engine.model_calls import CallIds
from simloop.errors import SimloopError
from simloop.kernel import errorclass, limits, retry
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.policies import HookIsolation
from simloop.kernel.retry import ExponentialBackoff
from simloop.loops import reference
from simloop.messages import FinishReason
from simloop.runs.run import run
from simloop.scenario.catalog import find
from simloop.scenario.designs import LoopOptions
from simloop.scenario.loader import load_scenario
from simloop.world.fake_model import ScriptedFailure
from simloop.world.user_port import Cancellation

# A loop without a mend may run for ever; no scenario that is named here needs half as many.
MAX_TRANSITIONS = 500
NEVER = re.compile(r"(?!)")
FOR_EVER = 10**9
Break = Callable[[pytest.MonkeyPatch], None]
DEFAULTS: dict[str, Any] = {
    "limits": Limits(),
    "retry": ExponentialBackoff(),
    "hook_isolation": HookIsolation(),
}


class Mend(NamedTuple):
    """A mend, the scenarios that must fail without it, and what takes it away."""

    name: str
    scenarios: str
    take_away: Break | Mapping[str, Mapping[str, Any]]


def swap(owner: Any, name: str, value: Any) -> Break:
    """Replace a table or a method by another value."""
    return lambda patch: patch.setattr(owner, name, value)


def without(option: str) -> Mapping[str, Mapping[str, Any]]:
    """Turn off the option of the reference loop that is the mend."""
    return {"loops": {"reference": {option: False}}}


def runs_calls(*, also: str = "", never: str = "") -> Break:
    """Let the loop run the calls of other finish reasons."""
    reasons = {FinishReason(word) for word in (also, never) if word}
    return swap(reference, "_RUNS_ITS_CALLS", reference._RUNS_ITS_CALLS ^ reasons)


MENDS = (
    Mend("a stop that carries calls runs them", "stop-with-tool-calls", runs_calls(never="stop")),
    Mend(
        "a length refuses its calls",
        "length-with-tool-calls length-with-whole-call",
        runs_calls(also="length"),
    ),
    Mend(
        "a stream without a finish refuses its calls",
        "interrupted-with-tool-calls",
        runs_calls(also="interrupted"),
    ),
    Mend(
        "tool-calls without calls is an error",
        "tool-calls-without-calls",
        without("missing_calls_fail"),
    ),
    Mend("an empty reply is an error", "empty-replies", without("empty_reply_fails")),
    Mend(
        "a stream without a finish is an error",
        "finish-reasons/interrupted",
        without("unfinished_fails"),
    ),
    Mend(
        "errors have a limit",
        "limits/errors same-idle-limit errors-far-apart",
        {"limits": {"max_error_count": FOR_EVER}},
    ),
    Mend(
        "steps have a limit",
        "limits/steps empty-arguments round-and-round",
        {"limits": {"max_steps": FOR_EVER}},
    ),
    Mend(
        "a burst of steps is told apart",
        "step-burst",
        {"limits": {"max_steps_per_round": FOR_EVER}},
    ),
    Mend(
        "the wall clock ends a run",
        "limits/wall-clock wall-clock-in-backoff hangs-for-ever",
        {"limits": {"max_wall_clock_ms": None}},
    ),
    Mend(
        "compactions have a limit",
        "still-too-long none-allowed",
        {"limits": {"max_compaction_attempts": FOR_EVER}},
    ),
    Mend(
        "an overflow forces a compaction", "overflow-error anthropic", without("overflow_compacts")
    ),
    Mend("compactions are counted when they are tried", "tries-count", without("count_tries")),
    Mend(
        "only what is smaller counts as compacted",
        "no-gain",
        swap(Compacted, "shrunk", property(lambda _: True)),
    ),
    Mend(
        "a Retry-After is capped",
        "retry-after-huge retry-after-date",
        {"retry": {"max_retry_after_ms": FOR_EVER}},
    ),
    Mend("a backoff is capped", "plain-headers", {"retry": {"max_delay_ms": FOR_EVER}}),
    Mend(
        "a quota is not waited for",
        "retry/quota insufficient-quota payment-required",
        swap(retry, "RETRYABLE", retry.RETRYABLE | {ErrorClass.QUOTA}),
    ),
    Mend(
        "a status goes before the words of its body",
        "retry/auth auth-says-server-error",
        swap(errorclass, "_CODE_BEATS_STATUS", {*ErrorClass}),
    ),
    Mend("throttling is no overflow", "bedrock-throttling", swap(errorclass, "_THROTTLE", NEVER)),
    Mend(
        "an overflow is known by its words",
        "anthropic gemini providers/bedrock xai gateways local-servers other-wordings",
        swap(errorclass, "_OVERFLOW", NEVER),
    ),
    Mend(
        "calls have ids of their own",
        "duplicated-ids missing-ids",
        swap(CallIds, "own", lambda _, call, __: call),
    ),
    Mend(
        "an abort interrupts whatever waits",
        "in-backoff in-compaction in-hook before-first-part mid-stream",
        swap(Cancellation, "_cancel", lambda _: None),
    ),
    Mend(
        "a hook that hangs costs its timeout",
        "hook-hangs never-returns",
        {"hook_isolation": {"timeout_ms": FOR_EVER}},
    ),
)


def wrong_with(name: str, settings: Mapping[str, Mapping[str, Any]] | None = None) -> list[str]:
    """What is wrong with a run of the scenario; nothing if it passes."""
    scenario: Any = load_scenario(find(name))
    changed = {
        field: LoopOptions(**values)
        if field == "loops"
        else dataclasses.replace(getattr(scenario, field) or DEFAULTS[field], **values)
        for field, values in (settings or {}).items()
    }
    try:
        result = run(scenario.model_copy(update=changed))
    except (SimloopError, AssertionError, ScriptedFailure, asyncio.CancelledError) as error:
        return [f"{type(error).__name__}: {error}"]
    transcripts = [*(request.messages for request in result.requests), result.messages]
    alone = [f"call {one} is not paired" for messages in transcripts for one in unpaired(messages)]
    return [*result.failures, *alone]


def bound(patch: pytest.MonkeyPatch) -> None:
    """Let no run go on for ever."""
    patch.setattr(limits, "USUAL_MOVES", MAX_TRANSITIONS)


@pytest.mark.parametrize("mend", MENDS, ids=lambda mend: mend.name)
def test_without_it_its_scenarios_fail(mend: Mend, monkeypatch: pytest.MonkeyPatch) -> None:
    names = mend.scenarios.split()
    assert {name: wrong_with(name) for name in names} == {name: [] for name in names}
    bound(monkeypatch)
    settings = None
    if isinstance(mend.take_away, Mapping):
        settings = mend.take_away
    else:
        mend.take_away(monkeypatch)
    assert [name for name in names if not wrong_with(name, settings)] == []


def test_the_bound_alone_fails_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch)
    names = sorted({name for mend in MENDS for name in mend.scenarios.split()})
    assert [name for name in names if wrong_with(name)] == []
