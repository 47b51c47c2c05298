"""Without any one of its mends the reference loop fails the scenarios that guard it.

A mend is taken away in memory: by the option that turns it off, by another value for a table or a
method, or by another line of a function's source. The scenario passes before, and must fail then:
by what it expects, by its transcript, or because the run ends in no result at all.
"""

import asyncio
import dataclasses
import re
from typing import Any, NamedTuple

import pytest
from breaking import Break, edit, edited, swap
from test_bundled import unpaired

from simloop.engine import compaction
from simloop.engine.compaction import Compacted, Compactor
from simloop.engine.handlers import EffectHandlers
from simloop.engine.model_calls import CallIds, ReplySoFar
from simloop.engine.settings import EngineSettings
from simloop.engine.tool_calls import ToolCalls
from simloop.engine.user_code import UserCode
from simloop.errors import SimloopError
from simloop.kernel import errorclass, retry
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.retry import ExponentialBackoff as Backoff
from simloop.loops import reference
from simloop.loops.reference import ReferenceLoop as Loop
from simloop.loops.reference_options import ReferenceOptions
from simloop.messages import FinishReason
from simloop.runs.run import run
from simloop.scenario.catalog import find
from simloop.scenario.loader import load_scenario
from simloop.world.cancellation import Cancellation
from simloop.world.fake_model import ScriptedFailure
from simloop.world.tools_port import ToolsPort
from simloop.world.user_port import UserPort

# A loop without a mend may run for ever; no scenario that is named here needs half as many.
MAX_TRANSITIONS = 500
NEVER = re.compile(r"(?!)")


class Mend(NamedTuple):
    """A mend, the scenarios that must fail without it, and the breaks that remove it."""

    name: str
    scenarios: str
    breaks: tuple[Break, ...]


def without(option: str) -> Break:
    """Turn off the option of the reference loop that is the mend."""
    make = Loop.__init__

    def unmended(
        loop: Loop, limits: Limits | None = None, options: ReferenceOptions | None = None
    ) -> None:
        make(loop, limits, dataclasses.replace(options or ReferenceOptions(), **{option: False}))

    return swap(Loop, "__init__", unmended)


def runs_calls(*, also: str = "", never: str = "") -> Break:
    """Let the loop run the calls of other finish reasons."""
    reasons = {FinishReason(word) for word in (also, never) if word}
    return swap(reference, "_RUNS_ITS_CALLS", reference._RUNS_ITS_CALLS ^ reasons)


def mend(name: str, scenarios: str, *breaks: Break) -> Mend:
    return Mend(name, scenarios, breaks)


