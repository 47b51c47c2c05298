"""A trace as text: one line for each thing that happened, in virtual time.

Not here: colour and paging (the command line). The rules to keep: every line is plain text that has
passed `escape`, and what the run decided stands in it in words, so that the timeline
can be read aloud, searched and compared.

How to read a line: the time (left out while it does not move, and shown at an end), what happened,
the details. Pieces of one text are joined into one line; moves of the machine are shown (as `->`)
where something was decided: a retry, a compaction, tools, the end, or a counter that changed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from simloop.escape import escape
from simloop.kernel.checked import as_written
from simloop.kernel.limits import Limits
from simloop.kernel.names import NAMES
from simloop.messages import AssistantMessage, Counters, Message, Outcome, StopCause, ToolMessage
from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Header
from simloop.trace.looptrace import LoopTrace

_WIDTH = 96
_FINDING = 400
_ROUTINE = frozenset({"measuring", "calling-model", "closing-step", "finished", "turning"})
_OUTCOMES = frozenset(map(str, Outcome))

_Piece = entries.TextDelta | entries.ReasoningDelta
_Line = tuple[int, str, str]
"""Virtual nanoseconds, what happened, the details."""


def timeline(trace: LoopTrace, wrong: Iterable[str] = ()) -> Iterator[str]:
    """Yield the lines of the timeline, header first, verdict last.

    `wrong` are the findings on the run, which stand in the header.
    """
    yield from _header(trace.header)
    yield from (f"FAILED: {escape(line, _FINDING)}" for line in wrong)
    yield ""
    shown_ns = -1
    for at_ns, what, details in _lines(trace.entries):
        time = clock(at_ns) if at_ns != shown_ns or what in _OUTCOMES else ""
        shown_ns = at_ns
        yield f"{time:>12}  {what:<12}  {escape(details, _WIDTH)}".rstrip()
    if trace.truncated:
        yield f"{'':>12}  truncated     {escape(trace.truncated, _WIDTH)}"


def describe(entry: AnyEntry, *pieces: AnyEntry) -> str:
    """Return any entry as one line, also a move of the machine or a piece of text.

    `pieces` are the next pieces of its text.
    """
    lines = list(_lines([entry, *pieces]))
    if isinstance(entry, entries.Transition):
        signal = NAMES[type(entry.signal)]
        lines = [(entry.at_ns, "->", f"{entry.state} on {signal} ({_counters(entry.counters)})")]
    return "; ".join(f"{what} {escape(text, _WIDTH)}".strip() for _, what, text in lines)


def clock(at_ns: int) -> str:
    """Return seconds with milliseconds, or with all digits for a finer time."""
    seconds, rest = divmod(at_ns, 10**9)
    digits = f"{rest:09d}"
    return f"{seconds}.{digits[:3]}{digits[3:].rstrip('0')}s"


def _header(header: Header) -> Iterator[str]:
    if header.title:
        yield escape(header.title, _WIDTH)
    usual = as_written(Limits())
    limits = [f"{key} {value}" for key, value in header.limits.items() if value != usual.get(key)]
    bounds = escape(", ".join(limits), 400) or "default limits"
    yield f"loop {escape(header.loop, _WIDTH)}, seed {header.seed}, {bounds}"


def _counters(counters: Counters) -> str:
    errors, steps = counters.error_count, counters.total_steps
    return f"errors {errors}, steps {steps}, compactions {counters.compaction_attempts}"


def _lines(record: Iterable[AnyEntry]) -> Iterator[_Line]:
    pieces: list[_Piece] = []
    newest = 0  # the number of the newest request
    counters: Counters | None = None
    results: dict[str, tuple[str, bool]] = {}  # by call: what its tool returned
    for entry in record:
        text = entry if isinstance(entry, entries.TextDelta | entries.ReasoningDelta) else None
        first = pieces[0] if pieces else None
        if first and (text is None or _is_other(text, first)):
            yield _numbered(first, newest, _text(pieces))
            pieces = []
        if text is not None:
            pieces.append(text)
            continue
        match entry:
            case entries.Transition(state=state, counters=now):
                if state not in _ROUTINE or (counters is not None and now != counters):
                    yield entry.at_ns, "->", f"{state} ({_counters(now)})"
                counters = now
            case entries.Answered(ran=True) if results.get(entry.call_id) == (
                entry.text,
                entry.is_error,
            ):
                pass  # the result of the tool, which has a line
            case _:
                if isinstance(entry, entries.ToolResult):
                    results[entry.call_id] = entry.text, entry.is_error
                elif isinstance(entry, entries.Prompt):
                    counters = None
                elif isinstance(entry, entries.Request):
                    newest = entry.number
                for line in _entry(entry):
                    yield _numbered(entry, newest, line)
    if pieces:
        yield _numbered(pieces[0], newest, _text(pieces))


def _numbered(entry: AnyEntry, newest: int, line: _Line) -> _Line:
    """Return the line of an entry, with the number of its request if that is not the newest."""
    number = getattr(entry, "request", newest)
    if number == newest or not newest:
        return line
    at_ns, what, details = line
    return at_ns, what, f"{details} [#{number}]"


def _is_other(text: _Piece, first: _Piece) -> bool:
    return text.request != first.request or type(text) is not type(first)


def _text(pieces: list[_Piece]) -> _Line:
    what = "text" if isinstance(pieces[0], entries.TextDelta) else "reasoning"
    text = "".join(piece.text for piece in pieces)
    lasted_ns = pieces[-1].at_ns - pieces[0].at_ns
    return pieces[0].at_ns, what, f"{text} [over {clock(lasted_ns)}]" if lasted_ns else text


def _ended(entry: entries.Ended) -> Iterator[_Line]:
    yield entry.at_ns, str(entry.outcome), entry.message
    counters = [] if entry.counters is None else [_counters(entry.counters)]
    limit = [f"ended by {entry.limit}"] if entry.limit else []
    if counters or limit:
        yield entry.at_ns, "", "; ".join(counters + limit)


def _request(entry: entries.Request) -> Iterator[_Line]:
    count = entry.kept + len(entry.added)
    purpose = "" if entry.purpose == "main" else f" for a {entry.purpose}"
    messages = "1 message" if count == 1 else f"{count} messages"
    tokens = f", about {entry.tokens} tokens" if entry.tokens else ""
    what = f"#{entry.number}{purpose}: {messages}{tokens}"
    yield entry.at_ns, "request", f"{what}, nothing new" if not entry.added else what
    if isinstance(entry.system_prompt, str) and entry.system_prompt:
        yield entry.at_ns, "", f"  system: {entry.system_prompt}"
    if isinstance(entry.tools, tuple):
        yield entry.at_ns, "", f"  tools: {', '.join(tool.name for tool in entry.tools) or 'none'}"
    for message in entry.added:
        yield entry.at_ns, "", f"  + {describe_message(message)}"


def describe_message(message: Message) -> str:
    """Return a message on one line: its role, its text and its calls. The line is not escaped."""
    role = str(type(message).__struct_config__.tag)
    if isinstance(message, AssistantMessage):
        calls = [f"{call.name}({call.arguments})" for call in message.calls]
        return f"{role}: {' '.join(filter(None, [message.text, *calls]))}"
    if isinstance(message, ToolMessage) and message.is_error:
        role = "tool error"
    return f"{role}: {message.text}"


def _finish(entry: entries.Finish) -> str:
    raw = f" (the provider says {entry.raw!r})" if entry.raw != entry.reason else ""
    steps = f", {entry.steps} steps" if entry.steps != 1 else ""
    usage = entry.usage
    tokens = f", {usage.input_tokens} tokens in, {usage.output_tokens} out" if usage else ""
    return f"{entry.reason}{raw}{steps}{tokens}"


def _hook(entry: entries.Hook) -> str:
    took = f" in {clock(entry.took_ns)}" if entry.took_ns else ""
    changed = f", changed {' and '.join(entry.changed)}" if entry.changed else ""
    detail = f": {entry.detail}" if entry.detail else ""
    return f"{entry.point} {entry.hook} {entry.result}{took}{changed}{detail}"


def _compaction(entry: entries.Compaction) -> str:
    forced = "forced" if entry.forced else "normal"
    sizes = f"{entry.tokens_before} to {entry.tokens_after} tokens"
    result = f"by {entry.strategy}, {sizes}" if entry.strategy else "gained nothing"
    return f"{forced}, {result}{f' ({entry.detail})' if entry.detail else ''}"


def _entry(entry: AnyEntry) -> Iterator[_Line]:
    """Yield the lines of an entry other than a transition or a text: see `_lines`."""
    at_ns = entry.at_ns
    match entry:
        case entries.Request():
            yield from _request(entry)
        case entries.Ended():
            yield from _ended(entry)
        case entries.Classified(error_class=error_class, retryable=retryable, fault=own):
            if own is not None:
                yield at_ns, "error", own.message
            retried = "can be retried" if retryable else "cannot be retried"
            yield at_ns, "", f"{error_class}, {retried}"
        case entries.ToolResult() | entries.Answered():
            yield at_ns, _result_word(entry), f"{entry.text} [{entry.call_id}]"
        case _:
            yield at_ns, *_WORDED[type(entry)](entry)


def _result_word(entry: entries.ToolResult | entries.Answered) -> str:
    if isinstance(entry, entries.Answered):
        return "answer" if entry.ran else "no result"
    return "tool error" if entry.is_error else "tool result"


def _renamed(entry: entries.CallRenamed) -> tuple[str, str]:
    before = f"[{entry.call_id}]" if entry.call_id else "a call without an id"
    return "call renamed", f"{before} becomes {entry.to_name} [{entry.to_id}]"


def _backoff(entry: entries.Backoff) -> tuple[str, str]:
    why = "as Retry-After says" if entry.retry_after else "exponential"
    return "backoff", f"{clock(entry.delay_ns)} after failure {entry.failures}, {why}"


def _placed(what: str, name: str, place: str) -> str:
    return f"{what}{f' {name}' if name else ''}{f' at {place}' if place else ''}"


_STOPS: Mapping[StopCause, str] = {
    StopCause.ABORT: "the user aborts the run",
    StopCause.WALL_CLOCK: "max_wall_clock is reached",
}

_WORDED: Mapping[type, Callable[[Any], tuple[str, str]]] = {
    entries.Prompt: lambda e: ("prompt", e.text),
    entries.Queued: lambda e: ("queued", f"{e.text} ({e.queue})"),
    entries.StopRequested: lambda e: ("stop", _STOPS[e.cause]),
    entries.ToolCallDelta: lambda e: ("call piece", f"{e.arguments} [{e.call_id}]"),
    entries.ToolCall: lambda e: ("call", f"{e.name} {e.arguments} [{e.call_id}]"),
    entries.CallRenamed: _renamed,
    entries.CallBegun: lambda e: ("call begun", f"[{e.call_id}]"),
    entries.Finish: lambda e: ("finish", _finish(e)),
    entries.Error: lambda e: ("error", e.fault.message),
    entries.StreamCut: lambda _: ("cut", "the stream ended without a finish reason"),
    entries.ToolStarted: lambda e: ("tool", f"{e.name} {e.arguments} [{e.call_id}]"),
    entries.Note: lambda e: ("note", e.text),
    entries.RequestRefused: lambda e: ("refused", f"{e.endpoint} with status {e.status}: {e.text}"),
    entries.Sleep: lambda e: ("sleep", _placed(clock(e.duration_ns), "", e.place)),
    entries.LoopBlocked: lambda e: (
        "loop blocked",
        _placed(f"for {clock(e.took_ns)}", "", e.place),
    ),
    entries.TaskCancelled: lambda e: ("cancelled", _placed("task", e.task, e.place)),
    entries.LeftBehind: lambda e: ("left behind", _placed(e.what, e.name, e.place)),
    entries.Hook: lambda e: ("hook", _hook(e)),
    entries.Callback: lambda e: ("callback", f"{e.callback} failed: {e.detail}"),
    entries.Compaction: lambda e: ("compaction", _compaction(e)),
    entries.Backoff: _backoff,
    entries.Notice: lambda e: ("notice", e.text),
}
"""The word and the details of each kind of entry that has one line."""
