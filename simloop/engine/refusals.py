"""The texts that tell the model of a call that was not run, or not to its end."""

from simloop.messages import FinishReason, Outcome

REFUSED = {
    FinishReason.LENGTH: "the reply was cut off by the output limit",
    FinishReason.CONTENT_FILTER: "the reply was stopped by the content filter",
    FinishReason.ERROR: "the model reported an error",
    FinishReason.INTERRUPTED: "the stream ended early",
}
ONE_CALL = "Error: not executed, the loop takes one call of a reply"
TOOLS_OFF = "Error: not executed, tools are off"
REQUEST_ABORTED = "Request was aborted"  # the error of a model call
OPERATION_ABORTED = "Operation aborted"  # as pi-agent-core words it
STOPPED = {
    Outcome.ABORTED: "Error: not finished, the request was aborted",
    Outcome.TIMED_OUT: "Error: not finished, the time limit of the run was reached",
}
