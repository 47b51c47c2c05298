"""A trace as a Mermaid sequence diagram: the user, the agent, its model and its tools.

Not here: drawing it. The rules to keep: the diagram is made from entries alone, and each text in it
is cut and encoded, so that no text of a run is read as a statement of Mermaid.
"""

import re
from collections.abc import Iterator

from simloop.escape import escape
from simloop.messages import Outcome, StopCause
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import OF_CODE, clock
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import describe

_WIDEST = 80
# Characters that end a statement, begin an entity, a comment, a directive or a formula, or are
# markup. Mermaid has two signs of its own for entities. Of two words the first letters, because
# Mermaid changes the entities after them as it does in flow charts.
_SPECIAL = re.compile(r'[#;:<>&"`$%{}\\|\ufb02\xb6]|s(?=tyle)|c(?=lassDef)')


def mermaid(trace: LoopTrace) -> Iterator[str]:
    """Yield the lines of the diagram."""
    yield "sequenceDiagram"
    if trace.header.title:
        yield f"    title {_text(trace.header.title)}"
    yield "    actor user"
    yield f"    participant agent as {_text(trace.header.loop)}"
    yield "    participant model"
    yield "    participant tools"
    diagram = _Diagram()
    for entry in trace.entries:
        for line in diagram.feed(entry):
            yield f"    {line}"
    if trace.truncated or not trace.ends:
        yield "    Note over agent: the run has no end"


def _text(text: str) -> str:
    """Return a text as one line of Mermaid; an empty one has a dot, because it must have one."""
    return _SPECIAL.sub(_entity, escape(text, _WIDEST)).strip() or "."


def _entity(match: re.Match[str]) -> str:
    return f"#{ord(match[0])};"


class _Diagram:
    """The replies that are arriving, by their requests, and whether the next request is a retry."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}
        self._failed = False

    def feed(self, entry: AnyEntry) -> Iterator[str]:
        """Yield the lines of the next entry."""
        match entry:
            case entries.Prompt(text=text):
                self._failed = False
                yield f"user->>agent: {_text(text)}"
            case entries.Queued(text=text, queue=queue):
                yield f"user->>agent: {_text(f'({queue}) {text}')}"
            case entries.StopRequested(cause=cause):
                stops = "the user aborts the run" if cause is StopCause.ABORT else "time is over"
                yield f"user-xagent: {stops}"
            case entries.Ended():
                yield from _ended(entry)
            case entries.ToolStarted(name=name, arguments=arguments):
                yield f"agent->>tools: {_text(f'{name} {arguments}')}"
            case entries.ToolResult(text=text, is_error=is_error):
                arrow = "--x" if is_error else "-->>"
                yield f"tools{arrow}agent: {_text(text)}"
            case entries.Answered(ran=False, text=text):
                yield f"Note over agent: {_text(f'no tool runs, and the model gets {text}')}"
            case entries.Backoff(delay_ns=delay_ns, failures=failures):
                self._failed = True
                yield f"Note over agent: wait {clock(delay_ns)} after failure {failures}"
            case entries.Compaction():
                yield f"Note over agent: {_text(_compaction(entry))}"
            case entries.Hook(result=result) if result != "ok":
                yield f"Note over agent: {_text(f'hook {entry.hook} {result} {entry.detail}')}"
            case entries.RequestRefused(text=text):
                yield f"Note over agent: {_text(f'refused: {text}')}"
            case _ if type(entry) in OF_CODE:
                yield f"Note over agent: {_text(describe(entry))}"
            case entries.Notice(text=text):
                yield f"Note over agent: {_text(text)}"
            case _:
                yield from self._model(entry)

    def _model(self, entry: AnyEntry) -> Iterator[str]:
        """Yield the lines of a request and of its reply, which has one line when it is over."""
        match entry:
            case entries.Request(number=number, purpose=purpose):
                again = " again" if self._failed and purpose == "main" else ""
                self._failed = self._failed and purpose != "main"
                about = "" if purpose == "main" else f" for a {purpose}"
                messages = _messages(entry.kept + len(entry.added))
                yield f"agent->>model: {_text(f'request {number}{about}{again}, {messages}')}"
            case entries.TextDelta(request=request, text=text):
                self._texts.setdefault(request, []).append(text)
            case entries.ToolCall(request=request, name=name, arguments=arguments):
                self._texts.setdefault(request, []).append(f" [{name} {arguments}]")
            case entries.Finish(request=request, reason=reason):
                said = "".join(self._texts.pop(request, ()))
                yield f"model-->>agent: {_text(f'({reason}) {said.lstrip()}')}"
            case entries.Error(request=request, fault=fault):
                self._failed = True
                self._texts.pop(request, None)
                yield f"model--xagent: {_text(fault.message)}"
            case entries.StreamCut(request=request):
                self._failed = True
                self._texts.pop(request, None)
                yield "model--xagent: the stream ends without a finish reason"
            case _:
                pass


def _ended(entry: entries.Ended) -> Iterator[str]:
    arrow = "-->>" if entry.outcome is Outcome.COMPLETED else "--x"
    shown = entry.text if entry.outcome is Outcome.COMPLETED else entry.message
    yield f"agent{arrow}user: {_text(f'({entry.outcome}) {shown}')}"


def _compaction(entry: entries.Compaction) -> str:
    kind = "forced compaction" if entry.forced else "compaction"
    if not entry.strategy:
        return f"{kind} gains nothing"
    sizes = f"{entry.tokens_before} to {entry.tokens_after} tokens"
    return f"{kind} removes {_messages(entry.messages_removed)}, {sizes}"


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
