"""`simloop run --hook-cost` shows the real time of hooks below the verdict, and in the JSON."""

import json
import re
import sys

import pytest
from commandline import Cli
from msgspec.structs import replace

from simloop.cli.report import hook_costs
from simloop.engine.hook_meter import HookCost

HOOKED = """\
prompt: Hi
model: [{say: Hello.}]
hooks: [{at: before_llm_call, name: guard, takes: 1s}]
"""
PLAIN = "prompt: Hi\nmodel: [{say: Hello.}]\n"


def test_a_table_has_each_hook_with_its_calls(cli: Cli) -> None:
    lines = cli("run", cli.write("a", HOOKED), "--hook-cost").stdout.splitlines()
    assert lines[-3:-1] == [
        "Real time of the hooks alone; no trace has it:",
        "guard at before_llm_call",
    ]
    assert re.fullmatch(
        r"  1 call of [\d.]+ \w+ \(p95 [\d.]+ \w+\), [\d.]+ \w+ in all, \d+\.\d% of the run",
        lines[-1],
    )


def test_the_figures_can_be_read_and_a_slow_hook_is_named() -> None:
    slow = HookCost(
        point="before_llm_call", hook="guard", calls=3, median_ns=2_129_027, p95_ns=12_345_678,
        total_ns=18_400_000, share=0.5, longest_ns=123_456_789, blocked_ns=0,
    )  # fmt: skip
    asleep = replace(slow, median_ns=21, p95_ns=55, longest_ns=55, blocked_ns=2 * 10**9)
    assert list(hook_costs([slow, asleep]))[1:] == [
        "guard at before_llm_call",
        "  3 calls of 2.1 ms (p95 12 ms), 18 ms in all, 50.0% of the run",
        "  it blocks the event loop: 120 ms without a wait",
        "  it is slow: one call in twenty takes 12 ms or more",
        "guard at before_llm_call",
        "  3 calls of 21 ns (p95 55 ns), 18 ms in all, 50.0% of the run",
        "  it blocks the event loop: it slept for 2s of virtual time",
    ]


def test_a_run_without_hooks_says_so(cli: Cli) -> None:
    assert cli("run", cli.write("a", PLAIN), "--hook-cost").stdout.endswith(
        "\n\nThis run has no hooks.\n"
    )


def test_json_has_the_figures_of_each_hook(cli: Cli) -> None:
    result = cli("run", cli.write("a", HOOKED), "--hook-cost", "--format", "json")
    (cost,) = json.loads(result.stdout)["runs"][0]["hook_cost"]
    assert (cost["hook"], cost["calls"]) == ("guard", 1)
    assert (cost["blocks"], cost["is_slow"]) == (False, False)
    assert 0 <= cost["median_ns"] == cost["p95_ns"] == cost["total_ns"]


def test_several_scenarios_or_all_loops_are_refused(cli: Cli) -> None:
    several = cli("run", cli.write("a", PLAIN), cli.write("b", PLAIN), "--hook-cost")
    every = cli("run", cli.write("a", PLAIN), "--hook-cost", "--loop", "all")
    assert (several.exit_code, every.exit_code) == (2, 2)
    assert "--hook-cost needs a single scenario, and these are 2" in several.stderr
    assert "--hook-cost needs a single loop" in every.stderr


class TestPythonHooks:
    """The hooks of a user's module, which `--hooks` names, run after those of the scenario."""

    MODULE = """
from simloop import BeforeLLMCall, Hooks

def shout(given: BeforeLLMCall):
    given.system_prompt = "SHOUT"

def anywhere(given): ...

def quiet(given): ...

hooks = Hooks(before_llm_call=[quiet])
"""

    @pytest.fixture(autouse=True)
    def module(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        cli.file("run_hooks_module.py", self.MODULE)
        monkeypatch.syspath_prepend(cli.folder)
        monkeypatch.delitem(sys.modules, "run_hooks_module", raising=False)

    def test_are_called_and_measured(self, cli: Cli) -> None:
        result = cli(
            "run", cli.write("a", HOOKED), "--hooks", "run_hooks_module:shout", "--hook-cost"
        )
        assert result.exit_code == 0
        assert "SHOUT" in result.stdout
        hooks = [
            line for line in result.stdout.splitlines() if line.endswith(" at before_llm_call")
        ]
        assert hooks == ["guard at before_llm_call", "run_hooks_module:shout at before_llm_call"]

    def test_may_be_several_with_their_points(self, cli: Cli) -> None:
        names = ("--hooks", "run_hooks_module:shout", "--hooks", "run_hooks_module:hooks")
        result = cli("run", cli.write("a", PLAIN), *names, "--format", "json", "--hook-cost")
        (one,) = json.loads(result.stdout)["runs"]
        assert [cost["hook"] for cost in one["hook_cost"]] == ["run_hooks_module:shout", "quiet"]

    def test_are_in_the_command_that_reproduces_a_failure(self, cli: Cli) -> None:
        failing = cli.write("a", PLAIN + "expect: {text: Bye.}\n")
        result = cli("run", failing, "--hooks", "run_hooks_module:shout")
        assert result.exit_code == 1
        assert f"reproduce: simloop run {failing} --seed 0 --hooks run_hooks_module:shout\n" in (
            result.stdout
        )

    def test_need_to_say_where_they_run(self, cli: Cli) -> None:
        result = cli("run", cli.write("a", PLAIN), "--hooks", "run_hooks_module:anywhere")
        assert (result.exit_code, result.stdout) == (2, "")
        said = (
            "--hooks: nothing says at which point `run_hooks_module:anywhere` is to run (annotate"
        )
        assert said in result.stderr

    def test_need_a_loop_that_has_hooks(self, cli: Cli) -> None:
        every = cli(
            "run", cli.write("a", PLAIN), "--hooks", "run_hooks_module:shout", "--loop", "all"
        )
        assert every.exit_code == 2
        assert "--hooks needs a single loop" in every.stderr
