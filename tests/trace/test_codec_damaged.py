"""A damaged trace file is refused with the damaged line, or it can be shown and compared."""

from functools import cache

import pytest
from damaging import damaged

from simloop.cli.show import event_lines
from simloop.errors import ScenarioError
from simloop.scenario.catalog import bundled_folder
from simloop.trace.codec import decode, encode
from simloop.trace.diff import first_difference
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import timeline

NAMES = [
    "compaction.summary",
    "loops.pi-compacts",
    "hooks.change-everything",
    "retry.rate-limit",
    "tools.parallel",
]


@cache
def recorded(name: str) -> bytes:
    return (bundled_folder() / "__snapshots__" / f"{name}.trace.jsonl").read_bytes()


def use(trace: LoopTrace, original: LoopTrace) -> None:
    """Everything that a command does with a trace that it only reads."""
    found = first_difference(original, trace)
    lines = [*timeline(trace), *(found.lines() if found else ())]
    try:
        lines += event_lines(trace, "document")
    except ScenarioError as error:  # the scenario in the header is damaged
        assert "the recorded scenario cannot be read" in str(error)
    assert encode(trace)
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_trace_is_refused_with_its_line_or_can_be_used(name: str) -> None:
    original = decode(recorded(name))
    read = 0
    for seed in range(80):
        try:
            trace = decode(damaged(recorded(name), seed), "a.jsonl")
        except ScenarioError as error:
            assert str(error).startswith("a.jsonl:"), seed
            assert error.line or "the digest does not match" in error.message, seed
        else:
            use(trace, original)
            read += 1
    assert 5 < read < 40, "the damage is neither always nor never found"
