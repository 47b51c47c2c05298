"""The one table of the kinds of entries: what each is called and shown as, and what may follow it.

A new kind of entry is a class in entries.py, a line here, and the code that records it. The reasons
that need the policies and limits of a loop are in cursor/why.py.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, get_args

from simloop.kernel.names import NAMES
from simloop.messages import AssistantMessage, Counters, Message, StopCause, ToolMessage
from simloop.trace import entries
from simloop.trace.entries import AnyEntry


class Lane(StrEnum):
    """A column of the timeline: the part of the world, or the engine, or an agent of one's own."""

    USER = "user"
    MODEL = "model"
    TOOLS = "tools"
    HOOKS = "hooks"
    ENGINE = "engine"
    SERVICES = "services"
    PROGRAMS = "programs"


Lines = Iterable[tuple[str, str]]
"""The lines of an entry in a timeline: what happened, and the details. They are not escaped."""

ENTRY, PART = "entry", "part"


class Kind(NamedTuple):
    """One kind of entry, with all that interfaces show of it."""

    lane: Lane
    sign: str  # one ASCII character, so that a timeline can be read without colour
    meaning: str  # the word for the sign in a legend
    lines: Callable[[Any], Lines]
    trigger: str = ""  # ENTRY if a scenario can wait for it, PART if also as a part of a reply
    fails: Callable[[Any], bool] = lambda _: False  # whether a call, a tool or a hook failed
    reason: Callable[[Any], str] = lambda _: ""  # why the entry came


@lru_cache(maxsize=256)  # entries in a row often have the same time
def clock(at_ns: int) -> str:
    """Return seconds with milliseconds, or with all digits for a finer time."""
    seconds, rest = divmod(at_ns, 10**9)
    digits = f"{rest:09d}"
    return f"{seconds}.{digits[:3]}{digits[3:].rstrip('0')}s"


def counters_in_words(counters: Counters) -> str:
    """Return the counters of a machine on one line."""
    errors, steps = counters.error_count, counters.total_steps
    return f"errors {errors}, steps {steps}, compactions {counters.compaction_attempts}"


def describe_message(message: Message) -> str:
    """Return a message on one line: its role, its text and its calls. The line is not escaped."""
    role = str(type(message).__struct_config__.tag)
    if isinstance(message, AssistantMessage):
        calls = [f"{call.name}({call.arguments})" for call in message.calls]
        return f"{role}: {' '.join(filter(None, [message.text, *calls]))}"
    if isinstance(message, ToolMessage) and message.is_error:
        role = "tool error"
    return f"{role}: {message.text}"


def _stop(entry: entries.StopRequested) -> Lines:
    is_abort = entry.cause is StopCause.ABORT
    return (("stop", "the user aborts the run" if is_abort else "max_wall_clock is reached"),)


def _ended(entry: entries.Ended) -> Lines:
    yield str(entry.outcome), entry.message
    counters = [] if entry.counters is None else [counters_in_words(entry.counters)]
    limit = [f"ended by {entry.limit}"] if entry.limit else []
    if counters or limit:
        yield "", "; ".join(counters + limit)


def _request(entry: entries.Request) -> Lines:
    count = entry.kept + len(entry.added)
    purpose = "" if entry.purpose == "main" else f" for a {entry.purpose}"
    messages = "1 message" if count == 1 else f"{count} messages"
    tokens = f", about {entry.tokens} tokens" if entry.tokens else ""
    party = f" of {entry.party}" if entry.party else ""
    model = f" to {entry.model}" if entry.model else ""
    what = f"#{entry.number}{party}{model}{purpose}: {messages}{tokens}"
    yield "request", what if entry.added else f"{what}, nothing new"
    if isinstance(entry.system_prompt, str) and entry.system_prompt:
        yield "", f"  system: {entry.system_prompt}"
    if isinstance(entry.tools, tuple):
        yield "", f"  tools: {', '.join(tool.name for tool in entry.tools) or 'none'}"
    yield from (("", f"  + {describe_message(message)}") for message in entry.added)


def _finish(entry: entries.Finish) -> Lines:
    raw = f" (the provider says {entry.raw!r})" if entry.raw != entry.reason else ""
    steps = f", {entry.steps} steps" if entry.steps != 1 else ""
    usage = entry.usage
    tokens = f", {usage.input_tokens} tokens in, {usage.output_tokens} out" if usage else ""
    return (("finish", f"{entry.reason}{raw}{steps}{tokens}"),)


