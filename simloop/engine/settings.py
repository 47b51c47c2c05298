"""The settings of the engine: hooks, callbacks, limits and policies."""

from collections.abc import Sequence

from msgspec import field

from simloop.engine.hooks import Callbacks, Hooks
from simloop.kernel import policies
from simloop.kernel.limits import USUAL_MOVES, Limits
from simloop.messages import Message
from simloop.virtual.seeds import Seeds


class EngineSettings(policies.Policies, frozen=True, kw_only=True):
    """The settings of a conversation, besides its machine and its world: its policies, and more.

    `history` is the conversation before the first prompt.
    `max_transitions` bounds loops that do not bound themselves: beyond it the run is a RunawayRun.
    `clock_skew_ns` is how far the loop's idea of the date is ahead of the provider's. `context` has
    the results of measuring and compacting, in order, in place of sizes; the last of each repeats.
    """

    hooks: Hooks = field(default_factory=Hooks)
    callbacks: Callbacks = field(default_factory=Callbacks)
    system_prompt: str = ""
    history: tuple[Message, ...] = ()
    limits: Limits = field(default_factory=Limits)
    estimate_tokens: policies.TokenEstimator = policies.utf8_bytes_over_4
    seeds: Seeds = field(default_factory=lambda: Seeds(0))
    context: tuple[Sequence[bool], Sequence[bool]] | None = None
    clock_skew_ns: int = 0
    max_transitions: int = USUAL_MOVES
