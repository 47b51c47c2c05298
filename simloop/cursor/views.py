"""The views of a position: each is a sequence of rows, the same for every interface."""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from simloop.cursor.index import Landmark
from simloop.cursor.keys import FactView
from simloop.cursor.position import Position
from simloop.cursor.rows import FactRow, Mark, counted, row, rows
from simloop.cursor.why import why
from simloop.kernel.names import NAMES, describe
from simloop.kernel.states import BackingOff
from simloop.messages import AssistantMessage, Message, Request, ToolMessage
from simloop.trace import entries
from simloop.trace.kinds import clock, hook_in_words, kind_of

_MOST_FOLDS = 20  # the compactions that are shown where the number of messages is bounded, too
_FIRST_STATE = "ready"  # of each machine, before its first transition


def view(name: FactView, position: Position, most: int | None = None) -> tuple[FactRow, ...]:
    """Return the rows of a view, of messages the newest `most`; one row says if it is empty."""
    found = _PANELS[name].rows(position)
    if isinstance(found, MessagesView):
        found = _all_rows(found, position, most)
    return tuple(found) or (row(_nothing(name, position), mark=Mark.QUIET),)


def source_of(name: FactView, position: Position) -> Hashable:
    """Return the entries on which a view depends: where they are equal, its rows are equal."""
    return _PANELS[name].source(position)


def _nothing(name: FactView, position: Position) -> str:
    words = _PANELS[name].empty
    if position.newest(entries.Ended) is not None:
        return words.removesuffix(" yet")
    is_partly_known = name is FactView.TIMERS and position.recording.needs_loop
    return f"{words}, as far as the trace shows: --loop shows more" if is_partly_known else words


def _entry(position: Position) -> Iterator[FactRow]:
    entry = position.entry
    yield row(f"{position.place} of {len(position.recording.entries) - 1}", "entry", Mark.CURRENT)
    yield row(clock(position.at_ns), "virtual time")
    yield row(f"{position.prompt_number}", "prompt")
    yield row(position.recording.words_at(position.place), kind_of(entry))
    if isinstance(entry, entries.Error):
        yield from (row(value, name.title()) for name, value in entry.fault.headers)


def _state(position: Position) -> Iterator[FactRow]:
    move, machine = position.move, position.recording.machine
    if move is not None:
        yield row(move.after, "state", Mark.CURRENT, move.place)
        yield row(f"{move.before} -> {move.after}", describe(move.signal))
    elif machine is None:
        yield row(_phase(position), "phase", Mark.CURRENT)
        return
    else:
        yield row(_FIRST_STATE, "state", Mark.CURRENT)
    if machine is None:
        yield row(position.recording.unknown, "the map is unknown", Mark.QUIET)
        return
    now = _FIRST_STATE if move is None else move.after
    for state, accepted in machine.legal.items():
        name = NAMES[state]
        yield row(name, mark=Mark.CURRENT if name == now else Mark.PLAIN)
        for signal, targets in accepted.items() if name == now else ():
            yield row(" or ".join(sorted(NAMES[each] for each in targets)), f"  on {NAMES[signal]}")
        if move is not None and name == move.before:
            taken = f"  on {NAMES[type(move.signal)]}"
            yield row(f"{move.after} (the newest edge)", taken, Mark.EDGE, move.place)


def _phase(position: Position) -> str:
    if type(position.entry) is entries.Ended or position.newest(entries.Ended) is not None:
        return "the run is over"
    names = position.waits_for
    return f"waiting for {', '.join(names)}" if names else "the agent works"


def _counters(position: Position) -> Iterator[FactRow]:
    for counter in position.counters:
        limit = "" if counter.limit is None else f" of {counter.limit}"
        changed = "" if counter.changed is None else f", changed at entry {counter.changed}"
        reached = counter.limit is not None and counter.value >= counter.limit
        mark = Mark.FAULT if reached else Mark.PLAIN
        yield row(f"{counter.value}{limit}{changed}", counter.name, mark, counter.changed)
    if (request := position.request) is not None:
        yield row(f"{len(request.messages)}", "messages", goes_to=position.request_place)
    elif position.recording.machine is not None and not position.counters:
        yield row("the machine has not moved yet", mark=Mark.QUIET)


def _timers(position: Position) -> Iterator[FactRow]:
    for timer in position.timers:
        since = [] if timer.since_ns is None else [f"since {clock(timer.since_ns)}"]
        if timer.due_ns is not None:
            left = clock(max(timer.due_ns - position.at_ns, 0))
            since += [f"due at {clock(timer.due_ns)}, in {left}"]
        elif position.recording.machine is not None:
            since += ["without a limit"]
        yield row(", ".join(since) or "waits", timer.name)
    move = position.move
    if move is not None and move.place == position.place and move.after == NAMES[BackingOff]:
        yield row("it begins with the next entry", "backoff", Mark.QUIET)


