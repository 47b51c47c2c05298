import json
from typing import Any

import pytest
from commandline import Cli
from comparing import BROKEN_SERVER, FAILS, HOOKED, LOOKS

from simloop.errors import InternalError
from simloop.runs.run import Simulation
from simloop.scenario.designs import DESIGNS

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
        result = cli("compare", cli.write("a", "modell: []"))
        assert (result.exit_code, result.stdout) == (2, "ERROR   a.simloop.yaml  not run\n")
        assert result.stderr.startswith("a.simloop.yaml:1:1: modell: unknown key")
        assert result.stderr.count("\n") == 1


class TestAScenarioWhoseOwnLoopIsNotAmongThem:
    """A version, or a loop of one's own: nothing is marked, and it is told why."""

    def test_is_told_below_its_table(self, cli: Cli) -> None:
        result = cli("compare", "loops/opencode-compacts-for-ever")
        assert result.exit_code == 0
        told = "opencode@1.18.34, the own loop of the scenario, was not run"
        assert result.stdout.splitlines()[-1] == told

    def test_is_one_line_below_a_matrix_for_several_such_loops(self, cli: Cli) -> None:
        cli.write("a", f"loop: mine:Loop\n{LOOKS}")
        cli.write("b", f"loop: pi@0.87.1\n{LOOKS}")
        cli.write("c", f"loop: pi@0.87.1\n{LOOKS}")
        told = "the own loops of 3 scenarios were not run: mine:Loop (1), pi@0.87.1 (2)"
        assert cli("compare", ".").stdout.splitlines()[-1] == told


def test_a_design_and_its_version_are_a_table_of_80_columns_that_marks_what_differs(
    cli: Cli,
) -> None:
    result = cli(
        "compare", *DOCUMENTED_OTHERWISE, "--loop", "reference", "--loop", "reference@documented"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["scenario", "reference", "reference@documented"],
        ["clock/ahead", "*", "completed", "3", "~", "completed", "3"],
        ["finish-reasons/stop-with-tool-calls", "*", "completed", "2", "~", "completed", "1"],
        ["retry/rate-limit", "*", "completed", "2", "completed", "2"],
    ]
    assert lines[5] == "3 scenarios: 6 as expected, 2 differ from their own loop"
    assert max(map(len, lines)) <= 80


class TestSeveralScenarios:
    def test_are_a_matrix_then_what_is_wrong_a_count_a_legend_and_the_reasons(
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
            "scenario     reference       react",
            "a         *  completed 2     completed 2",
            "bb        *  completed 1     cannot",
            "c         *! completed 2   ! completed 2",
            "d         *  completed 1     cannot",
            "",
            "FAILED  c.simloop.yaml on reference",
            "        expect.text: expected 'Lost.', got 'Found.'",
            "        reproduce: simloop run c.simloop.yaml --seed 0",
            "FAILED  c.simloop.yaml on react",
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
        result = cli(
            "compare",
            cli.write("a", own),
            cli.write("b", LOOKS),
            "--loop",
            "reference",
            "--loop",
            "pi",
        )
        lines = result.stdout.splitlines()
        assert lines[1] == "a         ~  completed 2  *  failed 1"
        assert lines[4] == "2 scenarios: 4 as expected, 1 differ from their own loop"

    def test_run_to_the_last_whatever_the_first_ones_do(self, cli: Cli) -> None:
        result = cli("compare", cli.write("a", "modell: ["), "no-such-name", cli.write("c", LOOKS))
        assert result.exit_code == 2
        lines = result.stdout.splitlines()
        assert lines[1].split() == ["a", *["ScenarioError"] * 4]
        assert lines[3].split().count("completed") == 4
        assert lines[5] == "3 scenarios: 4 as expected, 2 not run"
        assert [line.split(":")[0] for line in result.stderr.splitlines()] == [
            "a.simloop.yaml",
            "there is no scenario `no-such-name` (see them with",
        ]

    def test_keep_to_the_width_by_cutting_long_names_in_front(self, cli: Cli) -> None:
        files = [cli.write(f"{'deep/' * 20}{end}", LOOKS) for end in ("a", "b/c")]
        lines = cli("compare", *files, cli.write("d", LOOKS)).stdout.splitlines()
        assert max(map(len, lines)) <= 120
        assert [line.split()[0][-8:] for line in lines[1:3]] == ["p/deep/a", "deep/b/c"]
        assert lines[1].startswith("…")

    def test_may_be_named_by_absolute_paths_beside_others(self, cli: Cli) -> None:
        names = (cli.write("a", LOOKS), str(cli.folder / cli.write("b", LOOKS)), "retry/auth")
        result = cli("compare", *names)
        assert (result.exit_code, result.stderr) == (0, "")
        told = [line.split()[0] for line in result.stdout.splitlines()[1:4]]
        assert (told[0], told[1][-2:], told[2]) == ("a", "/b", "retry/auth")

    def test_are_run_on_other_loops_though_their_own_is_not_there(self, cli: Cli) -> None:
        result = cli("compare", cli.write("a", f"loop: no.such:Loop\n{LOOKS}"), "--loop", "pi")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.splitlines()[2].split()[:3] == ["ok", "pi", "completed"]


class TestLoops:
    def test_are_all_by_default_and_when_all_are_asked_for(self, cli: Cli) -> None:
        name = cli.write("a", LOOKS)
        assert cli.json("compare", name)["loops"] == list(DESIGNS)
        assert cli.json("compare", name, "--loop", "all")["loops"] == list(DESIGNS)

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
        assert "   own_loop:Hookless" in result.stdout.splitlines()[0]
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
    @pytest.mark.parametrize("output_format", ["text", "json", "html"])
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
        assert " ! InternalError 0\n" in result.stdout
        assert "   completed 2\n" in result.stdout
        assert "please report it" in result.stderr


@pytest.mark.slow
def test_the_whole_library_fills_every_cell_and_gives_the_same_bytes_twice(cli: Cli) -> None:
    listed = json.loads(cli("list", "--format", "json").stdout)
    names = [one["name"] for one in listed]
    first = cli("compare", *names, "--format", "json").stdout
    document = json.loads(first)
    assert [scenario["name"] for scenario in document["scenarios"]] == names
    for scenario in document["scenarios"]:
        assert [row["loop"] for row in scenario["rows"]] == list(DESIGNS)
        for row in scenario["rows"]:
            assert row["outcome"] or row["error"] or row["cannot"]
            assert (row["status"] == "cannot") == bool(row["cannot"])
    assert cli("compare", *names, "--format", "json").stdout == first
