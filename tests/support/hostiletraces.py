"""Traces with hostile text in each of their fields, as a reader accepts them."""

import typing
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec
from hostile import hostile, plain
from msgspec import Struct

from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.trace.entries import (
    AnyEntry,
    CallBegun,
    CallRenamed,
    Classified,
    Ended,
    Error,
    Footer,
    Header,
    Prompt,
    Request,
    ToolCall,
    ToolStarted,
)
from simloop.trace.looptrace import LoopTrace

GREETING = "prompt: Hi\nmodel: [{say: Hello.}]\n"
KINDS = typing.get_args(AnyEntry)


@cache
def greeting() -> LoopTrace:
    return run(parse_scenario(GREETING)).trace


def trace(entries: Sequence[AnyEntry], header: Header | None = None) -> LoopTrace:
    """A whole trace, after a greeting's header, with these entries in order, as it can be read."""
    whole = greeting()
    assert whole.footer is not None
    at_ns = whole.elapsed_ns
    runs: list[AnyEntry] = []
    for entry in entries:
        running = bool(runs) and not isinstance(runs[-1], Ended)
        if isinstance(entry, Prompt) and running:
            runs.append(plain(Ended))
        elif not isinstance(entry, Prompt) and not running:
            runs.append(plain(Prompt))
        runs += readable(entry, len(runs) + 1)
    runs = runs or [plain(Prompt)]
    if not isinstance(runs[-1], Ended):
        runs.append(plain(Ended))
    numbered = [
        msgspec.structs.replace(entry, seq=seq, at_ns=at_ns) for seq, entry in enumerate(runs)
    ]
    footer = msgspec.structs.replace(whole.footer, entries=len(numbered))
    return LoopTrace(header or whole.header, numbered, footer)


def readable(entry: AnyEntry, number: int) -> list[AnyEntry]:
    """The entry after those that a reader demands before it; `number` is free for a request."""
    replace = msgspec.structs.replace
    request = replace(plain(Request), number=number)
    match entry:
        case Request():
            return [replace(entry, number=number)]
        case ToolStarted(arguments=arguments):
            # Not json.dumps, which escapes what a terminal must not get.
            shown = msgspec.json.encode({"x": arguments}).decode()
            return [replace(entry, arguments=shown)]
        case CallRenamed(call_id=call_id) | CallBegun(call_id=call_id):
            return [request, replace(plain(ToolCall), request=number, call_id=call_id), entry]
        case Classified():
            return [request, replace(plain(Error), request=number), entry]
        case _ if "request" in entry.__struct_fields__:
            return [request, replace(entry, request=number)]
    return [entry]


def odd_fields(kind: type[Struct]) -> Iterator[dict[str, object]]:
    """For each field of `kind` that holds text, its name and a hostile value."""
    usual = plain(kind)
    for made in hostile(kind):
        pairs = {name: getattr(made, name) for name in kind.__struct_fields__}
        yield {name: value for name, value in pairs.items() if value != getattr(usual, name)}


def traces() -> list[LoopTrace]:
    """Each with hostile text in another place of its header, of its footer, or of all entries."""
    header, footer = greeting().header, trace([]).footer
    assert footer is not None
    every = [entry for kind in KINDS for entry in hostile(kind)]
    made = [trace([], msgspec.structs.replace(header, **odd)) for odd in odd_fields(Header)]
    for odd in odd_fields(Footer):
        made.append(trace([]))
        made[-1].footer = msgspec.structs.replace(footer, **odd)
    loops = ("reference", "pi", "opencode")
    return made + [trace(every, msgspec.structs.replace(header, loop=loop)) for loop in loops]
