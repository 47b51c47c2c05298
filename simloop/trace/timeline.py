"""A trace as text: one line for each thing that happened, in virtual time.

Not here: colour and paging (the command line). The rules to keep: every line is plain text that has
passed `escape`, and what the run decided stands in it in words, so that the timeline
can be read aloud, searched and compared.

How to read a line: the time (left out while it does not move), what happened, the details. Pieces
of one text are joined into one line; moves of the machine are shown (as `->`) where something was
decided: a retry, a compaction, tools, the end, or a counter that changed.
"""

from collections.abc import Iterable, Iterator

from simloop.escape import escape
from simloop.kernel.checked import as_written
from simloop.kernel.limits import Limits
from simloop.messages import AssistantMessage, Message, ToolMessage
from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Footer, Header
from simloop.trace.looptrace import LoopTrace

_WIDTH = 96
_ROUTINE = frozenset({"measuring", "calling-model", "closing-step", "finished", "turning"})

Line = tuple[int, str, str]
"""Virtual nanoseconds, what happened, the details."""


def timeline(trace: LoopTrace) -> Iterator[str]:
    """Yield the lines of the timeline, header first, verdict last."""
    yield from _header(trace.header)
    shown_ns = -1
    for at_ns, what, details in _lines(trace.entries):
        time = clock(at_ns) if at_ns != shown_ns else ""
        shown_ns = at_ns
        yield f"{time:>12}  {what:<12}  {escape(details, _WIDTH)}".rstrip()
    if trace.footer is not None:
        yield from _footer(trace.footer)
    elif trace.truncated:
        yield f"{'':>12}  truncated     {escape(trace.truncated, _WIDTH)}"


def describe(entry: AnyEntry) -> str:
    """Return any entry as one line, also a move of the machine or a piece of text."""
    lines = list(_lines([entry]))
    if isinstance(entry, entries.Transition):
        counters = _counters(entry.error_count, entry.total_steps, entry.compaction_attempts)
        lines = [(entry.at_ns, "->", f"{entry.state} on {entry.signal} ({counters})")]
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
    yield ""


def _footer(footer: Footer) -> Iterator[str]:
    message = escape(footer.message, _WIDTH)
    yield f"{clock(footer.elapsed_ns):>12}  {footer.outcome:<12}  {message}".rstrip()
    limit = f"; ended by {escape(footer.limit, _WIDTH)}" if footer.limit else ""
    counters = _counters(footer.error_count, footer.total_steps, footer.compaction_attempts)
    yield f"{'':>12}  {'':<12}  {counters}{limit}"


def _counters(errors: int, steps: int, compactions: int) -> str:
    return f"errors {errors}, steps {steps}, compactions {compactions}"


def _lines(record: Iterable[AnyEntry]) -> Iterator[Line]:
    pieces: list[entries.TextDelta] = []
    counters = (0, 0, 0)
    for entry in record:
        if isinstance(entry, entries.TextDelta):
            pieces.append(entry)
            continue
        if pieces:
            yield _text(pieces)
            pieces = []
        if isinstance(entry, entries.Transition):
            now = (entry.error_count, entry.total_steps, entry.compaction_attempts)
            if entry.state not in _ROUTINE or now != counters:
                yield entry.at_ns, "->", f"{entry.state} ({_counters(*now)})"
            counters = now
        else:
            if isinstance(entry, entries.Prompt):
                counters = (0, 0, 0)
            yield from _entry(entry)
    if pieces:
        yield _text(pieces)


def _text(pieces: list[entries.TextDelta]) -> Line:
    text = "".join(piece.text for piece in pieces)
    lasted_ns = pieces[-1].at_ns - pieces[0].at_ns
    return pieces[0].at_ns, "text", f"{text} [over {clock(lasted_ns)}]" if lasted_ns else text


def _entry(entry: AnyEntry) -> Iterator[Line]:
    at_ns = entry.at_ns
    match entry:
        case entries.Request():
            yield from _request(entry)
        case entries.ReasoningDelta(text=text):
            yield at_ns, "reasoning", text
        case entries.ToolCallDelta(call_id=call_id, arguments=arguments):
            yield at_ns, "call piece", f"{arguments} [{call_id}]"
        case entries.ToolCall(call_id=call_id, name=name, arguments=arguments):
            yield at_ns, "call", f"{name} {arguments} [{call_id}]"
        case entries.Finish():
            yield at_ns, "finish", _finish(entry)
        case entries.Error(fault=fault, error_class=error_class, retryable=retryable):
            yield at_ns, "error", f"{fault.message} ({error_class}, {_retry(retryable)})"
        case entries.Hook():
            yield at_ns, "hook", _hook(entry)
        case entries.Callback(callback=callback, detail=detail):
            yield at_ns, "callback", f"{callback} failed: {detail}"
        case entries.ToolStarted(call_id=call_id, name=name, arguments=arguments):
            yield at_ns, "tool", f"{name} {arguments} [{call_id}]"
        case entries.ToolResult(call_id=call_id, text=text, is_error=is_error, ran=ran):
            what = ("error" if is_error else "result") if ran else "not run"
            yield at_ns, f"tool {what}", f"{text} [{call_id}]"
        case entries.Compaction():
            yield at_ns, "compaction", _compaction(entry)
        case entries.Backoff():
            why = "as Retry-After says" if entry.retry_after else "exponential"
            yield at_ns, "backoff", f"{clock(entry.delay_ns)} after failure {entry.failures}, {why}"
        case (
            entries.CallBegun(call_id=text) | entries.Notice(text=text) | entries.Prompt(text=text)
        ):
            yield at_ns, str(type(entry).__struct_config__.tag), text
        case entries.Ended(outcome=outcome, message=message):
            yield at_ns, str(outcome), message
        case entries.Transition() | entries.TextDelta():
            raise AssertionError("handled by _lines")


def _request(entry: entries.Request) -> Iterator[Line]:
    count = entry.kept + len(entry.added)
    purpose = "" if entry.purpose == "main" else f" for a {entry.purpose}"
    messages = "1 message" if count == 1 else f"{count} messages"
    what = f"#{entry.number}{purpose}: {messages}, about {entry.tokens} tokens"
    yield entry.at_ns, "request", f"{what}, nothing new" if not entry.added else what
    if isinstance(entry.system_prompt, str) and entry.system_prompt:
        yield entry.at_ns, "", f"  system: {entry.system_prompt}"
    if isinstance(entry.tools, tuple):
        yield entry.at_ns, "", f"  tools: {', '.join(tool.name for tool in entry.tools) or 'none'}"
    for message in entry.added:
        yield entry.at_ns, "", f"  + {_message(message)}"
    if entry.note:
        yield entry.at_ns, "", f"  this time only: assistant: {entry.note}"


def _message(message: Message) -> str:
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


def _retry(retryable: bool) -> str:  # noqa: FBT001 - a word for a truth value
    return "can be retried" if retryable else "not retried"


def _hook(entry: entries.Hook) -> str:
    took = f" in {clock(entry.took_ns)}" if entry.took_ns else ""
    detail = f": {entry.detail}" if entry.detail else ""
    return f"{entry.point} {entry.hook} {entry.did}{took}{detail}"


def _compaction(entry: entries.Compaction) -> str:
    forced = "forced" if entry.forced else "normal"
    sizes = f"{entry.tokens_before} to {entry.tokens_after} tokens"
    result = f"by {entry.strategy}, {sizes}" if entry.strategy else "gained nothing"
    return f"{forced}, {result}{f' ({entry.detail})' if entry.detail else ''}"
