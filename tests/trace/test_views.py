from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from simloop.messages import Part, Request
from simloop.scenario.catalog import SUFFIX, bundled_folder
from simloop.scenario.loader import load_scenario, parse_scenario
from simloop.scenario.result import Result
from simloop.scenario.simulation import Simulation, run
from simloop.sim.model import FakeModel, Model
from simloop.trace import entries, views
from simloop.trace.codec import decode, encode

PATHS = sorted(bundled_folder().rglob(f"*{SUFFIX}"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(SUFFIX)}"


class Witness:
    """Stands before the model and writes down what it is asked."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requests: list[Request] = []

    def stream(self, request: Request) -> AsyncGenerator[Part]:
        self.requests.append(request)
        return self.model.stream(request)


def plain(requests: list[Request]) -> list[bytes]:
    """As JSON: the messages of a sent request are a view of a longer history."""
    return [
        msgspec.json.encode(msgspec.structs.replace(request, messages=tuple(request.messages)))
        for request in requests
    ]


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_the_requests_are_those_that_the_model_got(path: Path) -> None:
    simulation = Simulation(load_scenario(path))
    witness = Witness(simulation._world.model)
    simulation._world.model = witness
    result = simulation.run()
    assert plain(result.requests) == plain(witness.requests)
    # Of a run without chance faults the fake has seen them all.
    if simulation.scenario.faults is None:
        assert isinstance(simulation._model, FakeModel)
        assert plain(simulation._model.requests) == plain(witness.requests)


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_a_trace_read_from_a_file_has_the_same_views(path: Path) -> None:
    made = run(load_scenario(path)).trace.entries
    read = decode(encode(run(load_scenario(path)).trace)).entries
    assert list(views.requests(read)) == list(views.requests(made))
    assert list(views.calls(read)) == list(views.calls(made))
    assert views.backoffs_ns(read) == views.backoffs_ns(made)
    assert list(views.hook_log(read)) == list(views.hook_log(made))


def result_of(text: str) -> Result:
    return run(parse_scenario(text))


def test_requests_have_the_system_prompt_and_the_tools_also_when_these_change_back() -> None:
    result = result_of("""
        prompt: x
        system_prompt: Be brief.
        tools: {look: {description: Looks.}, write: {}}
        hooks:
          - {at: before_llm_call, name: hide, hide_tools: [write]}
        model: [{call: {look: {}}}, {say: Done.}]
    """)
    first, second = result.requests
    assert first.system_prompt == second.system_prompt == "Be brief."
    assert [tool.name for tool in first.tools] == [tool.name for tool in second.tools] == ["look"]
    assert [type(message).__name__ for message in second.messages] == [
        *("UserMessage", "AssistantMessage", "ToolMessage"),
    ]


def test_a_summary_request_is_between_the_main_ones_and_changes_nothing_about_them() -> None:
    result = run(load_scenario(bundled_folder() / "compaction" / f"normal{SUFFIX}"))
    purposes = [request.purpose for request in result.requests]
    assert "summary" in purposes
    assert purposes[-1] == "main"
    assert [request.number for request in result.requests] == list(range(1, len(purposes) + 1))


def test_calls_have_the_arguments_that_the_tool_got_in_the_order_of_the_starts() -> None:
    result = result_of("""
        prompt: x
        tools:
          slow: {parameters: {word: string}, takes: 2s}
          quick: {parameters: {word: string}}
        hooks: [{at: before_tool_call, tool: quick, arguments: {word: changed}}]
        model:
          - call: {slow: {word: a}, quick: {word: b}}
          - say: Done.
    """)
    assert result.calls == [("slow", {"word": "a"}), ("quick", {"word": "changed"})]
    assert [call.name for call in result.calls] == ["slow", "quick"]


def test_a_call_that_was_never_run_is_no_call() -> None:
    result = result_of("prompt: x\nmodel: [{call: {nowhere: {}}}, {say: Done.}]")
    assert any(isinstance(entry, entries.ToolCall) for entry in result.trace.entries)
    assert result.calls == []


def test_backoffs_are_the_waits_in_order() -> None:
    result = result_of("""
        prompt: x
        model:
          - http: {status: 429}
          - http: {status: 429, retry_after: 7s}
          - say: Done.
    """)
    assert views.backoffs_ns(result.trace.entries) == [2_000_000_000, 7_000_000_000]
    assert result.backoffs_s == [2.0, 7.0]


def test_the_hook_log_says_where_which_and_what_it_did() -> None:
    result = result_of("""
        prompt: x
        tools: {look: {}}
        hooks:
          - {at: before_llm_call, name: watch}
          - {at: before_tool_call, name: guard, block: Not today.}
          - {at: after_llm_call, name: broken, raises: Oh.}
        model: [{call: {look: {}}}, {say: Done.}]
    """)
    assert result.hook_log == [
        ("before_llm_call", "watch", "ok"),
        ("before_tool_call", "guard", "blocked"),
        ("after_llm_call", "broken", "failed"),
        ("before_llm_call", "watch", "ok"),
        ("after_llm_call", "broken", "failed"),
    ]


def test_of_a_run_in_which_nothing_happened_the_views_are_empty() -> None:
    assert list(views.requests([])) == []
    assert list(views.calls([])) == []
    assert views.backoffs_ns([]) == []
    assert list(views.hook_log([])) == []
