"""`simloop run`: verdicts and timelines, as text and as JSON."""

import json
import os
import re
import shlex
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from commandline import EXHAUSTED, FAILS, PASSES, Cli

from simloop.scenario.catalog import bundled
from simloop.trace.codec import encode, read_trace

UNUSED = "prompt: Hi\nmodel: [{say: a}, {say: b}]\n"
RUNAWAY = "prompt: Hi\ntools: {t: {takes: 100000h}}\nmodel: [{call: {t: {}}}]\n"
# A million transitions that use up replies: seconds of real time, which an interrupt can stop.
LONG = """\
prompt: Hi
limits: {max_steps: 1000000000}
compaction: {window: 1000000000000}
tools: {t: {}}
model: [{call: {t: {}}, times: 1000000}]
"""


def mistake(line: int, column: int, key: str, message: str, hint: str | None) -> dict[str, Any]:
    """A mistake in a.simloop.yaml as JSON."""
    place = {"path": "a.simloop.yaml", "line": line, "column": column, "key": key}
    return {"type": "ScenarioError", "message": message, **place, "hint": hint, "reproduce": None}


def run_json(cli: Cli, *arguments: str) -> tuple[Result, list[dict[str, Any]]]:
    result = cli("run", *arguments, "--format", "json")
    document = json.loads(result.stdout)
    assert list(document) == ["format_version", "status", "runs"]
    assert document["format_version"] == 3
    return result, document["runs"]


