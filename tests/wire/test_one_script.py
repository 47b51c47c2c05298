"""One script drives the native client and three formats, which leave equal requests."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest

from simloop import Http, Reply, Request, Scenario, World, run
from simloop.messages import AssistantMessage, Message, ToolMessage, ToolSpec, UserMessage

pytestmark = pytest.mark.sdks

SYSTEM, QUESTION = "Be brief.", "What do they say?"
SCHEMA = {"type": "object", "properties": {"at": {"type": "integer"}}}
DESCRIPTION = "Look there."
CALLS: list[dict[str, Any]] = [{"look": {"at": 1}}, {"look": {"at": 2}}]
SCRIPT = [
    Reply(say="Let me look.", call=CALLS, fragments=3),
    Reply(call={"look": {"at": 3}}),
    Reply(say="They say Hello."),
]


def look(call_id: str) -> str:
    return f"the result of {call_id}"


async def native(_: str, world: World) -> str:
    tool = ToolSpec("look", DESCRIPTION, msgspec.Raw(msgspec.json.encode(SCHEMA, order="sorted")))
    messages: list[Message] = [UserMessage(QUESTION)]
    while True:
        reply = await world.model.reply(messages, system_prompt=SYSTEM, tools=[tool])
        if not reply.message.calls:
            return reply.message.text
        messages.append(AssistantMessage(reply.message.text, reply.message.calls))
        messages += [ToolMessage(call.id, look(call.id)) for call in reply.message.calls]


async def whole_chat(_: str) -> str:
    return await chat(streams=False)


async def streamed_chat(_: str) -> str:
    return await chat(streams=True)


async def chat(*, streams: bool) -> str:
    client = importlib.import_module("openai").AsyncOpenAI()
    function = {"name": "look", "description": DESCRIPTION, "parameters": SCHEMA}
    # Older versions stream tools only if they are strict.
    tools = [{"type": "function", "function": {**function, "strict": True}}]
    system = {"role": "system", "content": SYSTEM}
    messages: list[Any] = [system, {"role": "user", "content": QUESTION}]
    while True:
        asked = {"model": "m", "messages": messages, "tools": tools}
        if streams:
            async with client.chat.completions.stream(**asked) as stream:
                reply = await stream.get_final_completion()
        else:
            reply = await client.chat.completions.create(**asked)
        message = reply.choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(message)
        for call in message.tool_calls:
            result = {"role": "tool", "tool_call_id": call.id, "content": look(call.id)}
            messages.append(result)


async def responses(_: str) -> str:
    client = importlib.import_module("openai").AsyncOpenAI()
    tool = {"name": "look", "description": DESCRIPTION, "parameters": SCHEMA, "strict": False}
    items: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        asked = {"model": "m", "instructions": SYSTEM, "input": items, "store": False}
        tools = [{"type": "function", **tool}]
        async for event in await client.responses.create(**asked, tools=tools, stream=True):
            last = event
        calls = [item for item in last.response.output if item.type == "function_call"]
        if not calls:
            return str(last.response.output_text)
        items += last.response.output
        for call in calls:
            result = {"call_id": call.call_id, "output": look(call.call_id)}
            items.append({"type": "function_call_output", **result})


async def messages(_: str) -> str:
    client = importlib.import_module("anthropic").AsyncAnthropic()
    tools = [{"name": "look", "description": DESCRIPTION, "input_schema": SCHEMA}]
    sent: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        asked = {"model": "m", "max_tokens": 9, "system": SYSTEM, "messages": sent}
        async with client.messages.stream(**asked, tools=tools) as stream:
            reply = await stream.get_final_message()
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content)
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": look(call.id)}
            for call in calls
        ]
        both = {"role": "assistant", "content": reply.content}, {"role": "user", "content": results}
        sent += both


AGENTS: Mapping[str, Callable[[str], Awaitable[str]]] = {
    "whole chat": whole_chat,
    "streamed chat": streamed_chat,
    "responses": responses,
    "messages": messages,
}


def sent(agent: Any, *script: Reply) -> list[Request]:
    result = run(Scenario(prompt="Go.", model=[*script]), loop=agent)
    assert (result.outcome, result.text) == ("completed", "They say Hello.")
    return result.requests


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_each_format_leaves_the_requests_of_the_native_client(agent: Any) -> None:
    assert sent(agent, *SCRIPT) == sent(native, *SCRIPT)


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_a_failed_request_is_sent_again_as_it_was(agent: Any) -> None:
    first, again, *_ = sent(agent, Reply(http=Http(status=529)), *SCRIPT)
    assert msgspec.structs.replace(first, number=2) == again


def test_formats_side_by_side_share_a_script() -> None:
    async def both(_: str) -> str:
        texts = await asyncio.gather(*(agent("") for agent in AGENTS.values()))
        return texts[0] if len(set(texts)) == 1 else repr(texts)

    answers = [Reply(say="They say Hello.")] * len(AGENTS)
    assert len({tuple(one.messages) for one in sent(both, *answers)}) == 1
