"""The pytest plugin: scenario files are test items, and tests can run scenarios.

A file `*.simloop.yaml` is an item with fixtures, so a conftest can treat it like a test: mark it in
`pytest_collection_modifyitems`, or override `simloop_run` to add its own tools. `-k` matches the
names of its file and of its folders, not its title: the file is read when it runs, so that a bad
file is one failed test.

Not here: running and judging (scenario). The rule to keep: every pytest on a machine that has
simloop imports this module, so it imports nothing of simloop but the name of a folder before a test
asks for it.
"""

import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

import pytest

from simloop.trace.kept import TRACES

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from simloop.bench.fixture import HookBenchmark
    from simloop.runs.fixtures import MakeFakeModel, SimloopRun, VirtualClock
    from simloop.runs.options import RunOptions
    from simloop.runs.played import Played
    from simloop.runs.prepared import PreparedRun
    from simloop.runs.result import Result
    from simloop.scenario.replies import Reply
    from simloop.scenario.schema import Scenario
    from simloop.world.fake_model import FakeModel

T = TypeVar("T")

SUFFIX = ".simloop.yaml"

_SETTINGS = ("seed", "loop", "judge_as", "loop_options")
"""The arguments of `simloop.run` that the marker takes too."""
_TAKES = ", ".join(f"{name}=" for name in _SETTINGS)
_MEASURES = ("simloop_runs", "simloop_virtual_ns", "simloop_wall_ns")
_PLAYED: "pytest.StashKey[Played]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags."""
    group = parser.getgroup("simloop")
    group.addoption(
        "--simloop-seed", type=_seed, metavar="N", help="replace the seed of every scenario"
    )
    group.addoption(
        "--simloop-trace",
        choices=["off", "on", "retain-on-failure"],
        default="off",
        help=f"write the trace of every run, or of failed tests, to {TRACES}/",
    )
    group.addoption(
        "--simloop-page",
        action="store_true",
        help="write a page for a browser beside each trace that --simloop-trace writes",
    )


