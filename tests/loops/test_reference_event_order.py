"""The order of callbacks and hooks of the program behind documents 000/002.

The sequences are those of `documented-loops.md` 1.3, observed with Pulse Coder at 8b75a91, in its
notation. Where ours differs on purpose a test says so (D20 in docs/loops.md).
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from simloop import Callbacks, HookIsolation, Hooks, Http, Reply, Result, Scenario, Tool, run
from simloop.messages import ToolMessage

HOOK_NAMES = {
    "before_llm_call": "bLLM",
    "before_tool_call": "beforeToolCall",
    "after_tool_call": "afterToolCall",
    "after_llm_call": "afterLLMCall",
}
CALLBACK_NAMES = {
    "on_text": "onText",
    "on_tool_call": "onToolCall",
    "on_tool_result": "onToolResult",
    "on_step_finish": "onStepFinish",
    "on_response": "onResponse",
}
BLOCKING = HookIsolation(on_failure="block-call")


class Watched:
    """One round that calls tools, and what user code saw of it, up to the next round."""

    def __init__(
        self,
        reply: Reply,
        *,
        before_tool_call: Sequence[Callable[..., Any]] = (),
        isolation: HookIsolation | None = None,
    ) -> None:
        self.seen: list[str] = []
        hooks: dict[str, Sequence[Callable[..., Any]]] = {
            point: [self.noting(name)] for point, name in HOOK_NAMES.items()
        }
        hooks["before_tool_call"] = [*hooks["before_tool_call"], *before_tool_call]
        self.result: Result = run(
            Scenario(
                prompt="Go.",
                model=[reply, Reply(say="Done.")],
                hook_isolation=isolation or HookIsolation(),
            ),
            tools=[self.tool("execute"), self.tool("fail", OSError("no disk"))],
            hooks=Hooks(**hooks),
            callbacks=Callbacks(
                **{callback: self.noting(name) for callback, name in CALLBACK_NAMES.items()}
            ),
        )

    def noting(self, name: str) -> Callable[..., None]:
        return lambda *_: self.seen.append(name)

    def tool(self, name: str, error: Exception | None = None) -> Tool:
        def act(n: int) -> str:
            self.seen.append("[execute]")
            if error is not None:
                raise error
            return str(n)

        return Tool(act, name=name)

    @property
    def round(self) -> str:
        end = self.seen.index("afterLLMCall") + 1
        return ", ".join(self.seen[:end])

    @property
    def told(self) -> list[ToolMessage]:
        """What the model was told of its calls."""
        return [m for m in self.result.requests[-1].messages if isinstance(m, ToolMessage)]


CALL = {"execute": {"n": 1}}


def test_pulse_coder_8b75a91_a_tool_round_tells_user_code_in_the_printed_order() -> None:
    assert Watched(Reply(say="I look.", call=CALL)).round == (
        "bLLM, onText, onText, onToolCall, beforeToolCall, [execute], afterToolCall, onToolResult, "
        "onStepFinish, onResponse, afterLLMCall"
    )


def test_pulse_coder_8b75a91_all_calls_are_seen_before_the_first_result() -> None:
    assert Watched(Reply(call=[CALL, CALL])).round == (
        "bLLM, onToolCall, onToolCall, "
        "beforeToolCall, [execute], afterToolCall, onToolResult, "
        "beforeToolCall, [execute], afterToolCall, onToolResult, "
        "onStepFinish, onResponse, afterLLMCall"
    )


def test_pulse_coder_8b75a91_tells_arguments_as_they_come_and_so_does_on_chunk() -> None:
    """There by `onToolInputStart`, `Delta` and `End`, which 527e790 does not have."""
    seen: list[str] = []
    run(
        Scenario(prompt="Go.", model=[Reply(call=CALL, fragments=2), Reply(say="Done.")]),
        tools=[Tool(str, name="execute", parameters={"type": "object"})],
        callbacks=Callbacks(
            on_chunk=lambda part: seen.append(type(part).__name__),
            on_tool_call=lambda _: seen.append("onToolCall"),
        ),
    )
    assert seen[:4] == ["ToolCallDelta", "ToolCallDelta", "ToolCallPart", "onToolCall"]


def fail(_: Any) -> None:
    raise OSError("no key")


FAILURES: dict[str, tuple[Any, Any, str]] = {
    "throw": ({"fail": {"n": 1}}, {}, "no disk"),
    "unknown-tool": ({"no_such_tool": {}}, {}, "no_such_tool"),
    "bad-json": ({"execute": '{"n": '}, {}, "not valid JSON"),
    "schema-failure": ({"execute": {"n": "one"}}, {}, "n: must have type"),
    "before-tool-call-throws": (
        CALL, {"before_tool_call": [fail], "isolation": BLOCKING}, "no key",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", FAILURES)
def test_pulse_coder_8b75a91_a_failure_is_a_call_that_is_seen_and_an_error_for_the_model(
    row: str,
) -> None:
    call, options, words = FAILURES[row]
    watched = Watched(Reply(call=call), **options)
    assert watched.seen.count("onToolCall") == 1
    (told,) = watched.told
    assert told.is_error
    assert words in told.text


@pytest.mark.parametrize("row", FAILURES)
def test_unlike_pulse_coder_8b75a91_a_failure_is_also_a_result_event(row: str) -> None:
    """There no result event comes for any of these; a listener waits for ever (D20)."""
    call, options, _ = FAILURES[row]
    assert Watched(Reply(call=call), **options).seen.count("onToolResult") == 1


@pytest.mark.parametrize("row", FAILURES)
def test_pulse_coder_8b75a91_a_call_that_is_not_executed_has_no_after_tool_call(row: str) -> None:
    call, options, _ = FAILURES[row]
    watched = Watched(Reply(call=call), **options)
    assert ("afterToolCall" in watched.seen) == ("[execute]" in watched.seen)


def test_unlike_pulse_coder_8b75a91_after_tool_call_sees_the_error_of_a_tool_that_throws() -> None:
    """There it is not called when execute throws, so a hook cannot redact what went wrong."""
    assert Watched(Reply(call={"fail": {"n": 1}})).round == (
        "bLLM, onToolCall, beforeToolCall, [execute], afterToolCall, onToolResult, "
        "onStepFinish, onResponse, afterLLMCall"
    )


def test_pulse_coder_8b75a91_before_tool_call_that_throws_blocks_the_call() -> None:
    """Ours does so when the scenario says `block-call`; the model reads the exception's text."""
    watched = Watched(Reply(call=CALL), before_tool_call=[fail], isolation=BLOCKING)
    assert "[execute]" not in watched.seen
    assert "no key" in watched.told[0].text


def test_unlike_pulse_coder_8b75a91_by_default_a_hook_that_throws_stops_no_call() -> None:
    watched = Watched(Reply(call=CALL), before_tool_call=[fail])
    assert watched.round == (
        "bLLM, onToolCall, beforeToolCall, [execute], afterToolCall, onToolResult, "
        "onStepFinish, onResponse, afterLLMCall"
    )


def test_unlike_pulse_coder_8b75a91_a_model_call_that_fails_has_no_after_llm_call() -> None:
    """There it is called with finishReason `error`; at 527e790 it is not, and so here."""
    assert Watched(Reply(http=Http(status=500))).round == (
        "bLLM, bLLM, onText, onStepFinish, onResponse, afterLLMCall"
    )
