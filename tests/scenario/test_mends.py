"""Without any one of its mends the reference loop fails the scenarios that guard it.

A mend is taken away in memory, by another value for a table or a method, or by another line of a
function's source. The scenario passes before, and must fail then: by what it expects, by its
transcript, or because the run ends in no result at all.
"""

import asyncio
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from test_bundled import unpaired

from simloop.errors import SimloopError
from simloop.kernel import errorclass, retry
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.retry import ExponentialBackoff
from simloop.loops import reference
from simloop.loops.reference import ReferenceLoop
from simloop.messages import FinishReason
from simloop.scenario.catalog import find
from simloop.scenario.loader import load_scenario
from simloop.scenario.simulation import run
from simloop.scenario.world import ScriptedFailure
from simloop.sim import compaction
from simloop.sim.compaction import Compacted, Compactor
from simloop.sim.driver import Driver
from simloop.sim.interrupts import Interrupts
from simloop.sim.modelcalls import ModelCalls
from simloop.sim.toolcalls import ToolCalls
from simloop.sim.usercode import UserCode
from simloop.sim.world import World

Break = Callable[[pytest.MonkeyPatch], None]

# A loop without a mend may run for ever; no scenario that is named here needs half as many.
MAX_TRANSITIONS = 500
NEVER = re.compile(r"(?!)")


class Mend(NamedTuple):
    """What was mended, what takes it away, and the scenarios that must fail then."""

    name: str
    breaks: tuple[Break, ...]
    scenarios: tuple[str, ...]


def swap(owner: Any, name: str, value: Any) -> Break:
    """Put another value in the place of a table or a method."""
    return lambda patch: patch.setattr(owner, name, value)


def edit(owner: Any, name: str, *changes: tuple[str, str]) -> Break:
    """Put another text in the place of one that stands once in a function's source."""
    return lambda patch: patch.setattr(owner, name, edited(getattr(owner, name), *changes))


def edited(function: Any, *changes: tuple[str, str]) -> Any:
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        assert source.count(old) == 1, f"`{old}` stands {source.count(old)} times in:\n{source}"
        source = source.replace(old, new)
    made: dict[str, Any] = {}
    exec(source, function.__globals__, made)
    return made[function.__name__]


async def nothing(*_: Any) -> None:
    """In the place of a method that is taken away."""


RUNS_ITS_CALLS = reference._RUNS_ITS_CALLS

