"""Hooks in the trace: an entry names the changes of its hook."""

from collections.abc import Callable
from typing import Any

from simloop import Hooks, Reply, Scenario, ToolResult
from simloop.engine.hooks import AfterToolCall, BeforeLLMCall, BeforeToolCall
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests

SCRIPT = [Reply(call={"look": {"at": "a"}}), Reply(say="Done.")]


def look(at: str) -> str:
    return f"saw {at}"


def run(**hooks: list[Callable[..., Any]]) -> LoopTrace:
    scenario = Scenario(prompt="Go.", system_prompt="Be brief.", model=SCRIPT)
    return Simulation(scenario, hooks=Hooks(**hooks), tools=[look]).run().trace


def changes(trace: LoopTrace) -> list[tuple[str, ...]]:
    return [entry.changed for entry in trace.entries if isinstance(entry, entries.Hook)]


def replace_prompt(given: BeforeLLMCall) -> None:
    given.system_prompt = "Be long."


def watch(given: object) -> None:
    pass


def test_a_change_is_recorded_at_the_hook_that_made_it_and_at_no_later_one() -> None:
    recorded = changes(run(before_llm_call=[watch, replace_prompt, watch]))
    assert recorded == [(), ("system_prompt",), ()] * 2


def test_hooks_around_a_tool_are_recorded_with_their_changes() -> None:
    def elsewhere(given: BeforeToolCall) -> None:
        given.arguments["at"] = "b"

    def masked(given: AfterToolCall) -> None:
        given.result = ToolResult("***")

    trace = run(before_tool_call=[elsewhere, watch], after_tool_call=[masked, watch])
    assert changes(trace) == [("arguments",), (), ("result",), ()]


def test_a_hook_that_fails_by_one_change_leaves_no_other_change_behind() -> None:
    def hook(given: BeforeLLMCall) -> None:
        given.system_prompt = "Be long."
        given.tools = []  # type: ignore[assignment]

    trace = run(before_llm_call=[hook])
    results = [entry.result for entry in trace.entries if isinstance(entry, entries.Hook)]
    assert results == ["failed", "failed"]
    assert changes(trace) == [(), ()]
    assert {sent.system_prompt for sent in requests(trace.entries)} == {"Be brief."}
