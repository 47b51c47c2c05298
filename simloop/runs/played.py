"""The runs of one test: how many, how long, and the traces that may be wanted of them.

Not here: writing the traces (trace/testtraces.py) and the report of the test (pytest_plugin).
The rule to keep: nothing is kept of a run that no option asks for, because traces can be long.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator

from simloop.trace.looptrace import LoopTrace
from simloop.trace.testtraces import KeptTrace


@dataclasses.dataclass(slots=True)
class Played:
    """The results of the runs of one test, with their traces and pages if they may be wanted."""

    keeps_traces: bool
    keeps_pages: bool
    runs: int = 0
    virtual_ns: int = 0
    wall_ns: int = 0
    kept: list[KeptTrace] = dataclasses.field(default_factory=list)
    passed: bool = False
    last: Callable[[], str] | None = None  # shows the last run, for an assertion of the test

    @contextlib.contextmanager
    def run(
        self, trace: LoopTrace | None = None, page: Callable[[], str] | None = None
    ) -> Iterator[None]:
        """Count one run, however it ends, and keep its trace. `page` makes the page of the run."""
        start_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            self.runs += 1
            self.wall_ns += time.perf_counter_ns() - start_ns
            if trace is not None:
                self.virtual_ns += trace.elapsed_ns
            if trace is not None and self.keeps_traces:
                self.kept.append(KeptTrace(trace, page if self.keeps_pages else None))
