import json
import re
from typing import Any

import pytest
from commandline import Cli
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop.cli.compare import Comparison, Row, lines_of
from simloop.errors import InternalError
from simloop.runs.run import Simulation
from simloop.scenario.catalog import bundled
from simloop.scenario.designs import DESIGNS

LOOKS = """\
title: It looks
prompt: Hi
tools: {look: {returns: found, takes: 120ms}}
model: [{say: Let me look., call: {look: {}}}, {say: Found.}]
expect: {outcome: completed, text: Found.}
"""
FAILS = LOOKS.replace("text: Found.", "text: Lost.")
BROKEN_SERVER = """\
title: A server error
prompt: Hi
model: [{http: {status: 500}}, {say: Hello.}]
expect: {outcome: completed, text: Hello.}
expect_on:
  pi: {outcome: failed, unused: 1}
  react: {outcome: failed, unused: 1}
"""
HOOKED = "title: Hooked\nprompt: Hi\nhooks: [{at: before_llm_call}]\nmodel: [{say: Hello.}]\n"
HOSTILE = '"\\e[2J\\0\\a\\r\\u202Ex\\x9b1m\\uFFFE<script>&\\"é"'
OUR_COLOUR = re.compile("^\x1b\\[3[12]m(.{6})\x1b\\[0m")
CONTROLS = {"\x1b", "\a", "\r", "\0", "\u202e", "\x9b"}
EXHAUSTED = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}]\n"
DOCUMENTED_OTHERWISE = ("clock/ahead", "finish-reasons/stop-with-tool-calls", "retry/rate-limit")
OWN_LOOP = """\
from simloop.loops.react import ReactLoop

class Hookless(ReactLoop):
    unsupported = {**ReactLoop.unsupported}
    unsupported[next(iter(unsupported))] = "\\x1b[31mnone <here>"
"""


class TestASingleScenario:
    def test_is_a_table_with_a_row_for_each_loop(self, cli: Cli) -> None:
        result = cli("compare", cli.write("a", LOOKS))
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.splitlines() == [
            "a.simloop.yaml  It looks",
            "            loop       outcome    model calls  tool runs  time   text",
            "ok      *   reference  completed  2            1          120ms  Found.",
            "ok          pi         completed  2            1          120ms  Found.",
            "ok          react      completed  2            1          120ms  Found.",
            "ok          opencode   completed  2            1          120ms  Found.",
            "*    the scenario's own loop",
        ]

    def test_marks_what_differs_and_says_what_the_marks_mean(self, cli: Cli) -> None:
        lines = cli("compare", cli.write("a", BROKEN_SERVER)).stdout.splitlines()
        assert [line[8:10] for line in lines[2:6]] == ["* ", "~ ", "~ ", "~ "]
        assert [line.split()[2:4] for line in lines[2:5]] == [
            ["reference", "completed"],
            ["pi", "failed"],
            ["react", "failed"],
        ]
        assert lines[-1].startswith("~    differs from that loop")

    def test_says_below_a_row_what_is_not_as_expected_and_how_to_see_it(self, cli: Cli) -> None:
        result = cli(
            "compare", cli.write("a b", FAILS), "--loop", "pi", "--loop", "react", "--seed", "3"
        )
        assert result.exit_code == 1
        lines = result.stdout.splitlines()
        assert [line.split()[:3] for line in (lines[2], lines[5])] == [
            ["FAILED", "!", "pi"],
            ["FAILED", "!", "react"],
        ]
        assert lines[3:5] == [
            "        expect.text: expected 'Lost.', got 'Found.'",
            "        reproduce: simloop run 'a b.simloop.yaml' --seed 3 --loop pi",
        ]
        assert lines[-2] == "!    an expectation for this loop does not hold"

    def test_says_below_a_row_why_a_loop_cannot_express_it(self, cli: Cli) -> None:
        result = cli("compare", cli.write("a", HOOKED))
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith("cannot"))
        assert lines[at].split() == ["cannot", "react", "cannot", "-", "-", "-", "-"]
        assert lines[at + 1] == "        react has no hooks"

    def test_keeps_to_the_width_whatever_a_model_says(self, cli: Cli) -> None:
        text = f"title: {'t' * 500}\nprompt: Hi\nmodel: [{{say: '{'long ' * 900}'}}]\n"
        result = cli("compare", cli.write("a", f"{text}expect: {{text: x}}\n"))
        lines = [line for line in result.stdout.splitlines() if "reproduce" not in line]
        assert max(map(len, lines[1:])) == 120
        assert lines[2].endswith("…")

    def test_that_cannot_be_read_is_one_line_on_stderr_and_one_on_stdout(self, cli: Cli) -> None:
        result = cli("compare", cli.write("a", "prompt: Hi\nmodell: []"))
        assert (result.exit_code, result.stdout) == (2, "ERROR   a.simloop.yaml  not run\n")
        assert result.stderr.startswith("a.simloop.yaml:2:1: modell: unknown key")
        assert result.stderr.count("\n") == 1