def hook_in_words(entry: entries.Hook) -> str:
    """Return what a hook did, without its point."""
    took = f" in {clock(entry.took_ns)}" if entry.took_ns else ""
    changed = f", changed {' and '.join(entry.changed)}" if entry.changed else ""
    detail = f": {entry.detail}" if entry.detail else ""
    return f"{entry.hook} {entry.result}{took}{changed}{detail}"


def _classified(entry: entries.Classified) -> Lines:
    if entry.fault is not None:
        yield "error", entry.fault.message
    yield "", f"{entry.error_class}, {'can' if entry.retryable else 'cannot'} be retried"


def _compaction(entry: entries.Compaction) -> Lines:
    forced = "forced" if entry.forced else "normal"
    sizes = f"{entry.tokens_before} to {entry.tokens_after} tokens"
    result = f"by {entry.strategy}, {sizes}" if entry.strategy else "gained nothing"
    return (("compaction", f"{forced}, {result}{f' ({entry.detail})' if entry.detail else ''}"),)


def _service_reply(entry: entries.ServiceReply) -> Lines:
    status = f"status {entry.status}" if entry.status else ""
    asked = f"Retry-After {entry.retry_after}" if entry.retry_after else ""
    words = ", ".join(filter(None, [status, asked, entry.failure.replace("-", " ")]))
    return (("reply", f"{words}{f': {entry.body}' if entry.body else ''} [#{entry.request}]"),)


def _placed(what: str, details: str, name: str, place: str) -> Lines:
    return ((what, f"{details}{f' {name}' if name else ''}{f' at {place}' if place else ''}"),)


def _why_stopped(entry: entries.StopRequested) -> str:
    by = "the user aborted it" if entry.cause is StopCause.ABORT else "max_wall_clock was reached"
    return f"The run was stopped from outside at {clock(entry.at_ns)}: {by}."


def _why_left(entry: entries.LeftBehind) -> str:
    place = entry.place or "a place without code of the agent"
    ends, name = "The prompt ends here, and", entry.name
    return {
        "session": f"{ends} the {name} opened at {place} was never closed.",
        "stop": f"The run was stopped, and the agent goes on at {place}.",
        "transaction": f"At {place}, {name} of a database are left without a commit.",
        "exception": f"{name} was raised at {place}, and no code of the agent looked at it.",
    }.get(entry.what, f"{ends} a {entry.what} goes on at {place}; nobody awaits it.")


def _says(label: str, text: str) -> Callable[[Any], Lines]:
    return lambda entry: ((label, text.format(entry)),)


