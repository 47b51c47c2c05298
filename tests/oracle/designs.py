"""Invariants on the promises of a single loop design: notes, notices, ends.

The options of the design declare a promise, and the trace alone shows whether it holds.
"""

from oracle.ledger import ledger_of
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel import signals
from simloop.kernel.states import Finished
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.pi import PiLoop
from simloop.messages import FinishReason
from simloop.trace.entries import Notice, Prompt, Request, Transition


@invariant(
    "A request of opencode has the note on steps, and no tools where steps are enforced, exactly "
    "from the last allowed step on.",
    "BUGS.md A5, E1, loops.md",
    sees=[Prompt, Request, signals.ModelReplied, signals.ContextCompacted],
    needs=[Need.MACHINE],
)
def last_step_has_note(subject: Subject) -> Watch:
    """Each reply and each compaction is a step; a failed call is none."""
    machine, course, facts = subject.machine, subject.course, subject.facts
    if not isinstance(machine, OpencodeLoop):
        return ""
    most, option = course.settings.limits.max_steps, machine.options.steps
    hooked = bool(course.settings.hooks.before_llm_call)
    steps = 0
    while True:
        entry = yield
        if type(entry) is Prompt:
            steps = 0
        elif type(entry) is Transition:
            steps += 1
        elif entry.purpose == "main":
            request = facts.request
            is_last = option != "unlimited" and steps + 1 >= most
            what = f"request {entry.number} comes after {steps} steps of {most}, and has"
            if bool(ledger_of(subject).tail) is not is_last:
                return f"{what} {'no' if is_last else 'a'} note that this step is the last"
            if is_last and option == "enforce" and not hooked and request and request.tools:
                return f"{what} tools"


@invariant(
    "A call that a hook forbids ends the run of opencode, unless the context is compacted.",
    "BUGS.md D15, loops.md",
    sees=[Prompt, Request, signals.ToolsReturned, signals.ContextCompacted],
    needs=[Need.MACHINE],
)
def vetoes_end_runs(subject: Subject) -> Watch:
    """The compaction of a long context comes first, and the run continues after it."""
    if not isinstance(subject.machine, OpencodeLoop):
        return ""
    blocked = False
    while True:
        entry = yield
        if type(entry) is Transition:
            blocked = type(entry.signal) is signals.ToolsReturned and entry.signal.blocked
        elif type(entry) is Prompt:
            blocked = False
        elif blocked and entry.purpose == "main":
            return f"request {entry.number} is sent after a hook has forbidden a call"


@invariant(
    "A run is reported as long at each model call after the first warn_after, and not before.",
    "BUGS.md A1, loops.md",
    sees=[Prompt, Notice, Request],
    needs=[Need.MACHINE],
)
def long_runs_reported(subject: Subject) -> Watch:
    """A call that an abort forbids is not reported."""
    most = subject.course.settings.warn_after
    facts = subject.facts
    if most is None:
        return ""
    calls = notices = 0
    while True:
        entry = yield
        if type(entry) is Prompt:
            calls = notices = 0
        elif type(entry) is Notice:
            notices += "model calls" in entry.text
        elif entry.purpose == "main":
            calls += 1
            if facts.stop is None and notices != (calls > most):
                return f"model call {calls} has {notices} notices; warn_after is {most}"
            notices = 0


@invariant(
    "A run of pi that calls tools ends exactly if all of their results request it, and the user "
    "has sent no message since.",
    "BUGS.md D13, loops.md",
    sees=[signals.ToolsReturned, signals.ModelReplied, signals.StepClosed],
)
def terminated_batches_end_run(subject: Subject) -> Watch:
    """A reply that failed or was filtered ends the run in any case."""
    course, facts, machine = subject.course, subject.facts, subject.machine
    if not isinstance(machine, PiLoop) or not machine.options.terminate:
        return ""
    asks = False
    while True:
        signal = (yield).signal
        if type(signal) is signals.ModelReplied:
            asks = False
        elif type(signal) is signals.ToolsReturned:
            asks = signal.terminate
        else:
            reply = facts.reply
            if reply is None or not reply.calls or reply.finish in _ENDING:
                continue
            ends = type(course.run.state) is Finished
            if ends is not (asks and not signal.steering and not signal.follow_up):
                goes = "ends" if ends else "goes on"
                return f"the run {goes}, and its tools request {'the' if asks else 'no'} end"


_ENDING = (None, FinishReason.ERROR, FinishReason.INTERRUPTED, FinishReason.CONTENT_FILTER)
