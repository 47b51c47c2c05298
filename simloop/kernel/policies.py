"""Replaceable decisions about hooks, tools and the context, as data: settings, never state."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Le
from msgspec import Struct, field

from simloop.kernel.checks import Checked
from simloop.kernel.durations import Lasting, Milliseconds
from simloop.kernel.retry import ExponentialBackoff, RetryPolicy
from simloop.messages import AssistantMessage, Message

TokenEstimator = Callable[[str], int]

OnHookFailure: TypeAlias = Literal[
    "isolate",  # go on as if it were not there
    "fail-run",  # the run ends: failed
    "block-call",  # the model or tool call that it guards does not happen
    "error-result",  # the exception's message is the result of the tool call
]
HookOrder: TypeAlias = Literal[
    "sequential",  # as listed: each sees the changes of those before
    "parallel",  # hooks marked as independent run at once; every other runs in its place
]
ToolOrder: TypeAlias = Literal[
    "sequential",  # the default: calls may depend on one another
    "parallel",  # results still go into the context in the order of the calls
]
ToolStart: TypeAlias = Literal[
    "when-called",  # when the call arrives, while the reply goes on
    "after-reply",  # when the loop has decided to run the calls of the whole reply
]
CompactionStrategy: TypeAlias = Literal[
    "summarise",  # older turns become one summary that the model writes
    "drop-oldest",  # older turns go
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookIsolation(Checked, at="hook_isolation"):
    """The limits on the effect of a hook on its run.

    `block-call` has no call to block at an `after_...` point, and `error-result` has no tool call
    to answer at an `..._llm_call` point; there they isolate.
    """

    on_failure: OnHookFailure = "isolate"
    """The effect on the run of a hook that fails or takes too long."""
    timeout_ms: Annotated[int, Lasting(1)] | None = Milliseconds(5_000)
    """Virtual time that an async hook or callback may take; null for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookExecution(Checked, at="hook_execution"):
    """The settings for running the hooks of a point.

    In parallel, neighbours in the list that are marked as independent run at once. They may read
    and block, and change nothing. The first in the list that blocks decides, when all have ended.
    """

    order: HookOrder = "sequential"
    """One hook after the other, or independent neighbours all at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecution(Checked, at="tool_execution"):
    """The settings for running tools.

    An unset `order` or `start` is the loop's own, or else sequential and after the reply.
    A tool that starts when called runs beside the rest of the reply, and the loop decides about the
    reply when its tools have ended. The loop cannot take the call back: a reply that is cut off or
    fails leaves a tool that ran, with its result in the trace; a retry runs it again. An abort
    cancels the tool.
    """

    order: ToolOrder | None = None
    """One call after the other, or all at once; without it, as the loop does."""
    start: ToolStart | None = None
    """When the call arrives, or when the reply has ended; without it, as the loop does."""
    timeout_ms: Annotated[int, Lasting(1)] | None = None
    """Virtual time that one call may take; without it, for ever."""

    def on(self, loops: "ToolExecution") -> "ToolExecution":
        """Return this policy; take an unset `order` or `start` from the loop's."""
        return replace(self, order=self.order or loops.order, start=self.start or loops.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction(Checked, at="compaction"):
    """The settings for shortening the context. Sizes are estimated tokens.

    A turn is a user message, or a reply with the results of its calls. The newest user message
    always stays. A normal compaction keeps the newest `keep_turns` turns, a forced one the newest.
    """

    window: Annotated[int, Ge(1)] = 64_000
    """The size of the context, in estimated tokens."""
    trigger_percent: Annotated[int, Ge(1), Le(100)] = 75
    """Share of the window from which a normal compaction is tried."""
    target_percent: Annotated[int, Ge(1), Le(100)] = 50
    """Share of the window that dropping turns aims to get down to."""
    max_messages: Annotated[int, Ge(1)] | None = None
    """Compact when there are more messages than this, of any size."""
    keep_turns: Annotated[int, Ge(1)] = 4
    """Number of the newest turns that a normal compaction keeps."""
    strategy: CompactionStrategy = "summarise"
    """A summary by the model, or dropping the oldest turns."""

    @property
    def trigger(self) -> int:
        return self.window * self.trigger_percent // 100

    @property
    def target(self) -> int:
        return self.window * self.target_percent // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """The rules for one tool call. A loop design has these; a scenario does not."""

    convert: bool = False  # arguments of another type to that of the schema, and refuse none
    check_changed: bool = True  # validate arguments again that a hook has changed
    results_fail: bool = True  # a tool may also fail by a result that is an error


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBack:
    """The parts of a conversation that later requests contain besides messages and calls."""

    failed: bool = True  # replies that failed or were aborted; else the transcript alone has them
    reasoning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReading:
    """The rules for reading replies, and for keeping parts of a failed one."""

    # The finish words that the program knows, exactly as spelled, all others being `other`; None
    # for those of all providers in any case.
    finish_words: frozenset[str] | None = None
    failing_words: frozenset[str] = frozenset()  # make the call a failed one; its text is kept
    lower_case_names: bool = False  # a tool is also found by its name in lower case
    # The calls of a broken reply, with their results, stay in the context after a successful
    # retry, under an assistant message without text.
    keep_failed: bool = False


class Policies(Struct, frozen=True, kw_only=True):
    """The policies of a loop design. After `warn_after` model calls, a run is reported as long."""

    retry: RetryPolicy = field(default_factory=ExponentialBackoff)
    compaction: Compaction = field(default_factory=Compaction)
    tool_execution: ToolExecution = field(default_factory=ToolExecution)
    replies: ReplyReading = field(default_factory=ReplyReading)
    tool_rules: ToolRules = field(default_factory=ToolRules)
    hook_isolation: HookIsolation = field(default_factory=HookIsolation)
    hook_execution: HookExecution = field(default_factory=HookExecution)
    report_failed_tools: bool = True  # to `after_tool_call` hooks and `on_tool_result`
    sent_back: SentBack = field(default_factory=SentBack)
    abort_is_flag: bool = False
    """An abort by the user breaks off streams and tools, no further call is begun, and the next
    model call comes back as aborted. Without it, the machine gets `AbortRequested` and decides."""
    warn_after: int | None = None


def utf8_bytes_over_4(text: str) -> int:
    """Return the default token estimate: a quarter of the UTF-8 bytes, rounded up."""
    return (len(text if text.isascii() else text.encode("utf-8", "surrogatepass")) + 3) >> 2


def message_tokens(message: Message, estimate: TokenEstimator) -> int:
    """Return the estimate for one message: text, reasoning, calls, and 4 for its frame."""
    tokens = 4 + estimate(message.text)
    if type(message) is AssistantMessage:
        tokens += estimate(message.reasoning) if message.reasoning else 0
        for call in message.calls:
            tokens += estimate(call.name) + estimate(call.arguments)
    return tokens
