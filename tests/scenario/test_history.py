"""The conversation before the first prompt."""

from typing import Any

import pytest
from builders import counters_of

from simloop import (
    Compaction,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    run,
)
from simloop.messages import (
    AssistantMessage,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.scenario.designs import names
from simloop.scenario.loader import parse_scenario

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