MENDS = (
    mend(
        "a stop that carries calls runs them",
        "stop-with-tool-calls",
        runs_calls(never="stop"),
    ),
    mend(
        "a length refuses its calls",
        "length-with-tool-calls length-with-whole-call",
        runs_calls(also="length"),
    ),
    mend(
        "a stream without a finish refuses its calls",
        "interrupted-with-tool-calls",
        runs_calls(also="interrupted"),
    ),
    mend(
        "tool-calls without calls is an error",
        "tool-calls-without-calls",
        without("missing_calls_fail"),
    ),
    mend(
        "a reply of no use spends a budget",
        "tool-calls-without-calls empty-replies",
        edit(Loop, "_follow", "self._recover(run, retryable=True)", "self._measure(run)"),
        edit(
            Loop,
            "_answer",
            *(
                "self._recover(run, retryable=True)\n    if queued",
                "self._measure(run)\n    if queued",
            ),
        ),
    ),
    mend(
        "an empty reply is an error",
        "empty-replies",
        without("empty_reply_fails"),
    ),
    mend(
        "a stream without a finish is an error",
        "finish-reasons/interrupted",
        without("unfinished_fails"),
    ),
    mend(
        "a finish reason that nobody knows completes the run",
        "unknown-word",
        edit(
            Loop,
            "_follow",
            *(
                "if reason is _TOOL_CALLS:",
                "if reason in (_TOOL_CALLS, FinishReason.OTHER):",
            ),
        ),
    ),
    mend(
        "a queued message goes before the end",
        "instead-of-the-end",
        edit(Loop, "_answer", "if queued:", "if False:"),
    ),
    mend(
        "errors have a limit",
        "limits/errors same-idle-limit errors-far-apart",
        edit(Loop, "_recover", "failed.error_count >= self.limits.max_error_count", "False"),
    ),
    mend(
        "steps have a limit",
        "limits/steps empty-arguments round-and-round",
        edit(Loop, "_exceeded", "run.total_steps >= self.limits.max_steps", "False"),
    ),
    mend(
        "a burst of steps is told apart",
        "step-burst",
        edit(Loop, "_take_reply", "signal.steps > self.limits.max_steps_per_round", "False"),
    ),
    mend(
        "a reply that reports no step counts as one",
        "no-steps-reported",
        edit(ReplySoFar, "keep", "max(1, part.steps)", "part.steps"),
    ),
    mend(
        "the wall clock ends a run",
        "limits/wall-clock wall-clock-in-backoff hangs-for-ever",
        edit(UserPort, "begin", "open(task, wall_clock_ms)", "open(task, None)"),
    ),
    mend(
        "an overflow forces a compaction",
        "overflow-error anthropic",
        without("overflow_compacts"),
    ),
    mend(
        "compactions have a limit",
        "still-too-long none-allowed",
        edit(
            Loop,
            "_make_room",
            *("run.compaction_attempts >= self.limits.max_compaction_attempts", "False"),
        ),
    ),
    mend(
        "compactions are counted when they are tried",
        "tries-count",
        without("count_tries"),
    ),
    mend(
        "a forced compaction without gain ends the run",
        "no-gain identical-prompt",
        edit(Loop, "_resume", "if forced:", "if False:"),
    ),
    mend(
        "only what is smaller counts as compacted",
        "no-gain",
        swap(Compacted, "shrunk", property(lambda _: True)),
    ),
    mend(
        "a summary that is no shorter is thrown away",
        "summary-longer",
        edit(Compactor, "_summarise", "if shorter.tokens >= history.tokens:", "if False:"),
    ),
    mend(
        "a summary that was cut off is thrown away",
        "summary-cut",
        edit(
            Compactor,
            "_ask_for_summary",
            *("reply.finish not in (FinishReason.STOP, FinishReason.OTHER) or not", "not"),
        ),
    ),
    mend(
        "a summary of no use gives way to dropping the oldest turns",
        "summary-fails summary-stalls summary-lost",
        edit(Compactor, "shorten", "if not strategy and", "if False and"),
    ),
    mend(
        "a forced compaction goes below what was refused",
        "providers/bedrock",
        edit(
            Compactor,
            "_drop_oldest",
            *("if forced or", "if"),
        ),
    ),
    mend(
        "a call and its results go or stay together",
        "keeps-pairs",
        edit(compaction, "turns_of", "isinstance(message, ToolMessage) and turns", "False"),
    ),
    mend(
        "the newest user message stays",
        "newest-question compaction/normal",
        edit(compaction, "plan_cut", "index != newest_user and", ""),
    ),
    mend(
        "an earlier summary is not dropped",
        "second-summary-fails",
        edit(compaction, "plan_cut", "lasting = down_to", "lasting = False and down_to"),
    ),
    mend(
        "a Retry-After is capped",
        "retry-after-huge retry-after-date",
        edit(Backoff, "delay_ns", "min(asked, self.max_retry_after_ms * _NS_PER_MS)", "asked"),
    ),
    mend(
        "a backoff is capped, with headers or without",
        "plain-headers",
        edit(
            Backoff, "delay_ns", "min(failures - 1, 64), self.max_delay_ms", "failures - 1, 10**9"
        ),
    ),
    mend(
        "a date that is past is no wait",
        "retry-after-useless date-has-passed",
        edit(retry, "until_ns", "wait_ns if wait_ns > 0 else None", "max(wait_ns, 0)"),
    ),
    mend(
        "a quota is not waited for",
        "retry/quota insufficient-quota payment-required",
        swap(retry, "RETRYABLE", retry.RETRYABLE | {ErrorClass.QUOTA}),
    ),
    mend(
        "a status goes before the words of its body",
        "retry/auth auth-says-server-error",
        swap(errorclass, "_CODE_BEATS_STATUS", {*ErrorClass}),
    ),
    mend(
        "throttling is no overflow",
        "bedrock-throttling",
        swap(errorclass, "_THROTTLE", NEVER),
    ),
    mend(
        "an overflow is known by its words",
        "anthropic gemini providers/bedrock xai gateways local-servers other-wordings",
        swap(errorclass, "_OVERFLOW", NEVER),
    ),
    mend(
        "calls have ids of their own",
        "duplicated-ids missing-ids",
        swap(CallIds, "own", lambda _, call, __: call),
    ),
    mend(
        "calls that are open when a run ends are answered",
        "in-tool before-the-finish limits/wall-clock",
        edit(
            EffectHandlers, "finish", "await self._tool_calls.settle(why, self._timeouts)", "pass"
        ),
    ),
    mend(
        "a tool that cancels itself is answered",
        "cancels-itself cancels-in-parallel",
        edit(ToolsPort, "begin", "result = _cancelled()", "raise"),
        edit(ToolsPort, "wait", "result = _cancelled()", "raise"),
    ),
    mend(
        "a tool that raises is answered",
        "tools/exception one-of-three-fails",
        edit(
            ToolsPort,
            "_failure",
            *("return failed(message_of(error) or type(error).__name__)", "raise error"),
        ),
    ),
    mend(
        "a result after the timeout is too late",
        "late-result",
        edit(ToolsPort, "wait", "if timeout.expired:", "if False:"),
    ),
    mend(
        "after an abort no tool starts",
        "tool-goes-on",
        edit(ToolCalls, "_may_begin", "self._cancellation.check()", "pass"),
    ),
    mend(
        "an abort in the turn between two tools is taken before the second one",
        "tool-goes-on between-tools",
        edit(ToolCalls, "_may_begin", "self._cancellation.check()", "pass"),
        swap(Cancellation, "_cancel", lambda _: None),
    ),
    mend(
        "an abort interrupts whatever waits",
        "in-backoff in-compaction in-hook before-first-part mid-stream",
        swap(Cancellation, "_cancel", lambda _: None),
    ),
    mend(
        "a hook that raises is isolated",
        "failure-isolated failure-in-batch",
        edit(
            UserCode,
            "_failed",
            'return "failed", describe(error), message_of(error) or type(error).__name__',
            "raise error",
        ),
    ),
    mend(
        "a hook that hangs costs its timeout",
        "hook-hangs never-returns",
        edit(
            UserCode,
            "_wait",
            *("timeouts.after(self._isolation.timeout_ms)", "timeouts.after(10**9)"),
        ),
    ),
)


