"""The effects of a machine (engine/handlers.py): at most one is answered, and it is the last."""

from msgspec import Struct

from simloop.messages import FinishReason, Queue


class TakeQueued(Struct, frozen=True, gc=False, cache_hash=True):
    """Put waiting messages into the context: all, or a queue, or its first. Not answered."""

    queue: Queue | None = None
    one: bool = False


class MeasureContext(Struct, frozen=True, gc=False, cache_hash=True):
    """Say whether the context is over the trigger: answered by `ContextMeasured`."""


class Compact(Struct, frozen=True, gc=False, cache_hash=True):
    """Shorten the context: answered by `ContextCompacted`.

    With a `marker` the whole context gives way to three messages: the marker as the user's, a
    summary as the assistant's, and the newest user message again, or `then_say` if it was alone.
    """

    forced: bool
    then_say: str = ""  # a user message that the loop itself adds afterwards
    marker: str = ""


class CallModel(Struct, frozen=True, gc=False, cache_hash=True):
    """Ask the model: answered by `ModelReplied`, `ModelFailed`, `HookFailed` or `CallBlocked`."""

    note: str = ""  # an assistant message at the end of this request only
    tools: bool = True  # whether tools are offered
    polls: bool = False  # an abort is seen at the next part, not at once
    aborted: bool = False  # comes back as `ModelFailed`, and the model is not asked


class RunTools(Struct, frozen=True, gc=False, cache_hash=True):
    """Execute the open calls of the reply: answered by `ToolsReturned` or `HookFailed`."""

    first_only: bool = False  # the loop takes one call of a reply, and never sees the others
    polls: bool = False  # an abort is seen when a tool has returned, and before the next one


class RefuseTools(Struct, frozen=True, gc=False, cache_hash=True):
    """Give every open call an error result, for that `finish`: answered by `ToolsReturned`."""

    finish: FinishReason


class CloseStep(Struct, frozen=True, gc=False, cache_hash=True):
    """Report the step: answered by `StepClosed` or `HookFailed`.

    An empty or broken reply should not be kept: the next request would end with an assistant
    message, which providers refuse.
    """

    keep: bool  # the reply becomes part of the context
    keep_thoughts: bool = False  # also a reply that has only reasoning


class Backoff(Struct, frozen=True, gc=False, cache_hash=True):
    """Wait as the retry policy says: answered by `BackoffElapsed`."""

    failures: int
    polls: bool = False  # an abort is seen when the wait is over


class EndRun(Struct, frozen=True, gc=False, cache_hash=True):
    """End the run: give every open call a result. No signal follows."""

    message: str = ""  # to the user, if the loop has one of its own
    text_first: bool = False  # the text of the last reply, if any, replaces the message
    keep: bool = True  # a step that was cut short becomes part of the context


Effect = (
    TakeQueued | MeasureContext | Compact | CallModel | RunTools | RefuseTools | CloseStep
    | Backoff | EndRun
)  # fmt: skip
