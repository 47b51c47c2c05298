"""The settings of the engine: hooks, callbacks, limits and policies."""

from dataclasses import dataclass, field

from simloop.engine.hooks import Callbacks, Hooks
from simloop.kernel import policies
from simloop.kernel.limits import USUAL_MOVES, Limits
from simloop.kernel.retry import ExponentialBackoff, RetryPolicy
from simloop.messages import Message
from simloop.virtual.seeds import Seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextScript:
    """The results of measuring and of compacting, in order; the last of each repeats."""

    over: tuple[bool, ...] = ()
    shrunk: tuple[bool, ...] = ()


@dataclass(kw_only=True)
class EngineSettings:
    """The settings of a conversation, besides its machine and its world.

    `history` is the conversation before the first prompt.

    `max_transitions` bounds loops that do not bound themselves: beyond it the run is a RunawayRun.
    `clock_skew_ns` is how far the loop's idea of the date is ahead of the provider's. `context`
    scripts the results of measuring and compacting instead of sizes. `replies` says how the loop
    reads replies, and what a failed one leaves in the context. Past `warn_after` model calls, each
    one more is noted.
    """

    hooks: Hooks = field(default_factory=Hooks)
    callbacks: Callbacks = field(default_factory=Callbacks)
    system_prompt: str = ""
    history: tuple[Message, ...] = ()
    limits: Limits = field(default_factory=Limits)
    retry: RetryPolicy = field(default_factory=ExponentialBackoff)
    compaction: policies.Compaction = field(default_factory=policies.Compaction)
    tool_execution: policies.ToolExecution = field(default_factory=policies.ToolExecution)
    tool_rules: policies.ToolRules = field(default_factory=policies.ToolRules)
    hook_isolation: policies.HookIsolation = field(default_factory=policies.HookIsolation)
    hook_execution: policies.HookExecution = field(default_factory=policies.HookExecution)
    report_failed_tools: bool = True
    sent_back: policies.SentBack = field(default_factory=policies.SentBack)
    abort_is_flag: bool = False
    estimate_tokens: policies.TokenEstimator = policies.utf8_bytes_over_4
    seeds: Seeds = field(default_factory=lambda: Seeds(0))
    context: ContextScript | None = None
    clock_skew_ns: int = 0
    replies: policies.ReplyReading = field(default_factory=policies.ReplyReading)
    warn_after: int | None = None
    max_transitions: int = USUAL_MOVES