_FAILURE = "failure"
_CALL = "{0.name} {0.arguments} [{0.call_id}]"
KINDS: Mapping[type[entries.Entry], Kind] = {
    entries.Prompt: Kind(Lane.USER, ">", "prompt", lambda e: (("prompt", e.text),)),
    entries.Queued: Kind(Lane.USER, "q", "queued", _says("queued", "{0.text} ({0.queue})")),
    entries.StopRequested: Kind(Lane.USER, "x", "stop", _stop, reason=_why_stopped),
    entries.Ended: Kind(Lane.USER, "=", "end", _ended),
    entries.Request: Kind(Lane.MODEL, "^", "request", _request, ENTRY),
    entries.TextDelta: Kind(Lane.MODEL, "t", "text", lambda e: (("text", e.text),), PART),
    entries.ReasoningDelta: Kind(
        Lane.MODEL, "r", "reasoning", _says("reasoning", "{0.text}"), PART),
    entries.ToolCallDelta: Kind(
        Lane.MODEL, "d", "call piece", _says("call piece", "{0.arguments} [{0.call_id}]"), PART),
    entries.ToolCall: Kind(Lane.MODEL, "c", "call", _says("call", _CALL), PART),
    entries.Finish: Kind(Lane.MODEL, "f", "finish", _finish, PART),
    entries.Error: Kind(
        Lane.MODEL, "!", _FAILURE, lambda e: (("error", e.fault.message),), PART, lambda _: True),
    entries.StreamCut: Kind(Lane.MODEL, "!", _FAILURE, _says(
        "cut", "the stream ended without a finish reason"), ENTRY, lambda _: True),
    entries.RequestRefused: Kind(Lane.MODEL, "!", _FAILURE, _says(
        "refused", "{0.endpoint} with status {0.status}: {0.text}")),
    entries.Hook: Kind(
        Lane.HOOKS, "h", "hook", lambda e: (("hook", f"{e.point} {hook_in_words(e)}"),), ENTRY,
        lambda e: e.result in {"failed", "timed-out"}),
    entries.Callback: Kind(Lane.HOOKS, "!", _FAILURE, _says(
        "callback", "{0.callback} failed: {0.detail}"), fails=lambda _: True),
    entries.ToolStarted: Kind(Lane.TOOLS, "(", "starts", _says("tool", _CALL), ENTRY),
    entries.ToolResult: Kind(Lane.TOOLS, ")", "result", lambda e: (
        ("tool error" if e.is_error else "tool result", f"{e.text} [{e.call_id}]"),
    ), ENTRY, lambda e: e.is_error),
    entries.Answered: Kind(Lane.TOOLS, "a", "answer", lambda e: (
        ("answer" if e.ran else "no result", f"{e.text} [{e.call_id}]"),
    ), reason=lambda e: "" if e.ran else f"No tool ran for this call: {e.text}"),
    entries.CallRenamed: Kind(Lane.TOOLS, "n", "renamed", lambda e: (
        ("call renamed", (f"[{e.call_id}]" if e.call_id else "a call without an id")
         + f" becomes {e.to_name} [{e.to_id}]"),)),
    entries.CallBegun: Kind(Lane.TOOLS, "o", "call begun", _says("call begun", "[{0.call_id}]")),
    entries.Transition: Kind(Lane.ENGINE, "*", "transition", lambda e: (
        ("->", f"{e.state} on {NAMES[type(e.signal)]} ({counters_in_words(e.counters)})"),), ENTRY),
    entries.Classified: Kind(Lane.ENGINE, "?", "classified", _classified),
    entries.Compaction: Kind(Lane.ENGINE, "%", "compaction", _compaction, ENTRY),
    entries.Backoff: Kind(Lane.ENGINE, "z", "backoff", lambda e: (
        ("backoff", f"{clock(e.delay_ns)} after failure {e.failures}, "
         + ("as Retry-After says" if e.retry_after else "exponential")),), ENTRY),
    entries.Notice: Kind(Lane.ENGINE, "i", "notice", lambda e: (("notice", e.text),)),
    entries.Note: Kind(Lane.ENGINE, "m", "note", lambda e: (("note", e.text),)),
    entries.Refused: Kind(Lane.ENGINE, "/", "refused", lambda e: _placed(
        "refused", f"{e.what} {e.asked}" + ", as the scenario says" * e.meant, "", e.place), ENTRY),
    entries.ServiceRequest: Kind(Lane.SERVICES, "^", "request", lambda e: (
        ("service", f"{e.method} {e.service}{e.path} {e.body}".rstrip() + f" [#{e.number}]"),
    ), ENTRY),
    entries.ServiceReply: Kind(
        Lane.SERVICES, "v", "reply", _service_reply, ENTRY,
        lambda e: bool(e.failure) or e.status >= 500),  # noqa: PLR2004 - a failure of the service
    entries.ProgramStarted: Kind(Lane.PROGRAMS, "(", "starts", lambda e: (
        ("program", f"{shlex.join(e.args)} [#{e.number}]"),), ENTRY),
    entries.ProgramInput: Kind(
        Lane.PROGRAMS, "<", "reads", _says("reads", "{0.text} [#{0.program}]"), ENTRY),
    entries.ProgramOutput: Kind(Lane.PROGRAMS, "w", "writes", _says(
        "writes", "{0.text} [{0.stream} of #{0.program}]"), ENTRY),
    entries.ProgramEnded: Kind(Lane.PROGRAMS, "]", "ends", lambda e: (
        ("ends", (f"exit {e.exit}" if e.exit >= 0 else f"by signal {-e.exit}")
         + f" [#{e.program}]"),), ENTRY, lambda e: e.exit < 0),
    entries.Input: Kind(Lane.USER, "e", "input", lambda e: (
        ("input", ("the end" if e.ends else repr(e.text))
         + (f" to {e.prompt!r}" if e.prompt else "")),), ENTRY),
    entries.Output: Kind(Lane.USER, "p", "output", _says("output", "{0.text} [{0.stream}]"), ENTRY),
    entries.Restarted: Kind(
        Lane.USER, "&", "restart", _says("restart", "a fresh instance of the agent takes over")),
    entries.Sleep: Kind(
        Lane.ENGINE, "s", "sleep", lambda e: _placed("sleep", clock(e.duration_ns), "", e.place),
        reason=lambda e:
            f"The agent's code sleeps at {e.place} until {clock(e.at_ns + e.duration_ns)}."),
    entries.LoopBlocked: Kind(
        Lane.ENGINE, "b", "loop blocked",
        lambda e: _placed("loop blocked", f"for {clock(e.took_ns)}", "", e.place),
        reason=lambda e:
            f"The call at {e.place} blocked the event loop for {clock(e.took_ns)}: no other task "
            "of the agent ran, and no timeout could end it."),
    entries.LockHeld: Kind(
        Lane.ENGINE, "u", "lock held",
        lambda e: _placed("lock held", f"for {clock(e.took_ns)}", "", e.place),
        reason=lambda e:
            f"A thread waited {clock(e.took_ns)} for a lock, and the thread that held it waited "
            f"at {e.place}."),
    entries.TaskCancelled: Kind(
        Lane.ENGINE, "k", "cancelled", lambda e: _placed("cancelled", "task", e.task, e.place),
        reason=lambda e:
            f"The agent's code, or a timeout in it, cancels the task that waits at {e.place}."),
    entries.LeftBehind: Kind(
        Lane.ENGINE, "l", "left behind",
        lambda e: _placed("left behind", e.what, e.name, e.place), reason=_why_left),
}  # fmt: skip

