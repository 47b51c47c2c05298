"""An async test of an agent on an SDK, as a user writes it; the agent has nothing of simloop."""

import json
from typing import Any

import pytest

from simloop import Http, Provider, Reply, Sim, traced
from simloop.trace import entries

pytestmark = pytest.mark.sdks

READ_FILE = {
    "name": "read_file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}


@traced
def read_file(path: str) -> str:
    return f"{path} says Hello."


async def my_agent(question: str) -> str:
    from openai import AsyncOpenAI  # noqa: PLC0415 - only the environments of this test have it

    client = AsyncOpenAI()
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        tools: Any = [{"type": "function", "function": READ_FILE}]
        reply = await client.chat.completions.create(model="m", messages=messages, tools=tools)
        message: Any = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return str(message.content)
        for call in message.tool_calls:
            result = read_file(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


@pytest.mark.simloop
async def test_the_trace_has_the_wait_of_the_sdk_and_the_tool_under_the_id_of_its_call(
    provider: Provider, sim: Sim
) -> None:
    provider.script(
        Reply(http=Http(status=429, retry_after="7s")),
        Reply(call={"read_file": {"path": "a"}}),
        Reply(say="It says Hello."),
    )
    await my_agent("What does a say?")
    record = sim.trace.entries
    (sleep,) = [entry for entry in record if isinstance(entry, entries.Sleep)]
    assert sleep.duration_ns == 7 * 10**9
    assert sleep.place.startswith("test_async_example.py:")
    (call,) = [entry for entry in record if isinstance(entry, entries.ToolCall)]
    (tool,) = [entry for entry in record if isinstance(entry, entries.ToolStarted)]
    assert (tool.call_id, tool.arguments) == (call.call_id, '{"path":"a"}')
    assert [len(body) > 0 for body in provider.bodies.values()] == [True] * 3
