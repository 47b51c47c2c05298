"""The requests that a scenario expects: how they are written, and which field differs first."""

from typing import Any

import pytest
from builders import DONE, LOOK, play, scenario
from chatting import chat_agent
from hypothesis import given
from hypothesis import strategies as st

from simloop import Scenario, parse_scenario, run
from simloop.errors import ScenarioError, ScriptExhausted
from simloop.messages import (
    AssistantMessage,
    Message,
    Request,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.scenario.conversation import PastMessage, SentList, differing, written

TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
CALL = st.builds(
    ToolCall, TEXT, st.sampled_from(["look", "add"]),
    st.sampled_from(['{"a":1}', '{"a": 1}', "{}", "[1]", "{broken", ""]),
)  # fmt: skip
MESSAGE: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, TEXT),
    st.builds(SummaryMessage, TEXT),
    st.builds(ToolMessage, TEXT, TEXT, st.booleans()),
    st.builds(AssistantMessage, TEXT, st.lists(CALL, max_size=2).map(tuple)),
)


# ---------------------------------------------------------------- messages as they are written


@given(message=MESSAGE)
def test_a_message_is_as_it_is_written(message: Message) -> None:
    past = PastMessage(**written(message))
    assert differing(past, message) is None
    assert past.model_dump(exclude_defaults=True).keys() <= {
        "user", "assistant", "call", "tool", "failed", "summary",
    }  # fmt: skip


@given(one=MESSAGE, other=MESSAGE)
def test_messages_that_are_written_otherwise_differ(one: Message, other: Message) -> None:
    found = differing(PastMessage(**written(one)), other)
    assert (found is None) == (_meaning(one) == _meaning(other)) or _is_like_a_summary(one, other)
    if found is not None:
        key, wanted, got = found
        assert key in ("user", "assistant", "call", "tool", "summary")
        assert wanted != got


def _meaning(message: Message) -> Any:
    said = dict(written(message))
    said.pop("failed", None)  # no provider has a word for it
    if isinstance(message, AssistantMessage) and message.calls:
        said.setdefault("assistant", "")
    return said


def _is_like_a_summary(one: Message, other: Message) -> bool:
    return isinstance(one, SummaryMessage) and isinstance(other, UserMessage)


def test_a_summary_is_sent_as_a_message_of_the_user() -> None:
    wanted = PastMessage(summary="so far")
    assert differing(wanted, UserMessage("so far")) is None
    assert differing(wanted, UserMessage("so")) == ("summary", "so far", "so")


@given(messages=st.lists(MESSAGE, min_size=1, max_size=4), cut=st.integers(0, 4))
def test_a_list_of_requests_states_what_each_adds(messages: list[Message], cut: int) -> None:
    begun = tuple(messages[: max(1, min(cut, len(messages)))])
    sent = SentList()
    sent.add(Request(1, "main", "Be brief.", begun, ()))
    sent.add(Request(2, "main", "Be brief.", tuple(messages), ()))
    first, second = sent.items
    assert first == {"system": "Be brief.", "tools": [], "messages": [*map(written, begun)]}
    assert second == {"adds": [*map(written, messages[len(begun) :])]}
    sent.begin_anew()
    sent.add(Request(3, "main", "Be long.", tuple(messages), ()))
    assert sent.items[2] == {"system": "Be long.", "messages": [*map(written, messages)]}


# ---------------------------------------------------------------- files

