"""A loop of the user's own: every form is sealed, recorded, judged and held to limits alike."""

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from simloop import (
    ExpectationFailed,
    Limits,
    Reply,
    Scenario,
    ScenarioError,
    ScriptUnused,
    load_scenario,
    parse_scenario,
    run,
)
from simloop.check.replay import rerun
from simloop.check.trial import Until, verify
from simloop.errors import BrokenMachine
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.pi import PiLoop
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.runs.run import Simulation
from simloop.trace.codec import encode

ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")])
SEEN: list[float] = []


class Own(ReferenceLoop):
    """A loop of the user's own, which looks at the clock and has an option."""

    name = "own"

    def __init__(self, limits: Limits | None = None, *, patience: int = 0) -> None:
        super().__init__(limits)
        self.patience = patience

    def advance(self, run: Run, signal: Signal) -> Transition:
        SEEN.append(time.time())
        return super().advance(run, signal)


def machine_of(simulation: Simulation) -> Any:
    return simulation.loop.machine


def own(limits: Limits) -> Own:
    return Own(limits)


class Mine(ReferenceLoop):
    """It inherits the name of the bundled loop."""

    def advance(self, run: Run, signal: Signal) -> Transition:
        SEEN.append(time.time())
        return super().advance(run, signal)


def mine(limits: Limits) -> Mine:
    return Mine(limits)


class Judged(Own):
    judge_as = "pi"


class AsPi(PiLoop):
    """A copy of pi under another name."""

    name = "as-pi"
    judge_as = "pi"


OWN = Own()
HERE = "test_chosen_loop"
FORMS = {
    "name of a class": f"{HERE}:Own",
    "name of a function": f"{HERE}:own",
    "name of a machine": f"{HERE}:OWN",
    "class": Own,
    "function": own,
    "machine": OWN,
}
at_each_form = pytest.mark.parametrize("loop", FORMS.values(), ids=FORMS)


# Sealed and recorded


@at_each_form
def test_a_loop_of_ones_own_is_sealed_and_recorded_in_whatever_form_it_is_given(loop: Any) -> None:
    SEEN.clear()
    header = run(ANSWERED, loop=loop).trace.header
    assert header.python == ("loop",)
    assert len(SEEN) > 1
    assert len(set(SEEN)) == 1, "its clock is the virtual one"
    assert header.loop == (loop if isinstance(loop, str) else "own")


def test_a_loop_that_its_scenario_names_is_sealed_and_recorded_too() -> None:
    scenario = Scenario(prompt="Go.", loop=f"{HERE}:Own", model=[Reply(say="Done.")])
    assert run(scenario).trace.header.python == ("loop",)


@pytest.mark.parametrize("loop", ["reference", "pi", "pi@0.87.1"])
def test_a_bundled_loop_is_not_recorded_as_python(loop: str) -> None:
    assert run(ANSWERED, loop=loop).trace.header.python == ()


def test_the_trace_of_a_named_loop_is_run_again_with_that_name_and_not_without() -> None:
    recorded = run(ANSWERED, loop=f"{HERE}:Own", loop_options={"patience": 2}).trace
    assert encode(rerun(recorded, f"{HERE}:Own")) == encode(recorded)
    with pytest.raises(ScenarioError, match=r"no module is imported that only the trace names"):
        rerun(recorded)


def test_the_trace_of_an_object_can_be_run_again_if_the_loop_is_named() -> None:
    recorded = run(ANSWERED, loop=OWN).trace
    assert rerun(recorded, f"{HERE}:OWN").entries == recorded.entries
    with pytest.raises(ScenarioError, match=r"give it by name: --loop module:attribute"):
        rerun(recorded)


def test_a_subclass_that_inherits_a_name_is_recorded_alike_in_whatever_form_it_is_given() -> None:
    SEEN.clear()
    headers = [run(ANSWERED, loop=loop).trace.header for loop in (f"{HERE}:Mine", Mine, Mine())]
    assert headers[0] == headers[1] == headers[2]
    assert (headers[0].loop, headers[0].judge_as) == (f"{HERE}:Mine", "reference")
    assert headers[0].python == ("loop",)
    assert len(set(SEEN)) == 1, "its clock is the virtual one"


@pytest.mark.parametrize("loop", [f"{HERE}:mine", mine], ids=["name", "function"])
def test_a_function_that_makes_such_a_subclass_is_recorded_by_its_own_name(loop: Any) -> None:
    assert run(ANSWERED, loop=loop).trace.header.loop == f"{HERE}:mine"


