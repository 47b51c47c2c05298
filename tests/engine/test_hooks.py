"""Hooks: in order, each seeing the changes before it, for one call only."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from simloop import Callbacks, Hooks, Outcome, Reply, Result, Scenario, ToolResult
from simloop.engine.hooks import AfterLLMCall, BeforeLLMCall
from simloop.messages import FinishReason, Request, ToolCall, ToolMessage, Usage
from simloop.runs.run import Simulation
from simloop.scenario.replies import TokenUsage
from simloop.trace import entries

POINTS = ("before_llm_call", "after_llm_call", "before_tool_call", "after_tool_call")
LOOK = Reply(say="I look.", call={"look": {"at": "a"}})
DONE = Reply(say="Done.")


def look(at: str) -> str:
    return f"saw {at}"


class Recorded:
    """A model that plays replies and keeps the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[Request] = []
        self._replies = iter(replies)

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        return next(self._replies)


def play(hooks: Hooks, *replies: Reply, **code: Any) -> tuple[Result, list[Request]]:
    model = Recorded(*(replies or (LOOK, DONE)))
    scenario = Scenario(prompt="Go.", system_prompt="Be brief.")
    result = Simulation(scenario, model=model, hooks=hooks, tools=[look], **code).run()
    return result, model.requests


def before_llm(*hooks: Callable[..., Any]) -> Hooks:
    return Hooks(before_llm_call=hooks)


# ------------------------------------------------------------------------- order


@pytest.mark.parametrize("point", POINTS)
def test_hooks_of_a_point_run_in_the_order_in_which_they_are_listed(point: str) -> None:
    seen: list[str] = []

    def noting(name: str) -> Callable[..., None]:
        return lambda _: seen.append(name)

    play(Hooks(**{point: [noting("first"), noting("second"), noting("third")]}))
    assert seen[:3] == ["first", "second", "third"]


def test_added_hooks_run_after_ours() -> None:
    seen: list[str] = []
    ours = before_llm(lambda _: seen.append("ours"))
    theirs = before_llm(lambda _: seen.append("theirs"))
    play(ours + theirs, DONE)
    assert seen == ["ours", "theirs"]


# ------------------------------------------------------------------------- before the model


def change_prompt(to: str) -> Callable[..., None]:
    def hook(given: BeforeLLMCall) -> None:
        given.system_prompt = f"{given.system_prompt} {to}"

    return hook


def test_a_hook_may_change_the_system_prompt() -> None:
    _, requests = play(before_llm(change_prompt("Really.")), DONE)
    assert requests[0].system_prompt == "Be brief. Really."


def test_a_hook_sees_the_system_prompt_that_the_hook_before_it_made() -> None:
    _, requests = play(before_llm(change_prompt("One."), change_prompt("Two.")), DONE)
    assert requests[0].system_prompt == "Be brief. One. Two."


def test_a_changed_system_prompt_is_gone_with_the_call() -> None:
    _, requests = play(before_llm(change_prompt("Really.")))
    assert [request.system_prompt for request in requests] == ["Be brief. Really."] * 2


def test_a_hook_sees_the_conversation_and_the_number_of_the_step() -> None:
    seen: list[tuple[int, int]] = []
    play(before_llm(lambda given: seen.append((given.step_number, len(given.messages)))))
    assert seen == [(1, 1), (2, 3)]


@pytest.mark.parametrize(
    "change",
    [{"tools": None}, {"tools": []}, {"tools": {"look": None}}, {"system_prompt": None},
     {"system_prompt": 5}],
)  # fmt: skip
def test_a_hook_that_makes_nonsense_of_the_request_does_not_crash_the_run(
    change: dict[str, Any],
) -> None:
    def hook(given: BeforeLLMCall) -> None:
        for name, value in change.items():
            setattr(given, name, value)

    assert play(before_llm(hook), DONE)[0].outcome in {Outcome.COMPLETED, Outcome.FAILED}


# ------------------------------------------------------------------------- blocking


def block(given: Any) -> None:
    given.block("not allowed")


