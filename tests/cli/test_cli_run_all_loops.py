from pathlib import Path

import pytest
from commandline import EXHAUSTED, FAILS, PASSES, Cli

HOOKED = "title: Hooked\nprompt: Hi\nhooks: [{at: before_llm_call}]\nmodel: [{say: Hello.}]\n"


class TestAllLoops:
    def test_are_a_row_each_and_what_one_cannot_express_is_told_with_the_reason(
        self, cli: Cli
    ) -> None:
        result = cli("run", cli.write("a", HOOKED), "--loop", "all")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.splitlines() == [
            "a.simloop.yaml  Hooked",
            "            loop       outcome    model calls  tool runs  time  text",
            "ok      *   reference  completed  1            0          0s    Hello.",
            "ok          pi         completed  1            0          0s    Hello.",
            "cannot      react      cannot     -            -          -     -",
            "        react has no hooks",
            "ok          opencode   completed  1            0          0s    Hello.",
            "",
            "*    the scenario's own loop",
        ]

    def test_of_several_scenarios_are_one_table_each_and_a_count(self, cli: Cli) -> None:
        files = [cli.write("a", PASSES), cli.write("b", "modell: ["), cli.write("c", FAILS)]
        result = cli("run", *files, "--loop", "all")
        assert result.exit_code == 2
        lines = result.stdout.splitlines()
        assert [line for line in lines if ".simloop.yaml" in line and "reproduce" not in line] == [
            "a.simloop.yaml  It answers",
            "ERROR   b.simloop.yaml  not run",
            "c.simloop.yaml  It answers",
        ]
        assert lines.count("        expect.text: expected 'Bye.', got 'Hello.'") == 4
        assert lines[-1] == "3 scenarios: 4 as expected, 4 not as expected, 1 not run"
        assert result.stderr.startswith("b.simloop.yaml:1:")

    def test_in_json_are_what_compare_prints(self, cli: Cli) -> None:
        files = [cli.write("a", HOOKED), cli.write("b", FAILS)]
        result = cli("run", *files, "--loop", "all", "--format", "json")
        compared = cli("compare", *files, "--format", "json")
        assert (result.exit_code, result.stdout) == (1, compared.stdout)

    @pytest.mark.parametrize("output_format", ["text", "json"])
    @pytest.mark.parametrize(
        ("texts", "code"),
        [((PASSES, HOOKED), 0), ((PASSES, FAILS), 1), ((FAILS, EXHAUSTED), 1), (("x",), 2)],
        ids=["passed", "failed", "failed-and-exhausted", "unreadable"],
    )
    def test_end_with_the_worst_exit_code(
        self, cli: Cli, texts: tuple[str, ...], code: int, output_format: str
    ) -> None:
        files = [cli.write(f"s{number}", text) for number, text in enumerate(texts)]
        assert cli("run", *files, "--loop", "all", "--format", output_format).exit_code == code

    def test_have_no_trace_file(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", PASSES), "--loop", "all", "--trace", "a.jsonl")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--trace needs a single loop, and these are 4" in result.stderr
        assert not Path("a.jsonl").exists()

    def test_are_each_run_with_the_seed_that_is_given(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", FAILS), "--loop", "all", "--seed", "7")
        assert result.stdout.count("reproduce: simloop run a.simloop.yaml --seed 7") == 4
