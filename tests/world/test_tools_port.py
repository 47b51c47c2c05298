"""The port to the tools: each call that runs is recorded, and each failure is a result."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupting import is_stopped
from pacing import MS, nap
from worlds import Opened, in_world

from simloop import Tool
from simloop.messages import ToolCall, ToolMessage, ToolResult
from simloop.trace import entries
from simloop.trace.entries import AnyEntry


def square(n: int) -> str:
    return str(n * n)


async def look() -> str:
    return str(await nap(5, "seen"))


def fail() -> str:
    raise ValueError("no")


async def fail_later() -> str:
    await nap(5)
    raise ValueError("no")


def cancel() -> str:
    raise asyncio.CancelledError


async def cancel_later() -> str:
    await nap(5)
    raise asyncio.CancelledError


def called(
    name: str, arguments: str = "{}", *, tools: Any = (square, look), timeout_ms: int | None = None
) -> tuple[ToolMessage, Opened]:
    """Run one call by name."""

    async def main(opened: Opened) -> tuple[ToolMessage, Opened]:
        return await opened.world.tools.run(ToolCall("c", name, arguments)), opened

    return in_world(main, tools=tools, timeout_ms=timeout_ms)


def kinds(opened: Opened) -> list[str]:
    return [str(type(entry).__struct_config__.tag) for entry in opened.entries]


# ------------------------------------------------------------------------- a call by name


@pytest.mark.parametrize(
    ("name", "arguments", "text"), [("square", '{"n": 3}', "9"), ("look", "{}", "seen")]
)
def test_a_call_returns_the_result_of_its_tool(name: str, arguments: str, text: str) -> None:
    message, opened = called(name, arguments)
    assert message == ToolMessage("c", text)
    assert kinds(opened) == ["tool-started", "tool-result"]


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("gone", "{}", "Error: tool gone not found"),
        ("square", "{}", "Error: Invalid parameters\narguments: n is missing"),
        ("square", "{", "Error: Invalid parameters\narguments: not valid JSON"),
    ],
    ids=["unknown", "wrong", "no JSON"],
)
def test_a_call_that_cannot_run_is_an_error_result_and_starts_nothing(
    name: str, arguments: str, text: str
) -> None:
    message, opened = called(name, arguments)
    assert message.is_error
    assert message.text.startswith(text)
    assert kinds(opened) == ["tool-result"]


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (fail, "Error: no"),
        (fail_later, "Error: no"),
        (cancel, "Error: the tool was cancelled"),
        (cancel_later, "Error: the tool was cancelled"),
    ],
)
def test_a_tool_that_fails_is_an_error_result_that_says_why(
    tool: Callable[[], Any], text: str
) -> None:
    message, opened = called(tool.__name__, tools=[tool])
    assert message == ToolMessage("c", text, is_error=True)
    assert kinds(opened) == ["tool-started", "tool-result"]


@pytest.mark.parametrize("tool", [fail, fail_later])
def test_the_exception_of_a_tool_is_kept_for_the_report(tool: Callable[[], Any]) -> None:
    _, opened = called(tool.__name__, tools=[tool])
    assert [(each.where, str(each.error)) for each in opened.raised] == [
        (f"the tool {tool.__name__}", "no")
    ]


@pytest.mark.parametrize("value", [5, None, b"bytes"])
def test_a_result_whose_text_is_no_text_is_an_error_result(value: Any) -> None:
    message, _ = called("tool", tools={"tool": lambda: ToolResult(value)})
    text = "Error: the text of a ToolResult must be text"
    assert message == ToolMessage("c", text, is_error=True)


@given(st.text(st.characters(), max_size=5))
@settings(derandomize=True)
def test_the_model_reads_the_text_that_is_recorded_and_that_can_be_written(text: str) -> None:
    message, opened = called("tool", tools={"tool": lambda: f"\ud800{text}"})
    (entry,) = opened.of(entries.ToolResult)
    assert entry.text == message.text
    assert message.text.encode()


# ------------------------------------------------------------------------- time


def hurried(tool: Callable[[], Any], own_ms: int | None, port_ms: int | None) -> tuple[str, int]:
    async def main(opened: Opened) -> tuple[str, int]:
        message = await opened.world.tools.run(ToolCall("c", "tool", "{}"))
        return message.text, opened.loop.now_ns // MS

    timed = Tool(tool, name="tool", timeout_ms=own_ms)
    return in_world(main, tools=[timed], timeout_ms=port_ms)


@pytest.mark.parametrize(
    ("own_ms", "port_ms", "text", "took_ms"),
    [
        (None, None, "seen", 5),
        (None, 3, "Error: timed out after 3 ms", 3),
        (2, 3, "Error: timed out after 2 ms", 2),
        (9, 3, "seen", 5),
    ],
)
def test_a_tool_has_its_own_timeout_or_that_of_the_port(
    own_ms: int | None, port_ms: int | None, text: str, took_ms: int
) -> None:
    assert hurried(look, own_ms, port_ms) == (text, took_ms)


def test_calls_run_at_the_same_time_each_have_their_own_timeout() -> None:
    async def slow() -> str:
        return str(await nap(100, "late"))

    async def main(opened: Opened) -> tuple[list[str], int]:
        calls = ToolCall("1", "slow", "{}"), ToolCall("2", "look", "{}")
        both = await asyncio.gather(*map(opened.world.tools.run, calls))
        return [message.text for message in both], opened.loop.now_ns // MS

    told = ["Error: timed out after 10 ms", "seen"]
    assert in_world(main, tools=[slow, look], timeout_ms=10) == (told, 10)


def test_a_cancellation_of_the_task_ends_the_call_and_is_no_result() -> None:
    async def main(opened: Opened) -> tuple[bool, list[AnyEntry]]:
        task = asyncio.current_task()
        assert task is not None
        opened.loop.call_later(0.002, task.cancel)
        stopped = await is_stopped(opened.world.tools.run(ToolCall("c", "look", "{}")))
        task.uncancel()
        return stopped, opened.entries[1:]

    assert in_world(main, tools=[look]) == (True, [])


# ------------------------------------------------------------------------- for an engine


def test_the_trace_of_a_call_whose_id_cannot_be_written_can_be_written() -> None:
    async def main(opened: Opened) -> Opened:
        result = await opened.world.tools.run(ToolCall("c\ud800", "look", "{}"))
        assert (result.call_id, result.text) == ("c\ufffd", "seen")
        return opened

    assert msgspec.json.encode(in_world(main, tools=(look,)).entries)
