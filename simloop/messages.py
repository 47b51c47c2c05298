"""The values that all packages share: messages, tool calls, stream parts, faults, outcomes.

Everything is an immutable value, so a request, a trace and a view may share it without copying.
Built on msgspec Structs with `gc=False`: they hold no cycles, and a kept trace of 100,000 of them
must not make the garbage collector's work super-linear.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

NO_RESULT = "No result provided"
"""The result that pi adds to a request for a call without a result in its transcript."""
NO_ANSWER = frozenset({"connection", "timeout"})
"""The codes of a failure without an answer."""
FAILED_REPLY, ABORTED_REPLY = "error", "aborted"
"""The values of `AssistantMessage.failed`, which say how a reply failed."""


class FinishReason(StrEnum):
    """The reason that the *model* stopped. `Finish.raw` keeps the provider's raw word beside it."""

    STOP = "stop"
    TOOL_CALLS = "tool-calls"
    LENGTH = "length"
    CONTENT_FILTER = "content-filter"
    ERROR = "error"
    OTHER = "other"
    INTERRUPTED = "interrupted"  # the stream ended without saying why

    @classmethod
    def read(cls, raw: str) -> "FinishReason":
        """Return the reason for a provider's word, in any case; an unknown word is `OTHER`."""
        return _FINISH_WORDS.get(raw.lower().replace("-", "_"), cls.OTHER)


_WORDS: Any = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes())
_FINISH_WORDS = {
    word: FinishReason(reason)
    for reason, words in _WORDS["finish_words"].items()
    for word in words.split()
}


class Outcome(StrEnum):
    """How the *run* ended: a closed union, so that a caller can match on it exhaustively."""

    COMPLETED = "completed"
    MAX_STEPS = "max-steps"
    CONTEXT_LIMIT = "context-limit"
    CONTENT_FILTERED = "content-filtered"
    MODEL_ERROR = "model-error"
    FAILED = "failed"
    TOO_MANY_ERRORS = "too-many-errors"
    ABORTED = "aborted"
    TIMED_OUT = "timed-out"
    BLOCKED = "blocked"

    def message(self, *, errors: int = 0, cause: str = "") -> str:
        """Return the text for the user. `cause` is the text of the error that ended the run."""
        words: str = _WORDS["outcome_messages"][self]
        return words.format(errors=errors, cause=cause or "unknown")


class Counters(Struct, frozen=True, gc=False):
    """The counters of a run's machine; `Run` in kernel/machine.py defines them."""

    error_count: int
    total_steps: int
    compaction_attempts: int


class Queue(StrEnum):
    """The queue that holds a message which the user sends during a run."""

    STEERING = "steering"  # for the next request
    FOLLOW_UP = "follow-up"  # for the time when the run would otherwise end


class StopCause(StrEnum):
    """The cause that ends a run from outside."""

    ABORT = "abort"
    WALL_CLOCK = "wall-clock"


class Usage(Struct, frozen=True, gc=False):
    """Token counts as the provider reports them. Recorded, never trusted to decide."""

    input_tokens: int = 0
    output_tokens: int = 0


class ToolCall(Struct, frozen=True, gc=False):
    """One call that a reply asks for. `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class UserMessage(Struct, frozen=True, gc=False, tag_field="role", tag="user"):
    """A message of the user."""

    text: str


class AssistantMessage(
    Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="assistant"
):
    """A model's reply. The `ToolMessage`s right after it answer its calls."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""  # if the loop sends it back
    failed: str = ""  # error or aborted, if only the transcript has it


class ToolMessage(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="role", tag="tool"):
    """The result of one call, as the model sees it."""

    call_id: str
    text: str
    is_error: bool = False


class SummaryMessage(Struct, frozen=True, gc=False, tag_field="role", tag="summary"):
    """The summary that replaces older messages. Providers take it as user text."""

    text: str


Message = UserMessage | AssistantMessage | ToolMessage | SummaryMessage


class ToolSpec(Struct, frozen=True, gc=False):
    """A tool as described to the model. `parameters` is its JSON Schema, as canonical JSON."""

    name: str
    description: str
    parameters: Raw


class StructuredOutput(Struct, frozen=True, gc=False, omit_defaults=True):
    """The object that a request asks for as its answer: its JSON Schema, as canonical JSON."""

    schema: Raw
    is_strict: bool = False  # the provider keeps to the schema
    tool: str = ""  # the one that the model must call, if its arguments are the object


class Request(Struct, frozen=True, gc=False):
    """One request to the model, exactly as sent."""

    number: int  # of a conversation, from 1
    purpose: str  # main or summary
    system_prompt: str
    messages: Sequence[Message]  # a read-only view that never changes
    tools: tuple[ToolSpec, ...]
    party: str = ""  # that answers it, or empty where the rest of the script does
    output: StructuredOutput | None = None
    model: str = ""  # if it is not that of the first request

    @property
    def asked_for(self) -> str:
        """Return the JSON Schema of its output, or an empty text."""
        return "" if self.output is None else bytes(self.output.schema).decode()


class Fault(Struct, frozen=True, gc=False, omit_defaults=True):
    """A failed model call as a value: a status, or a `code` for a failure without a status."""

    message: str
    status: int | UnsetType = UNSET
    code: str = ""  # connection or timeout without an answer, or the provider's word in a body
    headers: tuple[tuple[str, str], ...] = ()  # lower-case names, and values
    code_is_type: bool = False  # the word stands as `type` or `status`, not as `code`

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of the reply's text."""

    text: str


class ReasoningDelta(Struct, frozen=True, gc=False):
    """A piece of the model's reasoning. Only `pi@0.87.1` sends it back."""

    text: str


class ToolCallDelta(Struct, frozen=True, gc=False):
    """A piece of the JSON text of a call's arguments, before the call is whole."""

    call_id: str
    name: str
    arguments: str


class ToolCallPart(Struct, frozen=True, gc=False):
    """A whole tool call."""

    call: ToolCall


class Finish(Struct, frozen=True, gc=False):
    """The end of the model's reply: its steps, and the provider's own word for the reason."""

    reason: FinishReason
    raw: str = ""
    usage: Usage | None = None
    steps: int = 1


class StreamError(Struct, frozen=True, gc=False):
    """The call failed, before, during or instead of its output. No part follows."""

    fault: Fault
    body: str | None = None  # of the HTTP error, for clients that read HTTP; no trace has it


class HeadersSent(Struct, frozen=True, gc=False):
    """The headers of the reply are sent, and nothing else yet."""


class Unreachable(Struct, frozen=True, gc=False):
    """No connection to the provider is made; the failure follows."""


WireState = HeadersSent | Unreachable
"""What only a wire has: no client of the model port gets these parts, and no trace holds them."""

Part = TextDelta | ReasoningDelta | ToolCallDelta | ToolCallPart | Finish | StreamError | WireState


class ToolResult(Struct, frozen=True, omit_defaults=True):
    """The output of a tool."""

    text: str  # for the model
    is_error: bool = False
    details: object = None  # for the interface
    terminate: bool = False  # requests the end of the run


class ToolResultPart(Struct, frozen=True):
    """The result of a call, as passed to `on_chunk`; no model sends one."""

    call: ToolCall
    result: ToolResult


def json_value(text: str, otherwise: Any = None) -> Any:
    """Return the value of JSON text, or `otherwise` for a text that is no JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return otherwise
