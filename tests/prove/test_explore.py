"""Exploration visits every run, whatever the machine says of itself, and finds what is wrong."""

import gc
from collections.abc import Mapping
from typing import Any

import pytest

from simloop.errors import RunawayRun
from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    END,
    Bound,
    Feature,
    LegalMap,
    Run,
    Transition,
    finish,
    stop,
)
from simloop.kernel.machine import ENDINGS as OUTSIDE
from simloop.kernel.policies import Policies
from simloop.kernel.signals import Signal
from simloop.kernel.states import CallingModel, ClosingStep, Finished, Ready, RunningTools
from simloop.loops.react import LEGAL as REACT
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Outcome
from simloop.prove import explore as exploring
from simloop.prove.alphabet import ENDINGS, answers
from simloop.prove.explore import explore, why_impossible
from simloop.runs.loop import machine_for
from simloop.scenario.designs import names

SMALL = Limits(max_steps=2, max_error_count=2, max_compaction_attempts=1, max_steps_per_round=2)


ONE_CALL: LegalMap = {
    Ready: {signals.Began: frozenset({CallingModel})},
    CallingModel: {signals.ModelReplied: END, signals.ModelFailed: END, **OUTSIDE},
    Finished: {},
}
NEVER_CLOSED: LegalMap = {**REACT, ClosingStep: {}}


class OneCall:
    """The smallest loop there is: one call, and the reply is the answer."""

    name = "one-call"
    policies = Policies()
    bounds: Mapping[str, Bound] = {}
    unsupported: Mapping[Feature, str] = {Feature.HOOKS: "it has none"}
    legal = ONE_CALL

    def start(self) -> Run:
        return Run(Ready())

    def advance(self, run: Run, signal: Signal) -> Transition:
        match signal:
            case signals.Began():
                return run.to(CallingModel()), self.asks()
            case signals.ModelReplied():
                return self.ends(run)
            case signals.AbortRequested() | signals.WallClockExpired():
                return stop(run, signal)
            case _:
                return finish(run, Outcome.FAILED)

    def asks(self) -> tuple[Effect, ...]:
        return (effects.CallModel(),)

    def ends(self, run: Run) -> Transition:
        return finish(run, Outcome.COMPLETED)


def found(machine: Any, limits: Limits = SMALL) -> list[str]:
    return [violation.what for violation in explore(machine, limits)[1]]


# What is visited


@pytest.mark.parametrize("loop", names())
def test_every_run_has_every_answer_that_the_loop_does_not_rule_out(loop: str) -> None:
    machine = machine_for(loop, SMALL)
    graph, _, _ = explore(machine, SMALL)
    burst = SMALL.max_steps_per_round + 1
    for node, asked in enumerate(graph.asked):
        if node and not isinstance(graph.runs[node].state, Finished):
            arriving = {signal for effect in asked for signal in answers(effect, burst)}
            possible = {one for one in {*arriving, *ENDINGS} if not why_impossible(machine, one)}
            assert possible <= {signal for signal, _ in graph.arrows[node]}


@pytest.mark.parametrize("loop", names())
def test_the_way_to_a_node_leads_there_and_none_is_shorter(loop: str) -> None:
    machine = machine_for(loop, SMALL)
    graph, _, _ = explore(machine, SMALL)
    lengths = []
    for node in range(0, len(graph), 7):
        run, asked = machine.start(), graph.asked[0]
        for step in graph.way_to(node):
            run, asked = machine.advance(run, step.signal)
            assert (run, asked) == (step.run, step.asked)
        assert (run, asked) == (graph.runs[node], graph.asked[node])
        lengths.append(len(graph.way_to(node)))
    assert lengths == sorted(lengths)


def test_a_run_that_has_asked_for_something_else_is_visited_by_itself() -> None:
    class TwoWays(OneCall):
        def advance(self, run: Run, signal: Signal) -> Transition:
            if isinstance(signal, signals.ModelReplied) and not signal.text:
                return run, (effects.CallModel(tools=False),)
            return super().advance(run, signal)

    graph, _, _ = explore(TwoWays(), SMALL)
    calling = [node for node, one in enumerate(graph.runs) if isinstance(one.state, CallingModel)]
    assert [graph.asked[node] for node in calling] == [
        (effects.CallModel(),),
        (effects.CallModel(tools=False),),
    ]


# What a machine lacks


@pytest.mark.parametrize(
    ("feature", "signal"),
    [
        (Feature.ABORT, signals.AbortRequested()),
        (Feature.HOOKS, signals.HookFailed()),
        (Feature.HOOKS, signals.CallBlocked()),
        (Feature.HOOKS, signals.ToolsReturned(blocked=True)),
    ],
)
def test_what_a_loop_lacks_never_arrives(feature: Feature, signal: Signal) -> None:
    class Lacking(ReferenceLoop):
        def __init__(self, limits: Limits | None = None) -> None:
            super().__init__(limits)
            self.unsupported = {feature: "it has none"}

    assert why_impossible(Lacking(), signal) == "it has none"
    assert why_impossible(ReferenceLoop(), signal) == ""
    for machine, arrives in ((Lacking(SMALL), False), (ReferenceLoop(SMALL), True)):
        graph, _, _ = explore(machine, SMALL)
        assert any((signal in dict(arrows)) for arrows in graph.arrows) == arrives


# What is found


def test_two_questions_at_once_are_found() -> None:
    class Two(OneCall):
        def asks(self) -> tuple[Effect, ...]:
            return (effects.CallModel(), effects.MeasureContext())

    assert any("two answers at once" in what for what in found(Two()))


@pytest.mark.parametrize("error", [AssertionError("no"), KeyError("no"), ZeroDivisionError("no")])
def test_a_machine_that_raises_is_found_with_what_it_said(error: Exception) -> None:
    class Raising(OneCall):
        def ends(self, run: Run) -> Transition:
            raise error

    (what,) = found(Raising())
    assert "model-replied" in what
    assert type(error).__name__ in what


def test_a_state_that_is_not_on_the_map_at_all_is_found() -> None:
    class Elsewhere(OneCall):
        def ends(self, run: Run) -> Transition:
            return run.to(RunningTools(None)), (effects.RunTools(),)  # type: ignore[arg-type]

    assert any("running-tools" in what and "not on the map" in what for what in found(Elsewhere()))


def test_the_same_mistake_is_told_once_with_the_shortest_way_there() -> None:
    class Early(ReactLoop):
        legal = NEVER_CLOSED

    violations = explore(Early(SMALL), SMALL)[1]
    whats = [violation.what for violation in violations]
    assert len(set(whats)) == len(whats)
    assert {len(violation.counterexample) for violation in violations} <= {2, 3, 4, 5}


def test_a_machine_that_counts_without_a_bound_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(OneCall):
        def ends(self, run: Run) -> Transition:
            return Run(run.state, total_steps=run.total_steps + 1), self.asks()

    monkeypatch.setattr(exploring, "MAX_NODES", 100)
    with pytest.raises(
        RunawayRun, match=r"more than 100 states.*`total_steps` has the most values"
    ):
        explore(Counting(), SMALL)


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_afterwards_if_it_was_before(collects: bool) -> None:  # noqa: FBT001
    class Broken(OneCall):
        def start(self) -> Run:
            raise OSError("no start")

    try:
        (gc.enable if collects else gc.disable)()
        explore(OneCall(), SMALL)
        assert gc.isenabled() is collects
        with pytest.raises(OSError, match="no start"):
            explore(Broken(), SMALL)
        assert gc.isenabled() is collects
    finally:
        gc.enable()
