"""Hooks as programs have them: they do nothing, read their input, or replace it."""

from simloop import AfterLLMCall, AfterToolCall, BeforeLLMCall, BeforeToolCall, Hooks, ToolResult


def nothing(given: object) -> None:
    """Do nothing."""


async def nothing_async(given: object) -> None:
    """Do nothing."""


def reads_request(given: BeforeLLMCall) -> int:
    return len(given.messages) + len(given.system_prompt) + len(given.tools)


def replaces_prompt(given: BeforeLLMCall) -> None:
    given.system_prompt = "You help, briefly."


def reads_reply(given: AfterLLMCall) -> int:
    return len(given.text) + len(given.calls)


def reads_call(given: BeforeToolCall) -> int:
    return len(given.call.name) + len(given.arguments)


def replaces_arguments(given: BeforeToolCall) -> None:
    given.arguments = {"path": "LICENSE"}


def reads_result(given: AfterToolCall) -> int:
    return len(given.call.name) + len(given.result.text)


def replaces_result(given: AfterToolCall) -> None:
    given.result = ToolResult("hidden")


usual_hooks = Hooks(
    before_llm_call=[nothing, nothing_async, reads_request, replaces_prompt],
    after_llm_call=[nothing, nothing_async, reads_reply],
    before_tool_call=[nothing, nothing_async, reads_call, replaces_arguments],
    after_tool_call=[nothing, nothing_async, reads_result, replaces_result],
)
