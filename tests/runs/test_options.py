from pathlib import Path
from typing import Any

import pytest
from incases import in_cases

from simloop import (
    Compaction,
    HookIsolation,
    Http,
    Limits,
    Outcome,
    Reply,
    Scenario,
    ScenarioError,
    ToolExecution,
    parse_scenario,
    run,
)
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.retry import ExponentialBackoff
from simloop.loops.react import ReactLoop
from simloop.messages import Fault
from simloop.runs.run import Simulation
from simloop.trace.entries import Request


class EverySecond(ExponentialBackoff):
    """Tries again after a second, whatever went wrong."""

    def retryable(self, error: ErrorClass) -> bool:
        return True

    def delay_ns(self, failures: int, fault: Fault | None, *, now_ns: int, draw: float) -> int:
        return 10**9


def test_a_retry_policy_of_ones_own_decides() -> None:
    scenario = Scenario(prompt="Hi", model=[Reply(http=Http(status=401)), Reply(say="Hello.")])
    result = run(scenario, retry=EverySecond())
    assert (result.outcome, result.backoffs_s) == (Outcome.COMPLETED, [1.0])


def test_a_token_estimate_of_ones_own_decides() -> None:
    scenario = Scenario(prompt="Hi", model=[Reply(say="Hello.")])
    trace = run(scenario, estimate_tokens=lambda text: 90).trace
    assert [each.tokens for each in trace.entries if isinstance(each, Request)] == [94]


def test_an_argument_that_there_is_not_is_refused_with_the_known_ones() -> None:
    scenario = Scenario(prompt="Hi", model=[Reply(say="Hello.")])
    with pytest.raises(ScenarioError) as refused:
        run(scenario, tols=[])  # type: ignore[call-arg]
    assert refused.value.message == "there is no argument `tols`"
    assert refused.value.hint.startswith("there are seed, loop, judge_as, loop_options, tools")


def test_a_trace_names_the_python_code_that_its_run_needed() -> None:
    def look() -> str:
        return "found"

    scenario = Scenario(prompt="Hi", model=[Reply(say="Hello.")])
    result = run(scenario, tools=[look], retry=EverySecond())
    assert result.trace.header.python == ("tool look", "retry")


def test_a_simulation_runs_once() -> None:
    simulation = Simulation(Scenario(prompt="x", model=[Reply(say="y")]))
    simulation.run()
    with pytest.raises(ScenarioError, match="this simulation has been run"):
        simulation.run()


def needs_more(limits: Limits, where: str) -> ReactLoop:
    raise AssertionError(limits, where)


def test_what_needs_more_than_limits_to_make_a_machine_says_what() -> None:
    loop = f"{__name__}:needs_more"
    with pytest.raises(ScenarioError, match="missing a required argument: 'where'") as refused:
        run(Scenario(prompt="Hi"), loop=loop)
    assert refused.value.message.startswith(f"the loop `{loop}` cannot be made with these options")
    told = "it takes Limits and where; an agent is `async def agent(prompt, world)`"
    assert refused.value.hint.startswith(told)
    assert refused.value.key == f"loops.{loop}"


class NoMachine:
    """It advances, and has nothing else that a machine has."""

    def __init__(self, limits: Limits | None = None) -> None:
        pass

    def advance(self) -> None:
        pass


@pytest.mark.parametrize("loop", [NoMachine(), NoMachine], ids=["object", "class"])
def test_what_is_no_machine_cannot_be_run(loop: Any) -> None:
    with pytest.raises(ScenarioError, match="is not a machine: it has no name, legal, policies"):
        run(Scenario(prompt="Hi"), loop=loop)


