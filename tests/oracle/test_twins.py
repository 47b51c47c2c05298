"""The twin of each design tells of a machine that decides or declares otherwise."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from faultyruns import DONE, LOOK, Advance, hearing, scenario, violated

from oracle.policies import misjudges, right_class, wait_range
from simloop import ExponentialBackoff, Scenario
from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import AbortRule, Bound, Design, Run, Transition
from simloop.kernel.policies import Compaction, ToolExecution
from simloop.kernel.retry import RetryPolicy, StatusRetry
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished
from simloop.loops.opencode import OpencodeLoop, OpencodeOptions, OpencodeRetry
from simloop.loops.pi import PiLoop, PiOptions
from simloop.loops.react import ReactLoop, ReactOptions
from simloop.loops.reference import DOCUMENTED, ReferenceLoop
from simloop.messages import Fault, Outcome

KINDS = {
    "reference": ReferenceLoop, "pi": PiLoop, "react": ReactLoop, "opencode": OpencodeLoop,
}  # fmt: skip
DOCS, REAL_PI, REAL_OPENCODE = "reference@documented", "pi@0.87.1", "opencode@1.18.34"


# ------------------------------------------------------------------ decisions


def asking(kind: type[Effect], **fields: Any) -> Advance:
    """Have the machine ask for an effect of this kind with other fields."""

    def advance(right: Any, run: Run, signal: Signal) -> Transition:
        after, asked = right(run, signal)
        return after, tuple(
            msgspec.structs.replace(each, **fields) if isinstance(each, kind) else each
            for each in asked
        )

    return advance


def without(kind: type) -> Advance:
    """Have the machine leave out the effects of this kind."""

    def advance(right: Any, run: Run, signal: Signal) -> Transition:
        after, asked = right(run, signal)
        return after, tuple(each for each in asked if type(each) is not kind)

    return advance


def counting(kind: type, **counters: int) -> Advance:
    """Have the machine count otherwise on signals of this kind."""

    def advance(right: Any, run: Run, signal: Signal) -> Transition:
        after, asked = right(run, signal)
        return msgspec.structs.replace(after, **counters) if type(signal) is kind else after, asked

    return advance


def ending(outcome: Outcome, limit: str = "") -> Advance:
    def advance(right: Any, run: Run, signal: Signal) -> Transition:
        after, asked = right(run, signal)
        return after.to(Finished(outcome, limit)) if type(after.state) is Finished else after, asked

    return advance


CUT = {"say": "The first half", "finish": "length"}
BROKEN = {"say": "So", "unfinished": True}
FILTERED = {"say": "How to", "finish": "content_filter"}
FAILS = {"http": {"status": 500}}
TOO_LONG = {"http": {"status": 400, "message": "400 prompt is too long"}}
MANY = {"say": "Done.", "steps": 3}
ONE_STEP, TWO_STEPS = {"max_steps": 1}, {"max_steps": 2}
SHRINKS = {"over": [False], "shrunk": [True]}
FULL = {"over": [True, False], "shrunk": [True]}
SAID = [{"say": "And then?", "after": "finish"}]
VETO = [{"at": "before_tool_call", "block": "no"}]
ABORTED = {"after": "backoff"}
ENFORCED = {"opencode": {"steps": "enforce"}}

DECISIONS: list[tuple[str, Advance, Scenario]] = [
    # What is kept of a reply, and of a step that is stopped.
    ("reference", asking(effects.CloseStep, keep=True), scenario(CUT, DONE, context=SHRINKS)),
    (DOCS, asking(effects.CloseStep, keep=False), scenario(CUT, DONE, context=SHRINKS)),
    ("reference", asking(effects.EndRun, keep=False), scenario(FAILS, DONE, abort=ABORTED)),
    (REAL_PI, asking(effects.CloseStep, keep=True), scenario(BROKEN)),
    (REAL_OPENCODE, asking(effects.CloseStep, keep=True), scenario(FILTERED)),
    (REAL_OPENCODE, asking(effects.CloseStep, keep_thoughts=False), scenario(DONE)),
    # Retries, waits and compactions.
    ("reference", asking(effects.Backoff, failures=1), scenario(FAILS, FAILS, DONE)),
    (DOCS, asking(effects.Backoff, polls=False), scenario(FAILS, DONE)),
    ("reference", asking(effects.Compact, forced=False), scenario(CUT, DONE, context=SHRINKS)),
    ("pi", asking(effects.Compact, forced=True), scenario(DONE, context=FULL)),
    (REAL_OPENCODE, asking(effects.Compact, marker=""), scenario(TOO_LONG, DONE, context=SHRINKS)),
    ("opencode", asking(effects.Compact, then_say=""), scenario(DONE, DONE, context=FULL)),
    # The messages of the user.
    ("reference", hearing(signals.StepClosed, steering=False), scenario(DONE, DONE, queue=SAID)),
    ("reference", without(effects.TakeQueued), scenario(DONE)),
    ("pi", asking(effects.TakeQueued, one=False), scenario(DONE)),
    ("opencode", hearing(signals.StepClosed, steering=False), scenario(DONE, DONE, queue=SAID)),
    # Calls and tools.
    ("reference", asking(effects.RunTools, first_only=True), scenario(LOOK, DONE)),
    (REAL_PI, hearing(signals.ToolsReturned, terminate=True), scenario(LOOK, DONE)),
    ("react", asking(effects.RunTools, first_only=False), scenario(LOOK, DONE)),
    ("react", hearing(signals.ModelReplied, calls=False), scenario(LOOK, DONE)),
    ("opencode", hearing(signals.ToolsReturned, blocked=False), scenario(LOOK, DONE, hooks=VETO)),
    ("opencode", asking(effects.RunTools, polls=False), scenario(LOOK, DONE)),
    # The model is asked.
    ("opencode", asking(effects.CallModel, note=""), scenario(DONE, limits=ONE_STEP)),
    ("opencode", asking(effects.CallModel, polls=False), scenario(DONE)),
    ("opencode", asking(effects.CallModel, tools=True),
     scenario(DONE, limits=ONE_STEP, loops=ENFORCED)),
    # Counters and ends.
    ("reference", hearing(signals.ModelReplied, steps=1), scenario(MANY)),
    ("reference", counting(signals.ModelFailed, error_count=0), scenario(FAILS, DONE)),
    ("react", counting(signals.ModelReplied, total_steps=3), scenario(DONE)),
    ("opencode", counting(signals.ModelReplied, total_steps=0), scenario(DONE)),
    (DOCS, asking(effects.EndRun, text_first=False), scenario(FILTERED)),
    ("pi", ending(Outcome.MODEL_ERROR), scenario(FILTERED)),
    ("pi", ending(Outcome.COMPLETED, "max_steps"), scenario(DONE)),
    ("react", asking(effects.EndRun, message=""), scenario(LOOK, limits=ONE_STEP)),
    ("react", ending(Outcome.TOO_MANY_ERRORS, "max_rounds"), scenario(LOOK, limits=ONE_STEP)),
    ("opencode", ending(Outcome.FAILED, "max_retries"),
     scenario(FAILS, loops={"opencode": {"max_retries": 0}})),
]  # fmt: skip


@pytest.mark.parametrize(("loop", "wrong", "played"), DECISIONS)
def test_a_machine_that_decides_otherwise_is_told_by_its_twin(
    monkeypatch: pytest.MonkeyPatch, loop: str, wrong: Advance, played: Scenario
) -> None:
    kind: Any = KINDS[loop.partition("@")[0]]
    right = kind.advance
    assert not violated(played, loop=loop)
    advance = lambda self, *moved: wrong(right.__get__(self), *moved)  # noqa: E731
    monkeypatch.setattr(kind, "advance", advance)
    assert "design-decides-like-its-twin" in violated(played, loop=loop)


# ------------------------------------------------------------------ declarations


def policies(**own: Any) -> Callable[[Any], dict[str, Any]]:
    return lambda machine: {"policies": msgspec.structs.replace(machine.policies, **own)}


def declaring(**own: Any) -> Callable[[Any], dict[str, Any]]:
    return lambda _: own


def reference(**own: Any) -> ReferenceLoop:
    return ReferenceLoop(options=replace(DOCUMENTED, **own))


def pi(**own: Any) -> PiLoop:
    return PiLoop(options=PiOptions(**own))


def react(**own: Any) -> ReactLoop:
    return ReactLoop(options=ReactOptions(**own))


def opencode(**own: Any) -> OpencodeLoop:
    return OpencodeLoop(options=OpencodeOptions(**own))


RUNS = Bound("total_steps", 7, of_turns=True)
TRIES = Bound("error_count", 6, resets=True)
DECLARATIONS: dict[str, tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]] = {
    "failed tools reported": (reference, policies(report_failed_tools=True)),
    "another compaction": (ReferenceLoop, policies(compaction=Compaction(window=1_000))),
    "no bounds": (ReferenceLoop, declaring(bounds={})),
    "a threshold": (ReferenceLoop, declaring(thresholds={"max_steps": RUNS})),
    "the usual retry": (reference, policies(retry=ExponentialBackoff())),
    "the other status retry": (reference, policies(retry=StatusRetry(honours_retry_after=True))),
    "no call after an abort": (reference, declaring(abort_rule=AbortRule())),
    "no warning": (PiLoop, policies(warn_after=None)),
    "one tool at a time": (lambda: pi(parallel=True), policies(tool_execution=ToolExecution())),
    "a compaction": (lambda: pi(compacts=False), declaring(unsupported={})),
    "other rounds": (ReactLoop, declaring(bounds={"max_rounds": RUNS})),
    "rounds not as stated": (
        lambda: react(max_rounds=2),
        declaring(bounds={"max_rounds": Bound("total_steps", 100, of_turns=True)}),
    ),
    "a longer delay": (OpencodeLoop, policies(retry=ExponentialBackoff(initial_delay_ms=2_000))),
    "opencode stops at once": (OpencodeLoop, declaring(abort_rule=AbortRule())),
    "the usual errors": (
        lambda: opencode(program_errors=True),
        policies(retry=ExponentialBackoff(initial_delay_ms=1_000)),
    ),
    "steps not enforced": (
        lambda: opencode(steps="enforce"),
        declaring(bounds={"max_retries": TRIES}),
    ),
}


@pytest.mark.parametrize("what", DECLARATIONS)
def test_a_machine_that_declares_otherwise_is_told_by_its_twin(what: str) -> None:
    made, wrong = DECLARATIONS[what]
    assert not violated(scenario(DONE), loop=made())
    machine = made()
    for name, value in wrong(machine).items():
        setattr(machine, name, value)
    assert "design-has-its-policies" in violated(scenario(DONE), loop=machine)


def test_a_design_that_does_not_state_its_deviations_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Design, "deviations", {})
    assert "design-has-its-policies" in violated(scenario(DONE), loop="react")


def test_a_subclass_may_decide_otherwise() -> None:
    class Other(ReactLoop):
        def advance(self, run: Run, signal: Signal) -> Transition:
            return asking(effects.RunTools, first_only=False)(super().advance, run, signal)

    assert not violated(scenario(LOOK, DONE), loop=Other)


# ------------------------------------------------------------------ retry policies


def failed(**given: Any) -> Fault:
    headers = tuple(given.pop("headers", {}).items())
    return Fault(given.pop("message", "no"), headers=headers, **given)


@pytest.mark.parametrize(
    ("policy", "fault", "right"),
    [
        (OpencodeRetry(), failed(status=408), ErrorClass.TIMEOUT),
        (OpencodeRetry(), failed(status=409), ErrorClass.SERVER),
        (OpencodeRetry(), failed(status=413), ErrorClass.OVERFLOW),
        (OpencodeRetry(), failed(status=429, code="insufficient_quota"), ErrorClass.RATE_LIMIT),
        (OpencodeRetry(), failed(status=401), ErrorClass.AUTH),
        (OpencodeRetry(), failed(status=401, message="Try again later."), ErrorClass.SERVER),
        (OpencodeRetry(), failed(code="insufficient_quota"), ErrorClass.QUOTA),
        (ExponentialBackoff(), failed(status=409), ErrorClass.BAD_REQUEST),
        (ExponentialBackoff(), failed(status=429, code="insufficient_quota"), ErrorClass.QUOTA),
        (StatusRetry(), failed(status=429, code="insufficient_quota"), ErrorClass.RATE_LIMIT),
        (StatusRetry(), failed(status=529), ErrorClass.UNKNOWN),
        (StatusRetry(by_status=False), failed(status=529), ErrorClass.OVERLOADED),
    ],
)
def test_a_failure_has_the_class_that_its_policy_gives_it(
    policy: RetryPolicy, fault: Fault, right: ErrorClass
) -> None:
    assert right_class(policy, fault) is policy.classify(fault) is right


@pytest.mark.parametrize(
    ("policy", "failures", "wait", "ms"),
    [
        (OpencodeRetry(), 3, None, 8_000),
        (OpencodeRetry(), 3, "0", 0),
        (OpencodeRetry(), 3, "-5", 0),
        (OpencodeRetry(), 3, "900", 900_000),
        (OpencodeRetry(), 3, "1e30", 2**31 - 1),
        (OpencodeRetry(), 100, None, 2**31 - 1),
        (StatusRetry(), 9, "900", 30_000),
        (StatusRetry(honours_retry_after=True), 9, "900", 120_000),
    ],
)
def test_a_wait_is_the_one_that_its_policy_computes(
    policy: RetryPolicy, failures: int, wait: str | None, ms: int
) -> None:
    fault = failed(status=429, headers={} if wait is None else {"retry-after": wait})
    right = wait_range(policy, failures, fault, 0)
    assert right == (ms * 1_000_000,) * 2
    assert policy.delay_ns(failures, fault, now_ns=0, draw=0.0) == right[0]


def never(*_: Any, **__: Any) -> Any:
    return False


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("delay_ns", lambda _, failures, *__, **___: failures * 1_000_000_000),
        ("classify", lambda *_: ErrorClass.UNKNOWN),
        ("retryable", never),
    ],
)
def test_a_policy_that_computes_otherwise_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any
) -> None:
    assert not misjudges(OpencodeRetry())
    assert not violated(scenario(DONE), loop=REAL_OPENCODE)
    monkeypatch.setattr(OpencodeRetry, name, wrong)
    assert misjudges(OpencodeRetry())
    assert "design-has-its-policies" in violated(scenario(DONE), loop=REAL_OPENCODE)
