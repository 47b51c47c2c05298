"""Right runs in which an invariant once found a violation: worlds that a search has found."""

import pytest

from simloop import parse_scenario
from simloop.fuzz.play import breach_of

RIGHT = {
    "a hook before a tool runs after an abort, too": """
        loop: pi@0.73.1
        prompt: Go.
        tool_execution: {order: sequential}
        abort: {after: finish}
        tools: {read: {}}
        hooks: [{at: before_tool_call}]
        model: [{call: {read: {}}}]
    """,
    "tools run beside each other if the sequential one is hidden": """
        loop: pi@0.73.1
        prompt: Go.
        tools: {read: {sequential: true}, search: {takes: 1s}}
        hooks: [{at: before_llm_call, hide_tools: [read]}]
        model: [{call: [{search: {}}, {read: {}}, {search: {}}]}, {say: Done.}]
    """,
    "tools run beside each other if a hook replaces the sequential one": """
        loop: pi@0.73.1
        prompt: Go.
        tools: {read: {sequential: true}, search: {takes: 1s}}
        hooks: [{at: before_llm_call, add_tools: {read: {description: Another one.}}}]
        model: [{call: [{search: {}}, {read: {}}, {search: {}}]}, {say: Done.}]
    """,
    "a call keeps its name when a later one has the same id": """
        loop: pi
        prompt: Go.
        tools: {read: {}, write: {}}
        hooks: [{at: before_tool_call, tool: write, arguments: {path: b}}]
        model: [{call: {read: {}, write: {}}, ids: [a, a]}, {say: Done.}]
    """,
    "a compaction is one of the steps that opencode enforces": """
        loop: opencode
        loops: {opencode: {steps: enforce}}
        limits: {max_steps: 3}
        prompt: Go.
        tools: {read: {}}
        context: {over: [true]}
        model: [{call: {read: {}}, times: 2}]
    """,
    "a reply that reports more steps is one of the steps that opencode enforces": """
        loop: opencode
        loops: {opencode: {steps: enforce}}
        prompt: Go.
        tools: {read: {}}
        model: [{call: {read: {}}, steps: 2}, {say: Done.}]
    """,
}


@pytest.mark.parametrize("claim", RIGHT)
def test_a_right_run_breaks_no_rule(claim: str) -> None:
    assert breach_of(parse_scenario(RIGHT[claim]), {}) is None, claim
