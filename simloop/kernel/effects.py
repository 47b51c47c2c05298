"""What a machine asks of the world. The driver performs each one and answers with a signal."""

from msgspec import Struct

from simloop.messages import FinishReason, Outcome


class MeasureContext(Struct, frozen=True, gc=False):
    """Say whether the context is over the trigger: answered by `ContextMeasured`."""


class Compact(Struct, frozen=True, gc=False):
    """Shorten the context: answered by `ContextCompacted`."""

    forced: bool


class CallModel(Struct, frozen=True, gc=False):
    """Run `before_llm_call` hooks, send the request, read the stream.

    Answered by `ModelReplied`, `ModelFailed`, `HookFailed` or `CallBlocked`.
    """


class RunTools(Struct, frozen=True, gc=False):
    """Execute the calls of the reply: answered by `ToolsReturned` or `HookFailed`."""


class RefuseTools(Struct, frozen=True, gc=False):
    """Give every call of the reply an error result instead: answered by `ToolsReturned`."""

    finish: FinishReason


class CloseStep(Struct, frozen=True, gc=False):
    """Report the step: answered by `StepClosed` or `HookFailed`.

    `keep`: the reply becomes part of the context. An empty or broken reply does not: the next
    request would end with an assistant message, which providers refuse.
    """

    keep: bool


class Backoff(Struct, frozen=True, gc=False):
    """Wait as the retry policy says after `failures` failures: answered by `BackoffElapsed`."""

    failures: int


class Finish(Struct, frozen=True, gc=False):
    """Give every open call a result, say goodbye. Nothing is answered."""

    outcome: Outcome


Effect = (
    MeasureContext | Compact | CallModel | RunTools | RefuseTools | CloseStep | Backoff | Finish
)
