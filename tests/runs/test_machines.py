"""How a name becomes a machine, of a bundled design or of one's own: versions, options, faults."""

import json
import re
import sys
from typing import cast

import pytest
from builders import play_text

from simloop import (
    Limits,
    Outcome,
    Reply,
    Scenario,
    ScriptedHook,
    ToolExecution,
    parse_scenario,
    run,
)
from simloop.check.trial import verify
from simloop.errors import (
    BrokenMachine,
    CannotExpress,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
)
from simloop.kernel import effects
from simloop.kernel.checks import as_written
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Machine, Run, Transition
from simloop.kernel.signals import ModelReplied
from simloop.kernel.states import BackingOff
from simloop.loops.opencode import OpencodeLoop, OpencodeOptions
from simloop.loops.pi import PiLoop, PiOptions
from simloop.loops.react import ReactLoop, ReactOptions
from simloop.loops.reference import ReferenceLoop
from simloop.runs.loop import machine_for
from simloop.runs.plan import reasons_against
from simloop.runs.run import Simulation
from simloop.scenario.designs import DESIGNS, names
from simloop.scenario.expect import Expect

ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")])
VERSIONED = [name for name in names() if "@" in name]
CLASSES = {
    "reference": ReferenceLoop,
    "pi": PiLoop,
    "react": ReactLoop,
    "opencode": OpencodeLoop,
}


# Machines of one's own, found by their names in this file


class Own(PiLoop):
    """A machine of one's own: as pi, under another name."""

    name = "own"


OWN = Own()


def made(limits: Limits) -> Machine:
    return ReactLoop(limits)


def refuses(limits: Limits) -> Machine:
    raise RuntimeError(f"not with {limits.max_steps} steps")


class Half:
    """No machine: it lacks most of one."""

    name = "half"

    def advance(self) -> None: ...


HALF = Half()


class Shelf:
    own = OWN


# Names


def test_the_names_are_those_of_the_designs_then_those_of_their_versions() -> None:
    assert names() == [
        *("reference", "pi", "react", "opencode"),
        "reference@documented",
        "pi@0.87.1",
        "opencode@1.18.34",
    ]


@pytest.mark.parametrize("name", names())
def test_every_name_gives_a_machine_of_its_design_that_runs(name: str) -> None:
    design = name.partition("@")[0]
    machine = machine_for(name, Limits())
    assert (type(machine), machine.name) == (CLASSES[design], design)
    result = run(ANSWERED, loop=name)
    assert (result.outcome, result.trace.header.loop) == (Outcome.COMPLETED, name)


@pytest.mark.parametrize("name", VERSIONED)
def test_a_version_has_the_options_of_that_version(name: str) -> None:
    design, _, version = name.partition("@")
    machine = machine_for(name, Limits())
    assert isinstance(machine, ReferenceLoop | PiLoop | OpencodeLoop)
    assert machine.options == DESIGNS[design].versions[version]
    assert machine.options != type(machine)().options


def test_the_limits_reach_the_machine() -> None:
    limits = Limits(max_steps=7)
    assert {name: machine_for(name, limits).bounds for name in CLASSES} == {
        "reference": ReferenceLoop(limits).bounds,
        "pi": {},
        "react": ReactLoop(limits).bounds,
        "opencode": OpencodeLoop(limits).bounds,
    }


