from pathlib import Path

import pytest
from commandline import Cli

from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.trace import entries
from simloop.trace.codec import encode, read_trace, write_trace
from simloop.trace.entries import AnyEntry

SCENARIO = "prompt: Hi\nmodel: [{http: {status: 500}}, {say: Hello there.}]\n"
OTHER = SCENARIO.replace("Hello", "Bye")
LONGER = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}, {say: Hello there.}]\n"


def write(name: str, text: str, *, seed: int = 0, lines: int | None = None) -> str:
    """The trace of a scenario, or its first lines."""
    trace = run(parse_scenario(text), seed=seed).trace
    write_trace(trace, Path(name))
    if lines is not None:
        Path(name).write_bytes(b"".join(encode(trace).splitlines(keepends=True)[:lines]))
    return name


def first(kind: type[AnyEntry], name: str) -> int:
    """The number of the first entry of that kind in the trace file."""
    return next(each.seq for each in read_trace(name).entries if isinstance(each, kind))


def test_two_traces_of_the_same_run_are_the_same(cli: Cli) -> None:
    result = cli("diff", write("a.jsonl", SCENARIO), write("b.jsonl", SCENARIO))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("the runs are the same, ")


def test_the_first_difference_is_shown_with_three_entries_and_the_names_of_the_files(
    cli: Cli,
) -> None:
    result = cli("diff", write("a.jsonl", SCENARIO), write("bb.jsonl", OTHER))
    assert result.exit_code == 1
    where, *context, one, other = result.stdout.splitlines()
    seq = first(entries.TextDelta, "a.jsonl")
    assert where == f"the first difference is in entry {seq}, the text of the reply to request #2:"
    assert len(context) == 3
    assert one == "  - a.jsonl   Hello there."
    assert other == "  + bb.jsonl  Bye there."


def test_a_run_that_took_another_way_differs_where_it_left_the_first(cli: Cli) -> None:
    result = cli("diff", write("a.jsonl", SCENARIO), write("b.jsonl", LONGER))
    assert result.exit_code == 1
    where = f"entry {first(entries.Request, 'a.jsonl')}, request #1, the tools"
    assert result.stdout.splitlines()[0] == f"the first difference is in {where}:"


class TestHeaders:
    def test_that_differ_are_told_on_stderr_and_no_difference_of_the_runs(self, cli: Cli) -> None:
        limited = f"limits: {{max_steps: 7}}\n{SCENARIO}"
        result = cli("diff", write("a.jsonl", SCENARIO), write("b.jsonl", limited, seed=3))
        assert result.exit_code == 0
        seed, digest, limit = result.stderr.splitlines()
        assert seed == "seed differs: 0 and 3"
        assert digest.startswith("scenario_digest differs: ")
        assert limit.endswith(" and 7")
        assert result.stdout.startswith("the runs are the same")

    def test_that_differ_are_told_also_when_the_runs_do(self, cli: Cli) -> None:
        result = cli("diff", write("a.jsonl", SCENARIO), write("b.jsonl", OTHER))
        assert result.stderr.startswith("scenario_digest differs: ")


class TestACutTrace:
    @pytest.mark.parametrize("order", [1, -1], ids=["first", "second"])
    def test_is_compared_as_far_as_it_goes_and_said_to_be(self, cli: Cli, order: int) -> None:
        files = [write("a.jsonl", SCENARIO, lines=5), write("b.jsonl", SCENARIO)]
        result = cli("diff", *files[::order])
        assert result.exit_code == 0
        assert result.stdout == "the runs are the same, 4 entries\n"
        assert result.stderr.startswith("a.jsonl: the trace is truncated: ")

    def test_and_one_cut_earlier_are_compared_as_far_as_both_go(self, cli: Cli) -> None:
        result = cli(
            "diff", write("a.jsonl", SCENARIO, lines=5), write("b.jsonl", SCENARIO, lines=3)
        )
        assert result.exit_code == 0
        assert result.stdout == "the runs are the same, 2 entries\n"
        assert result.stderr.count("is truncated") == 2

    def test_that_differs_before_its_end_differs(self, cli: Cli) -> None:
        whole = write("a.jsonl", SCENARIO)
        lines = first(entries.TextDelta, whole) + 2  # the header, and entries from 0
        result = cli("diff", whole, write("b.jsonl", OTHER, lines=lines))
        assert result.exit_code == 1

    def test_that_is_longer_than_a_whole_one_differs(self, cli: Cli) -> None:
        whole = write("a.jsonl", SCENARIO)
        # What is left of a conversation that went on with another prompt.
        lines = Path(whole).read_bytes().splitlines(keepends=True)
        trace = read_trace(whole)
        count, at_ns = len(trace.entries), trace.elapsed_ns
        more = b'{"kind":"prompt","seq":%d,"at_ns":%d,"text":"And?"}\n' % (count, at_ns)
        Path("b.jsonl").write_bytes(b"".join([*lines[:-1], more]))
        result = cli("diff", whole, "b.jsonl")
        assert result.exit_code == 1
        assert "a.jsonl  nothing: the run has ended" in result.stdout


@pytest.mark.parametrize("position", [0, 1])
def test_a_file_that_cannot_be_read_or_was_changed_is_2(cli: Cli, position: int) -> None:
    name = write("b.jsonl", SCENARIO)
    Path(name).write_bytes(Path(name).read_bytes().replace(b"there", b"where"))
    for bad in ("nosuch.jsonl", name):
        files = [write("a.jsonl", SCENARIO)]
        files.insert(position, bad)
        result = cli("diff", *files)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(bad)
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["a.jsonl"], ["a.jsonl", "b.jsonl", "c.jsonl"]])
def test_it_takes_two_traces(cli: Cli, arguments: list[str]) -> None:
    result = cli("diff", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")


def test_no_control_character_of_a_trace_is_printed(cli: Cli) -> None:
    hostile = SCENARIO.replace("Hello there.", '"\\e[2J\\r\\u202E"')
    result = cli("diff", write("a.jsonl", SCENARIO), write("b\x1b[2J\a.jsonl", hostile))
    assert result.exit_code == 1
    assert not set(result.output) & {"\x1b", "\a", "\r", "\u202e"}
    assert "\\x1b[2J\\r" in result.stdout
