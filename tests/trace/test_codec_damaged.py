"""A damaged trace file is refused with the damaged line, or it can be shown and compared."""

from functools import cache

import pytest
from damaging import damaged

from simloop.errors import ScenarioError
from simloop.runs.run import run
from simloop.scenario.catalog import find
from simloop.scenario.loader import load_scenario
from simloop.trace.codec import decode, encode
from simloop.trace.diff import first_difference
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import timeline

NAMES = [
    "calls.fifty-at-once",
    "compaction.summary-fails",
    "hooks.all-points",
    "loops.pi-details",
    "prompts.after-an-aborted-tool",
]
SEEDS = 60


@cache
def recorded(name: str) -> bytes:
    return encode(run(load_scenario(find(name.replace(".", "/", 1)))).trace)


def read(data: bytes) -> LoopTrace | ScenarioError:
    try:
        return decode(data, "a.jsonl")
    except ScenarioError as error:
        return error


def shown(trace: LoopTrace, original: LoopTrace) -> list[str]:
    """Everything that commands print of a trace that they only read."""
    found = first_difference(original, trace)
    return [*timeline(trace), *(found.lines() if found else ())]


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_trace_is_refused_with_its_line_or_can_be_shown(name: str) -> None:
    original = decode(recorded(name))
    refused = 0
    for seed in range(SEEDS):
        data = damaged(recorded(name), seed)
        trace = read(data)
        if isinstance(trace, LoopTrace):
            assert all(line.isprintable() for line in shown(trace, original)), seed
        else:
            refused += 1
            assert str(trace).startswith("a.jsonl:"), seed
            assert trace.line or "the digest does not match" in trace.message, seed
    assert SEEDS / 2 < refused < SEEDS, "damage is mostly found, and sometimes harmless"