def _seed(text: str) -> int:
    """Return a seed; virtual/seeds.py, which costs an import, also states the valid range."""
    if not (text.isdecimal() and int(text) < 2**63):
        raise pytest.UsageError(f"--simloop-seed is an integer from 0 to 2**63 - 1, not {text!r}")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse a flag without the one that it needs."""
    if config.getoption("--simloop-page") and config.getoption("--simloop-trace") == "off":
        raise pytest.UsageError("--simloop-page needs --simloop-trace=on or retain-on-failure")
    config.addinivalue_line("markers", f"simloop({_TAKES}): settings for the runs of this test")


# ------------------------------------------------------------------ scenario files as items


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ScenarioFile | None":
    """Collect scenario files."""
    if not file_path.name.endswith(SUFFIX):
        return None
    root = parent.config.rootpath
    place = file_path.relative_to(root) if file_path.is_relative_to(root) else file_path
    address: dict[str, Any] = {}
    if (escaped := _escape(place.as_posix())) != place.as_posix():
        address = {"name": _escape(file_path.name), "nodeid": escaped}
    file: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path, **address)
    return file


def _escape(text: str) -> str:
    """Return `text` escaped: pytest prints names, and ends the session if it cannot encode one."""
    from simloop.escape import escape  # noqa: PLC0415 - see the module docstring

    return escape(text, 10_000)  # a longer path than there can be: names stay different


class ScenarioFile(pytest.File):
    """A scenario file, with one item."""

    def collect(self) -> Iterator["ScenarioItem"]:
        """Yield the item."""
        path = self.path

        def play(simloop_run: Callable[[Path], object]) -> None:
            simloop_run(path)

        item: ScenarioItem = ScenarioItem.from_parent(
            self, name=_escape(path.name.removesuffix(SUFFIX)), callobj=play
        )
        yield item


class ScenarioItem(pytest.Function):
    """A scenario as a test. It is a Function, so that fixtures, marks and other plugins work."""

    def reportinfo(self) -> tuple[str, int, str]:
        """Return the place of the scenario, for reports."""
        return _escape(str(self.path)), 0, self.name

    # The signature of pytest's Function; Node has one parameter more.
    def repr_failure(  # type: ignore[override]
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> "str | TerminalRepr":
        """Return the message of a finding without frames, or the text of pytest for others."""
        if not _is_finding(excinfo.value) or self.config.getoption("fulltrace"):
            return super().repr_failure(excinfo)
        shown = excinfo.getrepr(style="value", chain=False)
        if shown.reprcrash is not None:  # summaries and junit files quote it
            first_line = str(excinfo.value).partition("\n")[0]
            crash = dataclasses.replace(
                shown.reprcrash, path=_escape(str(self.path)), lineno=1, message=first_line
            )
            shown.reprcrash = crash
            if hasattr(shown, "chain"):  # xdist sends it
                shown.chain = [(shown.reprtraceback, crash, None)]
        return shown


def _is_finding(error: BaseException) -> bool:
    """Return whether the error is of the author or the loop."""
    errors = sys.modules.get("simloop.errors")
    return errors is not None and isinstance(error, errors.CheckFailed | errors.ScenarioError)


# ------------------------------------------------------------------ fixtures


@pytest.fixture
def simloop_run(request: pytest.FixtureRequest) -> "SimloopRun":
    """Run a scenario and check its expectations: `simloop_run("retry.simloop.yaml")`.

    The scenario is a Scenario or a path, which is relative to the file of the test. The call takes
    the arguments of `simloop.run`, and `check=False` to skip the check. The marker `simloop(seed=,
    loop=, judge_as=, loop_options=)` overrides the settings of the scenario, `--simloop-seed` those
    of the marker, and the arguments of the call override all of them. Returns the Result, or None
    if the scenario expects an error in the place of an outcome and got it.
    """
    from simloop.check.invariants.subject import Subject  # noqa: PLC0415 - see the docstring
    from simloop.check.judged import check_invariants  # noqa: PLC0415
    from simloop.check.pairing import check_pairing  # noqa: PLC0415
    from simloop.errors import CheckFailed, SimloopError  # noqa: PLC0415
    from simloop.runs.account import account  # noqa: PLC0415
    from simloop.runs.simulation import Simulation  # noqa: PLC0415
    from simloop.scenario.loader import load_from_here  # noqa: PLC0415

    played = _played(request.node)
    settings = _settings(request.node)

    def play(
        scenario: "Scenario | str | Path", *, check: bool = True, **given: "Unpack[RunOptions]"
    ) -> "Result":
        if isinstance(scenario, str | Path):
            scenario = load_from_here(request.path.parent / scenario)
        simulation = Simulation(scenario, **{**settings, **given})
        subject = Subject.of(simulation.prepared)
        command = "" if simulation.is_reproduced_by_its_file else _command(request.node)
        played.last = lambda: simulation.account(command)
        try:
            with played.run(simulation.trace, lambda: _page(simulation.prepared)):
                try:
                    result = simulation.run()
                except SimloopError as error:
                    if check and simulation.expects(error):
                        return cast("Result", None)  # see `SimloopRun`
                    raise
            if check:
                result.check()
                expected, record = simulation.expected, result.trace.entries
                check_pairing(result.trace, expected.broken_pairs)
                check_invariants(subject, record, expected.violates or {})
        except CheckFailed as error:
            error.account = error.account or account(simulation.trace, (), simulation.exceptions)
            error.reproduce = command or error.reproduce
            raise
        return dataclasses.replace(result, reproduce=command or result.reproduce)

    return play


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> "VirtualClock":
    """Run a coroutine on the virtual clock: `virtual_clock(main())` returns its result.

    The call takes the arguments of `simloop.simulate`; the seed is that of `simloop_run`, or 0.
    """
    from simloop.virtual.simulate import running_loop, simulate  # noqa: PLC0415 - see the module docstring

    played = _played(request.node)
    settings = _settings(request.node)
    seed = {"seed": settings["seed"]} if "seed" in settings else {}

    def run_virtually(main: Coroutine[Any, Any, T], **given: Any) -> T:
        async def timed() -> T:
            loop = running_loop()
            try:
                return await main
            finally:
                played.virtual_ns += loop.now_ns

        with played.run():
            return simulate(timed(), **{**seed, **given})

    return run_virtually


@pytest.fixture
def fake_model(request: pytest.FixtureRequest) -> "Iterator[MakeFakeModel]":
    """Make a fake model of replies: `fake_model(Reply(say="Hi"))`, for `run(..., model=...)`.

    When a test has passed, an unused reply is an error.
    """
    from simloop.errors import ScriptUnused  # noqa: PLC0415 - see the module docstring
    from simloop.world.fake_model import FakeModel  # noqa: PLC0415

    made: list[FakeModel] = []
    played = _played(request.node)

    def make(*replies: "Reply", summaries: "tuple[Reply, ...]" = ()) -> "FakeModel":
        main = [reply.entry(f"model.{index}") for index, reply in enumerate(replies)]
        side = [reply.entry(f"summaries.{index}") for index, reply in enumerate(summaries)]
        made.append(FakeModel(main, side))
        return made[-1]

    yield make
    unused: list[str] = []
    for model in made:
        try:
            model.check_account()
        except ScriptUnused as error:
            unused.append(str(error))
    if unused and played.passed:
        pytest.fail("\n".join(unused), pytrace=False)


@pytest.fixture
def hook_benchmark(request: pytest.FixtureRequest) -> "HookBenchmark":
    """Measure a hook with pytest-benchmark: `hook_benchmark(guard, at="before_tool_call")`."""
    from simloop.bench.fixture import HookBenchmark  # noqa: PLC0415 - see the module docstring

    def benchmark() -> Any:
        with contextlib.suppress(pytest.FixtureLookupError):
            return request.getfixturevalue("benchmark")
        return pytest.fail("hook_benchmark needs pytest-benchmark to be installed", pytrace=False)

    return HookBenchmark(benchmark)


def _played(item: pytest.Item) -> "Played":
    from simloop.runs.played import Played  # noqa: PLC0415 - see the module docstring

    option = item.config.getoption
    kept = Played(option("--simloop-trace") != "off", option("--simloop-page"))
    return item.stash.setdefault(_PLAYED, kept)


def _command(item: pytest.Item) -> str:
    """Return the command that runs the test again, for a run that needs the code of the test."""
    seed = item.config.getoption("--simloop-seed")
    flag = "" if seed is None else f" --simloop-seed {seed}"
    return f"pytest {shlex.quote(item.nodeid)}{flag}"


def _settings(item: pytest.Item) -> dict[str, Any]:
    """Return the settings of the markers, the closest last, overridden by the command-line flag."""
    settings: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("simloop"))):
        if unknown := [*map(repr, mark.args), *(mark.kwargs.keys() - {*_SETTINGS})]:
            wrong = ", ".join(sorted(unknown))
            pytest.fail(f"the marker simloop takes {_TAKES}, not {wrong}", pytrace=False)
        settings.update(mark.kwargs)
    seed = item.config.getoption("--simloop-seed")
    return settings if seed is None else {**settings, "seed": seed}


# ------------------------------------------------------------------ traces and the summary


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten a test's error, note its numbers, and write its traces if that is wanted."""
    played = item.stash.get(_PLAYED, None)
    if played is None:
        return _sendable(item, (yield))
    if call.excinfo is not None and not item.config.getoption("fulltrace"):
        call.excinfo = _without_our_frames(call.excinfo)
    if call.when == "teardown":
        # User properties survive xdist and stand in junit files; the stash does not.
        measured = (played.runs, played.virtual_ns, played.wall_ns)
        item.user_properties.extend(zip(_MEASURES, measured, strict=True))
        del item.stash[_PLAYED]  # items live as long as the session, and traces can be long
    report = _sendable(item, (yield))
    played.passed |= report.when == "call" and report.passed
    plain = call.excinfo is not None and not _is_finding(call.excinfo.value)
    if plain and played.last is not None and report.when == "call" and report.failed:
        report.sections.append(("simloop: the last run of this test", played.last()))
    always = report.when == "call" and item.config.getoption("--simloop-trace") == "on"
    if played.kept and (report.failed or always):
        report.sections.append(("simloop traces", "\n".join(_written(item, played))))
    return report