def test_the_trace_of_such_a_subclass_is_never_run_as_that_of_the_bundled_loop() -> None:
    recorded = run(ANSWERED, loop=Mine()).trace
    with pytest.raises(ScenarioError, match=rf"if you trust it, add: --loop {HERE}:Mine"):
        rerun(recorded)
    assert encode(rerun(recorded, f"{HERE}:Mine")) == encode(recorded)


def test_a_loop_that_no_name_reaches_is_not_offered_to_replay_by_that_name() -> None:
    class Nested(ReferenceLoop):
        pass

    recorded = run(ANSWERED, loop=Nested).trace
    assert recorded.header.loop.endswith("<locals>.Nested")
    with pytest.raises(ScenarioError, match=r"give it by name: --loop module:attribute"):
        rerun(recorded)


@pytest.mark.parametrize("loop", [ReferenceLoop, ReferenceLoop()], ids=["class", "machine"])
def test_a_bundled_loop_that_is_given_as_an_object_keeps_its_name(loop: Any) -> None:
    assert run(ANSWERED, loop=loop).trace.header.loop == "reference"


# Judged as a design


EXPECTING = """
prompt: Go.
loop: {loop}
{more}
model: [{{say: Done.}}]
expect: {{text: Nothing.}}
expect_on: {{pi: {{text: Done.}}}}
"""


def expecting(loop: str = "reference", more: str = "") -> Scenario:
    return parse_scenario(EXPECTING.format(loop=loop, more=more))


@pytest.mark.parametrize("loop", FORMS.values(), ids=FORMS)
def test_a_loop_can_be_judged_as_a_design_by_the_call(loop: Any) -> None:
    assert not run(expecting(), loop=loop).ok
    result = run(expecting(), loop=loop, judge_as="pi")
    assert result.ok
    assert result.trace.header.judge_as == "pi"


@pytest.mark.parametrize("loop", [f"{HERE}:Judged", Judged, Judged()])
def test_a_loop_can_declare_the_design_that_it_is_judged_as(loop: Any) -> None:
    assert run(expecting(), loop=loop).ok
    assert not run(expecting(), loop=loop, judge_as="react").ok


class MyPi(PiLoop):
    """It inherits the name, and so the expectations and options, of pi."""


@pytest.mark.parametrize("loop", [f"{HERE}:MyPi", MyPi, MyPi()], ids=["name", "class", "machine"])
def test_a_subclass_that_inherits_a_name_is_judged_as_that_loop(loop: Any) -> None:
    assert run(expecting(), loop=loop).ok


@pytest.mark.parametrize("loop", [f"{HERE}:MyPi", MyPi], ids=["name", "class"])
def test_a_subclass_that_inherits_a_name_has_the_options_of_that_loop(loop: Any) -> None:
    scenario = Scenario(prompt="x", loops={"pi": {"parallel": True}})
    machine = machine_of(Simulation(scenario, loop=loop))
    assert machine.options.parallel is True


def test_a_file_can_say_what_its_own_loop_is_judged_as() -> None:
    scenario = expecting(f"{HERE}:Own", "judge_as: pi")
    assert run(scenario).ok
    assert not run(scenario, loop=f"{HERE}:own").ok, "that is another loop"
    assert verify(scenario).exit_code == 0


def test_an_expectation_of_the_loop_itself_comes_before_that_of_its_design() -> None:
    said = Scenario(
        prompt="Go.",
        model=[Reply(say="Done.")],
        expect_on={"pi": {"text": "No."}, f"{HERE}:Own": {"text": "Done."}},
    )
    assert run(said, loop=f"{HERE}:Own", judge_as="pi").ok
    assert not run(said, loop=f"{HERE}:own", judge_as="pi").ok


def test_a_bundled_loop_is_judged_as_itself() -> None:
    with pytest.raises(ScenarioError, match=r"`react` is bundled with simloop") as caught:
        run(ANSWERED, loop="react", judge_as="pi")
    assert caught.value.key == "judge_as"
    with pytest.raises(ScenarioError, match=r"^a:2:11: judge_as: `reference` is bundled"):
        parse_scenario("prompt: x\njudge_as: pi\n", "a")


def test_there_is_no_judging_as_a_design_that_there_is_not() -> None:
    with pytest.raises(ScenarioError, match=r"judge_as: there is no loop `pie` .*`pi`"):
        run(ANSWERED, loop=Own, judge_as="pie")


