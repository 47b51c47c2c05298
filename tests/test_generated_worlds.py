"""Properties of the loops that ship with simloop, over generated worlds.

The other invariants are judged in the same worlds by the search: tests/fuzz. The number of examples
is that of CI in every run, because these are the four properties that simloop promises. Each world
is played once and judged by all of them.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from simloop import Scenario
from simloop import strategies as sim
from simloop.check.invariants import compaction, limits, retry
from simloop.check.invariants.catalog import in_module
from simloop.scenario.designs import names

PROPERTIES = (limits, compaction, retry)
"""The modules of the invariants; that every run ends is always judged."""


@settings(max_examples=200)
@given(st.sampled_from(names()).flatmap(sim.scenarios))
def test_every_loop_keeps_counters_compaction_backoff_and_termination(scenario: Scenario) -> None:
    sim.check(scenario, invariants=[each for one in PROPERTIES for each in in_module(one)])
