"""The records of a trace, one Struct per kind.

Not here: reading and writing (codec.py) and wording (timeline.py). The rule to keep: an entry
holds virtual time and data of the run only. Real time, addresses and versions of libraries would
make two equal runs differ.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.names import kebab
from simloop.messages import Fault, FinishReason, Message, Outcome, ToolSpec, Usage

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A number that simloop counts or a time in ns: the range is tested where a trace is read."""


class Entry(
    Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True,
    tag_field="kind", tag=kebab,
):  # fmt: skip
    """`seq` counts a trace's entries from 0; `at_ns` is virtual time since its start."""

    seq: Count
    at_ns: Count


class Transition(Entry, frozen=True, gc=False):
    """The machine moved: the signal that arrived, the state it led to, the counters after it."""

    signal: str
    state: str
    error_count: int
    total_steps: int
    compaction_attempts: int


class Request(Entry, frozen=True, gc=False):
    """A request was sent, recorded as what changed since the last main one.

    Its messages are the first `kept` of the last main request with `added` after them; `digest`
    covers all of them. `system_prompt` and `tools` are there when they changed. `tokens` is the
    estimate. A summary request is recorded whole, and is not the last one for those after it.
    `note` is the text of an assistant message after all of them that only this request has.
    """

    number: Count
    purpose: str
    tokens: int
    digest: str
    kept: Count
    added: tuple[Message, ...] = ()
    system_prompt: str | UnsetType = UNSET
    tools: tuple[ToolSpec, ...] | UnsetType = UNSET
    note: str = ""


class TextDelta(Entry, frozen=True, gc=False):
    """A piece of text arrived."""

    text: str


class ReasoningDelta(Entry, frozen=True, gc=False):
    """A piece of reasoning arrived."""

    text: str


class ToolCallDelta(Entry, frozen=True, gc=False):
    """A piece of a call's arguments arrived."""

    call_id: str
    name: str
    arguments: str


class ToolCall(Entry, frozen=True, gc=False):
    """A whole call arrived."""

    call_id: str
    name: str
    arguments: str


class Finish(Entry, frozen=True, gc=False):
    """The reply ended: the finish reason, the provider's own word, what it reports."""

    reason: FinishReason
    raw: str
    usage: Usage | None = None
    steps: int = 1


class Error(Entry, frozen=True, gc=False):
    """The call failed: how, of what class, and whether the retry policy would try again."""

    fault: Fault
    error_class: ErrorClass
    retryable: bool


class CallBegun(Entry, frozen=True, gc=False):
    """A call begins: hooks run before its tool, or an abort is a flag that may come before it.

    Any other call begins when its tool starts, or when it is answered without one.
    """

    call_id: str


class Hook(Entry, frozen=True, gc=False):
    """A hook ran for `took_ns`, and `did` what it did: ok, blocked, failed or timed-out."""

    point: str
    hook: str
    did: str
    took_ns: Count = 0
    detail: str = ""


class Callback(Entry, frozen=True, gc=False):
    """A callback failed; the run goes on, because a callback only watches."""

    callback: str
    detail: str


class ToolStarted(Entry, frozen=True, gc=False):
    """A tool runs, with the arguments that it really got."""

    call_id: str
    name: str
    arguments: str


class ToolResult(Entry, frozen=True, gc=False):
    """A call was answered, by its tool or in its stead (`ran` is false).

    `text` is for the model, `details` are for the interface, as JSON.
    """

    call_id: str
    name: str
    text: str
    is_error: bool = False
    ran: bool = True
    details: Any = None


class Compaction(Entry, frozen=True, gc=False):
    """A compaction ended: `strategy` is the one that did it, or empty if nothing was gained."""

    forced: bool
    strategy: str
    tokens_before: int
    tokens_after: int
    messages_removed: Count = 0
    detail: str = ""


class Backoff(Entry, frozen=True, gc=False):
    """A wait before a retry began. `retry_after`: the provider asked for it."""

    failures: Count
    delay_ns: Count
    error_class: ErrorClass
    retry_after: bool = False


class Notice(Entry, frozen=True, gc=False):
    """The run is long (document 001), or its context is too large and cannot be shortened.

    Nothing follows from a notice.
    """

    text: str


class Ended(Entry, frozen=True, gc=False):
    """A run ended, and another prompt follows. The end of the last run is the footer's."""

    outcome: Outcome
    limit: str
    message: str
    text: str
    error_count: int
    total_steps: int
    compaction_attempts: int
    elapsed_ns: Count


class Prompt(Entry, frozen=True, gc=False):
    """The user's next prompt. The first one is the scenario's."""

    text: str


AnyEntry = (
    Transition | Request | TextDelta | ReasoningDelta | ToolCallDelta | ToolCall | Finish | Error
    | CallBegun | Hook | Callback | ToolStarted | ToolResult | Compaction | Backoff | Notice | Ended
    | Prompt
)  # fmt: skip


class Header(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="header",
):
    """The first line: what was run. `scenario` is the whole scenario, so a trace can be replayed.

    `limits` has the keys of a file, and durations as text.

    `scenario_digest` is the BLAKE2b of `scenario`, 16 bytes in hex. `python` names the Python code
    that the run needed besides: tools, hooks, callbacks, a model, a loop. `judge_as` is the design
    whose expectations hold for a loop of the user's own.
    """

    format: str
    version: int
    title: str
    loop: str
    seed: Count
    limits: Mapping[str, int | str | None]
    scenario_digest: str
    scenario: Raw
    python: tuple[str, ...] = ()
    judge_as: str = ""


class Footer(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="footer"):
    """The last line: how the run ended. `digest` is the BLAKE2b of all lines before it."""

    outcome: Outcome
    limit: str
    message: str
    text: str
    error_count: int
    total_steps: int
    compaction_attempts: int
    elapsed_ns: Count
    entries: Count
    digest: str = ""


Line = Header | AnyEntry | Footer
