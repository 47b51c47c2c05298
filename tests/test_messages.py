"""The nouns: finish reasons are read strictly, outcomes speak the documents' words."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop.messages import (
    AssistantMessage,
    Fault,
    FinishReason,
    Message,
    Outcome,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

SEEDED = settings(derandomize=True)
PROVIDER_WORDS = ["stop", "tool-calls", "length", "content-filter", "error", "other"]
CALL = ToolCall("call_1", "read_file", '{"path": "README.md"}')
MESSAGES: dict[str, Message] = {
    "user": UserMessage("What does README.md say?"),
    "assistant-with-call": AssistantMessage("Let me look.", (CALL,)),
    "assistant": AssistantMessage("It says Hello."),
    "tool": ToolMessage("call_1", "# Hello"),
    "tool-error": ToolMessage("call_1", "no such file", is_error=True),
    "summary": SummaryMessage("They talked about README.md."),
}
every_message = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


@pytest.mark.parametrize("word", PROVIDER_WORDS)
def test_a_known_finish_reason_is_read_as_itself(word: str) -> None:
    assert FinishReason.read(word).value == word


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", FinishReason.STOP),
        ("end_turn", FinishReason.STOP),
        ("tool_calls", FinishReason.TOOL_CALLS),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("SAFETY", FinishReason.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", FinishReason.ERROR),
        ("network_error", FinishReason.INTERRUPTED),
    ],
)
def test_the_words_of_the_providers_are_known(word: str, reason: FinishReason) -> None:
    assert FinishReason.read(word) is reason


@pytest.mark.parametrize("word", ["weird_reason", "unknown", "", " stop", "pause_turn"])
def test_an_unknown_finish_reason_is_read_as_other(word: str) -> None:
    assert FinishReason.read(word) is FinishReason.OTHER


def test_a_provider_cannot_say_interrupted() -> None:
    assert FinishReason.read("interrupted") is FinishReason.OTHER


@SEEDED
@given(st.text())
def test_any_word_reads_as_a_finish_reason_a_provider_can_give(word: str) -> None:
    assert FinishReason.read(word).value in PROVIDER_WORDS


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("completed", "Task completed."),
        ("max-steps", "Max steps reached, task may be incomplete."),
        ("context-limit", "Context limit reached."),
        ("content-filtered", "Content filtered."),
        ("model-error", "Task failed."),
        ("failed", "Error: rl"),
        ("too-many-errors", "Failed after 3 errors: rl"),
        ("aborted", "Request aborted."),
        ("timed-out", "Time limit reached, task may be incomplete."),
        ("blocked", "Blocked: rl"),
    ],
)
def test_an_outcome_tells_the_user_in_the_documents_words(outcome: str, message: str) -> None:
    assert Outcome(outcome).message(errors=3, cause="rl") == message


def test_an_unknown_cause_is_called_unknown() -> None:
    assert Outcome.FAILED.message() == "Error: unknown"


@pytest.mark.parametrize("cause", ["{errors}", "{", "}", "{0}", "%s", "{cause.__class__}"])
def test_a_cause_is_quoted_never_interpreted(cause: str) -> None:
    assert Outcome.FAILED.message(cause=cause) == f"Error: {cause}"


def test_the_first_header_of_a_name_counts() -> None:
    headers = (("date", "today"), ("retry-after", "5"), ("retry-after", "9"))
    fault = Fault("slow down", status=429, headers=headers)
    assert (fault.header("retry-after"), fault.header("age")) == ("5", None)


@every_message
def test_a_message_is_the_same_after_a_round_trip_through_json(message: Message) -> None:
    assert msgspec.json.decode(msgspec.json.encode(message), type=Message) == message


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (UserMessage("hi"), "user"),
        (AssistantMessage("hi"), "assistant"),
        (ToolMessage("call_1", "hi"), "tool"),
        (SummaryMessage("hi"), "summary"),
    ],
    ids=["user", "assistant", "tool", "summary"],
)
def test_a_message_is_written_with_its_role_and_nothing_that_is_default(
    message: Message, role: str
) -> None:
    written = msgspec.to_builtins(message)
    assert (written["role"], written["text"], set(written) - {"call_id"}) == (
        role,
        "hi",
        {"role", "text"},
    )
