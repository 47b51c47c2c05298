"""The native client: one call, one whole reply, or the failure of the call."""

import asyncio
import re
from typing import Any

import pytest
from msgspec import Raw
from pacing import MS, nap
from worlds import Opened, in_world

from simloop import Http, Reply, ScenarioError
from simloop.messages import (
    AssistantMessage,
    Fault,
    FinishReason,
    Request,
    TextDelta,
    ToolCall,
    ToolSpec,
    UserMessage,
)
from simloop.scenario.replies import StreamFault
from simloop.trace import entries
from simloop.world.model_port import Completion, ModelCallFailed

ASK = (UserMessage("Hello?"),)


@pytest.mark.parametrize(
    ("reply", "completion"),
    [
        (Reply(say="Hi there."), Completion(AssistantMessage("Hi there."), FinishReason.STOP)),
        (Reply(think="Hm.", say="Hi."), Completion(AssistantMessage("Hi."), FinishReason.STOP)),
        (Reply(say="I look.", call={"look": {}}),
         Completion(AssistantMessage("I look.", (ToolCall("call-1", "look", "{}"),)),
                    FinishReason.TOOL_CALLS)),
        (Reply(say="Cut", finish="length"),
         Completion(AssistantMessage("Cut"), FinishReason.LENGTH)),
    ],
)  # fmt: skip
def test_the_native_client_returns_the_whole_reply(reply: Reply, completion: Completion) -> None:
    async def main(opened: Opened) -> Completion:
        return await opened.world.model.reply(ASK)

    assert in_world(main, lambda _: reply) == completion


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (Reply(http=Http(status=429)), Fault("429 Too Many Requests", status=429)),
        (Reply(say="Half.", error=StreamFault(message="busy", code="overloaded")),
         Fault("busy", code="overloaded")),
        (Reply(say="Half.", unfinished=True),
         Fault("the stream ended without a finish", code="interrupted")),
    ],
    ids=["status", "mid-output", "unfinished"],
)  # fmt: skip
def test_a_call_of_the_native_client_that_fails_says_how(reply: Reply, fault: Fault) -> None:
    async def main(opened: Opened) -> Fault:
        with pytest.raises(ModelCallFailed, match=fault.message) as failed:
            await opened.world.model.reply(ASK)
        return failed.value.fault

    assert in_world(main, lambda _: reply) == fault


def test_the_native_client_sends_what_it_is_given() -> None:
    look = ToolSpec("look", "Look.", Raw(b"{}"))
    asked: list[Request] = []

    async def main(opened: Opened) -> entries.Request:
        await opened.world.model.reply(ASK, system_prompt="Be brief.", tools=[look])
        return opened.of(entries.Request)[0]

    def model(request: Request) -> str:
        asked.append(request)
        return "Hi."

    entry = in_world(main, model)
    (request,) = asked
    assert (entry.number, entry.purpose, entry.system_prompt, entry.tools, entry.added) == (
        1, "main", "Be brief.", (look,), ASK,
    )  # fmt: skip
    assert (request.system_prompt, request.tools, tuple(request.messages)) == (
        "Be brief.", (look,), ASK,
    )  # fmt: skip


def test_a_request_is_dated_when_it_is_sent_and_the_model_asked_when_it_is_first_read() -> None:
    async def main(opened: Opened) -> tuple[list[int], int]:
        stream = opened.world.model.stream(ASK)
        await nap(5)
        before = len(asked)
        async for _ in stream:
            pass
        return [entry.at_ns // MS for entry in opened.of(entries.Request)], before

    asked: list[Request] = []

    def model(request: Request) -> str:
        asked.append(request)
        return "Hi."

    assert in_world(main, model) == ([0], 0)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"messages": [{"role": "user", "text": "Hello?"}]}, "dict is no message"),
        ({"messages": "Hello?"}, "str is no message"),
        ({"messages": UserMessage("Hello?")}, "'UserMessage' object is not iterable"),
        ({"messages": [UserMessage(["Hello?"])]}, "Expected `str`, got `array`"),  # type: ignore[arg-type]
        ({"messages": [UserMessage(b"x")]}, "UserMessage.text must be a str, not bytes"),  # type: ignore[arg-type]
        (
            {"messages": [AssistantMessage("", (ToolCall("a", b"look", "{}"),))]},  # type: ignore[arg-type]
            "ToolCall.name must be a str, not bytes",
        ),
        ({"messages": ASK, "tools": ["look"]}, "'str' object has no attribute 'parameters'"),
        (
            {"messages": ASK, "tools": [ToolSpec("look", "", Raw(b"{look"))]},
            "the parameters of the tool look are not JSON: JSON is malformed",
        ),
        (
            {"messages": ASK, "tools": [ToolSpec("look", "", Raw(b'"\xff"'))]},
            "the parameters of the tool look are not JSON: 'utf-8' codec can't decode",
        ),
        ({"messages": ASK, "system_prompt": None}, "object of type 'NoneType' has no len"),
    ],
)
def test_a_request_that_no_trace_can_hold_is_the_fault_of_the_agent_s_author(
    given: dict[str, Any], says: str
) -> None:
    async def main(opened: Opened) -> Opened:
        with pytest.raises(ScenarioError, match=f"request 1 has a wrong part: {re.escape(says)}"):
            await opened.world.model.reply(**given)
        return opened

    opened = in_world(main)
    assert opened.entries == []
    assert opened.world.model.requests == 0, "the next request is the first"
    error = opened.world.model.recorder.error
    assert isinstance(error, ScenarioError), "an agent cannot hide it"


def test_a_request_with_text_that_cannot_be_written_fails_as_with_a_real_client() -> None:
    async def main(opened: Opened) -> Opened:
        for prompt, text in (("\ud800", "Hello?"), ("", "\ud800")):
            with pytest.raises(UnicodeEncodeError):
                await opened.world.model.reply([UserMessage(text)], system_prompt=prompt)
        await opened.world.model.reply(ASK)
        return opened

    assert [request.number for request in in_world(main).of(entries.Request)] == [1]


def test_no_request_is_recorded_and_no_model_asked_after_a_stop() -> None:
    asked: list[Request] = []

    async def main(opened: Opened) -> Opened:
        opened.world.user.stop()
        with pytest.raises(asyncio.CancelledError):
            opened.world.model.stream(ASK).take()
        opened.world.user.cancellation.take()
        return opened

    def answer(request: Request) -> str:
        asked.append(request)
        return "Hello."

    opened = in_world(main, answer)
    assert opened.of(entries.Request) == []
    assert asked == []


def test_a_task_that_the_reader_of_a_reply_starts_gets_its_turn_before_each_next_part() -> None:
    async def main(opened: Opened) -> list[str]:
        seen: list[str] = []

        async def log(text: str) -> None:
            seen.append(f"task {text}")

        tasks = []
        async for part in opened.world.model.stream(ASK):
            seen.append(part.text if isinstance(part, TextDelta) else "end")
            tasks.append(asyncio.create_task(log(seen[-1])))
        return seen

    seen = in_world(main, lambda _: Reply(say=["a", "b", "c"]))
    assert seen == ["a", "task a", "b", "task b", "c", "task c", "end"]
