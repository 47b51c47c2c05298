"""Python that joins a scenario: tools, hooks, model functions and callbacks."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from test_simulation import tool_texts

from simloop.engine.hooks import AfterToolCall, BeforeLLMCall, BeforeToolCall, Hooks
from simloop.errors import (
    ScenarioError,
)
from simloop.messages import (
    Finish,
    FinishReason,
    Outcome,
    Request,
    TextDelta,
    ToolResult,
)
from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop.world.tools import Tool


def test_a_python_tool_joins_the_scripted_ones_and_replaces_its_namesake() -> None:
    scenario = parse_scenario("""
prompt: x
tools: {clock: {returns: scripted}, calendar: {returns: scripted}}
model: [{call: [{clock: {}}, {calendar: {}}, {add: {a: 1, b: 2}}]}, {say: x}]
""")

    def clock() -> str:
        return "python"

    async def add(a: int, b: int) -> dict[str, int]:
        await asyncio.sleep(1)
        return {"sum": a + b}

    result = run(scenario, tools=[clock, add])
    assert tool_texts(result.messages) == ["python", "scripted", '{"sum":3}']
    assert result.elapsed_ns == 10**9


def test_a_tool_may_be_given_by_name_or_as_a_tool() -> None:
    scenario = parse_scenario("prompt: x\nmodel: [{call: {a: {}, b: {n: 1}}}, {say: x}]")
    schema = {"type": "object", "required": ["n"]}
    by_name = run(
        scenario,
        tools={"a": lambda: "A", "b": Tool(lambda n: f"B{n}", name="b", parameters=schema)},
    )
    assert tool_texts(by_name.messages) == ["A", "B1"]


def test_python_hooks_run_after_the_scripted_ones_and_see_their_changes() -> None:
    scenario = parse_scenario("""
prompt: x
tools: {read: {parameters: {path: string}, returns: text}}
hooks: [{at: before_tool_call, arguments: {path: /safe}}]
model: [{call: {read: {path: /}}}, {say: x}]
""")
    seen: list[Any] = []

    def watch(given: BeforeToolCall) -> None:
        seen.append(dict(given.arguments))
        given.arguments["path"] += "/file"

    def mask(done: AfterToolCall) -> None:
        seen.append(dict(done.arguments))
        done.result = ToolResult("masked")

    result = run(scenario, hooks=Hooks(before_tool_call=[watch], after_tool_call=[mask]))
    assert seen == [{"path": "/safe"}, {"path": "/safe/file"}]
    assert tool_texts(result.messages) == ["masked"]


def test_a_hook_changes_the_request_for_one_call_only() -> None:
    requests: list[Request] = []

    def model(request: Request) -> Any:
        requests.append(request)
        return Reply(call={"clock": {}}) if len(requests) == 1 else "Done."

    def first_call_only(given: BeforeLLMCall) -> None:
        if given.step_number == 1:
            given.system_prompt = "Changed."
            given.tools.pop("secret")

    run(
        Scenario(prompt="x", system_prompt="Original."),
        model=model,
        tools={"clock": lambda: "12:00", "secret": lambda: "s"},
        hooks=Hooks(before_llm_call=[first_call_only]),
    )
    asked = [(r.system_prompt, [tool.name for tool in r.tools]) for r in requests]
    assert asked == [("Changed.", ["clock"]), ("Original.", ["clock", "secret"])]


def text_reply(_: Request) -> str:
    return "Hello."


async def async_reply(_: Request) -> Reply:
    await asyncio.sleep(1)
    return Reply(say="Hello.")


def generator_reply(_: Request) -> Any:
    yield TextDelta("Hel")
    yield TextDelta("lo.")
    yield Finish(FinishReason.STOP, "stop")


async def async_generator_reply(_: Request) -> Any:
    yield TextDelta("Hello.")
    yield Finish(FinishReason.STOP, "stop")


@pytest.mark.parametrize("model", [text_reply, async_reply, generator_reply, async_generator_reply])
def test_a_function_answers_in_the_place_of_a_script(model: Callable[[Request], Any]) -> None:
    assert run(Scenario(prompt="Hi"), model=model).text == "Hello."


def test_an_exception_of_a_model_function_is_a_failed_call() -> None:
    def model(_: Request) -> str:
        raise ConnectionError("gone")

    result = run(Scenario(prompt="Hi"), model=model)
    assert result.counters
    assert (result.outcome, result.counters.error_count) == (Outcome.TOO_MANY_ERRORS, 3)
    assert result.message == "Failed after 3 errors: ConnectionError: gone"


def test_a_model_function_that_returns_something_else_is_the_authors_fault() -> None:
    with pytest.raises(ScenarioError, match=r"returned int \(return text, a Reply, or parts\)"):
        run(Scenario(prompt="Hi"), model=lambda _: 5)


@pytest.mark.parametrize("script", ["model", "summaries"])
def test_a_script_and_a_model_function_together_are_refused(script: str) -> None:
    scenario = parse_scenario(f"prompt: x\n{script}: [{{say: x}}]")
    with pytest.raises(ScenarioError) as caught:
        run(scenario, model=text_reply)
    assert ("two models" in str(caught.value), caught.value.hint != "") == (True, True)
