"""A picture of a map shows every edge of it, and nothing else."""

import re
from itertools import product

import pytest

from simloop.kernel.limits import Limits
from simloop.kernel.machine import END, Edge, LegalMap, mermaid
from simloop.kernel.signals import (
    AbortRequested,
    Began,
    ModelFailed,
    ModelReplied,
    WallClockExpired,
)
from simloop.kernel.states import BackingOff, CallingModel, Finished, Halting, Ready
from simloop.runs.loop import machine_for
from simloop.scenario.designs import DESIGNS

ARROW = re.compile(r"    (\w+) --> (\w+): (.+)")
LEGAL: LegalMap = {
    Ready: {Began: frozenset({CallingModel})},
    CallingModel: {
        ModelReplied: END,
        ModelFailed: frozenset({Finished, BackingOff}),
        AbortRequested: frozenset({Finished, BackingOff}),
        WallClockExpired: END,
    },
    BackingOff: {},
    Finished: {},
}
FAILS: Edge = (CallingModel, ModelFailed, BackingOff)


def drawn(text: str) -> set[tuple[str, str, str]]:
    """State, signal and target of each arrow, by their names."""
    return {
        (state, signal, target)
        for line in text.splitlines()
        if (found := ARROW.fullmatch(line))
        for state, target, signals in [found.groups()]
        for signal in signals.split(", ")
    }


def test_a_map_is_drawn_from_where_it_begins_to_where_it_ends() -> None:
    assert mermaid(LEGAL).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> Ready",
        "    Ready --> CallingModel: Began",
        "    CallingModel --> BackingOff: ModelFailed, AbortRequested",
        "    CallingModel --> Finished: ModelReplied, ModelFailed",
        "    BackingOff --> [*]",
        "    Finished --> [*]",
    ]


@pytest.mark.parametrize("loop", DESIGNS)
def test_every_edge_is_drawn_but_those_that_end_any_run(loop: str) -> None:
    legal = machine_for(loop, Limits()).legal
    everywhere = set(product((AbortRequested, WallClockExpired), (Finished,)))
    assert drawn(mermaid(legal)) == {
        (state.__name__, signal.__name__, target.__name__)
        for state, row in legal.items()
        for signal, targets in row.items()
        for target in targets
        if (signal, target) not in everywhere
    }


@pytest.mark.parametrize("loop", DESIGNS)
def test_a_picture_is_the_same_every_time(loop: str) -> None:
    one, other = (machine_for(loop, Limits()).legal for _ in range(2))
    turned = {state: dict(row) for state, row in other.items()}
    assert mermaid(one) == mermaid(turned)


def test_an_edge_can_be_left_out() -> None:
    assert drawn(mermaid(LEGAL)) - drawn(mermaid(LEGAL, without=[FAILS])) == {
        ("CallingModel", "ModelFailed", "BackingOff")
    }


def test_an_arrow_without_signals_is_not_drawn() -> None:
    aborted: Edge = (CallingModel, AbortRequested, BackingOff)
    text = mermaid(LEGAL, without=[FAILS, aborted])
    assert "CallingModel --> BackingOff" not in text


def test_an_edge_can_be_marked() -> None:
    lines = mermaid(LEGAL, marked=[FAILS]).splitlines()
    assert "    CallingModel --> BackingOff: ModelFailed*, AbortRequested" in lines
    assert "    CallingModel --> Finished: ModelReplied, ModelFailed" in lines


def test_an_abort_that_does_not_end_the_run_is_drawn() -> None:
    opencode = machine_for("opencode", Limits()).legal
    assert (BackingOff.__name__, "AbortRequested", Halting.__name__) in drawn(mermaid(opencode))
