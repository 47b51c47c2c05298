"""The pytest plugin: scenario files are test items, and tests can run scenarios.

Every pytest on a machine that has simloop imports this module, so it imports nothing of simloop but
the name of a folder before a test asks for it.
"""

import contextlib
import os
from collections.abc import Coroutine, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

import pytest

from simloop.pytest_plugin import async_tests, reports
from simloop.pytest_plugin.reports import begin_with, is_finding, last_of, message_alone
from simloop.pytest_plugin.settings import PLAYED, TAKES, USERS, command, played_by, settings_of
from simloop.trace import TRACES

if TYPE_CHECKING:
    from simloop.bench.hook_bench import HookBenchmark
    from simloop.runs.fixtures import MakeFakeModel, Provider, Sim, SimloopRun, VirtualClock
    from simloop.runs.options import RunOptions
    from simloop.runs.result import Result
    from simloop.runs.run import Simulation
    from simloop.scenario.replies import Reply
    from simloop.scenario.schema import Scenario
    from simloop.world.fake_model import FakeModel

T = TypeVar("T")

_MEASURES = ("simloop_runs", "simloop_virtual_ns", "simloop_wall_ns")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags."""
    group = parser.getgroup("simloop")
    group.addoption("--simloop-seed", type=_seed, metavar="N", help="replace each scenario's seed")
    group.addoption(
        "--simloop-trace", choices=["off", "on", "retain-on-failure"], default="off",
        help=f"write the trace of every run, or of failed tests, to {TRACES}/",
    )  # fmt: skip
    group.addoption(
        "--simloop-unscripted",
        choices=["refuse", "fail"],
        help="replace what each scenario says of hosts and programs that it does not have: their "
        "refusal is an entry of the trace (refuse), or fails the run too (fail)",
    )
    parser.addini("simloop_auto", "run every async test on the virtual clock", type="bool")
    parser.addini(
        "simloop_invariants",
        "modules of invariants, or module:name, that each run is judged by too",
        type="args",
    )


def _seed(text: str) -> int:
    if not (text.isdecimal() and int(text) < 2**63):
        raise pytest.UsageError(f"--simloop-seed is an integer from 0 to 2**63 - 1, not {text!r}")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and add the invariants of the project."""
    config.addinivalue_line("markers", f"simloop({TAKES}): settings for the runs of this test")
    if names := config.getini("simloop_invariants"):
        from simloop.check.invariants.judge import add_invariants  # noqa: PLC0415 - most need none

        config.add_cleanup(add_invariants(*names))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "reports.ScenarioFile | None":
    """Collect scenario files."""
    is_ours = file_path.name.endswith(reports.SUFFIX)
    return reports.ScenarioFile.from_parent(parent, path=file_path) if is_ours else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Repeat the import of a module that needs a provider's key, with a dummy."""
    report = yield
    if report.failed and isinstance(collector, pytest.Module) and _needs_key(collector, report):
        from simloop.wire.api_keys import dummy_keys  # noqa: PLC0415 - see the module docstring

        with dummy_keys():
            return collector.ihook.pytest_make_collect_report(collector=collector)  # type: ignore[no-any-return]
    return report


