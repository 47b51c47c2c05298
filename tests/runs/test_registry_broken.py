"""Machines of one's own that are broken are blamed for it, and simloop is not."""

import re
import sys
from typing import cast

import pytest

from simloop import Limits, Reply, Scenario, run
from simloop.errors import BrokenMachine, ScenarioError, ScriptExhausted
from simloop.kernel import effects
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Bound, Machine, Run, Transition
from simloop.kernel.signals import Began, ModelReplied
from simloop.kernel.states import BackingOff, CallingModel, Ready
from simloop.loops.react import ReactLoop
from simloop.runs.loop import machine_for


class Raising(ReactLoop):
    """It falls over the first reply."""

    def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
        raise ValueError("oops")


class Leaving(ReactLoop):
    """It ends the program at the first reply."""

    def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
        sys.exit(3)


class Asking(ReactLoop):
    """It asks for what there is not."""

    def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
        after, asked = super()._take_reply(run, signal)
        return after, (*asked, cast("Effect", 5))


class Straying(ReactLoop):
    """It goes where its map does not lead."""

    def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
        return run.to(BackingOff()), (effects.Backoff(1),)


class Silent(ReactLoop):
    """It asks for no answer to a reply, and is not finished."""

    def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
        return super()._take_reply(run, signal)[0], ()


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (Silent(), "does not wait for None"),
        (Raising(), "ValueError: oops"),
        (Leaving(), "SystemExit: 3"),
        (Asking(), "KeyError"),
        (Straying(), "is not on the map"),
    ],
    ids=["asks-nothing", "raises", "leaves", "asks", "strays"],
)
def test_a_broken_machine_of_ones_own_is_blamed_and_not_simloop(machine: Machine, why: str) -> None:
    with pytest.raises(BrokenMachine, match=r"the loop `\w+:\w+` is broken: ") as raised:
        run(Scenario(prompt="Go.", model=[Reply(say="Done.")]), loop=machine)
    assert why in str(raised.value)
    assert "simloop.prove.proof.prove(machine, limits).violations" in str(raised.value)


def test_what_a_script_lacks_is_not_blamed_on_the_machine() -> None:
    with pytest.raises(ScriptExhausted):
        run(Scenario(prompt="Go.", model=[]), loop=ReactLoop())


class Unstarted(ReactLoop):
    """It cannot begin."""

    def start(self) -> Run:
        raise ValueError("oops")


def with_attribute(name: str, value: object) -> Machine:
    machine = ReactLoop()
    setattr(machine, name, value)
    return machine


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (Unstarted(), "`start` raises ValueError: oops"),
        (with_attribute("start", lambda: 5), "`start` gives int, which is not a Run"),
        (with_attribute("policies", None), "`policies` are not Policies"),
        (with_attribute("legal", None), "`legal` is no mapping"),
        (
            with_attribute("bounds", {"max": Bound("nothing", 1)}),
            "the bound `max` is not a Bound of",
        ),
        (with_attribute("bounds", {"max": Bound("total_steps", cast("int", "3"))}), "is at '3'"),
        (with_attribute("legal", {Ready: [Began]}), "`legal` gives for Ready no mapping"),
        (with_attribute("legal", {Ready: {Began: CallingModel}}), "for Ready not types"),
        (with_attribute("legal", {"Ready": {}}), "for 'Ready' no mapping, or that is no type"),
        (with_attribute("legal", {Ready: {Began: {"x"}}}), "for Ready not types"),
    ],
    ids=["start", "run", "policies", "legal", "bound", "at", "row", "target", "state", "kind"],
)
def test_what_cannot_be_driven_is_no_machine_and_says_why(machine: Machine, why: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(why)):
        machine_for(machine, Limits())