def test_an_object_that_neither_is_nor_makes_a_machine_cannot_be_run() -> None:
    with pytest.raises(ScenarioError, match="`object` cannot be loaded: TypeError") as refused:
        run(Scenario(prompt="Hi"), loop=object())  # type: ignore[arg-type]
    assert refused.value.key == "loop"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ("{a: x, a/b: y}", "a/b: a part of the path is a file"),
        ("{../a: x}", "../a: leads above the root"),
        ('{"": x}', "the path is empty"),
    ],
)
def test_files_that_do_not_fit_in_one_tree_are_the_authors_fault(files: str, says: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        run(parse_scenario(f"prompt: x\nfiles: {files}\nmodel: [{{say: x}}]", "a.yaml"))
    assert says in refused.value.message
    assert str(refused.value).startswith("a.yaml:")


class NoTools:
    """Not iterable."""


def function(*_: Any) -> str:
    return "x"


HELLO = Scenario(prompt="Hi", model=[Reply(say="Hello.")])


@in_cases(
    [
        ({"tools": ["x", 5]}, "tools.0: a tool is a function, not str", "give functions, or Tool("),
        ({"tools": [function, 5]}, "tools.1: a tool is a function, not int", "give functions"),
        ({"tools": {"x": 5}}, "tools.x: a tool is a function, not int", "give functions"),
        ({"tools": function}, "tools: tools are a list, not a function", "tools=[function]"),
        ({"tools": "read"}, "tools: tools are a list, not str", "tools=[function]"),
        ({"tools": NoTools()}, "tools: tools are a list, not NoTools", "tools=[function]"),
        ({"tools": [function, function]}, "two tools are called function", "another name"),
        ({"model": "hello"}, "model: a model is a function of the request", "model=[Reply("),
        ({"model": [Reply(say="x")]}, "model: a model is a function of", "model=[Reply("),
        ({"model": Reply(say="x")}, "model: a model is a function of", "model=[Reply("),
        ({"hooks": [function]}, "hooks: hooks are given as Hooks, not list", "such as Hooks("),
        ({"callbacks": function}, "callbacks are given as Callbacks", "such as Callbacks("),
        ({"seed": -1}, "seed", ""),
        ({"loop": 5}, "", ""),
    ]
)
def test_a_value_that_an_option_cannot_have_is_refused_with_the_mend(
    options: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        run(HELLO, **options)
    assert message in str(refused.value)
    assert hint in refused.value.hint


@pytest.mark.parametrize("scenario", [{"prompt": "Hi"}, Path("a.simloop.yaml"), None, Scenario])
def test_only_a_scenario_can_be_run(scenario: Any) -> None:
    with pytest.raises(ScenarioError, match=r"a run needs a Scenario, not .*load_scenario\(path"):
        run(scenario)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"model": "Hello."}, "Scenario.model: must be a list (such as [a, b])"),
        ({"model": Reply(say="x")}, "Scenario.model: must be a list (such as [a, b])"),
        ({"model": ["Hello."]}, "Scenario.model.0: must be a mapping (such as {say: ...}; "),
        ({"tools": []}, "Scenario.tools: must be a mapping (such as"),
        ({"limits": {"max_stps": 3}}, "Scenario.limits.max_stps: unknown key (did you mean"),
        ({"model": [{"say": 5}]}, "Scenario.model.0.say: must be a text or a list of texts"),
        ({"model": [{"http": {"status": 429, "retry_after": 5}}]}, "5 has no unit: write '5s'"),
    ],
)
def test_a_wrong_field_is_named_once_with_the_mend(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        Scenario(prompt="Hi", **fields)
    assert says in str(refused.value)
    assert refused.value.others == ()


def test_a_key_of_a_reply_with_two_forms_is_one_mistake() -> None:
    with pytest.raises(ScenarioError) as refused:
        Reply(say=5)  # type: ignore[arg-type]
    assert str(refused.value) == ("Reply.say: must be a text or a list of texts (put it in quotes)")


def test_a_policy_that_is_given_as_a_mapping_may_have_a_word_as_text() -> None:
    scenario = Scenario(
        prompt="Go.",
        tool_execution={"order": "parallel", "start": "when-called"},
        compaction={"strategy": "drop-oldest"},
        hook_isolation={"on_failure": "fail-run"},
    )
    assert scenario.tool_execution == ToolExecution(order="parallel", start="when-called")
    assert scenario.compaction == Compaction(strategy="drop-oldest")
    assert scenario.hook_isolation == HookIsolation(on_failure="fail-run")