def _needs_key(collector: pytest.Module, report: pytest.CollectReport) -> bool:
    from simloop.wire.api_keys import KEYS  # noqa: PLC0415 - see the module docstring

    raised = "\n".join(line for line in str(report.longrepr).splitlines() if line.startswith("E "))
    if not any(name in raised and name not in os.environ for name in KEYS):
        return False
    source = collector.path.read_text(encoding="utf-8", errors="replace")
    return "simloop" in source or bool(collector.config.getini("simloop_auto"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Set dummy keys for a test that is simulated, from its first fixture to its last.

    A database that a fixture opens is one that its agent can use.
    """
    if not _is_simulated(item):
        return (yield)
    from simloop.virtual.border.seal import connected_for_runs  # noqa: PLC0415 - see the docstring of the module
    from simloop.wire.api_keys import dummy_keys  # noqa: PLC0415

    with dummy_keys(), connected_for_runs():
        return (yield)


def _is_simulated(item: pytest.Item) -> bool:
    """Return whether a test gets dummy keys: others may be skipped where there is no key."""
    if isinstance(item, reports.ScenarioItem) or async_tests.is_ours(item):
        return True
    if not isinstance(item, pytest.Function):
        return False
    return bool(item.get_closest_marker("simloop")) or not USERS.isdisjoint(item.fixturenames)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run an async test that is marked on the virtual clock."""
    is_simulated = async_tests.is_ours(pyfuncitem)
    with async_tests.simulated(pyfuncitem) if is_simulated else contextlib.nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, object, object]:
    """Run the async fixtures of such a test in its simulation."""
    item = request._pyfuncitem  # noqa: SLF001 - a fixture of a wider scope has no other way to it
    is_ours = async_tests.is_ours(item)
    with async_tests.deferred(fixturedef, request) if is_ours else contextlib.nullcontext():
        return (yield)


@pytest.fixture
def provider(request: pytest.FixtureRequest) -> "Provider":
    """Give the models of an async test their script, and show what was asked of them.

        provider.script(Reply(http=Http(status=429)), Reply(say="Hello."))
        assert await my_agent("Hello?") == "Hello."
        provider.expect(requests=2, elapsed={"max": "15s"})

    See `Provider`. The test is async and marked with `simloop`. An unused reply is an error.
    """
    from simloop.runs.fixtures import Provider  # noqa: PLC0415 - see the module docstring

    return _of_async_test(request, async_tests.PROVIDER, Provider())


@pytest.fixture
def sim(request: pytest.FixtureRequest) -> "Sim":
    """Show an async test its clock, its seed and its trace, and record its tools: see `Sim`."""
    from simloop.runs.fixtures import Sim  # noqa: PLC0415 - see the module docstring

    return _of_async_test(request, async_tests.SIM, Sim())


def _of_async_test(request: pytest.FixtureRequest, key: "pytest.StashKey[T]", value: T) -> T:
    item: pytest.Item = request.node
    if not async_tests.is_ours(item):
        needs = "the marker `simloop`, or for an `async def` test `simloop_auto = true`"
        pytest.fail(f"the fixture `{request.fixturename}` needs {needs}", pytrace=False)
    return item.stash.setdefault(key, value)


@pytest.fixture
def simloop_run(request: pytest.FixtureRequest) -> "SimloopRun":
    """Run a scenario and check its expectations: `simloop_run("retry.simloop.yaml")`.

    The scenario is a Scenario or a path, which is relative to the file of the test. The call takes
    the arguments of `simloop.run`, and `check=False` to skip the check. The marker `simloop(seed=,
    loop=, judge_as=, loop_options=)` overrides the settings of the scenario, `--simloop-seed` those
    of the marker, and the arguments of the call override all of them. Returns the Result, or None
    if the scenario expects an error in the place of an outcome and got it.
    """
    from msgspec.structs import replace  # noqa: PLC0415 - see the docstring

    from simloop.check.trial import Rules, trial  # noqa: PLC0415
    from simloop.errors import CheckFailed  # noqa: PLC0415
    from simloop.runs.plan import Plan  # noqa: PLC0415
    from simloop.runs.result import account  # noqa: PLC0415
    from simloop.scenario.loader import load_from_here  # noqa: PLC0415

    played = played_by(request.node)
    settings = settings_of(request.node)

    def play(
        scenario: "Scenario | str | Path", *, check: bool = True, **given: "Unpack[RunOptions]"
    ) -> "Result":
        if isinstance(scenario, str | Path):
            scenario = load_from_here(request.path.parent / scenario)
        plan = Plan(scenario, cast("RunOptions", {**settings, **given}))
        again = "" if plan.has_file and plan.source.path else command(request.node)
        with contextlib.ExitStack() as counted:

            def watch(run: "Simulation") -> None:
                played.last = lambda: last_of(run, run.exceptions, "", again or run.reproduce)
                counted.enter_context(played.run(run.trace))

            verdict = trial(plan, Rules() if check else Rules(()), watch=watch)
        try:
            result = verdict.check() if check else verdict.end()
        except CheckFailed as error:
            assert verdict.trace is not None
            error.account = error.account or account(verdict.trace, (), verdict.raised)
            error.reproduce = again or error.reproduce
            raise
        if result is None:
            return cast("Result", None)  # see `SimloopRun`
        return replace(result, reproduce=again or result.reproduce)

    return play


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> "VirtualClock":
    """Run a coroutine on the virtual clock: `virtual_clock(main())` returns its result.

    The call takes the arguments of `simloop.simulate`; the seed is that of `simloop_run`, or 0.
    """
    from simloop.virtual.simulate import running_loop, simulate  # noqa: PLC0415 - see the module docstring

    played = played_by(request.node)
    settings = settings_of(request.node)
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
    from simloop.runs.plan import script_of  # noqa: PLC0415
    from simloop.scenario.schema import Scenario  # noqa: PLC0415
    from simloop.world.fake_model import FakeModel  # noqa: PLC0415

    made: list[FakeModel] = []
    played = played_by(request.node)

    def make(*replies: "Reply", summaries: "tuple[Reply, ...]" = ()) -> "FakeModel":
        made.append(FakeModel(*script_of(Scenario(prompt="", model=replies, summaries=summaries))))
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
    from simloop.bench.hook_bench import HookBenchmark  # noqa: PLC0415 - see the module docstring

    def benchmark() -> Any:
        with contextlib.suppress(pytest.FixtureLookupError):
            return request.getfixturevalue("benchmark")
        return pytest.fail("hook_benchmark needs pytest-benchmark to be installed", pytrace=False)

    return HookBenchmark(benchmark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Explain a test's error, note its numbers, and write its traces if that is wanted."""
    if (played := item.stash.get(PLAYED, None)) is None:
        return (yield)
    if call.when == "teardown":
        # User properties survive xdist and stand in junit files; the stash does not.
        measured = (played.runs, played.virtual_ns, played.wall_ns)
        item.user_properties.extend(zip(_MEASURES, measured, strict=True))
        del item.stash[PLAYED]  # items live as long as the session, and traces can be long
    is_full = item.config.getoption("fulltrace")
    with contextlib.nullcontext(list[str]()) if is_full else reports.folded(call) as lines:
        report = yield
    if call.excinfo is not None and async_tests.has_no_frame_of(item, call.excinfo):
        report.longrepr = message_alone(call.excinfo, item.path, (item.location[1] or 0) + 1)
    played.passed |= report.when == "call" and report.passed
    found, failed = call.excinfo, report.when == "call" and report.failed
    if found is not None and not is_finding(found.value) and played.last is not None and failed:
        begin_with(report, found, "\n".join((played.last(), *lines)))
    always = report.when == "call" and item.config.getoption("--simloop-trace") == "on"
    if played.kept and (report.failed or always):
        from simloop.trace.codec import write_traces  # noqa: PLC0415 - see the module docstring

        root = item.config.rootpath
        lines = list(write_traces(played.kept, root / TRACES, item.nodeid, root))
        report.sections.append(("simloop traces", "\n".join(lines)))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the number of runs, their real duration and their virtual duration."""
    totals = dict.fromkeys(_MEASURES, 0)
    for listed in terminalreporter.stats.values():
        for report in listed:
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