def _sendable(item: pytest.Item, report: pytest.TestReport) -> pytest.TestReport:
    """Escape the names of the folders of a scenario file, which xdist sends with the report."""
    if isinstance(item, ScenarioItem):
        report.keywords = {_escape(word): value for word, value in report.keywords.items()}
    return report


def _without_our_frames(
    excinfo: pytest.ExceptionInfo[BaseException],
) -> pytest.ExceptionInfo[BaseException]:
    """Remove simloop's frames from the traceback of a finding, so that the user's frames remain."""
    error = excinfo.value
    if not _is_finding(error):
        return excinfo
    from simloop.world.user_errors import frames_of_the_user  # noqa: PLC0415 - see the module docstring

    return pytest.ExceptionInfo.from_exception(error.with_traceback(frames_of_the_user(error)))


def _written(item: pytest.Item, played: "Played") -> Iterator[str]:
    """Write the traces of a test and return the lines that say how to show them."""
    from simloop.trace.testtraces import write_traces  # noqa: PLC0415 - see the module docstring

    root = item.config.rootpath
    return write_traces(played.kept, root / TRACES, item.nodeid, root)


def _page(prepared: "PreparedRun") -> str:
    """Return the page of a run, as far as it has come."""
    from simloop.cursor.recorded_run import RecordedRun  # noqa: PLC0415 - see the module docstring
    from simloop.page.page import page  # noqa: PLC0415

    return page(RecordedRun.of_run(prepared, prepared.trace, {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the number of runs, their real duration and their virtual duration."""
    totals = dict.fromkeys(_MEASURES, 0)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                for name, value in report.user_properties:
                    if name in totals:
                        totals[name] += value
    runs, virtual_ns, wall_ns = totals.values()
    if runs:
        terminalreporter.write_line(
            f"simloop: {runs} {'run' if runs == 1 else 'runs'}, "
            f"{virtual_ns / 1e9:,.3f}s of virtual time in {wall_ns / 1e9:,.3f}s"
        )


# A wrapper, because syrupy's own hook asks to be first too.
@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
    """Keep syrupy from deleting snapshots that this session had no chance to request.

    With `--snapshot-update` syrupy 7.0 removes each snapshot that was not requested, also when
    tests did not get that far: a failure before the assertion, `-x`, an error in collection,
    Ctrl-C, a worker that crashed, `--collect-only`. So only a session in which every test passed
    may remove any.
    """
    option = session.config.option
    only_looked = any(
        getattr(option, name, False) for name in ("collectonly", "setuponly", "setupplan")
    )
    if (exitstatus != pytest.ExitCode.OK or only_looked) and hasattr(option, "no_cleanup"):
        option.no_cleanup = True
    return (yield)
