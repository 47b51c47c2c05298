"""The faults of agents on SDKs, in the environments that have these."""

import json
import os

import pytest
from environments import TOP, built, printed_by
from every import FAULTS

BENCH = TOP / "tests" / "loopbench"
ENVIRONMENTS = {"pydantic_ai": "frameworks", "anthropic": "sdks"}
"""The environment that has a package. The agents run in a process without the folders of tests: a
framework has a module with the name of one there."""


@pytest.mark.frameworks
@pytest.mark.parametrize("sdk", ENVIRONMENTS)
def test_the_witness_and_the_rules_tell_the_faulty_agent_from_the_correct_one(sdk: str) -> None:
    expected = [fault.name for fault in FAULTS if fault.part == "sdk" and fault.sdk == sdk]
    paths = os.pathsep.join((str(TOP), str(BENCH)))
    script = (BENCH / "judging.py").read_text("utf-8")
    printed = printed_by(script, built(ENVIRONMENTS[sdk]), PYTHONPATH=paths)
    found = json.loads(printed.splitlines()[-1])
    assert {name: said for name, said in found.items() if said} == {}
    assert [*found] == expected