class TestAScenarioWhoseOwnLoopIsNotAmongThem:
    """A version, or a loop of one's own: nothing is marked, and it is told why."""

    def test_is_told_below_its_table(self, cli: Cli) -> None:
        result = cli("compare", "loops/opencode-compacts-for-ever")
        assert result.exit_code == 0
        told = "opencode@1.18.34, the own loop of 1 scenario, was not run"
        assert result.stdout.splitlines()[-1] == told

    def test_is_counted_below_several(self, cli: Cli) -> None:
        cli.write("a", f"loop: mine:Loop\n{LOOKS}")
        cli.write("b", f"loop: pi@0.87.1\n{LOOKS}")
        cli.write("c", f"loop: pi@0.87.1\n{LOOKS}")
        assert cli("compare", ".").stdout.splitlines()[-2:] == [
            "mine:Loop, the own loop of 1 scenario, was not run",
            "pi@0.87.1, the own loop of 2 scenarios, was not run",
        ]


def test_a_design_and_its_version_are_tables_that_mark_what_differs(
    cli: Cli,
) -> None:
    result = cli(
        "compare", *DOCUMENTED_OTHERWISE, "--loop", "reference", "--loop", "reference@documented"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    tables = [line.split()[0] for line in lines if line and line[:2] not in ("  ", "ok")]
    assert tables[:3] == ["clock/ahead", "finish-reasons/stop-with-tool-calls", "3"]
    assert [line.split()[1:5] for line in lines if line.startswith("ok ")] == [
        ["*", "reference", "completed", "3"],
        ["~", "reference@documented", "completed", "3"],
        ["*", "reference", "completed", "2"],
        ["~", "reference@documented", "completed", "1"],
    ]
    assert "3 scenarios: 6 as expected, 2 differ from their own loop" in lines


class TestSeveralScenarios:
    def test_are_the_tables_of_those_that_differ_a_count_a_legend_and_the_reasons(
        self, cli: Cli
    ) -> None:
        files = [
            cli.write("a", LOOKS),
            cli.write("bb", HOOKED),
            cli.write("c", FAILS),
            cli.write("d", HOOKED),
        ]
        result = cli("compare", *files, "--loop", "reference", "--loop", "react")
        assert (result.exit_code, result.stderr) == (1, "")
        assert result.stdout.splitlines() == [
            "c.simloop.yaml  It looks",
            "            loop       outcome    model calls  tool runs  time   text",
            "FAILED  *!  reference  completed  2            1          120ms  Found.",
            "        expect.text: expected 'Lost.', got 'Found.'",
            "        reproduce: simloop run c.simloop.yaml --seed 0",
            "FAILED   !  react      completed  2            1          120ms  Found.",
            "        expect.text: expected 'Lost.', got 'Found.'",
            "        reproduce: simloop run c.simloop.yaml --seed 0 --loop react",
            "",
            "4 scenarios: 4 as expected, 2 not as expected, 2 cannot be expressed",
            "*    the scenario's own loop",
            "!    an expectation for this loop does not hold",
            "react cannot express 2 scenarios: react has no hooks",
        ]

    def test_count_and_mark_what_differs_from_their_own_loop(self, cli: Cli) -> None:
        own = f"loop: pi\n{BROKEN_SERVER}"
        files = cli.write("a", own), cli.write("b", LOOKS)
        lines = cli("compare", *files, "--loop", "reference", "--loop", "pi").stdout.splitlines()
        assert [line.split()[1:4] for line in lines[2:4]] == [
            ["~", "reference", "completed"],
            ["*", "pi", "failed"],
        ]
        assert lines[5] == "2 scenarios: 4 as expected, 1 differ from their own loop"

    def test_are_a_count_alone_if_all_go_as_their_own_loop(self, cli: Cli) -> None:
        files = cli.write("a", LOOKS), cli.write("b", LOOKS)
        assert cli("compare", *files).stdout == "2 scenarios: 8 as expected\n"

    def test_run_to_the_last_whatever_the_first_ones_do(self, cli: Cli) -> None:
        result = cli("compare", cli.write("a", "modell: ["), "no-such-name", cli.write("c", LOOKS))
        assert result.exit_code == 2
        lines = result.stdout.splitlines()
        assert [line.split()[0] for line in lines if "not run" in line] == ["ERROR", "ERROR", "3"]
        assert lines[-1] == "3 scenarios: 4 as expected, 2 not run"
        assert [line.split(":")[0] for line in result.stderr.splitlines()] == [
            "a.simloop.yaml",
            "there is no scenario `no-such-name` (see them with",
        ]

    def test_are_run_on_other_loops_though_their_own_is_not_there(self, cli: Cli) -> None:
        result = cli("compare", cli.write("a", f"loop: no.such:Loop\n{LOOKS}"), "--loop", "pi")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.splitlines()[2].split()[:3] == ["ok", "pi", "completed"]


class TestLoops:
    def test_are_all_by_default(self, cli: Cli) -> None:
        assert cli.json("compare", cli.write("a", LOOKS))["loops"] == list(DESIGNS)

    def test_are_run_once_each_in_the_order_that_is_asked_for(self, cli: Cli) -> None:
        names = ("pi", "opencode@1.18.34", "pi", "react")
        arguments = [argument for name in names for argument in ("--loop", name)]
        document = cli.json("compare", cli.write("a", LOOKS), *arguments)
        assert document["loops"] == ["pi", "opencode@1.18.34", "react"]
        assert [row["loop"] for row in document["scenarios"][0]["rows"]] == document["loops"]

    def test_may_be_ones_own(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        (cli.folder / "own_loop.py").write_text(OWN_LOOP, "utf-8")
        monkeypatch.syspath_prepend(cli.folder)
        result = cli(
            "compare", cli.write("a", HOOKED), cli.write("b", LOOKS), "--loop", "own_loop:Hookless"
        )
        assert result.stdout.startswith("2 scenarios: 1 as expected, 1 cannot be expressed")
        assert "\x1b" not in result.stdout
        assert "express 1 scenario: \\x1b[31mnone <here>" in result.stdout

    def test_that_are_not_there_are_one_error_and_nothing_is_run(self, cli: Cli) -> None:
        result = cli(
            "compare",
            cli.write("a", LOOKS),
            cli.write("b", LOOKS),
            "--loop",
            "pi",
            "--loop",
            "opncode",
        )
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(
            "loop: there is no loop `opncode` (did you mean `opencode`?"
        )


class TestExitCodes:
    @pytest.mark.parametrize("output_format", ["text", "json"])
    @pytest.mark.parametrize(
        ("texts", "code"),
        [((LOOKS, HOOKED), 0), ((LOOKS, FAILS), 1), ((FAILS, "x"), 2), ((HOOKED,), 0)],
        ids=["as-expected", "failed", "failed-and-unreadable", "cannot"],
    )
    def test_are_the_worst_of_all(
        self, cli: Cli, texts: tuple[str, ...], code: int, output_format: str
    ) -> None:
        files = [cli.write(f"s{number}", text) for number, text in enumerate(texts)]
        assert cli("compare", *files, "--format", output_format).exit_code == code

    def test_say_3_where_simloop_is_wrong_and_compare_the_others(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = Simulation.run

        def break_down(self: Simulation) -> Any:
            if self.scenario.path == "a.simloop.yaml":
                raise InternalError("broken")
            return run(self)

        monkeypatch.setattr(Simulation, "run", break_down)
        result = cli("compare", cli.write("a", LOOKS), cli.write("b", LOOKS), "--loop", "pi")
        assert result.exit_code == 3
        assert "ERROR    !  pi    InternalError  0 " in result.stdout
        assert "2 scenarios: 1 as expected, 1 not as expected\n" in result.stdout
        assert "please report it" in result.stderr


class TestJson:
    def test_has_a_row_for_each_loop(self, cli: Cli) -> None:
        document = cli.json("compare", cli.write("a", FAILS), "--loop", "pi")
        assert document == {
            "format_version": 3,
            "status": "failed",
            "loops": ["pi"],
            "scenarios": [
                {
                    "name": "a.simloop.yaml",
                    "status": "failed",
                    "path": "a.simloop.yaml",
                    "title": "It looks",
                    "loop": "reference",
                    "rows": [
                        {
                            "loop": "pi",
                            "status": "failed",
                            "outcome": "completed",
                            "outcomes": ["completed"],
                            "error": None,
                            "cannot": None,
                            "model_calls": 2,
                            "summaries": 0,
                            "tool_runs": 1,
                            "elapsed_ns": 120_000_000,
                            "text": "Found.",
                            "failures": [
                                {
                                    "key": "expect.text",
                                    "expected": "Lost.",
                                    "got": "Found.",
                                    "seq": None,
                                    "message": "expect.text: expected 'Lost.', got 'Found.'",
                                }
                            ],
                            "errors": [],
                            "reproduce": "simloop run a.simloop.yaml --seed 0 --loop pi",
                        }
                    ],
                }
            ],
        }

    def test_is_null_where_nothing_is_known(self, cli: Cli) -> None:
        document = cli.json("compare", cli.write("a", HOOKED), "gone", "--loop", "react")
        (hooked,), (gone,) = (scenario["rows"] for scenario in document["scenarios"])
        unknown = ("outcome", "model_calls", "summaries", "tool_runs", "elapsed_ns", "text")
        assert not any(row[key] is not None for row in (hooked, gone) for key in unknown)
        assert (hooked["cannot"], hooked["status"]) == ("react has no hooks", "cannot")
        assert (gone["cannot"], gone["status"], gone["error"]) == (None, "error", "ScenarioError")
        assert [error["type"] for error in gone["errors"]] == ["ScenarioError"]
        assert [document["scenarios"][1][key] for key in ("path", "title", "loop")] == [None] * 3

    def test_is_ascii_whatever_a_model_says(self, cli: Cli) -> None:
        name = cli.write("a", f"prompt: Hi\nmodel: [{{say: {HOSTILE}}}]\n")
        result = cli("compare", name, "--format", "json")
        assert result.stdout.isascii()
        text = json.loads(result.stdout)["scenarios"][0]["rows"][0]["text"]
        assert text == '\x1b[2J\0\a\r\u202ex\x9b1m\ufffe<script>&"é'


FACTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({
    "loop": st.text(min_size=1),
    "cannot": st.none() | st.text(min_size=1),
    "outcome": st.sampled_from([None, "completed"]),
    "outcomes": st.just([]),
    "error": st.none(),
    "model_calls": st.none() | st.integers(0, 10**9),
    "summaries": st.integers(0, 2),
    "tool_runs": st.none(),
    "elapsed_ns": st.none() | st.integers(0, 10**18),
    "text": st.text(),
    "reproduce": st.none() | st.text(),
})  # fmt: skip
ROWS = st.builds(
    Row,
    facts=FACTS,
    findings=st.lists(st.text(), max_size=2).map(tuple),
    exit_code=st.integers(0, 3),
)
COMPARISONS = st.builds(
    Comparison,
    name=st.text(),
    path=st.none(),
    title=st.none() | st.text(),
    loop=st.none() | st.text(),
    rows=st.lists(ROWS, min_size=2, max_size=2).map(tuple),
)


@settings(derandomize=True)
@given(st.lists(COMPARISONS, min_size=1, max_size=3))
def test_whatever_texts_there_are_each_line_of_the_text_is_one_line(
    comparisons: list[Comparison],
) -> None:
    for line in lines_of(comparisons, 120):
        shown = OUR_COLOUR.sub(r"\1", line)
        assert shown.splitlines() in ([shown], [])
        assert not set(shown) & CONTROLS


def test_prints_no_control_character(cli: Cli) -> None:
    text = f"title: {HOSTILE}\nprompt: Hi\nmodel: [{{say: {HOSTILE}}}]\nexpect: {{text: x}}\n"
    name = cli.write("a\x1b[2J\a", text)
    for arguments in ([name], [name, "no\x1b[2J\asuch"]):
        assert not set(cli("compare", *arguments).output) & CONTROLS


@pytest.mark.slow
def test_the_whole_library_fills_every_cell(cli: Cli) -> None:
    names = [one.name for one in bundled()]
    document = cli.json("compare", *names)
    assert [scenario["name"] for scenario in document["scenarios"]] == names
    for scenario in document["scenarios"]:
        assert [row["loop"] for row in scenario["rows"]] == list(DESIGNS)
        for row in scenario["rows"]:
            assert row["outcome"] or row["error"] or row["cannot"]
            assert (row["status"] == "cannot") == bool(row["cannot"])