NAME: Mapping[type[entries.Entry], str] = {kind: str(kind.__struct_config__.tag) for kind in KINDS}
"""The name of each kind, as in a file: `tool-result`."""

TEXTS = frozenset({entries.TextDelta, entries.ReasoningDelta})

OF_REPLY = frozenset(
    kind for kind in KINDS if "request" in kind.__struct_fields__ and KINDS[kind].lane is Lane.MODEL
)
"""The kinds of the parts of a reply, its end among them."""

OF_CALLS = frozenset({entries.ToolCall} | {k for k, v in KINDS.items() if v.lane is Lane.TOOLS})

TRIGGERS = tuple(NAME[kind] for kind, each in KINDS.items() if each.trigger)

ENGINE_TRIGGERS = tuple(
    sorted({NAME[kind] for kind in KINDS if kind not in get_args(entries.Boundary)} & {*TRIGGERS})
)
"""The triggers that only the engine of a machine leaves."""

USUAL_LANES = (Lane.USER, Lane.MODEL, Lane.TOOLS, Lane.HOOKS, Lane.ENGINE)


def lanes_in(record: Iterable[AnyEntry]) -> tuple[Lane, ...]:
    """Return the lanes to show: those of services and programs only if the trace has some."""
    found = {KINDS[kind].lane for kind in set(map(type, record))}
    return tuple(lane for lane in Lane if lane in USUAL_LANES or lane in found)


def kind_of(entry: AnyEntry) -> str:
    """Return the name of the kind of an entry."""
    return NAME[type(entry)]


def is_failure(entry: AnyEntry) -> bool:
    """Return whether a model call, a tool, a hook or a callback failed at this entry."""
    return KINDS[type(entry)].fails(entry)


def sign_of(entry: AnyEntry) -> tuple[Lane, str]:
    """Return the lane and the sign of an entry; a failure has the sign `!` in any lane."""
    kind = KINDS[type(entry)]
    return kind.lane, "!" if kind.fails(entry) else kind.sign


def legend() -> dict[Lane, dict[str, str]]:
    """Return the meaning of each sign, by lane."""
    found: dict[Lane, dict[str, str]] = {lane: {} for lane in Lane}
    for kind in KINDS.values():
        found[kind.lane][kind.sign] = kind.meaning
    found[Lane.TOOLS]["!"] = _FAILURE  # of a result that is an error
    return found