MENDS = (
    Mend(
        "a stop that carries calls runs them",
        (swap(reference, "_RUNS_ITS_CALLS", RUNS_ITS_CALLS - {FinishReason.STOP}),),
        ("stop-with-tool-calls",),
    ),
    Mend(
        "a length refuses its calls",
        (swap(reference, "_RUNS_ITS_CALLS", RUNS_ITS_CALLS | {FinishReason.LENGTH}),),
        ("length-with-tool-calls", "length-with-whole-call"),
    ),
    Mend(
        "a stream without a finish refuses its calls",
        (swap(reference, "_RUNS_ITS_CALLS", RUNS_ITS_CALLS | {FinishReason.INTERRUPTED}),),
        ("interrupted-with-tool-calls",),
    ),
    Mend(
        "tool-calls without calls is an error",
        (
            edit(
                ReferenceLoop,
                "_follow",
                ("reply.text and reply.finish is not FinishReason.TOOL_CALLS", "reply.text"),
            ),
        ),
        ("tool-calls-without-calls",),
    ),
    Mend(
        "a reply of no use spends a budget",
        (
            edit(
                ReferenceLoop,
                "_follow",
                ("if reply.calls or (done and queued)", "if reply.calls or queued or not done"),
            ),
        ),
        ("tool-calls-without-calls", "empty-replies"),
    ),
    Mend(
        "an empty reply is an error",
        (edit(ReferenceLoop, "_follow", ("done = reply.text and", "done =")),),
        ("empty-replies", "network-error"),
    ),
    Mend(
        "a stream without a finish is an error",
        (
            edit(
                ReferenceLoop,
                "_follow",
                ("case FinishReason.INTERRUPTED:", "case FinishReason.INTERRUPTED if False:"),
                ("case FinishReason.STOP |", "case FinishReason.INTERRUPTED | FinishReason.STOP |"),
            ),
        ),
        ("interrupted",),
    ),
    Mend(
        "a finish reason that nobody knows completes the run",
        (
            edit(
                ReferenceLoop,
                "_follow",
                ("is not FinishReason.TOOL_CALLS", "is FinishReason.STOP"),
            ),
        ),
        ("unknown-word",),
    ),
    Mend(
        "errors have a limit",
        (
            edit(
                ReferenceLoop,
                "_recover",
                ("failed.error_count >= self.limits.max_error_count", "False"),
            ),
        ),
        ("limits/errors", "same-idle-limit", "errors-far-apart"),
    ),
    Mend(
        "an overflow forces a compaction",
        (edit(ReferenceLoop, "_decide", ("if error is ErrorClass.OVERFLOW:", "if False:")),),
        ("overflow-error", "anthropic"),
    ),
    Mend(
        "compactions have a limit",
        (
            edit(
                ReferenceLoop,
                "_make_room",
                ("run.compaction_attempts >= self.limits.max_compaction_attempts", "False"),
            ),
        ),
        ("still-too-long", "none-allowed"),
    ),
    Mend(
        "compactions are counted when they are tried",
        (
            edit(
                ReferenceLoop,
                "_resume",
                ("run.compaction_attempts + 1", "run.compaction_attempts + shrunk"),
            ),
        ),
        ("identical-prompt", "refilled"),
    ),
    Mend(
        "a forced compaction without gain ends the run",
        (edit(ReferenceLoop, "_resume", ("if forced:", "if False:")),),
        ("no-gain", "identical-prompt"),
    ),
    Mend(
        "only what is smaller counts as compacted",
        (swap(Compacted, "shrunk", property(lambda _: True)),),
        ("no-gain",),
    ),
    Mend(
        "a summary that is no shorter is thrown away",
        (edit(Compactor, "_summarise", ("if shorter.tokens >= history.tokens:", "if False:")),),
        ("summary-longer",),
    ),
    Mend(
        "a summary that was cut off is thrown away",
        (
            edit(
                Compactor,
                "_summarise",
                ("reply.finish not in (FinishReason.STOP, FinishReason.OTHER) or not", "not"),
            ),
        ),
        ("summary-cut",),
    ),
    Mend(
        "a summary of no use gives way to dropping the oldest turns",
        (edit(Compactor, "shorten", ("if not strategy and", "if False and")),),
        ("summary-fails", "summary-stalls", "summary-lost"),
    ),
    Mend(
        "a forced compaction goes below what was refused",
        (
            edit(
                Compactor,
                "_drop_oldest",
                ("min(self._policy.target, history.tokens // 2)", "self._policy.target"),
            ),
        ),
        ("bedrock",),
    ),
    Mend(
        "a call and its results go or stay together",
        (edit(compaction, "turns_of", ("isinstance(message, ToolMessage) and turns", "False")),),
        ("keeps-pairs",),
    ),
    Mend(
        "the newest user message stays",
        (edit(compaction, "plan_cut", ("index != newest_user and", "")),),
        ("newest-question", "compaction/normal"),
    ),
    Mend(
        "an earlier summary is not dropped",
        (
            edit(
                compaction, "plan_cut", ("lasting = down_to is not None and", "lasting = False and")
            ),
        ),
        ("second-summary-fails",),
    ),
    Mend(
        "a Retry-After is capped",
        (
            edit(
                ExponentialBackoff,
                "delay_ns",
                ("min(asked, self.max_retry_after_ms * _NS_PER_MS)", "asked"),
            ),
        ),
        ("retry-after-huge", "retry-after-date"),
    ),
    Mend(
        "a backoff is capped, with headers or without",
        (
            edit(
                ExponentialBackoff,
                "delay_ns",
                (
                    "min(self.initial_ms << min(failures - 1, 64), self.max_ms)",
                    "self.initial_ms << min(failures - 1, 64)",
                ),
            ),
        ),
        ("plain-headers",),
    ),
    Mend(
        "a date that is past is no wait",
        (edit(retry, "_until", ("wait_ns if wait_ns > 0 else None", "max(wait_ns, 0)")),),
        ("retry-after-useless", "date-has-passed"),
    ),
    Mend(
        "a quota is not waited for",
        (swap(retry, "RETRYABLE", retry.RETRYABLE | {ErrorClass.QUOTA}),),
        ("quota", "insufficient-quota", "payment-required"),
    ),
    Mend(
        "a status goes before the words of its body",
        (
            swap(
                errorclass,
                "_CODE_BEATS_STATUS",
                errorclass._CODE_BEATS_STATUS | {ErrorClass.SERVER},
            ),
        ),
        ("retry/auth", "auth-says-server-error"),
    ),
    Mend(
        "throttling is no overflow",
        (swap(errorclass, "_THROTTLE", NEVER),),
        ("bedrock-throttling",),
    ),
    Mend(
        "an overflow is known by its words",
        (swap(errorclass, "_OVERFLOW", NEVER),),
        ("anthropic", "gemini", "bedrock", "xai", "gateways", "local-servers", "other-wordings"),
    ),
    Mend(
        "calls have ids of their own",
        (swap(ModelCalls, "_unique", lambda _, call_id: call_id),),
        ("duplicated-ids", "missing-ids"),
    ),
    Mend(
        "calls that are open when a run ends are answered",
        (
            edit(Driver, "_finish", ("await self._tool_calls.settle(why, self._watch)", "pass")),
            swap(ToolCalls, "settle_quietly", lambda *_: None),
        ),
        ("in-tool", "before-the-finish", "wall-clock"),
    ),
    Mend(
        "a tool that cancels itself is answered",
        (edit(ToolCalls, "_execute", ('return _failed("the tool was cancelled")', "raise")),),
        ("cancels-itself", "cancels-in-parallel"),
    ),
    Mend(
        "a tool that raises is answered",
        (
            edit(
                ToolCalls,
                "_execute",
                ("return _failed(message_of(error) or type(error).__name__)", "raise"),
            ),
        ),
        ("tools/exception", "one-of-three-fails"),
    ),
    Mend(
        "a result after the timeout is too late",
        (edit(ToolCalls, "_wait_for", ("if deadline.expired else", "if False else")),),
        ("late-result",),
    ),
    Mend(
        "after an abort no tool starts",
        (
            edit(ToolCalls, "_prepare", ("self._interrupts.check()", "pass")),
            edit(ToolCalls, "_run_one", ("self._interrupts.check()", "pass")),
        ),
        ("tool-goes-on", "between-tools"),
    ),
    Mend(
        "an abort interrupts whatever waits",
        (swap(Interrupts, "_cancel", lambda _: None),),
        ("in-backoff", "in-compaction", "in-hook", "before-first-part", "mid-stream"),
    ),
    Mend(
        "the wall clock ends a run",
        (swap(Driver, "_set_wall_clock", lambda _: None),),
        ("wall-clock", "wall-clock-in-backoff", "hangs-for-ever"),
    ),
    Mend(
        "a hook that raises is isolated",
        (edit(UserCode, "_call", ('return "failed", describe(error)', "raise")),),
        ("failure-isolated", "failure-in-batch"),
    ),
    Mend(
        "a hook that hangs costs its timeout",
        (
            edit(
                UserCode,
                "_call",
                ("watch.deadline(self._isolation.timeout_ms)", "watch.deadline(10**9)"),
            ),
        ),
        ("hook-hangs", "never-returns"),
    ),
    Mend(
        "steps have a limit",
        (edit(ReferenceLoop, "_exceeded", ("run.total_steps >= self.limits.max_steps", "False")),),
        ("limits/steps", "empty-arguments", "round-and-round"),
    ),
    Mend(
        "a burst of steps is told apart",
        (
            edit(
                ReferenceLoop,
                "_take_reply",
                ("signal.steps > self.limits.max_steps_per_round", "False"),
            ),
        ),
        ("step-burst",),
    ),
    Mend(
        "a reply that reports no step counts as one",
        (edit(ModelCalls, "_take", ("max(1, steps)", "steps")),),
        ("no-steps-reported",),
    ),
    Mend(
        "a queued message goes before the end",
        (edit(ReferenceLoop, "_follow", ("(done and queued)", "False")),),
        ("instead-of-the-end",),
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


@pytest.mark.parametrize("mend", MENDS, ids=lambda mend: mend.name)
def test_without_it_its_scenarios_fail(mend: Mend, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = {name: wrong_with(name) for name in mend.scenarios}
    assert passed == {name: [] for name in mend.scenarios}
    bounds: Any = World.__init__.__kwdefaults__
    monkeypatch.setitem(bounds, "max_transitions", MAX_TRANSITIONS)
    for take_away in mend.breaks:
        take_away(monkeypatch)
    assert [name for name in mend.scenarios if not wrong_with(name)] == []


def test_the_bound_alone_fails_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: Any = World.__init__.__kwdefaults__
    monkeypatch.setitem(bounds, "max_transitions", MAX_TRANSITIONS)
    names = sorted({name for mend in MENDS for name in mend.scenarios})
    assert [name for name in names if wrong_with(name)] == []


def test_a_text_that_is_not_in_the_source_is_no_edit() -> None:
    with pytest.raises(AssertionError, match="`no such line` stands 0 times"):
        edited(ReferenceLoop.start, ("no such line", "pass"))