class MessagesView(NamedTuple):
    """The parts of a view that ends with messages; the rows of each part are made alone."""

    heading: Sequence[FactRow]
    folds: Sequence[int]  # the places of compactions
    messages: Sequence[Message]
    new: int  # the number of the first new message
    shared: int  # with the request before


def messages_view(name: FactView, position: Position) -> MessagesView:
    """Return the parts of the request or of the context."""
    found = _PANELS[name].rows(position)
    assert isinstance(found, MessagesView)
    return found


def _context(position: Position) -> MessagesView:
    messages = position.context
    heading = tuple(_context_heading(position)) if position.is_compacted else ()
    shown = position.compacted_place
    shared = position.shared if shown is None else Position(position.recording, shown).shared
    return MessagesView(heading, position.compactions, messages, len(messages), shared)


def _request(position: Position) -> MessagesView:
    if (request := position.request) is None:
        return MessagesView((), (), (), 0, 0)
    new = len(request.messages) if position.earlier_request is None else position.shared
    heading = tuple(_request_heading(position, request))
    return MessagesView(heading, (), request.messages, new, position.shared)


def _all_rows(found: MessagesView, position: Position, most: int | None) -> Iterator[FactRow]:
    yield from found.heading
    for place in found.folds if most is None else found.folds[-_MOST_FOLDS:]:
        yield from fold_rows(position, place)
    if first := 0 if most is None else max(len(found.messages) - most, 0):
        yield row(counted(first, "earlier message"), mark=Mark.QUIET)
    for number, message in enumerate(found.messages[first:], first):
        yield from message_rows(message, Mark.ADDED if number >= found.new else Mark.PLAIN)


def _context_heading(position: Position) -> Iterator[FactRow]:
    before, after = position.sent_place, position.compacted_place
    if before is not None and after is not None:
        yield row(_as_sent(position, before), "before", Mark.HEAD, before)
    if after is not None:
        yield row(_as_sent(position, after), "after", Mark.HEAD, after)
    elif before is not None:
        number = position.sent(before).number
        yield row(f"context as last sent (request #{number})", "", Mark.QUIET, before)


def _as_sent(position: Position, place: int) -> str:
    request = position.sent(place)
    return f"{counted(len(request.messages), 'message')}, as sent in request #{request.number}"


def _request_heading(position: Position, request: Request) -> Iterator[FactRow]:
    earlier = position.earlier_request
    sent = f"#{request.number}, {counted(len(request.messages), 'message')}"
    yield row(sent, "request", Mark.HEAD, position.request_place)
    if request.party:
        yield row(request.party, "party")
    if request.system_prompt or (earlier is not None and earlier.system_prompt):
        same = earlier is None or earlier.system_prompt == request.system_prompt
        yield from rows(request.system_prompt, "system", Mark.PLAIN if same else Mark.ADDED)
    names = [tool.name for tool in request.tools]
    before = names if earlier is None else [tool.name for tool in earlier.tools]
    yield row(", ".join(names) or "none", "tools")
    yield from (row(name, "tool", Mark.ADDED) for name in names if name not in before)
    yield from (row(name, "tool", Mark.REMOVED) for name in before if name not in names)
    if earlier is not None and position.shared < len(earlier.messages):
        gone = len(earlier.messages) - position.shared
        yield row(f"{gone} of request #{earlier.number} are not in it", mark=Mark.REMOVED)


def message_rows(message: Message, mark: Mark = Mark.PLAIN) -> Iterator[FactRow]:
    """Yield the rows of a message: its role and its text, then its calls."""
    role = str(type(message).__struct_config__.tag)
    if isinstance(message, ToolMessage):
        role = f"{'tool error' if message.is_error else 'tool'} [{message.call_id}]"
    yield from rows(message.text, role, mark)
    if isinstance(message, AssistantMessage):
        for call in message.calls:
            yield row(f"{call.name} {call.arguments} [{call.id}]", "  call", mark)


def _reply(position: Position) -> Iterator[FactRow]:
    if (reply := position.reply) is None:
        return
    yield row(f"to request #{reply.request.number}", "reply", Mark.HEAD)
    if reply.left_out:
        yield row(counted(reply.left_out, "earlier part"), mark=Mark.QUIET)
    text: list[str] = []
    for part in reply.parts:
        if isinstance(part, entries.TextDelta):
            text.append(part.text)
            continue
        yield from rows("".join(text), "text") if text else ()
        text = []
        mark = Mark.FAULT if isinstance(part, entries.Error | entries.StreamCut) else Mark.PLAIN
        yield row(position.recording.words_at(part.seq), mark=mark, goes_to=part.seq)
    yield from rows("".join(text), "text") if text else ()


