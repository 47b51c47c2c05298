"""The states of a run. Every state but `Finished` waits for exactly one answer of the world."""

from msgspec import Struct

from simloop.messages import FinishReason, Outcome


class ReplyFacts(Struct, frozen=True, gc=False, cache_hash=True):
    """The parts of a model's reply that decide: never its text, only whether there is any."""

    finish: FinishReason
    text: bool
    calls: bool
    burst: bool = False  # it reported more steps than `max_steps_per_round`


class Ready(Struct, frozen=True, gc=False, cache_hash=True):
    """Nothing has happened yet."""


class Measuring(Struct, frozen=True, gc=False, cache_hash=True):
    """The context is being measured at the top of a round."""


class Compacting(Struct, frozen=True, gc=False, cache_hash=True):
    """The context is being shortened: `forced` after `length` or an overflow error."""

    forced: bool


class CallingModel(Struct, frozen=True, gc=False, cache_hash=True):
    """Hooks, request and stream of one model call."""


class RunningTools(Struct, frozen=True, gc=False, cache_hash=True):
    """The calls of `reply` are being answered, by running or by refusing them."""

    reply: ReplyFacts


class ClosingStep(Struct, frozen=True, gc=False, cache_hash=True):
    """The step is reported to callbacks and hooks; then `reply` decides."""

    reply: ReplyFacts
    blocked: bool = False  # one of its calls was forbidden


class Halting(Struct, frozen=True, gc=False, cache_hash=True):
    """The run is aborted, but requests one more effect before its end, as some programs do."""


class BackingOff(Struct, frozen=True, gc=False, cache_hash=True):
    """Waiting before a retry."""


class Finished(Struct, frozen=True, gc=False, cache_hash=True):
    """The run is over. `limit` names the limit that ended it, if one did."""

    outcome: Outcome
    limit: str = ""


State = (
    Ready | Measuring | Compacting | CallingModel | RunningTools | ClosingStep | BackingOff
    | Halting | Finished
)  # fmt: skip