@pytest.mark.parametrize(
    ("loop", "nearest"),
    [
        ("opencod", "opencode"),
        ("refrence", "reference"),
        ("pi@0.87.2", "pi@0.87.1"),
        ("opencode@9", "opencode"),
        ("react@1", "react"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_and_all_that_there_are(
    loop: str, nearest: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        machine_for(loop, Limits())
    assert caught.value.message == f"there is no loop `{loop}`"
    assert caught.value.hint.startswith(f"did you mean `{nearest}`? known: reference, ")
    assert all(name in caught.value.hint for name in names())


def test_an_unknown_name_in_a_file_is_told_with_its_place() -> None:
    with pytest.raises(ScenarioError, match=r"^a\.yaml:2:7: loop: there is no loop `opencod`"):
        parse_scenario("prompt: x\nloop: opencod\n", "a.yaml")


def test_a_file_for_a_loop_of_ones_own_can_be_run_on_another_where_that_is_not() -> None:
    assert play_text("prompt: x\nloop: no.such:Loop\nmodel: [{say: y}]\n", loop="pi").ok


# Machines of one's own


@pytest.mark.parametrize(
    ("attribute", "design"),
    [("OWN", "own"), ("Own", "own"), ("made", "react"), ("Shelf.own", "own")],
    ids=["machine", "class", "function", "attribute-of-an-attribute"],
)
def test_a_machine_of_ones_own_is_a_machine_or_what_makes_one(attribute: str, design: str) -> None:
    loop = f"test_machines:{attribute}"
    assert machine_for(loop, Limits()).name == design
    result = run(ANSWERED, loop=loop)
    assert (result.outcome, result.trace.header.loop) == (Outcome.COMPLETED, loop)


def test_a_machine_itself_can_be_given() -> None:
    assert machine_for(OWN, Limits()) is OWN
    result = run(ANSWERED, loop=OWN)
    assert (result.trace.header.loop, result.trace.header.python) == ("own", ("loop",))


@pytest.mark.parametrize(
    ("loop", "says"),
    [
        ("no_such_module:x", "ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "test_machines:nobody",
            "AttributeError: module 'test_machines' has no attribute 'nobody'",
        ),
        ("test_machines:", "AttributeError: "),
        (":x", "ValueError: "),
        ("test_machines:refuses", "RuntimeError: not with 100 steps"),
        ("test_machines:ANSWERED", "TypeError: 'Scenario' object is not callable"),
    ],
)
def test_a_machine_that_cannot_be_had_is_an_error_that_says_why(loop: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        machine_for(loop, Limits())
    assert caught.value.message.startswith(f"the loop `{loop}` cannot be loaded: {says}")
    assert caught.value.key == "loop"


def test_what_is_no_machine_is_refused_by_what_it_lacks() -> None:
    with pytest.raises(ScenarioError) as caught:
        machine_for("test_machines:HALF", Limits())
    assert caught.value.message == (
        "the loop `test_machines:HALF` is not a machine: it has no "
        "legal, policies, bounds, unsupported, start"
    )


def test_options_of_a_file_reach_the_machine_of_each_loop() -> None:
    scenario = parse_scenario(
        "prompt: x\n"
        "loops:\n"
        "  pi: {parallel: true, steering: all}\n"
        "  react: {max_rounds: 3}\n"
        "  opencode: {max_retries: 0, steps: advise}\n"
    )
    machines = [machine_for(name, Limits(), scenario.loops) for name in ("pi", "react", "opencode")]
    assert [machine.options for machine in machines] == [  # type: ignore[attr-defined]
        PiOptions(parallel=True, steering="all"),
        ReactOptions(max_rounds=3),
        OpencodeOptions(max_retries=0, steps="advise"),
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("opencode: {max_retries: -1}", "2:33: loops.opencode.max_retries: must be at least 0"),
        ("opencode: {max_retries: 1.5}", "2:33: loops.opencode.max_retries: must be a whole"),
        ("opencode: {steps: maybe}", "2:27: loops.opencode.steps: must be 'advise', 'enforce' or"),
        ("opencod: {}", "2:9: loops.opencod: unknown key (did you mean `opencode`?)"),
        ("react: {max_rounds: 0}", "2:29: loops.react.max_rounds: must be at least 1"),
        ("pi: {steering: some}", "2:24: loops.pi.steering: must be 'one-at-a-time' or 'all'"),
        ("pi: {paralel: true}", "2:14: loops.pi.paralel: unknown key (did you mean `parallel`?)"),
        ("pi: {parallel: 1}", "2:24: loops.pi.parallel: must be true or false"),
        ("referense: {}", "2:9: loops.referense: unknown key (did you mean `reference`?)"),
        ("opencode@1.18.34: {}", "2:9: loops.'opencode@1.18.34': unknown key (did you mean `op"),
        ("opencode: {stepps: enforce}", "2:20: loops.opencode.stepps: unknown key (did you mean"),
        ("opencode: {first_delay: 3}", "2:33: loops.opencode.first_delay: 3 has no unit"),
    ],
)
def test_a_bad_option_is_shown_by_its_place_in_the_file(given: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(f"prompt: x\nloops: {{{given}}}\n", "a.yaml")
    assert str(caught.value).startswith(f"a.yaml:{says}")


@pytest.mark.parametrize("key", ["opencod", "opencode@9"])
def test_an_expectation_on_an_unknown_loop_is_shown_by_its_place(key: str) -> None:
    text = f'prompt: x\nexpect_on:\n  reference: {{}}\n  "{key}": {{}}\n'
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "a.yaml")
    place = "a.yaml:4:"
    assert str(caught.value).startswith(place)
    assert f"expect_on.{key}: there is no loop `{key}`" in str(caught.value)


def test_react_gives_its_reason_against_what_it_lacks_and_pi_against_early_tools() -> None:
    early = Scenario(prompt="x", tool_execution=ToolExecution(start="when-called"))
    hooked = Scenario(prompt="x", hooks=[ScriptedHook(at="before_llm_call")])
    lacks = {name: machine_for(name, Limits()).unsupported for name in CLASSES}
    against = {name: reasons_against(each, early, {}) for name, each in lacks.items()}
    assert [name for name, reasons in against.items() if reasons] == ["pi", "react"]
    against = {name: reasons_against(each, hooked, {}) for name, each in lacks.items()}
    assert against == {key: ["react has no hooks"] * (key == "react") for key in CLASSES}


def test_what_a_loop_cannot_express_is_told_with_every_reason_and_a_way_out() -> None:
    text = "prompt: x\nloop: react\nabort: {at: 1s}\nhooks: [{at: before_llm_call}]\n"
    with pytest.raises(CannotExpress) as caught:
        Simulation(parse_scenario(text, "a.yaml"))
    assert str(caught.value) == (
        "a.yaml: loop: the loop `react` cannot express this: react has no hooks; "
        "react has no way to stop a run (run it on another loop)"
    )
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("loop", [loop for loop in names() if "@" in loop])
def test_a_file_changes_single_options_of_a_version(loop: str) -> None:
    design = loop.partition("@")[0]
    option, value = {
        "reference": ("calls_go_on", True),
        "pi": ("parallel", False),
        "opencode": ("first_delay", "3s"),
    }[design]
    text = f"loop: {loop}\nloops: {{{design}: {{{option}: {json.dumps(value)}}}}}\n"
    scenario = parse_scenario(f"{text}prompt: Go.\nmodel: [{{say: Done.}}]")
    chosen, own = (
        as_written(machine_for(loop, Limits(), loops).options)  # type: ignore[attr-defined]
        for loops in (scenario.loops, None)
    )
    assert chosen == {**own, option: value} != own
    again = Scenario.model_validate_json(scenario.model_dump_json(by_alias=True))
    assert again.loops == scenario.loops


def test_on_another_loop_an_unused_reply_tells_how_to_say_that_it_should_be() -> None:
    text = "prompt: Go.\nmodel: [{http: {status: 429}}, {say: Done.}]"
    with pytest.raises(ScriptUnused, match=r"under expect_on: pi: {outcome: failed, unused: 1}"):
        play_text(text, loop="pi")


def test_on_another_loop_a_missing_reply_tells_how_to_say_that_it_should_be() -> None:
    hooks = "tools: {t: {}}\nhooks: [{at: before_tool_call, tool: t, block: no}]\n"
    scenario = parse_scenario(f"prompt: x\nloop: opencode\n{hooks}model: [call: {{t: {{}}}}]")
    says = "pi: {error: ScriptExhausted}"
    with pytest.raises(ScriptExhausted) as caught:
        run(scenario, loop="pi")
    assert caught.value.hint.endswith(f"if this is right, add under expect_on: {says}")
    told = scenario.model_copy(update={"expect_on": {"pi": Expect(error="ScriptExhausted")}})
    assert verify(told, loop="pi").exit_code == 0


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
    with pytest.raises(BrokenMachine, match=r"the loop `react` is broken: ") as raised:
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
        (Unstarted(), "because it does not start: ValueError: oops"),
        (with_attribute("start", lambda: 5), "`start` gives int, which is not a Run"),
    ],
    ids=["start", "run"],
)
def test_what_cannot_be_driven_is_no_machine_and_says_why(machine: Machine, why: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(why)):
        machine_for(machine, Limits())
