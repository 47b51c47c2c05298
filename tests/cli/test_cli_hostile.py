"""Hostile text in any field of a trace or a scenario reaches no terminal, XML file or page."""

from pathlib import Path

import pytest
from click.testing import Result
from commandline import Cli
from hostile import HOSTILE, hostile, hostile_scenarios, plain, raw_in
from hostiletraces import GREETING, KINDS, trace, traces

from simloop.snapshots import TraceSnapshotExtension
from simloop.trace.codec import encode, write_trace
from simloop.trace.diff import first_difference
from simloop.trace.entries import AnyEntry

NAME = "a\x1b[31m\nFORGED.jsonl"


def simloop(cli: Cli, *arguments: str) -> Result:
    result = cli(*arguments)
    assert result.exit_code in {0, 1, 2}, result.stderr
    return result


READING = [
    ["show"],
    ["diff", "plain.jsonl"],
    ["replay"],
    ["export", "--html", "-"],
    ["export", "--otel=-"],
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_no_field_of_a_trace_reaches_a_terminal_as_it_is(cli: Cli, arguments: list[str]) -> None:
    write_trace(trace([]), cli.folder / "plain.jsonl")
    shown = ""
    for one in traces():
        write_trace(one, cli.folder / NAME)
        result = simloop(cli, *arguments, NAME)
        shown += result.stdout + result.stderr
    assert "FORGED" in shown
    assert raw_in(shown) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_text_of_each_kind_of_entry_is_in_the_timeline_and_escaped(
    cli: Cli, kind: type[AnyEntry]
) -> None:
    odd = list(hostile(kind))
    write_trace(trace(odd), cli.folder / NAME)
    result = simloop(cli, "show", NAME)
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
    [[*CHECK, "text"], [*CHECK, "json"], [*COMPARE, "text"]],
    ids=" ".join,
)
def test_no_text_of_a_scenario_is_printed_as_it_is(
    cli: Cli, scenarios: Path, arguments: list[str]
) -> None:
    result = simloop(cli, *arguments, str(scenarios))
    assert "FORGED" in result.stdout
    assert raw_in(result.stdout + result.stderr) == []


@pytest.mark.slow
def test_no_text_of_a_scenario_reaches_a_timeline_as_it_is(cli: Cli, scenarios: Path) -> None:
    for path in sorted(scenarios.iterdir()):
        result = simloop(cli, "run", str(path))
        assert raw_in(result.stdout + result.stderr) == [], path.name
