"""Other processes that play a world again.

A `Twin` has another PYTHONHASHSEED: a loop that depends on the order of a set behaves alike within
one process and differently in it. `failure_alone` starts a new process for one scenario: a loop
that keeps state between runs behaves there as in a test, which has made no run before.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from pydantic import ValidationError

from simloop.check.invariants.judge import add_invariants, added_names
from simloop.check.trial import FINISHES, UNJUDGED, Failure, Rules, failure_of, only, trial
from simloop.errors import CheckFailed, RunawayRun, ScenarioError, SimloopError
from simloop.runs import patience
from simloop.runs.folders import begin_in_own_folder
from simloop.runs.isolation import isolated
from simloop.runs.plan import Plan, content_of
from simloop.scenario.schema import Scenario
from simloop.trace.codec import comparable, digest
from simloop.trace.entries import AnyEntry
from simloop.virtual.border.seal import kept_border

_LOOK_S = 1.0


def digest_of(record: Iterable[AnyEntry]) -> str:
    """Return a digest of the entries of a run."""
    return digest(comparable(record))


def failure_alone(scenario: Scenario, name: str, **asked: bool) -> Failure | None:
    """Run a scenario, which names its loop, in a new process, and return its failure.

    Of several failures it is that of the name. With `alone`, only the invariant of this name is
    judged, if there is one; with `twice`, the run is compared with a second one.
    Raises ScenarioError if no file can hold the scenario.
    """
    if NURSERIES:
        found = NURSERIES[-1].answer(scenario, name=name, **asked)
        return None if found is None else Failure(*found)
    sent = _request(scenario, name=name, **asked)
    try:
        done = subprocess.run(**_process({}), input=sent, timeout=patience.PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return Failure.named(FINISHES, patience.OVERDUE)
    found = json.loads(done.stdout or "null")  # empty if the run has ended its process
    return None if found is None else Failure(*found)


NURSERIES: list["Nursery"] = []
"""The nursery of this process, if it has one."""


def end_nurseries() -> None:
    """End the nursery of this process."""
    while NURSERIES:
        NURSERIES.pop().end()


def cpu_s() -> float:
    """Return the seconds of computing of this process, its nursery, and those that have ended."""
    times, others = os.times(), sum(each.cpu_s for each in NURSERIES)
    return time.process_time() + times.children_user + times.children_system + others


class Nursery:
    """A fork of this process from before the first run, which forks again for each scenario.

    So a failure is tried in a process that has made no run, and that need not import an SDK again.
    """

    def __init__(self) -> None:
        forking = multiprocessing.get_context("fork")
        self._pipe, theirs = forking.Pipe()
        self._process = forking.Process(target=_nurse, args=(theirs, self._pipe), daemon=True)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of threads
            self._process.start()
        theirs.close()
        self.cpu_s = 0.0

    def answer(self, scenario: Scenario, **asked: Any) -> Any:
        """Return what `_answered` returns for a scenario."""
        self._pipe.send((content_of(scenario), asked))
        took_s, found = self._pipe.recv()
        self.cpu_s += took_s
        return found

    def end(self) -> None:
        self._pipe.close()
        self._process.join()


def _nurse(pipe: Connection, parents: Connection) -> None:
    parents.close()
    begin_worker(os.getppid())
    with contextlib.suppress(EOFError), kept_border():
        while True:
            content, asked = pipe.recv()
            start_s = cpu_s()
            try:
                found = isolated(partial(_answered, content, **asked), limit_s=patience.PATIENCE_S)
            except RunawayRun:
                found = Failure.named(FINISHES, patience.OVERDUE)
            except CheckFailed:  # the run has ended its process
                found = None
            pipe.send((cpu_s() - start_s, found))


class Twin:
    """A process that plays worlds again; it starts when the first one is sent."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: tuple[int, Scenario, str] | None = None

    def send(
        self, number: int, world: Scenario, record: Iterable[AnyEntry], *, isolates: bool = False
    ) -> None:
        """Send a world with the entries of its run; `answer` was called for the one before.

        With `isolates` it gets a process of its own, and is compared with one in the nursery. The
        search does not wait.
        """
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(_request(world, isolates=isolates))
            self._process.stdin.flush()
        except BrokenPipeError:  # a run has ended it; the search makes the same run
            self.end()
        else:
            alone = NURSERIES and isolates
            digest = NURSERIES[-1].answer(world, isolates=False) if alone else digest_of(record)
            self._asked = number, world, digest

    def start(self) -> None:
        """Start the process, if it does not run: a fork cannot do it for its parent."""
        if self._process is None:
            seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
            started = _process({"PYTHONHASHSEED": seed})
            self._process = subprocess.Popen(stdin=subprocess.PIPE, **started)

    def end(self) -> None:
        if self._process is not None:
            process, self._process, self._asked = self._process, None, None
            process.communicate()

    def answer(self) -> tuple[int, Scenario] | None:
        """Wait for the last run; return its number and its world if it differed."""
        if self._asked is None or self._process is None:
            return None
        (number, world, digest), self._asked = self._asked, None
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline() or "null")
        return (number, world) if answer not in (None, digest) else None


def _request(scenario: Scenario, **asked: Any) -> bytes:
    return json.dumps(asked).encode() + b"\n" + content_of(scenario) + b"\n"


def _process(environment: Mapping[str, str]) -> dict[str, Any]:
    given = json.dumps([sys.path, added_names()])
    return {
        "args": [sys.executable, "-m", __name__, given, str(os.getpid())],
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
        "env": {**os.environ, **environment},
        "start_new_session": True,  # Ctrl-C is for the parent, from the start on
    }


def begin_worker(parent: int) -> None:
    """Leave Ctrl-C to the parent, of that id, and end when it has died: a run may spin for ever.

    The runs have a folder of their own under the usual name, so they are equal to those of others.
    """

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os._exit(1)

    begin_in_own_folder()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork has the handler of its parent
    threading.Thread(target=follow, daemon=True).start()


def main(given: str, parent: str) -> None:
    """Answer each request on stdin with a line of JSON, until stdin is closed."""
    sys.path[:], names = json.loads(given)
    add_invariants(*names)
    begin_worker(int(parent))
    # The loop may print: only answers go to the stdout that the parent reads.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers, kept_border():
        os.dup2(2, 1)
        lines = iter(sys.stdin.buffer.readline, b"")
        for asked, scenario in zip(lines, lines, strict=True):
            answers.write(json.dumps(_answered(scenario, **json.loads(asked))) + "\n")
            answers.flush()


def _answered(
    content: bytes, *, name: str = "", alone: bool = False, twice: bool = False,
    isolates: bool | None = None,
) -> Any:  # fmt: skip
    """Return the failure of a scenario, or the digest of its run, which is isolated or not."""
    try:
        scenario = Scenario.model_validate_json(content)
        if isolates is not None:
            return digest_of(trial(Plan(scenario, {"isolate": isolates}), UNJUDGED).entries)
        rules = Rules(only(name) if alone else None, expectations=False)
        return failure_of(Plan(scenario, {}), rules, twice=twice, name=name)
    except ScenarioError as error:
        return None if isolates is not None else Failure.of_error(error)
    except (SimloopError, ValidationError):
        return None  # text that cannot be encoded is not compared


if __name__ == "__main__":
    main(*sys.argv[1:])
