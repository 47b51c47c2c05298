"""Properties of the loops that ship with simloop, over generated worlds.

The other invariants are judged in the same worlds by the search: tests/fuzz. The number of examples
is that of CI in every run, because each property is one of the four that simloop promises.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop import Scenario
from simloop import strategies as sim
from simloop.check.invariants import compaction, counters, model_calls, retry
from simloop.check.invariants.catalog import in_module
from simloop.scenario.designs import names

PROPERTIES = {
    "counters": in_module(counters),
    "compaction": in_module(compaction),
    "backoff": in_module(retry),
    "termination": in_module(model_calls),  # and that every run ends, which is always judged
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_loop_keeps(name: str) -> None:
    @settings(max_examples=200)
    @given(st.sampled_from(names()).flatmap(sim.scenarios))
    def keeps(scenario: Scenario) -> None:
        sim.check(scenario, invariants=PROPERTIES[name])

    keeps()
