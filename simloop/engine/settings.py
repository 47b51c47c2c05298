"""The surroundings of the machine: model, tools, hooks, callbacks and policies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from simloop.engine.context import TokenEstimator, utf8_bytes_over_4
from simloop.engine.hooks import Callbacks, Hooks
from simloop.engine.scripted_context import ContextScript
from simloop.kernel.limits import Limits
from simloop.kernel.policies import (
    Compaction,
    HookIsolation,
    OnAbort,
    SentBack,
    ToolExecution,
    ToolRules,
)
from simloop.kernel.replies import ReplyReading
from simloop.kernel.retry import ExponentialBackoff, RetryPolicy
from simloop.messages import Message
from simloop.trace.recorder import MAX_TRACE_CHARS
from simloop.virtual.seeds import Seeds
from simloop.world.fake_model import Model
from simloop.world.tools import Tool

MAX_TRANSITIONS = 1_000_000


@dataclass(kw_only=True)
class EngineSettings:
    """The settings of a run, besides its machine and its prompt.

    `history` is the conversation before the first prompt.

    `max_transitions` and `max_trace_chars` bound loops that do not bound themselves: beyond them
    the run is a RunawayRun. With the default of `max_transitions`, a run that says nothing new in
    20,000 transitions is one, too. `clock_skew_ns` is how far the loop's idea of the date is ahead
    of the provider's. `context` scripts the results of measuring and compacting instead of sizes.
    `replies` says what a failed reply leaves in the context; its words are read by the model
    (ReadModel). Past `warn_after` model calls, each one more is noted. `faulty` gives the faults of
    chance to a tool that a hook brings; those in `tools` have them. `watched`: yield
    before each effect, so that observers can act.
    """

    model: Model
    tools: Mapping[str, Tool] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=Hooks)
    callbacks: Callbacks = field(default_factory=Callbacks)
    system_prompt: str = ""
    history: tuple[Message, ...] = ()
    limits: Limits = field(default_factory=Limits)
    retry: RetryPolicy = field(default_factory=ExponentialBackoff)
    compaction: Compaction = field(default_factory=Compaction)
    tool_execution: ToolExecution = field(default_factory=ToolExecution)
    tool_rules: ToolRules = field(default_factory=ToolRules)
    hook_isolation: HookIsolation = field(default_factory=HookIsolation)
    report_failed_tools: bool = True
    sent_back: SentBack = field(default_factory=SentBack)
    on_abort: OnAbort = OnAbort.END_RUN
    estimate_tokens: TokenEstimator = utf8_bytes_over_4
    seeds: Seeds = field(default_factory=lambda: Seeds(0))
    context: ContextScript | None = None
    clock_skew_ns: int = 0
    replies: ReplyReading = field(default_factory=ReplyReading)
    warn_after: int | None = None
    faulty: Callable[[Tool], Tool] | None = None
    watched: bool = False
    max_transitions: int = MAX_TRANSITIONS
    max_trace_chars: int = MAX_TRACE_CHARS
