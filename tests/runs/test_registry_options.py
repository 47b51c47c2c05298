"""Options of a loop in a file and in Python, and features that a design lacks."""

import dataclasses
import json
from typing import Any

import pytest
from test_registry import CLASSES

from simloop import (
    Limits,
    Reply,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    ToolExecution,
    parse_scenario,
    run,
)
from simloop.check.trial import verify
from simloop.errors import (
    CannotExpress,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
)
from simloop.kernel.checks import as_written
from simloop.kernel.policies import ToolOrder, ToolStart
from simloop.loops import opencode_options
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.opencode_options import OpencodeOptions
from simloop.loops.pi_options import VERSIONS, Delivery, PiOptions
from simloop.loops.react import ReactOptions
from simloop.runs.loop import UNSUPPORTED_BY_AGENTS, machine_for
from simloop.runs.plan import reasons_against
from simloop.runs.run import Simulation
from simloop.scenario.designs import LoopOptions, names
from simloop.scenario.expect import Expect


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
        PiOptions(parallel=True, steering="all"),  # type: ignore[arg-type]
        ReactOptions(max_rounds=3),
        OpencodeOptions(max_retries=0, steps="advise"),  # type: ignore[arg-type]
    ]


def test_options_of_a_file_decide_its_run() -> None:
    text = (
        "prompt: x\nloop: react\nloops: {react: {max_rounds: 1}}\n"
        "tools: {t: {}}\nmodel: [{call: {t: {}}}]\n"
    )
    assert run(parse_scenario(text)).limit == "max_rounds"


@pytest.mark.parametrize("max_retries", [1, 5])
def test_a_version_takes_the_options_of_its_design_that_the_scenario_states(
    max_retries: int,
) -> None:
    options = LoopOptions.model_validate({"opencode": {"max_retries": max_retries}})
    machine = machine_for("opencode@1.18.34", Limits(), options)
    assert isinstance(machine, OpencodeLoop)
    own = opencode_options.VERSIONS["1.18.34"]
    assert machine.options == dataclasses.replace(own, max_retries=max_retries)


def test_options_in_python_state_what_differs_from_the_document() -> None:
    options = LoopOptions(opencode=OpencodeOptions(max_retries=1, parallel=False))
    assert options.opencode == {"max_retries": 1}
    assert LoopOptions(opencode={"parallel": False}).opencode == {"parallel": False}


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


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: OpencodeOptions(max_retries=-1), "loops.opencode.max_retries: "),
        (lambda: ReactOptions(max_rounds=0), "loops.react.max_rounds: "),
        (lambda: PiOptions(steering="some"), "loops.pi.steering: "),  # type: ignore[arg-type]
    ],
    ids=["opencode", "react", "pi"],
)
def test_options_given_in_python_are_checked_as_those_of_a_file(make: Any, says: str) -> None:
    with pytest.raises(ScenarioError, match=f"^{says}"):
        make()


@pytest.mark.parametrize("key", ["opencod", "opencode@9"])
def test_an_expectation_on_an_unknown_loop_is_shown_by_its_place(key: str) -> None:
    text = f'prompt: x\nexpect_on:\n  reference: {{}}\n  "{key}": {{}}\n'
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "a.yaml")
    place = "a.yaml:4:"
    assert str(caught.value).startswith(place)
    assert f"expect_on.{key}: there is no loop `{key}`" in str(caught.value)


def test_an_expectation_on_an_unknown_version_is_shown_by_its_place() -> None:
    text = 'prompt: x\nexpect_on:\n  reference: {}\n  "opencode@9.9": {}\n'
    with pytest.raises(ScenarioError, match=r"^a\.yaml:4:"):
        parse_scenario(text, "a.yaml")


def test_react_gives_its_reason_against_what_it_lacks_and_pi_against_early_tools() -> None:
    early = Scenario(prompt="x", tool_execution=ToolExecution(start=ToolStart.WHEN_CALLED))
    hooked = Scenario(prompt="x", hooks=[ScriptedHook(at="before_llm_call")])
    lacks = {name: machine_for(name, Limits()).unsupported for name in CLASSES}
    against = {name: reasons_against(each, early, {}) for name, each in lacks.items()}
    assert [name for name, reasons in against.items() if reasons] == ["pi", "react"]
    against = {name: reasons_against(each, hooked, {}) for name, each in lacks.items()}
    assert against == {key: ["react has no hooks"] * (key == "react") for key in CLASSES}


def test_there_is_nothing_against_a_run_that_asks_for_nothing() -> None:
    assert reasons_against(UNSUPPORTED_BY_AGENTS, Scenario(prompt="x"), {}) == []


def test_what_a_loop_cannot_express_is_told_with_every_reason_and_a_way_out() -> None:
    text = "prompt: x\nloop: react\nabort: {at: 1s}\nhooks: [{at: before_llm_call}]\n"
    with pytest.raises(CannotExpress) as caught:
        Simulation(parse_scenario(text, "a.yaml"))
    assert str(caught.value) == (
        "a.yaml: loop: the loop `react` cannot express this: react has no hooks; "
        "react has no way to stop a run (run it on another loop)"
    )
    assert caught.value.exit_code == 2


def test_the_order_of_tools_is_the_loops_own_unless_the_scenario_says() -> None:
    tools = {"t": ScriptedTool(takes="1s")}
    scenario = Scenario(
        prompt="Go.", tools=tools, model=[Reply(call=[{"t": {}}] * 2), Reply(say="Done.")]
    )
    assert run(scenario, loop="pi@0.87.1").elapsed_s == 1
    given = parse_scenario("prompt: x\ntool_execution: {order: sequential}\n").tool_execution
    assert given is not None
    assert given.order is ToolOrder.SEQUENTIAL
    in_turn = scenario.model_copy(update={"tool_execution": given})
    assert run(in_turn, loop="pi@0.87.1").elapsed_s == 2


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


def test_the_options_of_a_file_replace_those_of_a_version_of_pi() -> None:
    scenario = parse_scenario(
        "loop: pi@0.87.1\nloops: {pi: {steering: all, parallel: false}}\nprompt: Go.\n"
        "model: [{say: Done.}]"
    )
    machine = machine_for(scenario.loop, Limits(), scenario.loops)
    chosen = dataclasses.replace(VERSIONS["0.87.1"], steering=Delivery.ALL, parallel=False)
    assert machine.options == chosen  # type: ignore[attr-defined]
    again = Scenario.model_validate_json(scenario.model_dump_json(exclude_defaults=True))
    assert again == scenario, "a trace keeps an option that has the document's value"


def test_on_another_loop_an_unused_reply_tells_how_to_say_that_it_should_be() -> None:
    text = "prompt: Go.\nmodel: [{http: {status: 429}}, {say: Done.}]"
    with pytest.raises(ScriptUnused, match=r"under expect_on: pi: {outcome: failed, unused: 1}"):
        run(parse_scenario(text), loop="pi")


def test_on_another_loop_a_missing_reply_tells_how_to_say_that_it_should_be() -> None:
    hooks = "tools: {t: {}}\nhooks: [{at: before_tool_call, tool: t, block: no}]\n"
    scenario = parse_scenario(f"prompt: x\nloop: opencode\n{hooks}model: [call: {{t: {{}}}}]")
    says = "pi: {error: ScriptExhausted}"
    with pytest.raises(ScriptExhausted) as caught:
        run(scenario, loop="pi")
    assert caught.value.hint.endswith(f"if this is right, add under expect_on: {says}")
    told = scenario.model_copy(update={"expect_on": {"pi": Expect(error="ScriptExhausted")}})
    assert verify(told, loop="pi").exit_code == 0