def _calls(position: Position) -> Iterator[FactRow]:
    for call in position.calls:
        yield row(f"{call.arguments} [{call.call_id}]", call.name, Mark.HEAD)
        if call.called is not None and call.called.arguments != call.arguments:
            written, seq = call.called.arguments, call.called.seq
            yield from rows(written, "  the model wrote", Mark.REMOVED, seq)
        started, returned, answered = call.started, call.returned, call.answered
        if started is None and answered is None:
            is_agent = position.recording.is_of_agent
            words = "no request shows its result yet" if is_agent else "it has not started"
            yield row(words, mark=Mark.QUIET)
        if started is not None:
            took = clock((position.at_ns if returned is None else returned.at_ns) - started.at_ns)
            state = f"running for {took}" if returned is None else f"took {took}"
            yield row(f"started at {clock(started.at_ns)}, {state}", goes_to=started.seq)
        if returned is not None:
            look = ("error", Mark.FAULT) if returned.is_error else ("result", Mark.PLAIN)
            yield from rows(returned.text, *look, returned.seq)
        if answered is not None and (returned is None or answered.text != returned.text):
            label = "the model gets" if answered.ran else "not run; the model gets"
            yield from rows(answered.text, label, Mark.ADDED, answered.seq)


def _hooks(position: Position) -> Iterator[FactRow]:
    for hook in position.hooks:
        mark = Mark.PLAIN if hook.result == "ok" else Mark.FAULT
        yield row(hook_in_words(hook), hook.point, mark, hook.seq)


def fold_rows(position: Position, place: int) -> Iterator[FactRow]:
    """Yield a row for a compaction, and below it the messages that it removed."""
    done = position.recording.entries[place]
    assert isinstance(done, entries.Compaction)
    kind = "forced" if done.forced else "normal"
    sizes = f"{done.tokens_before:,} to {done.tokens_after:,} tokens"
    text = f"{counted(done.messages_removed, 'message')} fewer, {sizes}"
    yield row(text, f"{kind} compaction", Mark.FOLD, place)
    for message in position.removed_by(place):
        yield from message_rows(message, Mark.REMOVED)


def _newest(landmark: Landmark, position: Position) -> int | None:
    return position.recording.index.previous(landmark, position.place + 1)


def _source_of_reply(position: Position) -> Hashable:
    if (place := position.request_place) is None:
        return None, _newest(Landmark.END, position)
    request: Any = position.recording.entries[place]
    parts = position.recording.index.parts.get(request.number, ())
    return place, bisect_right(parts, position.place)


class _Panel(NamedTuple):
    """One view: its rows, its words if it has none, and `source`, equal where its rows are."""

    rows: Callable[[Position], Iterator[FactRow] | MessagesView]
    empty: str = "nothing yet"
    source: Callable[[Position], Hashable] = lambda position: position.place


_UNSENT = "no request has been sent in this run yet"
_OF_CONTEXT = (Landmark.STEP, Landmark.COMPACTION, Landmark.PROMPT)
_PANELS: Mapping[FactView, _Panel] = {
    FactView.ENTRY: _Panel(_entry),
    FactView.STATE: _Panel(_state, source=lambda at: at.move.place if at.move else at.place),
    FactView.COUNTERS: _Panel(_counters, "an agent of your own has no counters of simloop",
                              lambda at: (at.move and at.move.place, at.request_place)),
    FactView.TIMERS: _Panel(_timers, "nothing is waited for"),
    FactView.REQUEST: _Panel(_request, _UNSENT,
                             lambda at: (at.request_place, _newest(Landmark.END, at))),
    FactView.REPLY: _Panel(_reply, _UNSENT, _source_of_reply),
    FactView.CALLS: _Panel(_calls, "the newest reply has no calls"),
    FactView.HOOKS: _Panel(_hooks, "no hook has run here",
                           lambda at: tuple([each.seq for each in at.hooks])),
    FactView.CONTEXT: _Panel(_context,
                             source=lambda at: tuple(_newest(each, at) for each in _OF_CONTEXT)),
    FactView.WHY: _Panel(lambda at: map(row, why(at)), "no rule decided here"),
}  # fmt: skip
MESSAGES_VIEWS = frozenset({FactView.REQUEST, FactView.CONTEXT})