START = "prompt: Hi\nmodel: [{say: Yo}]\nexpect:\n  sent:\n"
WRONG = {
    "an add without a start": ("    - adds: []\n", 5, "write messages"),
    "an add after roles": ("    - user\n    - adds: []\n", 6, "write messages"),
    "an add after any": ("    - ...\n    - adds: []\n", 6, "write messages"),
    "an add after a system prompt": ("    - {system: x}\n    - adds: []\n", 6, "write messages"),
    "both lists": ("    - {messages: [], adds: []}\n", 5, "either messages or adds"),
    "two roles": ("    - messages: [{user: a, tool: b}]\n", 5, "a message has one role"),
    "no role": ("    - messages: [{failed: true}]\n", 5, "a message has one role"),
    "a call of the user": ("    - messages: [{user: a, call: {f: {}}}]\n", 5, "only the assistant"),
    "a failed prompt": ("    - messages: [{user: a, failed: true}]\n", 5, "only the result"),
    "an unknown key": ("    - {message: []}\n", 5, "message"),
    "an unknown party": ("      x: [user]\n", 5, "there is no `x` in models"),
    "a number": ("    - 7\n", 5, ""),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_with_its_line(case: str) -> None:
    text, line, words = WRONG[case]
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(START + text)
    assert caught.value.line == line
    assert words in str(caught.value)


# ---------------------------------------------------------------- what differs

ASKED: dict[str, Any] = {"system": "", "tools": ["look"], "messages": [{"user": "Go."}]}
ADDED: dict[str, Any] = {
    "adds": [{"assistant": "I look.", "call": {"look": {}}}, {"tool": "found"}],
}


def sent_of(*wanted: Any) -> list[str]:
    result = play(LOOK, DONE, expect={"sent": list(wanted)})
    return [str(each).replace("\n", " ") for each in result.mismatches]


HOLD: list[list[Any]] = [
    [ASKED, ADDED],
    [{"system": ""}, {"tools": ["look"]}],
    [{}, {}],
    ["user", ADDED_WHOLE := {"messages": [*ASKED["messages"], *ADDED["adds"]]}],
    ["...", ADDED_WHOLE],
    [ASKED, "..."],
    [ASKED, "user assistant tool"],
    [..., {}],
]


@pytest.mark.parametrize("wanted", HOLD, ids=range(len(HOLD)))
def test_requests_as_expected_pass(wanted: list[Any]) -> None:
    assert sent_of(*wanted) == []


DIFFER: dict[str, tuple[list[Any], str]] = {
    "the system prompt": ([{**ASKED, "system": "Be kind."}, {}], "sent.0.system"),
    "the tools": ([{**ASKED, "tools": ["look", "add"]}, {}], "sent.0.tools"),
    "a text": ([{**ASKED, "messages": [{"user": "Go!"}]}, {}], "sent.0.messages.0.user"),
    "a role": ([{"messages": [{"tool": "Go."}]}, {}], "sent.0.messages.0.tool"),
    "a message too many": (
        [{"messages": [{"user": "Go."}, {"user": "x"}]}, {}], "sent.0.messages.1",
    ),
    "a message too few": ([{"messages": []}, {}], "sent.0.messages.0"),
    "a result": (
        [ASKED, {"adds": [ADDED["adds"][0], {"tool": "lost"}]}], "sent.1.messages.2.tool",
    ),
    "an argument": (
        [ASKED, {"adds": [{"assistant": "I look.", "call": {"look": {"at": 1}}},
                          {"tool": "found"}]}],
        "sent.1.messages.1.call",
    ),
    "the first of two": (
        [{**ASKED, "system": "x", "messages": []}, {"messages": []}], "sent.0.system",
    ),
    "a request too many": ([ASKED, ADDED, {}], "sent: "),
    "a request too few": ([ASKED], "sent: "),
    "one after any": (["...", ASKED], "sent: "),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFER)
def test_the_first_field_that_differs_is_named(case: str) -> None:
    wanted, key = DIFFER[case]
    told = sent_of(*wanted)
    assert [line[: len(key) + 7] for line in told] == [f"expect.{key}"]


def test_a_difference_shows_both_values() -> None:
    told = sent_of({"messages": [{"user": "Go!"}]}, {})
    assert "expect.sent.0.messages.0.user: expected 'Go!', got 'Go.'" in told


POET = {"poet": {"when": {"system": "You rhyme."}, "replies": [{"say": "A rose."}]}}


def test_the_requests_of_a_party_are_compared_by_its_name() -> None:
    def of(poet: list[Any]) -> list[str]:
        expect = {"sent": {"": [ASKED, ADDED], "poet": poet}, "unused": 1}
        return [
            each.key for each in run(scenario(LOOK, DONE, models=POET, expect=expect)).mismatches
        ]

    assert of([]) == []
    assert of([{}]) == ["sent.poet"]


# ---------------------------------------------------------------- an agent over HTTP

PROMPT = "Is it warm in Rome?"
CALLING: list[Any] = [
    {"call": {"weather": {"city": "Rome"}}, "ids": ["c1"]}, {"say": "It is warm."},
]  # fmt: skip
OVER_HTTP: list[Any] = [
    {"system": "", "tools": ["weather"], "messages": [{"user": PROMPT}]},
    {"adds": [{"call": {"weather": {"city": "Rome"}}}, {"tool": "31 degrees"}]},
]


def over_http(wanted: list[Any], **agent: Any) -> list[str]:
    whole = Scenario(prompt=PROMPT, model=CALLING, expect={"sent": wanted})
    result = run(whole, loop=chat_agent(asks_service=False, **agent))
    return [f"{each.key}" for each in result.mismatches]


def test_an_agent_of_ones_own_sends_what_is_expected() -> None:
    assert over_http(OVER_HTTP) == []


def test_what_an_agent_of_ones_own_sends_instead_is_named() -> None:
    system = [{"role": "system", "content": "Be brief."}]
    assert over_http(OVER_HTTP, begins=system) == ["sent.0.system"]
    assert over_http(OVER_HTTP, result="32 degrees") == ["sent.1.messages.2.tool"]
    assert over_http(OVER_HTTP[:1]) == ["sent"]


def test_a_run_that_leaves_the_script_says_which_request_it_is_most_like() -> None:
    def agent(prompt: str) -> str:
        return chat_agent(asks_service=False)(prompt) + chat_agent(asks_service=False)("Why?")

    whole = Scenario(prompt=PROMPT, model=CALLING, expect={"sent": [*OVER_HTTP, {}]})
    with pytest.raises(ScriptExhausted) as caught:
        run(whole, loop=agent)
    told = "request 3 is most like expect.sent.2, and asks the same"
    assert told in str(caught.value).splitlines()