def test_a_loop_that_is_judged_as_a_design_has_the_options_of_that_design() -> None:
    scenario = Scenario(prompt="x", loops={"pi": {"parallel": True}})
    for loop in (f"{HERE}:AsPi", AsPi):
        machine = machine_of(Simulation(scenario, loop=loop))
        assert machine.options.parallel is True
    version = machine_of(Simulation(ANSWERED, loop=AsPi, judge_as="pi@0.87.1"))
    assert version.options.refuse_cut_calls


# Verified twice


class Counting(Own):
    """It carries something into its next run: it says other things the second time."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.runs = 0

    def start(self) -> Run:
        self.runs += 1
        return super().start().__class__(super().start().state, error_count=self.runs)


@pytest.mark.parametrize("loop", [Own, own, OWN, f"{HERE}:Own"])
def test_a_loop_can_be_verified_in_every_form(loop: Any) -> None:
    assert verify(ANSWERED, loop=loop).deterministic is True


def test_verifying_an_object_drives_the_same_one_twice() -> None:
    verdict = verify(ANSWERED, loop=Counting())
    assert (verdict.deterministic, verdict.exit_code) == (False, 1)
    assert "verify(scenario, seed=0, loop=machine)" in str(verdict.errors[0])


def test_verifying_a_class_makes_a_machine_for_each_run() -> None:
    assert verify(ANSWERED, loop=Counting).deterministic is True


# Commands that work


class Broken(Own):
    def advance(self, run: Run, signal: Signal) -> Transition:
        raise ValueError("oops")


@pytest.mark.parametrize(
    ("loop", "explores", "reproduces"),
    [
        (f"{HERE}:Broken", f"simloop explore --loop {HERE}:Broken", f"--loop {HERE}:Broken"),
        (Broken, "simloop.prove.proof.prove(machine, limits).violations", "loop=Broken)"),
        (Broken(), "simloop.prove.proof.prove(machine, limits).violations", "loop=machine)"),
    ],
    ids=["name", "class", "machine"],
)
def test_the_hints_of_a_broken_machine_work_for_the_form_that_was_given(
    loop: Any, explores: str, reproduces: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text("prompt: x\n", "utf-8")
    with pytest.raises(BrokenMachine) as caught:
        run(load_scenario(path), loop=loop)
    assert f"find out where with: {explores}" in caught.value.message
    assert caught.value.reproduce.endswith(reproduces)
    by_call = f"simloop.run(simloop.load_scenario({str(path)!r}), seed=0, "
    assert caught.value.reproduce.startswith("simloop run " if isinstance(loop, str) else by_call)


def test_the_command_that_repeats_a_run_has_its_design_and_options(tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text("prompt: x\nmodel: [{say: a}]\nexpect: {text: b}\n", "utf-8")
    result = run(
        load_scenario(path), loop=f"{HERE}:Own", judge_as="pi", loop_options={"patience": 2}
    )
    assert result.reproduce == (
        f"simloop run {path} --seed 0 --loop {HERE}:Own --judge-as pi --option patience=2"
    )
    with pytest.raises(ExpectationFailed):
        result.check()


def test_a_script_that_does_not_fit_an_object_is_not_told_to_name_it_in_the_file() -> None:
    with pytest.raises(ScriptUnused, match=r"set expect_on\['own'\] in Python"):
        run(Scenario(prompt="x", model=[Reply(say="a"), Reply(say="b")]), loop=OWN)


# Exact copies


def copied(name: str, kind: type, folder: Path, patch: pytest.MonkeyPatch) -> str:
    """The name of the class in a copy of its module."""
    source = Path(__file__).parents[2] / "simloop" / "loops" / f"{name}.py"
    (folder / f"my_{name}.py").write_text(source.read_text("utf-8"), "utf-8")
    patch.syspath_prepend(folder)
    return f"my_{name}:{kind.__name__}"


COPIES: dict[str, Callable[..., Any]] = {
    "reference": ReferenceLoop, "pi": PiLoop, "react": ReactLoop, "opencode": OpencodeLoop
}  # fmt: skip


@cache
def library() -> list[Scenario]:
    """The bundled scenarios."""
    folder = Path(__file__).parents[2] / "scenarios"
    return [load_scenario(path) for path in sorted(folder.rglob("*.simloop.yaml"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", COPIES)
def test_an_exact_copy_of_a_bundled_loop_passes_the_whole_library(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = copied(name, COPIES[name], tmp_path, monkeypatch)  # type: ignore[arg-type]
    failed = []
    for scenario in library():
        verdict = verify(scenario, Until.END, loop=loop, judge_as=name)
        if verdict.exit_code and not verdict.cannot:
            failed.append((scenario.path, verdict.failures, verdict.errors))
    assert failed == []
