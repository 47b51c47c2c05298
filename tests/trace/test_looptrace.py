"""The views of a trace."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from incases import in_cases

from simloop import (
    Http,
    Outcome,
    Reply,
    Scenario,
)
from simloop.errors import CheckFailed
from simloop.kernel.errorclass import ErrorClass
from simloop.messages import AssistantMessage, Part, Request
from simloop.runs.result import Result
from simloop.runs.run import Simulation, run
from simloop.scenario.catalog import SUFFIX, bundled_folder
from simloop.scenario.designs import DESIGNS
from simloop.scenario.loader import load_scenario, parse_scenario
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests
from simloop.world.fake_model import FakeModel, Model


def test_a_trace_knows_the_outcomes_of_its_prompts_and_its_time_also_when_it_was_cut() -> None:
    scenario = Scenario(
        prompt="Hi",
        then=["Again"],
        model=[Reply(http=Http(status=401)), Reply(say="Done.", pace={"first_part": "2s"})],
    )
    trace = run(scenario).trace
    assert trace.outcomes == (Outcome.FAILED, Outcome.COMPLETED)
    assert [end.text for end in trace.ends] == ["", "Done."]
    cut = LoopTrace(trace.header, trace.entries[:-1])
    assert cut.outcomes == (Outcome.FAILED,)
    assert cut.elapsed_ns == trace.elapsed_ns == 2 * 10**9
    assert LoopTrace(trace.header).elapsed_ns == 0


PATHS = sorted(bundled_folder().rglob(f"*{SUFFIX}"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(SUFFIX)}"


class Witness:
    """Stands before the model and writes down what it is asked."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requests: list[Request] = []

    def stream(self, request: Request) -> AsyncIterator[Part]:
        self.requests.append(request)
        return self.model.stream(request)


def witness_of(simulation: Simulation) -> Witness:
    """Put a witness before the model of a simulation that has not begun."""
    witness = Witness(simulation.scripts.disturbed)
    simulation.scripts.disturbed = witness
    return witness


def plain(requests: list[Request]) -> list[bytes]:
    """As JSON: the messages of a sent request are a view of a longer history."""
    return [
        msgspec.json.encode(msgspec.structs.replace(request, messages=tuple(request.messages)))
        for request in requests
    ]


def heard(record: list[AnyEntry]) -> list[Request]:
    """The requests, but for those made after an abort: they come back without being heard."""
    lost, asked = set[int](), 0
    for entry in record:
        if isinstance(entry, entries.Request):
            asked = entry.number
        elif isinstance(entry, entries.Classified) and entry.error_class is ErrorClass.ABORTED:
            lost.add(asked)
    return [request for request in requests(record) if request.number not in lost]


# The views of a trace that was read are the same, because its entries are: see test_bundled.py.
@pytest.mark.slow
@in_cases(PATHS, name_of)
def test_the_requests_are_those_that_the_model_got(path: Path) -> None:
    simulation = Simulation(load_scenario(path))
    witness = witness_of(simulation)
    with contextlib.suppress(CheckFailed):  # some scenarios never end, and expect that
        simulation.run()
    assert plain(heard(simulation.trace.entries)) == plain(witness.requests)
    # Of a run without chance faults the fake has seen them all.
    if simulation.scenario.faults is None:
        assert isinstance(simulation.scripts.model, FakeModel)
        assert plain(simulation.scripts.model.requests) == plain(witness.requests)


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
    assert result.backoffs_s == [2.0, 7.0]


LAST_STEPS = """
prompt: x
loop: opencode
limits: {max_steps: 2}
tools: {look: {}}
then: [again]
model: [{call: {look: {}}}, {say: Done.}, {say: Again.}]
"""


def test_a_note_is_seen_in_the_request_that_it_was_for_and_in_no_other() -> None:
    result = result_of(LAST_STEPS)
    first, last, after = result.requests
    note = last.messages[-1]
    assert isinstance(note, AssistantMessage)
    assert note.text.startswith("The steps are used up.")
    for request in (first, after):
        assert note not in list(request.messages)


def test_the_requests_of_every_loop_and_prompt_are_those_that_the_model_got() -> None:
    for loop in DESIGNS:
        simulation = Simulation(parse_scenario(LAST_STEPS), loop=loop)
        witness = witness_of(simulation)
        result = simulation.run()
        assert len(witness.requests) == 3
        assert plain(result.requests) == plain(witness.requests)
