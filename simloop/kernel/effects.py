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

    `then_say` is a user message that the loop itself adds afterwards. With a `marker` the whole
    context gives way to three messages: the marker as the user's, a summary as the assistant's, and
    the newest user message again, or `then_say` if there was only one.
    """

    forced: bool
    then_say: str = ""
    marker: str = ""


class CallModel(Struct, frozen=True, gc=False, cache_hash=True):
    """Run `before_llm_call` hooks, send the request, read the stream.

    Answered by `ModelReplied`, `ModelFailed`, `HookFailed` or `CallBlocked`. `note` is an assistant
    message at the end of this request only; `tools` whether tools are offered. `polls`: an abort is
    seen at the next part, not at once. `aborted`: the call is made after an abort and comes back as
    `ModelFailed` without the model having been asked.
    """

    note: str = ""
    tools: bool = True
    polls: bool = False
    aborted: bool = False


class RunTools(Struct, frozen=True, gc=False, cache_hash=True):
    """Execute the calls of the reply that are open: answered by `ToolsReturned` or `HookFailed`.

    `first_only`: the loop takes one call of a reply, and never sees the others. `polls`: an abort
    is seen when a tool has returned, not at once, and before the next one.
    """

    first_only: bool = False
    polls: bool = False


class RefuseTools(Struct, frozen=True, gc=False, cache_hash=True):
    """Give every open call an error result, for that `finish`: answered by `ToolsReturned`."""

    finish: FinishReason


class CloseStep(Struct, frozen=True, gc=False, cache_hash=True):
    """Report the step: answered by `StepClosed` or `HookFailed`.

    `keep`: the reply becomes part of the context. An empty or broken reply should not: the next
    request would end with an assistant message, which providers refuse. With `keep_thoughts` a
    reply that has reasoning becomes part of it all the same.
    """

    keep: bool
    keep_thoughts: bool = False


class Backoff(Struct, frozen=True, gc=False, cache_hash=True):
    """Wait as the retry policy says: answered by `BackoffElapsed`. `polls`: an abort waits, too."""

    failures: int
    polls: bool = False


class EndRun(Struct, frozen=True, gc=False, cache_hash=True):
    """End the run: give every open call a result. No signal follows.

    `message` is the message to the user, if the loop has one of its own. `text_first`: the text of
    the last reply, if it has any, replaces the message. `keep`: a step that was cut
    short becomes part of the context.
    """

    message: str = ""
    text_first: bool = False
    keep: bool = True


Effect = (
    TakeQueued | MeasureContext | Compact | CallModel | RunTools | RefuseTools | CloseStep
    | Backoff | EndRun
)  # fmt: skip
