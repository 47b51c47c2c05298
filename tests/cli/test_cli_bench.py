"""`simloop bench hooks`: what it refuses before it measures, what it prints, and its exit codes."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from simloop.bench.hook_bench import CountRow, Harness, HookRow, PolicyRow, UnfitRow
from simloop.bench.intervals import Interval
from simloop.bench.report import HookReport, read_report
from simloop.cli import bench, main
from simloop.errors import ScenarioError

MODULE = """
def plain(given): ...
def calls_only(given): given.call
def fails(given): 1 // 0
from simloop import Hooks
two = Hooks(before_tool_call=[plain, calls_only])
"""
HOOK = "bench_hooks_module:plain"
SLOW = """
from pathlib import Path
from simloop import BeforeToolCall
def hook(given: BeforeToolCall):
    Path("measuring").touch()
"""
COMPUTING = """
from simloop import BeforeToolCall
def computes(given: BeforeToolCall):
    for number in range({}):
        str(number)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("bench_hooks_module.py").write_text(MODULE)
    return tmp_path


def row(median_ns: float, hook: str = HOOK, **known: Any) -> HookRow:
    """Return a row whose intervals are 10 % to both sides."""
    interval = Interval(0.9 * median_ns, median_ns, 1.1 * median_ns)
    return HookRow(
        hook=hook, point="before_tool_call", calls=20, min_ns=1, median_ns=2, p95_ns=3,
        cost=interval, engine_ns=1, units=interval.over(100), share=0.5, virtual_ns=0, **known,
    )  # fmt: skip


def report(*rows: HookRow) -> HookReport:
    unfit = [UnfitRow("m:h\x1b", "after_llm_call", "ValueError: \x1b[2J")]
    interval = Interval(1, 2, 3)
    return HookReport(
        round_ns=1e5, harness=Harness(41, 98, 3.2), hooks=list(rows), unfit=unfit,
        shapes=[row(1_000, "no-op")],
        counts=[CountRow("engine", count, interval) for count in (0, 1, 4, 16)],
        policies=[PolicyRow("no-op", "isolate", interval, 10**9)],
    )  # fmt: skip


def run(*arguments: str | Path) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["bench", "hooks", *map(str, arguments)])


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[HookRow]:
    """Stand in for a measurement, which takes seconds, by these rows."""
    rows = [row(1_000)]
    monkeypatch.setattr(bench, "_measured", lambda *_: report(*rows))
    return rows


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        pytest.fail("this is refused before anything is measured")

    monkeypatch.setattr(bench, "_measured", fail)


def written(*rows: HookRow, name: str = "earlier.json") -> str:
    Path(name).write_bytes(msgspec.json.encode(report(*rows)))
    return name


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max", "50us"], "--against, --max and --fail-on judge given hooks: name one"),
        (["--against", HOOK], "--against, --max and --fail-on judge given hooks: name one"),
        ([HOOK, "--fail-on", "20%"], "--fail-on needs --against"),
        ([HOOK, "--max", "50"], "--max"),
        ([HOOK, "--max", "x"], "--max"),
        ([HOOK, "--against", HOOK, "--fail-on", "20"], "a percentage is a number and a sign"),
        ([HOOK, "--against", HOOK, "--fail-on", "-5%"], "a percentage is a number and a sign"),
        (["no_module:x"], "hook: the hook `no_module:x` cannot be loaded: ModuleNotFoundError"),
        (["bench_hooks_module:x"], "has no attribute 'x'"),
        (["bench_hooks_module:fails"], "in call 1: ZeroDivisionError"),
        ([HOOK, "--against", "missing.json"], "missing.json: the report cannot be read"),
        ([HOOK, "--against", "bench_hooks_module.py"], "this is no report of hooks"),
        ([HOOK, "--against", "bench_hooks_module:fails"], "in call 1: ZeroDivisionError"),
        ([HOOK, "--plot", "no/plot.svg"], "no/plot.svg: --plot: the plot cannot be written"),
    ],
)
def test_bad_use_is_refused_before_anything_is_measured(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.usefixtures("unmeasured")
def test_a_report_that_does_not_have_the_hook_is_refused() -> None:
    result = run(HOOK, "--against", written(row(1_000, "other:hook")))
    assert result.exit_code == 2
    assert f"the report earlier.json has nothing to compare {HOOK} with" in result.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.update(version=1), "this is simloop-hook-bench 1, and not"),
        (lambda raw: raw.update(format="x"), "this is x 2, and not"),
        (lambda raw: raw["hooks"][0]["units"].update(low=0), "no bounds of a cost above 0"),
        (lambda raw: raw.pop("hooks"), "this is no report of hooks"),
    ],
)
def test_a_foreign_or_broken_report_is_refused_with_its_place(change: Any, message: str) -> None:
    path = Path(written(row(1_000)))
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(ScenarioError, match=message) as caught:
        read_report(path)
    assert caught.value.path == str(path)
    assert caught.value.hint


