import gc
import importlib
import os
import re
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from commandline import Cli
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped] # it has no types

import simloop

pytest_plugins = ["pytester", "browsing"]

# Scenarios for agents whose packages are in environments of their own: test_frameworks.py.
collect_ignore = ["wire/recipes"]

# Tests that need no setting of their own take these: a few examples while somebody develops, as
# many as any test needs in CI. A test under load has no deadline.
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("thorough", deadline=None, max_examples=50, print_blob=True)
settings.load_profile("thorough" if os.environ.get("CI") == "true" else "quick")

# A shell's `&` has its programs ignore Ctrl-C, and theirs: the tests of Ctrl-C would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TOP = Path(__file__).resolve().parent.parent

# A process that has frozen objects before its first run is one that wants it so: a run then leaves
# them frozen. The first run is that of a file which searches while it is collected.
gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse the name of a test that holds an address: it is another in each process.

    Tests that build an environment come first: each takes as long as a hundred others.
    """
    wrong = [item.nodeid for item in items if re.search(r"\b0x[0-9a-f]{8,}", item.nodeid)]
    if wrong:
        raise pytest.UsageError(f"give these cases `ids` without addresses: {wrong}")
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("versions", "frameworks"))))


def pytest_collection_finish() -> None:
    """Keep the collector from going through thousands of tests, which live as long as it does.

    It collects whatever there is at the end of each session of pytester, and in tests of leaks.
    """
    gc.freeze()


KEPT: list[object] = [None]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Keep it from what earlier files have left, and from the modules that a test has imported.

    A run of an agent's own code ends with a collection. To go through the modules of an SDK takes
    several times as long as the run itself.
    """
    now = item.path, len(sys.modules) // 100
    if [now] != KEPT:
        KEPT[:] = [now]
        gc.collect()
        gc.freeze()


@pytest.fixture
def few_objects() -> None:
    """Have a full collection in the test go through the objects that it makes, and no others."""
    gc.collect(1)
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give the tests of a file to one worker, so that it alone builds what they share."""
    return LoadFileScheduling(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line, in a temporary folder that is also the working directory."""
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path)


@pytest.fixture(scope="session")
def imported() -> None:
    """Import simloop before pytester is set up, which later forgets what was imported since.

    Classes of the same name from before and after would not be the same. Each session in this
    process would also read and rewrite the modules of the judge again, for 40 ms.
    """
    for name in dir(simloop):
        getattr(simloop, name)
    for name in ("check.trial", "trace.codec"):
        importlib.import_module(f"simloop.{name}")


@pytest.fixture
def project(
    imported: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """Somebody's project: its pytest is strict, and takes warnings for errors."""
    del imported
    # What a CI service and xdist tell the pytest that runs this, and not the one in the project.
    for name in ("CI", "BUILD_NUMBER", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    # A session that looks for all installed plugins takes twice as long.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyprojecttoml("""
        [tool.pytest]
        strict = true
        filterwarnings = ["error"]
        addopts = ["-p", "simloop"]
    """)
    return pytester


def build(what: str, source: Path, into: Path) -> Path:
    script = f"import sys, hatchling.build as b; print(b.build_{what}(sys.argv[1]))"
    command = [sys.executable, "-c", script, str(into)]
    run = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return into / run.stdout.split()[-1]


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this checkout."""
    return build("sdist", TOP, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, as whoever installs that does."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build("wheel", source, folder)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the module path that holds what installing the wheel puts there."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder
