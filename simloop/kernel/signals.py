"""The signals that a machine receives: JSON data for decisions, never text or time."""

from msgspec import Struct

from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.names import kebab
from simloop.messages import FinishReason


class _Signal(
    Struct, frozen=True, gc=False, cache_hash=True, omit_defaults=True, tag_field="type", tag=kebab
):
    pass


class Began(_Signal, frozen=True, gc=False):
    """There is a prompt."""


class ContextMeasured(_Signal, frozen=True, gc=False):
    """`over`: the context has reached the compaction trigger, and something may be taken away."""

    over: bool


class ContextCompacted(_Signal, frozen=True, gc=False):
    """`shrunk`: the context is now smaller; anything else is no compaction."""

    shrunk: bool


class ModelReplied(_Signal, frozen=True, gc=False):
    """The stream ended."""

    finish: FinishReason
    text: bool
    calls: bool  # also those of failed tries that are kept with the reply (`ReplyReading`)
    steps: int = 1  # that the reply reports, at least 1


class ModelFailed(_Signal, frozen=True, gc=False):
    """The call failed. `retryable` is the retry policy's decision on this error."""

    error: ErrorClass
    retryable: bool


class ToolsReturned(_Signal, frozen=True, gc=False):
    """Every call of the step has a result."""

    blocked: bool = False  # a hook forbade at least one of them
    terminate: bool = False  # each result asks for the run's end


class StepClosed(_Signal, frozen=True, gc=False):
    """Callbacks and `after_llm_call` hooks have run."""

    steering: bool = False  # the user has sent a message for the next request
    follow_up: bool = False  # the user has sent one for the end of the run


class BackoffElapsed(_Signal, frozen=True, gc=False):
    """The wait is over."""


class HookFailed(_Signal, frozen=True, gc=False):
    """A hook failed, and the isolation policy says that this ends the run."""


class CallBlocked(_Signal, frozen=True, gc=False):
    """A `before_llm_call` hook forbade the model call."""


class AbortRequested(_Signal, frozen=True, gc=False):
    """The user wants the run to stop. May arrive in any state but the first and the last."""


class WallClockExpired(_Signal, frozen=True, gc=False):
    """The limit `max_wall_clock` is over. May arrive in any state but the first and the last."""


Signal = (
    Began | ContextMeasured | ContextCompacted | ModelReplied | ModelFailed | ToolsReturned
    | StepClosed | BackoffElapsed | HookFailed | CallBlocked | AbortRequested | WallClockExpired
)  # fmt: skip
