"""The hooks of a moment show what they changed, with the values before and after it."""

from pathlib import Path

from simloop.check.trial import run_to_the_end
from simloop.cursor.keys import FactView
from simloop.cursor.position import HookChange, Position, hook_changes
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.views import view
from simloop.scenario.loader import parse_scenario
from simloop.trace import entries
from simloop.trace.codec import read_trace

TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"
CHAIN = """
prompt: What is in a?
tools: {look: {parameters: {path: string}, returns: A}}
hooks:
  - {at: before_llm_call, name: one, system_prompt: One.}
  - {at: before_llm_call, name: two, system_prompt: Two.}
  - {at: before_llm_call, name: three, system_prompt: Three.}
  - {at: before_tool_call, name: first, arguments: {path: b}}
  - {at: before_tool_call, name: last, arguments: {path: c}}
system_prompt: Zero.
model:
  - call: {look: {path: a}}
  - say: It is A.
"""
PARALLEL = """
prompt: What is in a and b?
tools: {look: {parameters: {path: string}, returns: A, takes: 1s}}
tool_execution: {order: parallel}
hooks:
  - {at: after_tool_call, name: mask, result: masked, takes: 1s}
model:
  - call: [{look: {path: a}}, {look: {path: b}}]
  - say: It is A.
"""
UNCHANGED = """
prompt: What is in a?
tools: {look: {returns: A}}
hooks: [{at: before_llm_call, name: plugin, add_tools: {look: {returns: B}}}]
model: [{say: It is A.}]
"""
STOPPED = """
loop: pi@0.87.1
prompt: What is in a and b?
tools: {look: {returns: A}, find: {returns: B, takes: 10s}}
tool_execution: {order: parallel}
hooks:
  - {at: after_tool_call, name: mask, tool: look, takes: 4s, result: masked}
  - {at: after_tool_call, name: other, tool: find, result: found}
abort: {at: 2s}
model:
  - call: [{look: {}}, {find: {}}]
  - say: It is A.
"""
LAST_STEP = """
prompt: What is in a?
tools: {look: {returns: A}}
limits: {max_steps: 1}
hooks: [{at: before_llm_call, name: plugin, add_tools: {find: {returns: B}}}]
model: [{say: It is A.}]
"""


def bundled(name: str) -> RecordedRun:
    return RecordedRun.of_trace(read_trace(TRACES / f"hooks.{name}.trace.jsonl"))


def recorded(text: str) -> RecordedRun:
    return RecordedRun.of_trace(run_to_the_end(parse_scenario(text)))


def changes_of(recording: RecordedRun) -> list[tuple[str, HookChange]]:
    """Each hook with its changes at the last entry at which it is shown."""
    found = {}
    for place in range(len(recording.entries)):
        position = Position(recording, place)
        for hook in position.hooks:
            found[hook.seq] = [(hook.hook, change) for change in hook_changes(position, hook)]
    return [change for seq in sorted(found) for change in found[seq]]


def test_a_change_of_a_request_shows_its_system_prompt_and_its_tools_before_and_after() -> None:
    recording = bundled("change-request")
    assert [str(each) for each in view(FactView.HOOKS, Position(recording, 4))] == [
        "  before_llm_call: read-only ok, changed system_prompt and tools",
        "-   system_prompt: You may use any tool.",
        "+   system_prompt: You may only read.",
        "-   tools: delete",
        "+   tools: none",
    ]


def test_a_change_is_not_shown_before_the_entry_that_has_its_result() -> None:
    recording = bundled("change-request")
    assert [str(each) for each in view(FactView.HOOKS, Position(recording, 3))] == [
        "  before_llm_call: read-only ok, changed system_prompt and tools"
    ]


def test_a_change_of_arguments_shows_those_of_the_model_and_those_that_the_tool_got() -> None:
    change = HookChange("arguments", '{"path":"README.md"}', '{"path":"/sandbox/README.md"}')
    assert changes_of(bundled("at-once")) == [("sandbox", change)]


def test_a_change_of_a_result_shows_that_of_the_tool_and_that_for_the_model() -> None:
    change = HookChange("result", "token: abc123", "token: ***")
    assert changes_of(bundled("change-result")) == [("mask", change)]


def test_a_changed_call_that_no_tool_ran_has_no_value_after_it() -> None:
    assert changes_of(bundled("change-arguments")) == []


def test_of_several_changes_of_a_value_the_trace_has_the_first_and_the_last_one() -> None:
    assert changes_of(recorded(CHAIN))[:5] == [
        ("one", HookChange("system_prompt", "Zero.", None)),
        ("two", HookChange("system_prompt", None, None)),
        ("three", HookChange("system_prompt", None, "Three.")),
        ("first", HookChange("arguments", '{"path":"a"}', None)),
        ("last", HookChange("arguments", None, '{"path":"c"}')),
    ]


def test_a_hook_that_may_belong_to_either_of_two_calls_shows_no_values() -> None:
    recording = recorded(PARALLEL)
    _, second = recording.index.places[entries.Hook]
    position = Position(recording, second + 1)
    assert [list(hook_changes(position, hook)) for hook in position.hooks] == [
        [],
        [HookChange("result", None, "masked")],
    ]


def test_a_hook_after_a_stop_shows_no_values_because_its_call_may_have_left_no_entry() -> None:
    recording = recorded(STOPPED)
    hooks = [recording.entries[place] for place in recording.index.places[entries.Hook]]
    assert [hook.changed for hook in hooks] == [(), ("result",), ("result",), ()]  # type: ignore[union-attr]
    assert changes_of(recording) == []


def test_the_tools_before_a_hook_are_unknown_at_the_last_step_of_the_loop() -> None:
    changes = dict(changes_of(recorded(LAST_STEP)))
    assert changes == {"plugin": HookChange("tools", None, "look, find")}


def test_a_loop_that_is_unknown_has_no_value_before_the_change_of_a_request() -> None:
    trace = bundled("change-request").trace
    assert changes_of(RecordedRun(trace=trace))[:2] == [
        ("read-only", HookChange("system_prompt", None, "You may only read.")),
        ("read-only", HookChange("tools", None, "none")),
    ]


def test_a_tool_that_is_replaced_under_its_name_is_said_to_differ() -> None:
    recording = recorded(UNCHANGED)
    sent = recording.index.places[entries.Request][0]
    assert [str(each) for each in view(FactView.HOOKS, Position(recording, sent))][1:] == [
        "-   tools: look",
        "+   tools: look",
        ". the text is the same, and its details differ",
    ]
