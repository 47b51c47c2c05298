"""What is proved of the shipped loops, in numbers that their documents let one work out by hand."""

from types import MappingProxyType

import pytest
from regenerate import DOCS, GENERATED, proof_of

from simloop.kernel import signals, states
from simloop.kernel.limits import Limits
from simloop.kernel.machine import LegalMap
from simloop.kernel.names import describe
from simloop.loops.opencode import OpencodeLoop, OpencodeOptions
from simloop.loops.pi import PiLoop
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Outcome
from simloop.prove.proof import Longest, Proof, prove
from simloop.runs.loop import machine_for
from simloop.scenario.designs import names

NS_PER_S = 1_000_000_000
GRID = [(1, 1, 0), (2, 1, 0), (1, 3, 0), (1, 2, 1), (2, 2, 1), (3, 1, 1), (1, 1, 2)]


def small(steps: int, errors: int = 1, compactions: int = 0) -> Limits:
    return Limits(
        max_steps=steps,
        max_error_count=errors,
        max_compaction_attempts=compactions,
        max_steps_per_round=2,
    )


def reference() -> Proof:
    """The largest proof there is, made once for the tests of this file."""
    return proof_of("reference")


def longest(proof: Proof) -> Longest:
    assert proof.longest is not None
    return proof.longest


def test_a_limit_that_ends_runs_and_is_no_bound_is_told() -> None:
    class Silent(ReactLoop):
        def __init__(self) -> None:
            super().__init__(small(2))
            self.bounds = {}

    proof = prove(Silent(), small(2))
    assert (proof.bounds, proof.undeclared, proof.holds) == ((), ("max_rounds",), True)


# The reference loop


@pytest.mark.slow
def test_the_page_has_the_bounds_and_the_lassos_that_are_proved() -> None:
    page = DOCS / "proofs.md"
    assert page.read_text("utf-8") == GENERATED[page](), "run: python tests/regenerate.py"


@pytest.mark.slow
def test_the_reference_loop_always_ends_under_the_limits_of_the_documents() -> None:
    assert reference().terminates
    assert reference().holds


@pytest.mark.slow
def test_every_edge_of_its_map_can_be_taken_and_it_can_end_in_every_way() -> None:
    assert dict(reference().untaken) == {}
    assert {state.outcome for state in reference().endings} == set(Outcome)


@pytest.mark.slow
def test_each_example_ends_where_it_says() -> None:
    for state, steps in reference().endings.items():
        assert steps[-1].run.state == state


@pytest.mark.parametrize(("steps", "errors", "compactions"), GRID)
def test_the_longest_run_of_the_reference_loop_is_what_its_budgets_allow(
    steps: int, errors: int, compactions: int
) -> None:
    """The prompt is 1, a step 4, an error that is tried again 3, an overflow that makes room 3."""
    limits = small(steps, errors, compactions)
    most = longest(prove(ReferenceLoop(limits), limits))
    assert most.transitions == 1 + 4 * steps + 3 * (errors - 1) + 3 * compactions
    assert most.model_calls == steps + (errors - 1) + compactions
    assert most.tool_rounds == steps
    waits = [2**failures * NS_PER_S for failures in range(1, errors)]  # 2 s, 4 s
    assert most.backoff_ns == sum(waits)
    assert most.backoff_asked_ns == 120 * NS_PER_S * (errors - 1)


# The others


@pytest.mark.parametrize(("steps", "retries"), [(1, 0), (1, 5), (2, 1), (3, 0), (3, 5)])
def test_a_step_of_opencode_is_a_measuring_every_try_and_a_wait_before_each_but_the_first(
    steps: int, retries: int
) -> None:
    """A step: replied, tools, closed, measured, and 2 for each retry; the first begins the run.

    A summary is a step as well, and a shorter one. A provider may ask for 120 s each time.
    """
    options = OpencodeOptions(steps="enforce", max_retries=retries)
    loop = OpencodeLoop(small(steps), options)
    most = longest(prove(loop, small(steps)))
    assert most.transitions == 1 + steps * (4 + 2 * retries)
    assert most.model_calls == steps * (1 + retries)
    assert most.tool_rounds == steps
    assert most.backoff_ns == steps * (2**retries - 1) * NS_PER_S  # 1 s, 2 s, 4 s ...
    assert most.backoff_asked_ns == steps * retries * 120 * NS_PER_S


def test_pi_goes_round_for_as_long_as_the_model_asks_for_tools() -> None:
    lasso = prove(PiLoop(), Limits()).lasso
    assert lasso is not None
    assert [step.run.state.__class__ for step in lasso.cycle] == [
        states.CallingModel,
        states.RunningTools,
        states.ClosingStep,
        states.Measuring,
    ]
    (reply,) = (
        step.signal for step in lasso.cycle if isinstance(step.signal, signals.ModelReplied)
    )
    assert reply.calls


def test_opencode_goes_round_when_compaction_gains_nothing_and_the_context_is_too_long() -> None:
    proof = prove(machine_for("opencode@1.18.34", Limits()), Limits())
    assert proof.lasso is not None
    assert [describe(step.signal) for step in proof.lasso.cycle] == [
        "model-failed: overflow",
        "context-compacted",
    ]


# What is asked of a proof


def test_an_edge_that_cannot_be_taken_has_the_reason_that_the_loop_gives() -> None:
    loop = ReactLoop(small(1))
    reasons = {(edge[1], reason) for edge, reason in prove(loop, small(2)).untaken.items()}
    assert reasons >= {
        (signals.HookFailed, "react has no hooks"),
        (signals.AbortRequested, "react has no way to stop a run"),
    }


@pytest.mark.parametrize("loop", names())
def test_a_bundled_loop_declares_its_limits_and_has_a_longest_run_or_a_way_round(loop: str) -> None:
    limits = small(2, 2, 1)
    machine = machine_for(loop, limits)
    proof = prove(machine, limits)
    # The documented loop tests these on some of its ways only, so that they bound nothing.
    loose = {"max_compaction_attempts", "max_steps"} if loop == "reference@documented" else set()
    assert set(proof.undeclared) == loose
    ends = {state.limit for state in proof.endings} - set(proof.undeclared)
    assert set(machine.bounds) <= ends
    assert ends <= {"", "max_wall_clock", "max_steps_per_round", *machine.bounds}
    assert proof.terminates == (loop in {"reference", "reference@documented", "react"})
    assert (proof.longest is None, proof.lasso is None) == (not proof.terminates, proof.terminates)
    assert proof.holds == proof.terminates


class Watched(PiLoop):
    """A design that is endless on purpose."""

    endless = "a person watches it"


def test_a_design_may_declare_that_it_is_endless_and_is_still_guarded() -> None:
    proof = prove(Watched(), Limits())
    assert (proof.holds, proof.terminates, proof.endless) == (True, False, "a person watches it")
    assert not prove(PiLoop(), Limits()).holds

    class Lost(Watched):
        legal: LegalMap = MappingProxyType({**PiLoop.legal, states.ClosingStep: {}})

    assert not prove(Lost(), Limits()).holds


def test_a_design_that_always_ends_may_not_declare_that_it_is_endless() -> None:
    class Wrong(ReactLoop):
        endless = "it is not"

    limits = Limits(max_steps=2)
    assert [violation.what for violation in prove(Wrong(limits), limits).violations] == [
        "every run ends, though the machine is declared `endless`"
    ]
