"""The records of a trace, one Struct per kind.

An entry holds virtual time and data of the run only: real time, addresses and versions of libraries
would make two equal runs differ.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from simloop import messages
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.names import kebab
from simloop.kernel.signals import Signal

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A number that simloop counts or a time in ns: the range is tested where a trace is read."""


class Entry(
    Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True,
    tag_field="kind", tag=kebab,
):  # fmt: skip
    """`seq` counts a trace's entries from 0; `at_ns` is virtual time since its start."""

    seq: Count
    at_ns: Count


# ---------------------------------------------------------------- the boundary: every agent


class Prompt(Entry, frozen=True, gc=False):
    """The user's prompt, which begins a run."""

    text: str


class Queued(Entry, frozen=True, gc=False):
    """The user sent a message during a run."""

    text: str
    queue: messages.Queue


class StopRequested(Entry, frozen=True, gc=False):
    """The run is to end from outside: by the user, or because its time is over."""

    cause: messages.StopCause


class Ended(Entry, frozen=True, gc=False):
    """A run ended. `text` is the model's last text, `message` the message to the user."""

    outcome: messages.Outcome
    limit: str
    message: str
    text: str
    elapsed_ns: Count  # of this run alone
    counters: messages.Counters | None = None  # of a machine
    exit: int | None = None  # the exit status of an agent that is a whole program
    through: str = ""  # the framework that let the scripted failure of a tool end the run


class Request(Entry, frozen=True, gc=False):
    """A request was sent, recorded as the changes since an earlier request."""

    number: Count
    purpose: str
    digest: str  # of the messages
    base: Count = 0  # the number of the earlier request; 0 is none
    kept: Count = 0  # the first messages of the base, before `added`
    added: tuple[messages.Message, ...] = ()
    system_prompt: str | UnsetType = UNSET  # if not that of the base
    tools: tuple[messages.ToolSpec, ...] | UnsetType = UNSET  # if not those of the base
    tokens: Count = 0  # the agent's estimate of their size; 0 if it makes none
    party: str = ""  # that of `models` in the scenario; empty for the others
    output: messages.StructuredOutput | UnsetType = UNSET  # what it asks for as its answer
    model: str = ""  # if it is not that of the first request


class TextDelta(Entry, frozen=True, gc=False):
    """A piece of text arrived in the reply to `request`."""

    request: Count
    text: str


class ReasoningDelta(Entry, frozen=True, gc=False):
    """A piece of reasoning arrived in the reply to `request`."""

    request: Count
    text: str


class ToolCallDelta(Entry, frozen=True, gc=False):
    """A piece of a call's arguments arrived in the reply to `request`."""

    request: Count
    call_id: str
    name: str
    arguments: str


class ToolCall(Entry, frozen=True, gc=False):
    """A whole call arrived in the reply to `request`, under the id and name of the model."""

    request: Count
    call_id: str
    name: str
    arguments: str


class Finish(Entry, frozen=True, gc=False):
    """The reply to `request` ended: the finish reason, the provider's own word, its report."""

    request: Count
    reason: messages.FinishReason
    raw: str
    usage: messages.Usage | None = None
    steps: int = 1


class Error(Entry, frozen=True, gc=False):
    """The call of `request` failed, as the failure arrived."""

    request: Count
    fault: messages.Fault


class StreamCut(Entry, frozen=True, gc=False):
    """The stream of `request` ended without a finish and without an error."""

    request: Count


class ToolStarted(Entry, frozen=True, gc=False):
    """A tool runs, with the arguments that it really got."""

    call_id: str
    name: str
    arguments: str
    own: bool = False  # called by the agent's own code, under the settings of the scenario's tool
    in_thread: bool = False  # which no stop of the run interrupts


