import contextlib

import pytest

from simloop.errors import CannotExpress
from simloop.fuzz.coverage import Coverage
from simloop.fuzz.paths import worlds_of_paths
from simloop.fuzz.play import chosen_for, play
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Run
from simloop.loops.reference import ReferenceLoop
from simloop.runs.plan import Plan


class Broken(ReferenceLoop):
    def start(self) -> Run:
        raise RuntimeError("no start")


@pytest.mark.parametrize(
    ("loop", "least"), [("reference", 30), ("pi", 21), ("react", 9), ("opencode", 25)]
)
def test_the_worlds_of_paths_take_nearly_every_edge_of_the_map(loop: str, least: int) -> None:
    coverage = Coverage(has_engine=True)
    for world in worlds_of_paths(loop, {}):
        with contextlib.suppress(CannotExpress):  # for what the design lacks
            plan = Plan(world, {"loop": loop})
        coverage.add(play(plan, chosen_for(plan, [])).prepared.trace.entries)
    assert len(coverage.edges) >= least


def test_a_loop_of_the_users_own_has_paths_and_a_broken_one_none() -> None:
    assert len(list(worlds_of_paths(ReferenceLoop, {}))) > 30
    assert list(worlds_of_paths(Broken, {})) == []
    assert list(worlds_of_paths(ReferenceLoop(Limits()), {})) == [], "its limits are too large"
