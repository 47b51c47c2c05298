from pathlib import Path

import msgspec
import pytest
from commandline import Cli

from simloop.errors import InternalError
from simloop.runs.run import Simulation, run
from simloop.scenario.loader import parse_scenario
from simloop.trace import entries
from simloop.trace.codec import encode, read_trace, write_trace
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace

SCENARIO = "prompt: Hi\nmodel: [{http: {status: 500}}, {say: Hello there.}]\n"


def played() -> LoopTrace:
    return run(parse_scenario(SCENARIO)).trace


def write(name: str, trace: LoopTrace) -> str:
    write_trace(trace, Path(name))
    return name


def rewritten(name: str) -> str:
    """A trace that says that the model said something else."""
    trace = played()
    record = trace.entries
    seq = next(at for at, entry in enumerate(record) if isinstance(entry, entries.TextDelta))
    record[seq] = msgspec.structs.replace(record[seq], text="Bye")
    return write(name, trace)


def first_text() -> int:
    """The number of the first entry that a rewritten trace has another text in."""
    return next(each.seq for each in played().entries if isinstance(each, entries.TextDelta))


class TestARecordedRun:
    def test_that_is_still_the_same_is_identical(self, cli: Cli) -> None:
        count = len(played().entries)
        result = cli("replay", write("a.jsonl", played()))
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == f"ok      a.jsonl  identical, {count} entries\n"

    def test_that_is_not_is_shown_where_it_diverges_and_how_to_see_it(self, cli: Cli) -> None:
        result = cli("replay", rewritten("a b.jsonl"))
        assert (result.exit_code, result.stderr) == (1, "")
        first, where, *context, recorded, replayed, command = result.stdout.splitlines()
        assert first == "FAILED  a b.jsonl  diverged"
        text = "text-delta.text"
        assert where == f"        the first difference is in entry {first_text()}, {text}:"
        assert len(context) == 3
        assert context[-1].endswith("request #2: 1 message, about 5 tokens, nothing new")
        assert recorded == "          - recorded  Bye"
        assert replayed == "          + replayed  Hello"
        assert command == "        see it: simloop show 'a b.jsonl'"

    def test_that_was_cut_is_compared_as_far_as_it_goes_and_said_to_be(self, cli: Cli) -> None:
        lines = encode(played()).splitlines(keepends=True)
        Path("a.jsonl").write_bytes(b"".join(lines[:5]) + lines[5][:10])
        result = cli("replay", "a.jsonl")
        assert result.exit_code == 0
        assert result.stdout == "ok      a.jsonl  identical, 4 entries\n"
        assert result.stderr.startswith("a.jsonl: the trace is truncated: the file ends after 4 ")

    def test_under_other_limits_is_told_on_stderr(self, cli: Cli) -> None:
        trace = played()
        limits = {**trace.header.limits, "max_steps": 7}
        trace.header = msgspec.structs.replace(trace.header, limits=limits)
        result = cli("replay", write("a.jsonl", trace))
        usual = played().header.limits["max_steps"]
        assert result.exit_code == 0
        said = f"a.jsonl: limits.max_steps differs: recorded 7, replayed {usual}\n"
        assert result.stderr == said


class TestWhatCannotBeReplayed:
    def test_is_a_run_that_needed_python_code_and_the_way_out_is_named(self, cli: Cli) -> None:
        def look() -> str:
            return "x"

        trace = run(parse_scenario(SCENARIO), tools=[look]).trace
        result = cli("replay", write("a.jsonl", trace))
        assert result.exit_code == 2
        assert result.stdout == "ERROR   a.jsonl  not replayed\n"
        assert result.stderr.startswith("a.jsonl: this run needed Python code")
        assert "tool look" in result.stderr
        assert "simloop diff" in result.stderr

    def test_is_a_trace_of_an_older_version_and_the_way_out_is_named(self, cli: Cli) -> None:
        old = encode(played()).replace(b'"version":3', b'"version":2', 1)
        Path("a.jsonl").write_bytes(old)
        result = cli("replay", "a.jsonl")
        assert (result.exit_code, result.stdout) == (2, "ERROR   a.jsonl  not replayed\n")
        assert result.stderr == (
            "a.jsonl:1: this trace has the format of version 2, and this simloop reads version 3 "
            "(record it again: simloop record SCENARIO)\n"
        )

    def test_is_a_file_that_is_not_there_or_a_folder(self, cli: Cli) -> None:
        Path("folder").mkdir()
        result = cli("replay", "nosuch.jsonl", "folder")
        assert result.exit_code == 2
        assert "nosuch.jsonl: cannot be read: " in result.stderr
        assert "folder: this is no regular file" in result.stderr

    def test_never_keeps_the_others_from_it(self, cli: Cli) -> None:
        Path("b.jsonl").touch()
        result = cli("replay", rewritten("a.jsonl"), "b.jsonl", write("c.jsonl", played()))
        assert result.exit_code == 2
        words = [line.split()[0] for line in result.stdout.splitlines() if line[0] != " "]
        assert words == ["FAILED", "ERROR", "ok", "1"]
        assert result.stdout.splitlines()[-1] == "1 passed, 1 failed, 1 error"


