"""The pytest plugin: scenario files are test items, and tests can run scenarios.

Not here: running and judging (scenario). The rule to keep: every pytest on a machine that has
simloop imports this module, so it imports nothing of simloop before a test asks for it.
"""

import re
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from simloop.scenario.replies import Reply
    from simloop.scenario.result import Result
    from simloop.scenario.schema import Scenario
    from simloop.sim.model import FakeModel

SUFFIX = ".simloop.yaml"
TRACES = Path("test-results")
_RUNS: pytest.StashKey[list["Played"]] = pytest.StashKey()


class Played:
    """One run that a test made: what the summary counts and what can be written."""

    def __init__(self, result: "Result", wall_ns: int) -> None:
        self.result = result
        self.wall_ns = wall_ns


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags."""
    group = parser.getgroup("simloop")
    group.addoption(
        "--simloop-seed", type=int, metavar="N", help="replace the seed of every scenario"
    )
    group.addoption(
        "--simloop-trace",
        choices=["off", "on", "retain-on-failure"],
        default="off",
        help=f"write the trace of every run, or of failed tests, to {TRACES}/",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "simloop(seed=None, loop=None): settings for the runs of this test"
    )


# ------------------------------------------------------------------ scenario files as items


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ScenarioFile | None":
    """Collect scenario files."""
    if not file_path.name.endswith(SUFFIX):
        return None
    file: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
    return file


class ScenarioFile(pytest.File):
    """A scenario file, with one item. It is read when the item runs: a bad file fails one test."""

    def collect(self) -> Iterator["ScenarioItem"]:
        """The item."""
        path = self.path

        def play(simloop_run: Callable[[Path], "Result"]) -> None:
            simloop_run(path)

        item: ScenarioItem = ScenarioItem.from_parent(
            self, name=path.name.removesuffix(SUFFIX), callobj=play
        )
        yield item


class ScenarioItem(pytest.Function):
    """A scenario as a test. A Function, so that fixtures, marks and other plugins work."""

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it is, for reports."""
        return self.path, 0, self.name

    # As pytest's own Function has it; Node has one parameter more.
    def repr_failure(  # type: ignore[override]
        self, excinfo: "ExceptionInfo[BaseException]"
    ) -> "str | TerminalRepr":
        """What is wrong, without our frames; any other exception as pytest shows it."""
        from simloop.errors import SimloopError  # noqa: PLC0415 - see the module docstring

        if isinstance(excinfo.value, SimloopError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


# ------------------------------------------------------------------ fixtures


@pytest.fixture
def simloop_run(request: pytest.FixtureRequest) -> Callable[..., "Result"]:
    """Run a scenario, given as a Scenario or a path, and check what it expects.

    Takes what `simloop.run` takes, and `check=False` to only look at the result. `--simloop-seed`
    and the marker `simloop(seed=..., loop=...)` replace the scenario's settings.
    """
    from simloop.scenario.loader import load_scenario  # noqa: PLC0415 - see the module docstring
    from simloop.scenario.simulation import run  # noqa: PLC0415

    played = request.node.stash.setdefault(_RUNS, [])
    settings = _settings(request.node)

    def play(scenario: "Scenario | str | Path", *, check: bool = True, **given: Any) -> "Result":
        chosen = load_scenario(scenario) if isinstance(scenario, str | Path) else scenario
        start_ns = time.perf_counter_ns()
        result = run(chosen, **{**settings, **given})
        played.append(Played(result, time.perf_counter_ns() - start_ns))
        return result.check() if check else result

    return play


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine on the virtual clock: `virtual_clock(main())` returns what it returns."""
    from simloop.sim.simulate import simulate  # noqa: PLC0415 - see the module docstring

    seed = _settings(request.node).get("seed") or 0

    def run_virtually(main: Coroutine[Any, Any, Any]) -> Any:
        return simulate(main, seed=seed)

    return run_virtually


@pytest.fixture
def fake_model() -> Iterator[Callable[..., "FakeModel"]]:
    """Make a fake model of replies: `fake_model(Reply(say="Hi"))`, for `run(..., model=...)`.

    When the test has ended, a reply that nobody asked for is a failure.
    """
    from simloop.sim.model import FakeModel  # noqa: PLC0415 - see the module docstring

    made: list[FakeModel] = []

    def make(*replies: "Reply", summaries: "tuple[Reply, ...]" = ()) -> "FakeModel":
        main = [reply.entry(f"model.{index}") for index, reply in enumerate(replies)]
        side = [reply.entry(f"summaries.{index}") for index, reply in enumerate(summaries)]
        made.append(FakeModel(main, side))
        return made[-1]

    yield make
    for model in made:
        model.check_account()


def _settings(node: pytest.Item) -> dict[str, Any]:
    """The marker's settings under the flag's: who types a flag means it."""
    mark = node.get_closest_marker("simloop")
    settings = {} if mark is None else dict(mark.kwargs)
    seed = node.config.getoption("--simloop-seed")
    return settings if seed is None else {**settings, "seed": seed}


# ------------------------------------------------------------------ traces and the summary


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """When a test's body has run: note its numbers, and write its traces if that is wanted."""
    report = yield
    played = item.stash.get(_RUNS, None)
    if played and report.when == "call":
        virtual_ns = sum(one.result.elapsed_ns for one in played)
        wall_ns = sum(one.wall_ns for one in played)
        # User properties survive xdist and stand in junit files; the stash does not.
        report.user_properties.append(("simloop", [len(played), virtual_ns, wall_ns]))
        wanted = item.config.getoption("--simloop-trace")
        if wanted == "on" or (wanted == "retain-on-failure" and report.failed):
            report.sections.append(("simloop traces", "\n".join(_write(item, played))))
    return report


def _write(item: pytest.Item, played: list[Played]) -> Iterator[str]:
    from simloop.trace.codec import write_trace  # noqa: PLC0415 - see the module docstring

    folder = item.config.rootpath / TRACES
    folder.mkdir(exist_ok=True)
    name = re.sub(r"[^\w.\[\]-]+", "-", item.nodeid)
    for number, one in enumerate(played, start=1):
        path = folder / f"{name}{f'.{number}' if len(played) > 1 else ''}.trace.jsonl"
        write_trace(one.result.trace, path)
        yield f"simloop show {path.relative_to(item.config.rootpath)}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many runs there were, how long they took, and how long they would have taken."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    numbers = [
        value
        for report in reports
        for key, value in getattr(report, "user_properties", ())
        if key == "simloop"
    ]
    if numbers:
        runs, virtual_ns, wall_ns = (sum(column) for column in zip(*numbers, strict=True))
        terminalreporter.write_line(
            f"simloop: {runs} runs, {virtual_ns / 1e9:.3f}s of virtual time in {wall_ns / 1e9:.3f}s"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep syrupy from deleting the snapshots of tests that were never reached.

    syrupy 7.0 takes a session that was cut short (an error in collection, `-x`, Ctrl-C) for a whole
    one, and `--snapshot-update` then removes what it did not see.
    """
    cut_short = exitstatus not in (0, 1) or session.shouldstop or session.shouldfail
    if cut_short and hasattr(session.config.option, "no_cleanup"):
        session.config.option.no_cleanup = True
