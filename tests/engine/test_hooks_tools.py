"""Tools in hooks before a model call: withheld, added and replaced, for one call only."""

from collections.abc import Callable
from typing import Any

import pytest
from test_hooks import DONE, LOOK, before_llm, play

from simloop import Reply, ScenarioError, Tool
from simloop.engine.hooks import BeforeLLMCall
from simloop.messages import ToolMessage


def withhold(given: BeforeLLMCall) -> None:
    given.tools.pop("look")


def only_at_first(hook: Callable[..., Any]) -> Callable[..., None]:
    def wrapped(given: BeforeLLMCall) -> None:
        if given.step_number == 1:
            hook(given)

    return wrapped


def test_a_tool_that_a_hook_withholds_is_not_in_the_request() -> None:
    _, requests = play(before_llm(withhold), DONE)
    assert requests[0].tools == ()


def test_a_tool_that_a_hook_withholds_cannot_be_called() -> None:
    result, _ = play(before_llm(withhold))
    assert result.messages[2] == ToolMessage("call-1", "Error: tool look not found", is_error=True)


def test_a_tool_withheld_from_one_call_can_be_called_in_the_next() -> None:
    result, _ = play(before_llm(only_at_first(withhold)), LOOK, LOOK, DONE)
    answers = [m.is_error for m in result.messages if isinstance(m, ToolMessage)]
    assert answers == [True, False]


# What a hook may put into `given.tools` under the name "find".
FOUND: dict[str, Callable[[], Any]] = {
    "a Tool": lambda: Tool(find, name="find", description="Find a file."),
    "a Tool of another name": lambda: Tool(find, name="other"),
    "a function": lambda: find,
}


FIND = Reply(call={"find": {"name": "b"}})


def find(name: str) -> str:
    return f"found {name}"


def put(name: str, tool: Any) -> Callable[[BeforeLLMCall], None]:
    def hook(given: BeforeLLMCall) -> None:
        given.tools[name] = tool

    return hook


@pytest.mark.parametrize("kind", FOUND)
def test_a_tool_that_a_hook_adds_is_offered_and_run(kind: str) -> None:
    result, requests = play(before_llm(put("find", FOUND[kind]())), FIND, DONE)
    assert [spec.name for spec in requests[0].tools] == ["look", "find"]
    assert result.messages[2] == ToolMessage("call-1", "found b")


def test_a_tool_that_a_hook_replaces_runs_in_the_place_of_the_first() -> None:
    def look_elsewhere(at: str) -> str:
        """Look somewhere else."""
        return f"elsewhere {at}"

    result, requests = play(before_llm(put("look", look_elsewhere)), LOOK, DONE)
    assert [spec.description for spec in requests[0].tools] == ["Look somewhere else."]
    assert result.messages[2] == ToolMessage("call-1", "elsewhere a")


def test_a_later_hook_sees_the_tool_that_a_hook_added() -> None:
    seen: list[Any] = []

    def watch(given: BeforeLLMCall) -> None:
        seen.append({name: type(tool) for name, tool in given.tools.items()})

    play(before_llm(put("find", find), watch), DONE)
    assert seen == [{"look": Tool, "find": Tool}]


def test_a_failed_hook_leaves_no_added_tool_behind() -> None:
    def hook(given: BeforeLLMCall) -> None:
        given.tools["find"] = find
        raise ValueError("no")

    _, requests = play(before_llm(hook), DONE)
    assert [spec.name for spec in requests[0].tools] == ["look"]


def test_a_tool_without_a_function_is_refused_with_its_name() -> None:
    with pytest.raises(ScenarioError, match="`find` as a ToolSpec, which has no function"):
        play(before_llm(put("find", Tool(find).spec)), DONE)
