"""36 faulty loop machines, each with one fault on one occasion."""

from broken import SMALL
from faulty import (
    ROOMY,
    WIDE,
    AskingAfterAbort,
    Carrying,
    CountingRuns,
    Fault,
    Shared,
    as_if,
    asking,
    counting,
    ending,
    when,
)

from simloop.kernel import effects, signals, states
from simloop.kernel.errorclass import ErrorClass
from simloop.messages import FinishReason, Outcome

CALL, RUN = effects.CallModel(), effects.RunTools()
REPLIED, FAILED, RETURNED, CLOSED = (
    signals.ModelReplied,
    signals.ModelFailed,
    signals.ToolsReturned,
    signals.StepClosed,
)
COMPACTED, ABORT, CLOCK, HOOK = (
    signals.ContextCompacted,
    signals.AbortRequested,
    signals.WallClockExpired,
    signals.HookFailed,
)
CALLING, RUNNING, CLOSING, WAITING = (
    states.CallingModel,
    states.RunningTools,
    states.ClosingStep,
    states.BackingOff,
)

_LIKE_REACT = "react counts so: a reply is one step, however many it reports"
_UNCOUNTED = "pi and react take such a signal without counting it"

FAULTS = [
    # Counters
    Fault("reference", "a good reply resets the error count",
     when(REPLIED, counting(error_count=lambda *_: 0))),
    Fault("reference", "a reply does not carry the compactions",
     when(REPLIED, counting(compaction_attempts=lambda *_: 0))),
    Fault("reference", "a compaction does not carry the steps",
     when(COMPACTED, counting(total_steps=lambda *_: 0)), WIDE),
    Fault("reference", "an error counts twice",
     when(FAILED, counting(error_count=lambda a, b: 2 * b.error_count - a.error_count)), WIDE),
    Fault("reference", "a compaction counts twice",
     when(COMPACTED,
     counting(compaction_attempts=lambda a, b: 2 * b.compaction_attempts - a.compaction_attempts)),
     WIDE),
    Fault("reference", "the steps of a reply count twice",
     when(REPLIED, counting(total_steps=lambda a, b: 2 * b.total_steps - a.total_steps)), WIDE),
    Fault("react", "a round counts twice",
     when(REPLIED, counting(total_steps=lambda a, b: a.total_steps + 2)), WIDE),
    Fault("opencode", "a retry counts twice",
     when(FAILED, counting(error_count=lambda a, b: a.error_count + 2), CALLING)),
    Fault("reference", "a reply that breaks off is tried again for free",
     when(CLOSED, counting(error_count=lambda a, _: a.error_count),
     only=lambda run, _, after: isinstance(after.state, WAITING)), WIDE),
    Fault("reference", "a compaction that gains nothing is not counted",
     when(COMPACTED, counting(compaction_attempts=lambda a, _: a.compaction_attempts),
     only=lambda run, signal, _: not signal.shrunk)),
    Fault("reference", "the second error is not counted",
     when(FAILED, counting(error_count=lambda a, _: a.error_count),
     only=lambda run, signal, after:
     run.error_count == 1 == run.total_steps and isinstance(after.state, WAITING)), WIDE),
    Fault("reference", "a reply of several steps counts as one",
     when(REPLIED, counting(total_steps=lambda a, _: a.total_steps + 1)), WIDE, spec=_LIKE_REACT),
    Fault("opencode", "a summary does not count as a step",
     when(COMPACTED, counting(total_steps=lambda a, _: a.total_steps),
     only=lambda _run, _signal, after: isinstance(after.state, CALLING)), spec=_UNCOUNTED),
    # The next run
    Fault("reference", "the next run begins with the errors of the last",
     lambda machine: Carrying(machine, "error_count")),
    Fault("react", "the next run begins with the rounds of the last",
     lambda machine: Carrying(machine, "total_steps")),
    Fault("reference", "every run but the first has one try less", CountingRuns),
    Fault("pi", "all runs share one budget of tool rounds", Shared),
    # After an abort
    Fault("reference", "an abort in the wait before a retry is forgotten",
     when(ABORT, as_if(signals.BackoffElapsed()), WAITING)),
    Fault("reference", "an abort at the end of a step goes on",
     when(ABORT, as_if(signals.StepClosed()), CLOSING)),
    Fault("reference", "an abort of a model call is taken for a failure, and tried again",
     when(ABORT, as_if(FAILED(ErrorClass.CONNECTION, retryable=True)), CALLING)),
    Fault("reference", "an abort of the tools starts them again",
     when(ABORT, asking(None, RUN), RUNNING)),
    Fault("react", "a wall clock that has run out is waited for", when(CLOCK, asking(None, CALL))),
    Fault("reference", "an abort looks like a success", when(ABORT, ending(Outcome.COMPLETED))),
    Fault("opencode", "the call after an abort asks the model", AskingAfterAbort),
    Fault("pi", "an abort of the tools closes the step, and goes on",
     when(ABORT, as_if(RETURNED()), RUNNING)),
    Fault("opencode", "an abort of a compaction calls the model",
     when(ABORT, asking(states.CallingModel(), CALL), states.Compacting)),
    # After a hook has failed
    Fault("reference", "a hook that failed is ignored at the end of a step",
     when(HOOK, as_if(signals.StepClosed()), CLOSING)),
    Fault("pi", "a hook that failed is called again and again",
     when(HOOK, asking(None, CALL), CALLING)),
    Fault("reference", "a hook that failed looks like a success",
     when(HOOK, ending(Outcome.COMPLETED))),
    Fault("opencode", "tools go on after a hook that failed",
     when(HOOK, as_if(signals.ToolsReturned()), RUNNING)),
    # Ends, waits and bursts
    Fault("reference", "a run ends without saying so",
     when((FAILED, CLOSED), lambda _machine, _run, moved: (moved[0], ()),
     only=lambda _run, _signal, after: isinstance(after.state, states.Finished))),
    Fault("reference", "the second retry does not wait",
     when(FAILED, lambda _machine, _run, moved: (moved[0].to(CALLING()), (CALL,)),
     only=lambda run, _, after: isinstance(after.state, WAITING) and run.error_count == 1), WIDE),
    Fault("reference", "no retry after a server error waits",
     when(FAILED, lambda _machine, _run, moved: (moved[0].to(CALLING()), (CALL,)),
     only=lambda _, signal, after: isinstance(after.state, WAITING) and signal.error == "server"),
     spec="a design may try again at once after some errors"),
    Fault(
        "reference",
        "a forced compaction is tried after the last attempt",
        when(
            CLOSED,
            asking(states.Compacting(forced=True), effects.Compact(forced=True)),
            only=lambda run, _, after: (
                run.state.reply.finish is FinishReason.LENGTH  # type: ignore[attr-defined]
                and isinstance(after.state, states.Finished)
                and run.total_steps < SMALL.max_steps
            ),
        ),
    ),
    Fault("reference", "a burst is not noticed once there was an error",
     when(REPLIED, as_if(REPLIED(FinishReason.TOOL_CALLS, text=True, calls=True)),
     only=lambda run, signal, _: signal.steps > 1 and run.error_count > 0)),
    Fault(
        "reference",
        "a burst with calls goes on",
        when(
            CLOSED,
            asking(states.Measuring(), effects.TakeQueued(), effects.MeasureContext()),
            only=lambda run, _, after: (
                run.state.reply.burst  # type: ignore[attr-defined]
                and run.state.reply.calls  # type: ignore[attr-defined]
                and run.total_steps < ROOMY.max_steps
            ),
        ),
        ROOMY,
    ),
]  # fmt: skip
