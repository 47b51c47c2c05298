"""Hostile text in any field of a trace or a scenario reaches no terminal, XML file or page."""

import typing
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from hostile import HOSTILE, hostile, hostile_scenarios, plain, raw_in
from msgspec import Struct

from simloop.cli import main
from simloop.runs.simulation import run
from simloop.scenario.loader import parse_scenario
from simloop.snapshots import TraceSnapshotExtension
from simloop.trace.codec import encode, write_trace
from simloop.trace.diff import first_difference
from simloop.trace.entries import (
    AnyEntry,
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
NAME = "a\x1b[31m\nFORGED.jsonl"
KINDS = typing.get_args(AnyEntry)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simloop(*arguments: str) -> Result:
    result = CliRunner(env={"NO_COLOR": "1"}).invoke(main, arguments)
    assert result.exit_code in {0, 1, 2}, result.stderr
    return result


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
        case CallRenamed(call_id=call_id):
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


READING = [
    ["show"],
    ["show", "--events", "document"],
    ["show", "--events", "program"],
    ["diff", "plain.jsonl"],
    ["replay"],
]


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_no_field_of_a_trace_reaches_a_terminal_as_it_is(
    folder: Path, arguments: list[str]
) -> None:
    write_trace(trace([]), folder / "plain.jsonl")
    shown = ""
    for one in traces():
        write_trace(one, folder / NAME)
        result = simloop(*arguments, NAME)
        shown += result.stdout + result.stderr
    assert "FORGED" in shown
    assert raw_in(shown) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_text_of_each_kind_of_entry_is_in_the_timeline_and_escaped(
    folder: Path, kind: type[AnyEntry]
) -> None:
    odd = list(hostile(kind))
    write_trace(trace(odd), folder / NAME)
    result = simloop("show", NAME)
    assert result.exit_code == 0
    assert ("FORGED" in result.stdout) is bool(odd)
    assert raw_in(result.stdout) == []


def test_no_field_of_an_entry_is_shown_as_it_is_where_two_traces_differ() -> None:
    for kind in KINDS:
        for entry in hostile(kind):
            expected, got = trace([plain(kind)]), trace([entry])
            found = first_difference(expected, got)
            assert found is not None
            lines = [*found.lines(HOSTILE, HOSTILE)]
            lines += TraceSnapshotExtension().diff_lines(encode(expected), encode(got))
            assert raw_in("\n".join(lines)) == [], kind


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario for each field that holds text."""
    folder = tmp_path_factory.mktemp("scenarios")
    for name, text in hostile_scenarios():
        (folder / f"{name}.simloop.yaml").write_text(text)
    (folder / f"{HOSTILE[:16]}.simloop.yaml").write_text(GREETING + "expect: {text: x}\n")
    return folder


CHECK = ["check", "-v", "--format"]
COMPARE = ["compare", "--loop", "reference", "--format"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [[*CHECK, "text"], [*CHECK, "json"], [*CHECK, "junit"], [*COMPARE, "text"], [*COMPARE, "html"]],
    ids=" ".join,
)
def test_no_text_of_a_scenario_is_printed_as_it_is(scenarios: Path, arguments: list[str]) -> None:
    result = simloop(*arguments, str(scenarios))
    assert "FORGED" in result.stdout
    assert raw_in(result.stdout + result.stderr) == []
    if "html" in arguments:
        assert "<b>" not in result.stdout
    if "junit" in arguments:
        ET.fromstring(result.stdout)


@pytest.mark.slow
def test_no_text_of_a_scenario_reaches_a_timeline_as_it_is(scenarios: Path) -> None:
    for path in sorted(scenarios.iterdir()):
        result = simloop("run", str(path))
        assert raw_in(result.stdout + result.stderr) == [], path.name