class ToolResult(Entry, frozen=True, gc=False):
    """A tool ended: `text` is for the model, `details` are for the interface, as JSON."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    details: Any = None
    missed: str = ""  # its last statement of SQL, if it found no row and nobody asked how many
    kept: str = ""  # each UPDATE and DELETE whose change the database keeps, with `; ` between
    overwrote: str = ""  # a statement that undoes what another call has changed since a reading
    is_open: bool = False  # a change of a database waits for the commit of its caller


class Note(Entry, frozen=True, gc=False):
    """A line of the user's code (`simloop.note`), or a call that the simulation refuses."""

    text: str


class RequestRefused(Entry, frozen=True, gc=False):
    """A provider refuses a request at `endpoint`; `text` is the place in it and the mistake."""

    endpoint: str
    status: Count
    text: str


class Refused(Entry, frozen=True, gc=False):
    """The world refused a call, as a machine without a network or without that program does."""

    what: str  # host, request (to a service that has no answer to it) or program
    asked: str
    place: str  # the file, the line and the function that asked
    meant: bool = False  # the scenario says that it is not there


class ServiceRequest(Entry, frozen=True, gc=False):
    """A request was sent to a service: any HTTP request that is not for a model."""

    number: Count
    service: str  # the address under which the scenario has it
    method: str
    path: str  # the rest, with its query
    body: str = ""  # text; bytes that are none are written as escapes
    once: str = ""  # its Idempotency-Key


class ServiceReply(Entry, frozen=True, gc=False):
    """The reply to a request of that number ended, or failed; a body may have begun before."""

    request: Count
    status: Count  # 0 if no reply began
    body: str = ""
    failure: str = ""  # refused, lost, timed-out or closed (by the client)
    retry_after: str = ""  # the header, if the service asks for a wait


class ProgramStarted(Entry, frozen=True, gc=False):
    """The agent started a program, with these arguments; `cwd` is empty for the current folder."""

    number: Count
    args: tuple[str, ...]
    cwd: str = ""


class ProgramInput(Entry, frozen=True, gc=False):
    """The program of that number read a text from its standard input."""

    program: Count
    text: str


class ProgramOutput(Entry, frozen=True, gc=False):
    """The program of that number wrote a text to `stream`: stdout or stderr."""

    program: Count
    stream: str
    text: str


class ProgramEnded(Entry, frozen=True, gc=False):
    """The program of that number ended, with its exit status, or with minus a signal's number."""

    program: Count
    exit: int


class Input(Entry, frozen=True, gc=False):
    """The user typed a line, or redirected a file."""

    text: str
    prompt: str = ""  # the text that asked for it
    ends: bool = False  # nobody answers, and the agent reads the end of the file
    asked_by: str = ""  # the call whose tool has written the prompt; empty for other code
    read_by: str = ""  # the call whose tool reads the line


class Output(Entry, frozen=True, gc=False):
    """A whole program, run as the agent, wrote a text to `stream`: stdout or stderr."""

    stream: str
    text: str


class Restarted(Entry, frozen=True, gc=False):
    """A fresh instance of the agent takes over, as after a restart of its process."""


class Sleep(Entry, frozen=True, gc=False):
    """A sleep of a second or more begins in an agent's code: `place` is file, line, function."""

    duration_ns: Count
    place: str


class LoopBlocked(Entry, frozen=True, gc=False):
    """A call blocked the event loop for `took_ns`, a second or more, and ends now."""

    took_ns: Count
    place: str


class LockHeld(Entry, frozen=True, gc=False):
    """A thread has waited `took_ns` for a lock, whose holder waited at `place` meanwhile."""

    took_ns: Count
    place: str


class TaskCancelled(Entry, frozen=True, gc=False):
    """The code of an agent cancels a task, which waits at `place`. `task` is empty if unnamed."""

    task: str
    place: str


class LeftBehind(Entry, frozen=True, gc=False):
    """A prompt ends, and a task, a thread or a program goes on, or something is still open."""

    # a task, thread or program, a session (not closed), a transaction (not committed), a stop (not
    # obeyed) or an exception (not looked at)
    what: str
    name: str  # empty for an unnamed task; the text of an exception
    place: str  # where it waits, was started, opened or raised


