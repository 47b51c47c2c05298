"""The native client: one call, one whole reply, or the failure of the call."""

import pytest
from msgspec import Raw
from pacing import MS, nap
from worlds import Opened, in_world

from simloop import Http, Reply
from simloop.messages import (
    AssistantMessage,
    Fault,
    FinishReason,
    Request,
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
