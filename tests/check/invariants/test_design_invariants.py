"""Each invariant on one design is violated by its machine, or the engine, broken in one line."""

import pytest
from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated

from simloop import Scenario

OPENCODE, PI = "loops.opencode:OpencodeLoop", "loops.pi:PiLoop"
TWICE = {"max_steps": 2}
ENFORCED = {"opencode": {"steps": "enforce"}}
ENDS = {"look": {"returns": "ok", "terminate": True}}

CASES = [
    (
        "last-step-has-note",
        part(
            f"{OPENCODE}._request",
            "run.total_steps + 1 >= self.max_steps",
            "run.total_steps >= self.max_steps",
        ),
        scenario(LOOK, DONE, limits=TWICE),
        "opencode",
    ),
    (
        "last-step-has-note",
        part(
            f"{OPENCODE}._request",
            "run.total_steps + 1 >= self.max_steps",
            "run.total_steps + 2 >= self.max_steps",
        ),
        scenario(LOOK, DONE, limits=TWICE),
        "opencode",
    ),
    (
        "last-step-has-note",
        part(f"{OPENCODE}._request", "not (last and", "not (last and not last and"),
        scenario(LOOK, DONE, limits=TWICE, loops=ENFORCED),
        "opencode",
    ),
    (
        "long-runs-reported",
        part(
            "engine.handlers:EffectHandlers._call_model",
            "self._step_number > settings",
            "self._step_number >= settings",
        ),
        scenario(LOOK, LOOK, DONE, warn_after=2),
        "reference",
    ),
    (
        "terminated-batches-end-run",
        part(f"{PI}.advance", "if terminate and self.options.terminate:", "if False:"),
        scenario(LOOK, DONE, tools=ENDS),
        "pi@0.87.1",
    ),
    (
        "terminated-batches-end-run",
        part(f"{PI}.advance", "if terminate and self.options.terminate:", "if True:"),
        scenario(LOOK, DONE),
        "pi@0.87.1",
    ),
]


@pytest.mark.parametrize(("name", "broken", "played", "loop"), CASES)
def test_a_design_that_breaks_its_promise_is_found(
    name: str, broken: Part, played: Scenario, loop: str
) -> None:
    assert not violated(played, loop=loop)
    with faulty(broken):
        assert name in violated(played, loop=loop)