# ---------------------------------------------------------------- the engine: machines only


class Transition(Entry, frozen=True, gc=False):
    """The machine moved: the signal that arrived, the state it led to, the counters after it."""

    signal: Signal
    state: str
    counters: messages.Counters


class CallRenamed(Entry, frozen=True, gc=False):
    """The engine gave a call another id, or another name, than the model did."""

    call_id: str
    to_id: str
    to_name: str


class Answered(Entry, frozen=True, gc=False):
    """A call got its answer for the model: its tool's result, or another one, after the hooks."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    ran: bool = True  # false if no tool ran
    details: Any = None


class Classified(Entry, frozen=True, gc=False):
    """The retry policy judged a failed call: its class, and whether to try again."""

    error_class: ErrorClass
    retryable: bool
    fault: messages.Fault | None = None  # one that the engine found itself, such as a timeout


class CallBegun(Entry, frozen=True, gc=False):
    """A call begins: hooks run before its tool, or an abort is a flag that may come before it."""

    call_id: str


class Hook(Entry, frozen=True, gc=False):
    """A hook ran for `took_ns`."""

    point: str
    hook: str
    result: str  # ok, blocked, failed or timed-out
    took_ns: Count = 0
    detail: str = ""
    changed: tuple[str, ...] = ()  # system_prompt, tools, arguments or result


class Callback(Entry, frozen=True, gc=False):
    """A callback failed; the run goes on, because a callback only watches."""

    callback: str
    detail: str


class Compaction(Entry, frozen=True, gc=False):
    """A compaction ended: `strategy` is the one that did it, or empty if nothing was gained."""

    forced: bool
    strategy: str
    tokens_before: int
    tokens_after: int
    messages_removed: Count = 0
    detail: str = ""


class Backoff(Entry, frozen=True, gc=False):
    """A wait before a retry began. `retry_after`: the provider asked for it."""

    failures: Count
    delay_ns: Count
    error_class: ErrorClass
    retry_after: bool = False


class Notice(Entry, frozen=True, gc=False):
    """The run is long, or its context is too large and cannot be shortened; nothing follows."""

    text: str


Boundary = (
    Prompt | Queued | StopRequested | Ended | Request | TextDelta | ReasoningDelta | ToolCallDelta
    | ToolCall | Finish | Error | StreamCut | ToolStarted | ToolResult | Note | RequestRefused
    | Refused | ServiceRequest | ServiceReply | ProgramStarted | ProgramInput | ProgramOutput
    | ProgramEnded | Input | Output | Restarted
    | Sleep | LoopBlocked | LockHeld | TaskCancelled | LeftBehind
)  # fmt: skip
"""The entries that every agent leaves; the others come from the engine that drives a machine."""

AnyEntry = (
    Boundary | Transition | CallRenamed | CallBegun | Answered | Classified | Hook | Callback
    | Compaction | Backoff | Notice
)  # fmt: skip


class Header(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind",
    tag="header",
):  # fmt: skip
    """The first line: what was run."""

    format: str
    version: int
    title: str
    loop: str
    seed: Count
    scenario_digest: str  # the BLAKE2b of `scenario`, 16 bytes in hex
    scenario: Raw  # the whole scenario, so a trace can be replayed
    limits: Mapping[str, int | str | None] = {}  # by the keys of a file, durations as text
    python: tuple[str, ...] = ()  # the code that the run needed, such as hooks or a loop
    judge_as: str = ""  # the design whose expectations hold for a loop of the user's own


class Footer(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind",
    tag="footer",
):  # fmt: skip
    """The last line of a whole trace. In memory, a trace whose run goes on has none."""

    entries: Count
    elapsed_ns: Count
    digest: str = ""  # the BLAKE2b of all lines before it
    ended: bool = True  # false in a file that was written while the run went on
