"""`simloop bench hooks`: what it refuses before it measures, what it prints, and its exit codes.

The clock of each measurement is a watch that the hooks move, so every figure is exact.
"""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import Result
from clocks import Watch
from commandline import Cli

from simloop import AfterLLMCall, BeforeToolCall, Hooks
from simloop.bench.hook_bench import HookBench
from simloop.bench.report import read_report

US = 1_000


class Bench(HookBench):
    """A bench that need not measure a round: on a watch, it takes as long as its tool."""

    def round_ns(self) -> float:
        """Return the time of the tool."""
        return 30 * US


class Module:
    """The user's module `m`, with hooks that take as long as the test says, and its bench."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.watch = Watch()
        self.module: Any = ModuleType("m")
        self.bench: HookBench = Bench(clock=self.watch, unit=lambda: self.watch.takes(100 * US))

    def add(self, name: str, nanoseconds: int, given: type = BeforeToolCall) -> None:
        """Add a hook, in the place of one of this name."""

        def hook(given: Any) -> None:
            self.watch.takes(nanoseconds)

        hook.__annotations__["given"] = given
        setattr(self.module, name, hook)

    def run(self, *arguments: str | Path) -> Result:
        """Measure on the watch."""
        return self.cli("bench", "hooks", *arguments, obj=self.bench)

    def report(self, *names: str) -> str:
        """Write a report of these hooks, and return its name."""
        Path("earlier.json").write_text(self.run(*names, "--format", "json").stdout)
        return "earlier.json"


@pytest.fixture
def m(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Module:
    module = Module(cli)
    monkeypatch.setitem(sys.modules, "m", module.module)
    module.add("guard", 300 * US)
    module.add("other", 250 * US)
    module.add("reply", 40 * US, AfterLLMCall)
    module.module.fails = lambda _: 1 // 0
    module.module.two = Hooks(before_tool_call=[str, repr])
    return module


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a hook, --from or --command"),
        (["m:guard", "--fail-on", "20%"], "--fail-on needs --against"),
        (["m:guard", "--max", "50"], "'--max': a duration is a number and a unit"),
        (["m:guard", "--max", "x"], "'--max': a duration is a number and a unit"),
        (["m:guard", "--against", "m:guard", "--fail-on", "20"], "a number and a sign"),
        (["m:guard", "--against", "m:guard", "--fail-on", "-5%"], "a number and a sign"),
        (["no_module:x"], "hook: the hook `no_module:x` cannot be loaded: ModuleNotFoundError"),
        (["m:x"], "has no attribute 'x'"),
        (["m:fails"], "m:fails fails at before_llm_call: ZeroDivisionError"),
        (["m:guard", "--against", "missing.json"], "missing.json: cannot be read"),
        (["m:guard", "--against", __file__], "this is no simloop-hook-bench 3"),
        (["m:guard", "--against", "m:fails"], "ZeroDivisionError"),
        (["m:guard", "--against", "m:two"], "`m:two` has several hooks at before_tool_call"),
    ],
)
def test_bad_use_is_refused_before_anything_is_measured(
    arguments: list[str], message: str, m: Module
) -> None:
    m.bench = HookBench(clock=lambda: pytest.fail("this measures"))
    result = m.run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


class TestNothingToCompare:
    def test_is_a_hook_of_another_point(self, m: Module) -> None:
        result = m.run("m:guard", "--against", "m:reply")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--against: nothing to compare: m:reply has no hook at these" in result.stderr

    def test_is_a_report_of_other_hooks(self, m: Module) -> None:
        result = m.run("m:guard", "--against", m.report("m:other"))
        assert result.exit_code == 2
        assert "nothing to compare: earlier.json has no hook at these" in result.stderr

    def test_at_some_of_the_points_is_said_below_these(self, m: Module) -> None:
        m.module.anywhere = lambda _: m.watch.takes(300 * US)
        result = m.run("m:anywhere", "--against", "m:guard")
        assert result.exit_code == 0
        point = "  against m:guard: nothing, because that is not at after_tool_call\n"
        assert result.stdout.count("against m:guard: nothing") == 3
        assert point in result.stdout


class TestTheExitCode:
    def test_is_0_where_no_limit_is_given_or_passed(self, m: Module) -> None:
        assert m.run("m:guard").exit_code == 0
        assert m.run("m:guard", "--max", "295us").exit_code == 0  # of 294 to 306

    def test_is_1_where_the_whole_interval_is_above_the_limit(self, m: Module) -> None:
        result = m.run("m:guard", "--max", "293us")
        assert result.exit_code == 1
        place = "m:guard at before_tool_call"
        assert result.stderr == (
            f"FAILED  {place} costs at least 294 us per call, and --max is 293us\n"
        )

    def test_is_1_where_the_cost_has_grown_by_more(self, m: Module) -> None:
        limit = ("--against", m.report("m:guard"), "--fail-on", "20%")
        assert m.run("m:guard", *limit).exit_code == 0
        m.add("guard", 600 * US)
        result = m.run("m:guard", *limit)
        assert result.exit_code == 1
        assert "costs at least 82% more, and --fail-on is 20%" in result.stderr


class TestTheOutput:
    def test_begins_with_the_given_hooks_and_has_no_others(self, m: Module) -> None:
        first, *lines = m.run("m:guard", "m:reply").stdout.splitlines()
        assert first.startswith("Real time per call, on Python 3.")
        assert lines[:14] == [
            "",
            "m:guard at before_tool_call",
            "  the hook alone     300 us",
            "  simloop around it    0 ns",
            "  both, in a run     300 us  between 294 us and 306 us",
            "  of a round          90.9%",
            "  virtual time           0s",
            "",
            "m:reply at after_llm_call",
            "  the hook alone     40 us",
            "  simloop around it   0 ns",
            "  both, in a run     40 us  between 39.2 us and 40.8 us",
            "  of a round         57.1%",
            "  virtual time          0s",
        ]
        assert len(lines) == 14 + 5

    def test_says_times_and_growths_so_that_they_can_be_read(self, m: Module) -> None:
        m.add("slow", 2_129_027)
        m.add("fast", 8_200)
        assert "  both, in a run     2.1 ms  between 2.09 ms and 2.17 ms\n" in (
            m.run("m:slow").stdout
        )
        assert m.run("m:slow", "--against", "m:fast").stdout.splitlines()[8:11] == [
            "  against m:fast: slower",
            "    2.1 ms, between 2.08 ms and 2.16 ms",
            "    260 times, between 254 times and 265 times",
        ]

    def test_has_the_difference_to_another_hook(self, m: Module) -> None:
        lines = m.run("m:other", "--against", "m:guard").stdout.splitlines()
        assert lines[8:11] == [
            "  against m:guard: faster",
            "    -50 us, between -55.0 us and -45.0 us",
            "    -16.7%, between -18.3% and -15.0%",
        ]

    def test_shows_no_growth_of_an_equal_hook_since_a_report(self, m: Module) -> None:
        earlier = m.report("m:guard")
        assert m.run("m:guard", "--against", earlier).stdout.splitlines()[8:10] == [
            "  against earlier.json: no difference is seen",
            "    +0.0%, between -13.9% and +14.1%",
        ]
        m.add("guard", 3_000 * US)
        assert m.run("m:guard", "--against", earlier).stdout.splitlines()[8:10] == [
            "  against earlier.json: slower",
            "    10 times, between 9.51 times and 10.5 times",
        ]

    def test_as_json_reads_back(self, m: Module) -> None:
        found = read_report(Path(m.report("m:guard")))
        assert [(row.hook, row.cost.median) for row in found.hooks] == [("m:guard", 300 * US)]
        assert found.round_ns == 30 * US

    def test_has_the_time_of_a_round_with_the_tool(self, m: Module) -> None:
        def look(path: str) -> str:
            m.watch.takes(70 * US)
            return path

        m.bench = HookBench(clock=m.watch, tool=look, unit=lambda: m.watch.takes(100 * US))
        assert read_report(Path(m.report("m:guard"))).round_ns == 70 * US

    def test_fits_in_80_columns_with_the_costs_of_a_slow_machine(self, m: Module) -> None:
        m.add("guard", 9_999_999_999)
        lines = m.run("m:guard", "--against", "m:other").stdout.splitlines()
        assert [line for line in lines if len(line) > 80] == []

    def test_names_where_a_hook_is_not_measured_and_escapes_it(self, m: Module) -> None:
        def picky(given: Any) -> None:
            if not hasattr(given, "call"):
                raise ValueError("\x1b[2J")
            m.watch.takes(300 * US)

        m.module.picky = picky
        lines = m.run("m:picky").stderr.splitlines()
        assert [line[: line.index("ValueError")] for line in lines] == [
            f"not measured: the hook m:picky fails at {point}: "
            for point in ("before_llm_call", "after_llm_call")
        ]
        assert not any("\x1b" in line for line in lines)


def test_the_group_alone_shows_its_help(cli: Cli) -> None:
    result = cli("bench")
    assert result.exit_code == 2
    assert "hooks  Measure hooks" in result.output


def test_ctrl_c_while_it_measures_is_130(m: Module) -> None:
    def pressed(_: object) -> None:
        if m.watch.now_ns:  # it is measured, and no longer tried
            signal.raise_signal(signal.SIGINT)

    hook: Callable[[object], None] = pressed
    m.module.pressed = Hooks(before_tool_call=[hook])
    result = m.run("m:pressed")
    assert (result.exit_code, result.stdout) == (130, "")
    assert "interrupted" in result.stderr