class TestTheExitCode:
    @pytest.mark.usefixtures("measured")
    def test_is_0_where_no_limit_is_given_or_passed(self) -> None:
        assert run(HOOK).exit_code == 0
        assert run(HOOK, "--max", "950ns").exit_code == 0  # between the low bound and the median

    @pytest.mark.usefixtures("measured")
    def test_is_1_where_the_whole_interval_is_above_the_limit(self) -> None:
        result = run(HOOK, "--max", "800ns")
        assert result.exit_code == 1
        place = f"{HOOK} at before_tool_call"
        assert (
            result.stderr == f"FAILED  {place} costs at least 900 ns per call, and --max is 800ns\n"
        )

    def test_is_1_where_the_cost_has_grown_by_more(self, measured: list[HookRow]) -> None:
        earlier = written(row(1_000))
        limit = ("--against", earlier, "--fail-on", "20%")
        assert run(HOOK, *limit).exit_code == 0
        measured[:] = [row(1_700)]
        result = run(HOOK, *limit)
        assert result.exit_code == 1
        assert "costs at least 29% more, and --fail-on is 20%" in result.stderr
        assert "  against earlier.json: slower\n    +70.0%, between +29.1% and +117.8%\n" in (
            result.stdout
        )


class TestTheOutput:
    @pytest.mark.usefixtures("measured")
    def test_as_json_reads_back(self) -> None:
        result = run(HOOK, "--format", "json")
        Path("report.json").write_text(result.stdout)
        assert read_report(Path("report.json")) == report(row(1_000))
        compared = run(HOOK, "--against", "report.json").stdout
        assert compared.count("  against report.json: no difference is seen\n    +0.0%, ") == 1

    @pytest.mark.usefixtures("measured")
    def test_ends_with_the_given_hooks_and_their_cost(self) -> None:
        assert run(HOOK).stdout.partition("Your hooks:\n")[2].splitlines()[:-1] == [
            f"{HOOK} at before_tool_call, 20 calls",
            "  the hook alone         2 ns  min 1, p95 3",
            "  simloop around it      1 ns",
            "  both, in a run     1,000 ns  between 900 and 1,100",
            "  of a round            50.0%",
            "  virtual time             0s",
        ]

    def test_has_the_difference_to_another_hook_in_nanoseconds_and_per_cent(
        self, measured: list[HookRow]
    ) -> None:
        difference, growth = Interval(-30, -20, -10), Interval(-0.03, -0.02, -0.01)
        measured[:] = [row(980, against=difference, growth=growth)]
        compared = run(HOOK, "--against", "bench_hooks_module:calls_only").stdout
        assert "  against bench_hooks_module:calls_only: faster\n" in compared
        assert "    -20 ns, between -30 and -10\n    -2.0%, between -3.0% and -1.0%\n" in compared

    @pytest.mark.usefixtures("measured")
    def test_has_what_the_benchmark_itself_takes(self) -> None:
        (line, *rest) = run(HOOK).stdout.partition("harness: ")[2].splitlines()
        assert line == "the timing of a call takes 41 ns, of each step of an awaitable"
        assert rest[0] == "  98 ns, and the loop of a batch 3 ns per call. They are subtracted."

    def test_fits_in_80_columns_with_the_costs_of_a_slow_machine(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slow = Interval(89_000, 90_000, 90_900)
        given = report(row(90_000, "guard", against=slow, growth=slow))
        given.shapes = [row(9_999, "replaces, async")]
        given.counts = [
            CountRow("isolated, not recorded", count, Interval(9_800, 9_900, 9_999))
            for count in (0, 1, 4, 16)
        ]
        given.policies = [PolicyRow("4 x waits 1s", "fail-run, no timeout", slow, 4 * 10**9)]
        monkeypatch.setattr(bench, "_measured", lambda *_: given)
        lines = run(HOOK, "--against", HOOK).stdout.splitlines()
        assert [line for line in lines if len(line) > 80] == []

    @pytest.mark.usefixtures("measured")
    def test_names_where_a_hook_is_not_measured_and_escapes_it(self) -> None:
        lines = run(HOOK).stdout.splitlines()
        (line,) = [line for line in lines if "is not measured" in line]
        assert line.startswith("m:h")
        assert "at after_llm_call, where it fails: ValueError: " in line
        assert "\x1b" not in line


@pytest.mark.slow
def test_a_whole_benchmark_is_measured() -> None:
    first = run("bench_hooks_module:calls_only", "--format", "json")
    assert first.exit_code == 0
    Path("report.json").write_text(first.stdout)
    found = read_report(Path("report.json"))
    assert [row.point for row in found.hooks] == ["before_tool_call", "after_tool_call"]
    assert [row.point for row in found.unfit] == ["before_llm_call", "after_llm_call"]


def test_the_group_alone_shows_its_help() -> None:
    result = CliRunner().invoke(main, ["bench"])
    assert result.exit_code == 2
    assert "hooks  Measure hooks" in result.output


def test_two_hooks_at_one_point_are_nothing_to_compare_with() -> None:
    result = run(HOOK, "--against", "bench_hooks_module:two")
    assert result.exit_code == 2
    assert "`bench_hooks_module:two` has several hooks at before_tool_call" in result.stderr


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(
    unmeasured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(HOOK, "--plot", "hooks.svg")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "plots need the extra `plots`" in result.stderr


@pytest.mark.slow
def test_an_earlier_report_of_an_equal_hook_shows_no_growth_and_of_a_slower_one_does() -> None:
    """Its name must be equal, so its module is written and imported again."""
    grown: list[Interval | None] = []
    for rounds in (30, 30, 300):  # far apart: a machine may be busy with other work
        Path("bench_computing.py").write_text(COMPUTING.format(rounds))
        sys.modules.pop("bench_computing", None)
        importlib.invalidate_caches()
        earlier = ("--against", "earlier.json") if grown else ()
        result = run("bench_computing:computes", *earlier, "--format", "json")
        assert result.exit_code == 0
        measured = msgspec.json.decode(result.stdout, type=HookReport)
        grown.append(measured.hooks[0].growth)
        if len(grown) == 1:
            Path("earlier.json").write_text(result.stdout)
    assert grown[0] is None
    assert grown[1] is not None
    assert grown[1].has_zero
    assert grown[2] is not None
    assert grown[2].low > 1


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        command = [sys.executable, "-m", "simloop", "bench", "hooks", HOOK]
        ended = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == 141
    assert b"Traceback" not in ended.stderr


@pytest.mark.slow
def test_ctrl_c_while_it_measures_is_130() -> None:
    Path("slow_hook.py").write_text(SLOW)
    command = [sys.executable, "-m", "simloop", "bench", "hooks", "slow_hook:hook"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        while not Path("measuring").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        shown, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert shown == ""
    assert "interrupted" in complaint
    assert "Traceback" not in complaint