def test_a_blocked_model_call_ends_the_run_as_blocked() -> None:
    assert play(before_llm(block))[0].outcome is Outcome.BLOCKED


def test_a_blocked_model_call_sends_no_request() -> None:
    assert play(before_llm(block))[1] == []


@pytest.mark.parametrize("point", ["before_llm_call", "before_tool_call"])
def test_hooks_after_one_that_blocks_do_not_run(point: str) -> None:
    seen: list[Any] = []
    play(Hooks(**{point: [block, seen.append]}))
    assert seen == []


# ------------------------------------------------------------------------- after the model


def test_the_hook_after_the_model_is_told_what_it_said() -> None:
    seen: list[AfterLLMCall] = []
    reply = Reply(
        say="I look.",
        call={"look": {"at": "a"}},
        finish="other-word",
        usage=TokenUsage(input=3, output=4),
    )
    play(Hooks(after_llm_call=[seen.append]), reply, DONE)
    assert seen[0] == AfterLLMCall(
        step_number=1,
        text="I look.",
        calls=(ToolCall("call-1", "look", '{"at":"a"}'),),
        finish_reason=FinishReason.OTHER,
        raw_finish_reason="other-word",
        usage=Usage(3, 4),
    )


# ------------------------------------------------------------------------- around tools


def test_a_hook_sees_the_arguments_that_the_hook_before_it_made() -> None:
    def append(given: Any) -> None:
        given.arguments = {"at": given.arguments["at"] + "b"}

    result, _ = play(Hooks(before_tool_call=[append, append]))
    assert result.messages[2] == ToolMessage("call-1", "saw abb")


def test_a_hook_sees_the_result_that_the_hook_before_it_made() -> None:
    def append(given: Any) -> None:
        given.result = ToolResult(given.result.text + "!")

    result, _ = play(Hooks(after_tool_call=[append, append]))
    assert result.messages[2] == ToolMessage("call-1", "saw a!!")


def test_the_hook_after_a_tool_is_told_the_arguments_that_it_ran_with() -> None:
    seen: list[Any] = []

    def change(given: Any) -> None:
        given.arguments = {"at": "b"}

    play(
        Hooks(
            before_tool_call=[change],
            after_tool_call=[lambda given: seen.append((given.call.id, given.arguments))],
        )
    )
    assert seen == [("call-1", {"at": "b"})]


@pytest.mark.parametrize("point", POINTS)
def test_a_coroutine_from_a_plain_hook_is_awaited(point: str) -> None:
    ran: list[str] = []

    async def later() -> None:
        await asyncio.sleep(0.001)
        ran.append("later")

    play(Hooks(**{point: [lambda _: later()]}))
    assert ran[0] == "later"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("on_text", ("I",)),
        ("on_tool_call", (ToolCall("call-1", "look", '{"at":"a"}'),)),
        ("on_tool_result", (ToolCall("call-1", "look", '{"at":"a"}'), ToolResult("saw a"))),
        ("on_step_finish", (1, FinishReason.TOOL_CALLS)),
    ],
)
def test_a_callback_is_given_what_its_name_says(name: str, arguments: tuple[Any, ...]) -> None:
    seen: list[tuple[Any, ...]] = []
    play(Hooks(), callbacks=Callbacks(**{name: lambda *given: seen.append(given)}))
    assert seen[0] == arguments


@pytest.mark.parametrize("point", ["before_llm_call", "before_tool_call"])
def test_a_hook_that_assigns_a_number_to_blocked_has_failed_and_blocks_nothing(point: str) -> None:
    def careless(given: Any) -> None:
        given.blocked = 5

    result, requests = play(Hooks(**{point: [careless]}))
    assert (result.outcome, len(requests)) == (Outcome.COMPLETED, 2)
    failed = {(entry.result, entry.detail) for entry in hooks_of(result)}
    assert failed == {("failed", "TypeError: blocked must be text; call block(reason)")}
    assert [call.name for call in result.calls] == ["look"]


def hooks_of(result: Result) -> list[entries.Hook]:
    return [entry for entry in result.trace.entries if isinstance(entry, entries.Hook)]
