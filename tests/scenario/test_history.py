"""The conversation before the first prompt."""

import asyncio
from typing import Any

import pytest
from builders import counters_of

from simloop import (
    Compaction,
    Conversation,
    Limits,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    read_trace,
    run,
    simulate,
    write_trace,
)
from simloop.messages import (
    AssistantMessage,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.scenario.designs import names
from simloop.scenario.history import PastMessage
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import ScriptedTool
from simloop.trace.requests import requests

BEFORE: list[Any] = [
    {"user": "What does README.md say?"},
    {"assistant": "I look.", "call": {"read": {"path": "README.md"}}},
    {"tool": "# Hello"},
    {"assistant": "It says Hello."},
]
MESSAGES = (
    UserMessage("What does README.md say?"),
    AssistantMessage("I look.", (ToolCall("past-1", "read", '{"path":"README.md"}'),)),
    ToolMessage("past-1", "# Hello"),
    AssistantMessage("It says Hello."),
)
PROMPT = UserMessage("And now?")


def play(*model: Reply, loop: str = "reference", **fields: Any) -> Result:
    script = model or (Reply(say="Done."),)
    given = {"history": BEFORE, "model": script, **fields}
    return run(Scenario(prompt="And now?", **given), loop=loop)


@pytest.mark.parametrize("loop", names())
def test_the_first_request_carries_the_history_before_the_prompt(loop: str) -> None:
    assert tuple(play(loop=loop).requests[0].messages) == (*MESSAGES, PROMPT)


def test_a_trace_explains_the_messages_of_the_first_request(tmp_path: Any) -> None:
    result = play()
    write_trace(result.trace, tmp_path / "a.jsonl")
    read = read_trace(tmp_path / "a.jsonl")
    first = next(requests(read.entries))
    assert tuple(first.messages) == (*MESSAGES, PROMPT)
    assert b'"history":[{"user":"What does README.md say?"}' in bytes(read.header.scenario)


def test_a_history_may_be_given_as_models() -> None:
    past = [PastMessage(user="Hi."), PastMessage(assistant="Hello.")]
    sent = play(history=past).requests[0].messages
    assert tuple(sent) == (UserMessage("Hi."), AssistantMessage("Hello."), PROMPT)


def test_calls_without_text_failed_results_and_summaries_are_messages_too() -> None:
    past = [
        {"summary": "They talked."},
        {"call": [{"read": {}}, {"look": "{"}]},
        {"tool": "no", "failed": True},
        {"tool": "seen"},
    ]
    assert tuple(play(history=past).requests[0].messages)[:4] == (
        SummaryMessage("They talked."),
        AssistantMessage("", (ToolCall("past-1", "read", "{}"), ToolCall("past-2", "look", "{"))),
        ToolMessage("past-1", "no", is_error=True),
        ToolMessage("past-2", "seen"),
    )


def test_a_new_call_does_not_take_the_id_of_a_past_one() -> None:
    tools = {"read": ScriptedTool(returns="# Hello")}
    result = play(Reply(call={"read": {}}, ids=["past-1"]), Reply(say="Done."), tools=tools)
    ids = [m.call_id for m in result.messages if isinstance(m, ToolMessage)]
    assert ids == ["past-1", "past-1#2"]


def test_the_size_of_the_context_counts_the_history_and_compaction_shortens_it() -> None:
    long = [
        {"user": "word " * 200},
        {"assistant": "word " * 200},
        {"user": "x"},
        {"assistant": "y"},
    ]
    compaction = Compaction(window=400, keep_turns=1)
    summaries = [Reply(say="They talked.")]
    result = play(history=long, compaction=compaction, summaries=summaries)
    assert counters_of(result).compaction_attempts == 1
    main = [request for request in result.requests if request.purpose == "main"]
    assert SummaryMessage("They talked.") in main[0].messages
    assert main[0].messages[-1] == PROMPT


def test_an_agent_goes_on_from_the_history() -> None:
    scenario = Scenario(prompt="unused", history=BEFORE, model=[Reply(say="Done.")])

    async def main() -> Conversation:
        agent = Conversation(scenario)
        async for _ in agent.run("And now?"):
            await asyncio.sleep(0)
        return agent

    assert simulate(main()).messages == (*MESSAGES, PROMPT, AssistantMessage("Done."))


def test_a_history_spends_no_limit() -> None:
    assert counters_of(play(limits=Limits(max_steps=1))).total_steps == 1


WRONG = [
    ("[{tool: x}]", "3:11: history.0: there is no call that this could be the result of"),
    ("[{user: x}, {call: {a: {}}}]", "3:22: history.1: the result of a is missing"),
    ("[{call: {a: {}}}, {user: x}]", "3:28: history.1: the result of a has to come first"),
    ("[{call: {a: {}}}, {tool: x}, {tool: y}]", "3:39: history.2: there is no call that this"),
    (
        "[{user: x, tool: y}]",
        "3:11: history.0: a message has one role: give one of user, assistant",
    ),
    ("[{failed: true}]", "3:11: history.0: a message has one role"),
    ("[{user: x, call: {a: {}}}]", "3:21: history.0.call: only the assistant makes calls"),
    ("[{user: x, failed: true}]", "3:21: history.0.failed: only the result of a tool fails"),
    ("[{says: x}]", "3:12: history.0.says: unknown key"),
    ("[{user: 5}]", "3:18: history.0.user: must be a text"),
]


@pytest.mark.parametrize(("history", "says"), WRONG)
def test_a_history_that_no_provider_takes_is_refused_by_its_place(history: str, says: str) -> None:
    text = f"prompt: x\nmodel: [{{say: y}}]\nhistory: {history}\n"
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "a.yaml")
    assert str(caught.value).startswith(f"a.yaml:{says}")


def test_a_history_is_refused_in_python_as_in_a_file() -> None:
    with pytest.raises(ScenarioError, match="the result of read is missing"):
        play(history=BEFORE[:2])