class TestASingleScenario:
    def test_is_shown_with_title_timeline_and_verdict(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", PASSES))
        lines = result.stdout.splitlines()
        assert result.exit_code == 0
        assert lines[0] == "It answers"
        assert any("text          Hello." in line for line in lines)
        assert lines[-1] == "ok      a.simloop.yaml  completed in 0s (virtual), 1 request"
        assert result.stderr == ""

    def test_that_fails_names_each_failure_and_the_command_that_reproduces_it(
        self, cli: Cli
    ) -> None:
        result = cli("run", cli.write("a", FAILS), "--seed", "7")
        assert result.exit_code == 1
        assert result.stdout.splitlines()[-3:] == [
            "FAILED  a.simloop.yaml  completed in 0s (virtual), 1 request",
            "        expect.text: expected 'Bye.', got 'Hello.'",
            "        reproduce: simloop run a.simloop.yaml --seed 7",
        ]
        assert result.stderr == ""

    @pytest.mark.parametrize(
        ("text", "code", "ending", "complaint"),
        [
            (
                EXHAUSTED,
                1,
                "FAILED  a.simloop.yaml  no outcome after 0s",
                "a.simloop.yaml: model: ",
            ),
            (UNUSED, 1, "FAILED  a.simloop.yaml  completed in 0s", "a.simloop.yaml: model.1: "),
            (RUNAWAY, 1, "FAILED  a.simloop.yaml  no outcome after 0s", "max_virtual_ns="),
        ],
    )
    def test_that_raises_is_shown_as_far_as_it_came(
        self, cli: Cli, text: str, code: int, ending: str, complaint: str
    ) -> None:
        result = cli("run", cli.write("a", text))
        assert result.exit_code == code
        assert "+ user: Hi" in result.stdout
        assert result.stdout.splitlines()[-1].startswith(ending)
        assert result.stderr.startswith(complaint)

    @pytest.mark.parametrize("text", [FAILS, RUNAWAY], ids=["fails", "runaway"])
    def test_that_is_wrong_ends_with_the_one_command_that_shows_it_again(
        self, cli: Cli, text: str
    ) -> None:
        overridden = f"loop: not.here:Loop\n{text}"
        first = cli("run", cli.write("a b", overridden), "--seed", "7", "--loop", "reference")
        (command,) = re.findall("reproduce: simloop run (.+)", first.output)
        again = cli("run", *shlex.split(command))
        assert (first.exit_code, first.output) == (1, again.output)

    def test_that_cannot_be_read_prints_one_line_on_stderr_and_nothing_else(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", "prompt: Hi\nmodell: []\n"))
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith("a.simloop.yaml:2:1: modell: unknown key (did you mean")
        assert result.stderr.count("\n") == 1

    def test_prints_no_control_character_of_a_model_or_a_title(self, cli: Cli) -> None:
        hostile = '"\\e[2J\\r\\u202Ex\\x9b1m"'
        text = f"title: {hostile}\nprompt: Hi\nmodel: [{{say: {hostile}}}]\nexpect: {{text: x}}\n"
        result = cli("run", cli.write("a", text))
        assert result.exit_code == 1
        assert not set(result.output) & {"\x1b", "\r", "\u202e", "\x9b"}
        assert "\\x1b[2J" in result.stdout


class TestSeveralScenarios:
    def test_get_one_verdict_each_and_a_count(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", PASSES), cli.write("bb", PASSES))
        assert result.exit_code == 0
        assert result.stdout.splitlines() == [
            "ok      a.simloop.yaml   completed in 0s (virtual), 1 request",
            "ok      bb.simloop.yaml  completed in 0s (virtual), 1 request",
            "2 passed",
        ]

    def test_run_to_the_last_whatever_the_first_ones_do(self, cli: Cli) -> None:
        files = [cli.write("a", "modell: ["), cli.write("b", EXHAUSTED), cli.write("c", RUNAWAY)]
        result = cli("run", *files, cli.write("d", FAILS), "no-such-name", cli.write("e", PASSES))
        words = [line.split()[0] for line in result.stdout.splitlines() if line[0] != " "]
        assert words == ["ERROR", "FAILED", "FAILED", "FAILED", "ERROR", "ok", "1"]
        assert result.stdout.splitlines()[-1] == "1 passed, 3 failed, 2 errors"
        assert result.exit_code == 2
        complaints = ("a.simloop.yaml:", "b.simloop.yaml: model:", "there is no scenario")
        assert all(complaint in result.stderr for complaint in complaints)

    @pytest.mark.parametrize(
        ("texts", "code"),
        [((PASSES, PASSES), 0), ((PASSES, FAILS), 1), ((FAILS, "x"), 2), (("x", RUNAWAY), 2)],
        ids=["passed", "failed", "failed-and-unreadable", "unreadable-and-runaway"],
    )
    def test_end_with_the_worst_exit_code(
        self, cli: Cli, texts: tuple[str, ...], code: int
    ) -> None:
        files = [cli.write(f"s{number}", text) for number, text in enumerate(texts)]
        assert cli("run", *files).exit_code == code
        assert cli("run", *files, "--format", "json").exit_code == code

    def test_of_a_folder_are_those_below_it_in_order(self, cli: Cli) -> None:
        for name in ("f/z", "f/b/x", "f/a", "f/.venv/hidden"):
            cli.write(name, PASSES)
        Path("f/a.yaml").write_text("not one of them", "utf-8")
        _, runs = run_json(cli, "f")
        paths = ["f/a.simloop.yaml", "f/b/x.simloop.yaml", "f/z.simloop.yaml"]
        assert [one["path"] for one in runs] == paths

    def test_are_run_once_each(self, cli: Cli) -> None:
        name = cli.write("f/a", PASSES)
        _, runs = run_json(cli, name, "f", name)
        assert len(runs) == 1

    def test_a_folder_without_any_is_an_error(self, cli: Cli) -> None:
        (cli.folder / "empty").mkdir()
        result = cli("run", "empty")
        assert result.exit_code == 2
        assert result.stderr == "empty: no *.simloop.yaml in this folder or below it\n"


class TestTheTraceFile:
    def test_holds_the_run(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", PASSES), "--trace", "a.jsonl")
        trace = read_trace(Path("a.jsonl"))
        assert result.exit_code == 0
        assert trace.footer is not None
        assert trace.ends[-1].text == "Hello."
        assert encode(trace) == Path("a.jsonl").read_bytes()

    @pytest.mark.parametrize(
        ("text", "code"), [(EXHAUSTED, 1), (RUNAWAY, 1)], ids=["exhausted", "runaway"]
    )
    def test_is_written_when_the_run_raised(self, cli: Cli, text: str, code: int) -> None:
        assert cli("run", cli.write("a", text), "--trace", "a.jsonl").exit_code == code
        trace = read_trace(Path("a.jsonl"))
        assert trace.entries
        assert (trace.footer, trace.truncated) == (None, "")

    @pytest.mark.slow
    def test_is_written_when_the_run_was_interrupted(self, cli: Cli) -> None:
        name = cli.write("a", LONG)
        ctrl_c = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        ctrl_c.start()
        try:
            result = cli("run", name, "--trace", "a.jsonl")
        finally:
            ctrl_c.cancel()
        assert result.exit_code == 130
        assert len(read_trace(Path("a.jsonl")).entries) > 100

    def test_needs_a_single_scenario(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", PASSES), cli.write("b", PASSES), "--trace", "a.jsonl")
        assert result.exit_code == 2
        assert "--trace needs a single scenario, and these are 2" in result.stderr
        assert result.stdout == ""
        assert not Path("a.jsonl").exists()

    def test_never_overwrites_the_scenario(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", PASSES), "--trace", "./a.simloop.yaml")
        assert result.exit_code == 2
        assert "would overwrite the scenario" in result.stderr
        assert Path("a.simloop.yaml").read_text("utf-8") == PASSES

    def test_that_cannot_be_written_is_an_error_and_hides_no_verdict(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", FAILS), "--trace", "no/such/folder/a.jsonl")
        assert result.exit_code == 2
        assert "expect.text" in result.stdout
        assert "cannot be written" in result.stderr


class TestJson:
    def test_tells_how_a_run_ended(self, cli: Cli) -> None:
        text = PASSES.replace("prompt", "seed: 3\nprompt").replace(
            "{say: Hello.}", "{http: {status: 500}}, {say: Hello.}"
        )
        result, runs = run_json(cli, cli.write("a", text))
        assert result.exit_code == 0
        assert runs == [
            {
                "name": "a.simloop.yaml",
                "status": "ok",
                "path": "a.simloop.yaml",
                "title": "It answers",
                "loop": "reference",
                "seed": 3,
                "outcome": "completed",
                "outcomes": ["completed"],
                "limit": "",
                "text": "Hello.",
                "message": "Hello.",
                "elapsed_ns": 2_000_000_000,
                "counters": {"error_count": 1, "total_steps": 1, "compaction_attempts": 0},
                "exit": None,
                "failures": [],
                "errors": [],
                "stdout": "",
                "stderr": "",
            }
        ]

    def test_tells_the_outcome_of_each_prompt(self, cli: Cli) -> None:
        filtered = "{say: No., finish: content-filter}, {say: Hello.}"
        text = PASSES.replace("{say: Hello.}", filtered).replace("prompt", "then: [Again]\nprompt")
        _, runs = run_json(cli, cli.write("a", text))
        assert runs[0]["outcomes"] == ["content-filtered", "completed"]
        assert runs[0]["outcome"] == "completed"
        told = cli("run", "a.simloop.yaml").stdout
        assert "content-filtered, completed in 0s (virtual)" in told

    def test_lists_failures_as_data(self, cli: Cli) -> None:
        text = FAILS.replace("text: Bye.", "text: {contains: Bye}, elapsed: {min: 1s}, sent: []")
        result, runs = run_json(cli, cli.write("a", text))
        assert (result.exit_code, runs[0]["status"], runs[0]["errors"]) == (1, "failed", [])
        facts = [{k: v for k, v in each.items() if k != "message"} for each in runs[0]["failures"]]
        assert facts == [
            {"key": "expect.text", "expected": {"contains": "Bye"}, "got": "Hello.", "seq": None},
            {"key": "expect.elapsed", "expected": {"min": "1s"}, "got": "0s", "seq": None},
            {"key": "expect.sent", "expected": [], "got": ["user"], "seq": 3},
        ]
        assert [f"        {each['message']}" for each in runs[0]["failures"]] == [
            line
            for line in cli("run", "a.simloop.yaml").stdout.splitlines()
            if line[8:15] == "expect."
        ]

    def test_has_one_object_for_each_mistake_of_a_file_with_its_place(self, cli: Cli) -> None:
        text = "prompt: Hi\nlimits: {max_stepps: 3}\nmodel:\n  - {say: Hi., pace: 5}\nseed: -1\n"
        result, runs = run_json(cli, cli.write("a", text))
        assert (result.exit_code, runs[0]["status"]) == (2, "error")
        assert runs[0]["errors"] == [
            mistake(2, 10, "limits.max_stepps", "unknown key", "did you mean `max_steps`?"),
            mistake(
                4,
                22,
                "model.0.pace",
                "must be a mapping",
                "such as {first_part: ...}; known here: first_part, per_part, per_token",
            ),
            mistake(5, 7, "seed", "must be at least 0", None),
        ]

    def test_has_the_status_of_each_run_and_of_the_worst(self, cli: Cli) -> None:
        react = f"loop: react\nhooks: [{{at: before_llm_call}}]\n{PASSES}"
        names = [
            cli.write("a", PASSES),
            cli.write("b", FAILS),
            cli.write("c", react),
            cli.write("d", "x"),
        ]
        for last, status in enumerate(("ok", "failed", "error", "error"), start=1):
            document = json.loads(cli("run", *names[:last], "--format", "json").stdout)
            assert document["status"] == status
        statuses = [one["status"] for one in document["runs"]]
        assert statuses == ["ok", "failed", "cannot", "error"]

    def test_tells_the_error_of_a_run_that_raised(self, cli: Cli) -> None:
        result, runs = run_json(cli, cli.write("a", EXHAUSTED), cli.write("b", "x"), "nosuch")
        assert result.exit_code == 2
        types = [one["errors"][0]["type"] for one in runs]
        assert types == ["ScriptExhausted", "ScenarioError", "ScenarioError"]
        assert [one["loop"] for one in runs] == ["reference", None, None]
        assert [one["path"] for one in runs] == ["a.simloop.yaml", "b.simloop.yaml", None]
        assert all(one["outcome"] is None and one["counters"] is None for one in runs)
        assert runs[2]["errors"][0]["message"] in result.stderr


class TestOptions:
    def test_the_seed_replaces_that_of_the_scenario(self, cli: Cli) -> None:
        _, runs = run_json(cli, cli.write("a", f"seed: 3\n{PASSES}"), "--seed", "9")
        assert runs[0]["seed"] == 9

    @pytest.mark.parametrize("seed", ["-1", str(2**63), "x"])
    def test_a_seed_out_of_range_is_wrong_usage(self, cli: Cli, seed: str) -> None:
        result = cli("run", cli.write("a", PASSES), "--seed", seed)
        assert result.exit_code == 2
        assert "--seed" in result.stderr

    def test_the_loop_replaces_that_of_the_scenario(self, cli: Cli) -> None:
        name = cli.write("a", f"loop: not.here:Loop\n{PASSES}")
        assert cli("run", name).exit_code == 2
        _, runs = run_json(cli, name, "--loop", "reference")
        assert runs[0]["loop"] == "reference"

    def test_an_unknown_loop_is_one_error_for_all_scenarios(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", PASSES), cli.write("b", PASSES), "--loop", "nosuch")
        assert result.exit_code == 2
        assert result.stderr.count("nosuch") == 1
        assert "known: " in result.stderr


def test_a_bundled_scenario_is_run_by_its_name_and_called_by_it_everywhere(cli: Cli) -> None:
    first = next(bundled())
    name, path = first.name, str(first.path)
    assert [run_json(cli, argument)[1][0]["name"] for argument in (name, path)] == [name, name]


@pytest.mark.slow
def test_a_theme_and_the_library_are_run_by_name_where_there_are_no_such_folders(cli: Cli) -> None:
    names = [one.name for one in bundled()]
    ran = {what: [one["name"] for one in run_json(cli, what)[1]] for what in ("start/", "all")}
    assert sorted(ran["all"]) == sorted(names)
    assert ran["start/"] == [name for name in names if name.startswith("start/")]


def test_a_folder_that_hides_a_theme_is_said_to(cli: Cli) -> None:
    (cli.folder / "retry").mkdir()
    result = cli("run", "retry/")
    assert result.exit_code == 2
    assert "it hides the bundled ones of that name" in result.stderr