def test_a_fault_of_ours_is_3(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_down(_: Simulation) -> None:
        raise InternalError("broken")

    name = write("a.jsonl", played())
    monkeypatch.setattr(Simulation, "converse", break_down)
    result = cli("replay", name)
    assert result.exit_code == 3
    assert "please report it" in result.stderr


def test_an_edited_scenario_is_no_divergence_of_its_old_trace(cli: Cli) -> None:
    scenario = Path("a.simloop.yaml")
    scenario.write_text(SCENARIO, "utf-8")
    assert cli("record", str(scenario)).exit_code == 0
    scenario.write_text(SCENARIO.replace("Hello", "Bye"), "utf-8")
    assert cli("replay", "a.trace.jsonl").exit_code == 0
    assert read_trace(Path("a.trace.jsonl")).footer is not None


OTHER = SCENARIO.replace("Hello", "Bye")
LONGER = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}, {say: Hello there.}]\n"


def write_run(name: str, text: str, *, seed: int = 0, lines: int | None = None) -> str:
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
    result = cli("diff", write_run("a.jsonl", SCENARIO), write_run("b.jsonl", SCENARIO))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("the runs are the same, ")


def test_the_first_difference_is_shown_with_three_entries_and_the_names_of_the_files(
    cli: Cli,
) -> None:
    result = cli("diff", write_run("a.jsonl", SCENARIO), write_run("bb.jsonl", OTHER))
    assert result.exit_code == 1
    where, *context, one, other = result.stdout.splitlines()
    seq = first(entries.TextDelta, "a.jsonl")
    assert where == f"the first difference is in entry {seq}, text-delta.text:"
    assert len(context) == 3
    assert one == "  - a.jsonl   Hello"
    assert other == "  + bb.jsonl  Bye"


class TestHeaders:
    def test_that_differ_are_told_on_stderr_and_no_difference_of_the_runs(self, cli: Cli) -> None:
        limited = f"limits: {{max_steps: 7}}\n{SCENARIO}"
        result = cli("diff", write_run("a.jsonl", SCENARIO), write_run("b.jsonl", limited, seed=3))
        assert result.exit_code == 0
        seed, digest, limit = result.stderr.splitlines()
        assert seed == "seed differs: 0 and 3"
        assert digest.startswith("scenario_digest differs: ")
        assert limit.endswith(" and 7")
        assert result.stdout.startswith("the runs are the same")


class TestACutTrace:
    @pytest.mark.parametrize("order", [1, -1], ids=["first", "second"])
    def test_is_compared_as_far_as_it_goes_and_said_to_be(self, cli: Cli, order: int) -> None:
        files = [write_run("a.jsonl", SCENARIO, lines=5), write_run("b.jsonl", SCENARIO)]
        result = cli("diff", *files[::order])
        assert result.exit_code == 0
        assert result.stdout == "the runs are the same, 4 entries\n"
        assert result.stderr.startswith("a.jsonl: the trace is truncated: ")


@pytest.mark.parametrize("position", [0, 1])
def test_a_file_that_cannot_be_read_or_was_changed_is_2(cli: Cli, position: int) -> None:
    name = write_run("b.jsonl", SCENARIO)
    Path(name).write_bytes(Path(name).read_bytes().replace(b"there", b"where"))
    for bad in ("nosuch.jsonl", name):
        files = [write_run("a.jsonl", SCENARIO)]
        files.insert(position, bad)
        result = cli("diff", *files)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(bad)
        assert result.stderr.count("\n") == 1