def wrong_with(name: str) -> list[str]:
    """What is wrong with a run of the scenario; nothing if it passes."""
    scenario = load_scenario(find(name))
    try:
        result = run(scenario)
    except (SimloopError, AssertionError, ScriptedFailure, asyncio.CancelledError) as error:
        return [f"{type(error).__name__}: {error}"]
    transcripts = [*(request.messages for request in result.requests), result.messages]
    alone = [f"call {one} is not paired" for messages in transcripts for one in unpaired(messages)]
    return [*result.failures, *alone]


def bound(patch: pytest.MonkeyPatch) -> None:
    """Let no run go on for ever."""
    defaults: Any = EngineSettings.__init__.__kwdefaults__
    patch.setitem(defaults, "max_transitions", MAX_TRANSITIONS)


@pytest.mark.parametrize("mend", MENDS, ids=lambda mend: mend.name)
def test_without_it_its_scenarios_fail(mend: Mend, monkeypatch: pytest.MonkeyPatch) -> None:
    names = mend.scenarios.split()
    assert {name: wrong_with(name) for name in names} == {name: [] for name in names}
    bound(monkeypatch)
    for take_away in mend.breaks:
        take_away(monkeypatch)
    assert [name for name in names if not wrong_with(name)] == []


def test_the_bound_alone_fails_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch)
    names = sorted({name for mend in MENDS for name in mend.scenarios.split()})
    assert [name for name in names if wrong_with(name)] == []


def test_a_text_that_is_not_in_the_source_is_no_edit() -> None:
    with pytest.raises(AssertionError, match="`no such line` stands 0 times"):
        edited(Loop.start, "no such line", "pass")
