from typing import Any

import msgspec

from simloop.check.trial import Until, Verdict, verify
from simloop.cli.compare import Row
from simloop.errors import InternalError, ScenarioError
from simloop.kernel.machine import Feature
from simloop.loops.react import ReactLoop
from simloop.messages import Message, ToolMessage, ToolSpec, UserMessage
from simloop.scenario.designs import DESIGNS
from simloop.scenario.loader import parse_scenario
from simloop.world.world import World

LOOKS = """\
prompt: Hi
tools: {look: {returns: found, takes: 120ms}}
model: [{say: Let me look., call: {look: {}}}, {say: Found.}]
expect: {outcome: completed, text: Found.}
"""
# What a loop makes of a server error is what tells these four most apart.
BROKEN_SERVER = """\
prompt: Hi
model: [{http: {status: 500}}, {say: Hello.}]
expect: {outcome: completed, text: Hello.}
expect_on:
  pi: {outcome: failed, unused: 1}
  react: {outcome: failed, unused: 2}
"""
HOOKED = "prompt: Hi\nhooks: [{at: before_llm_call}]\nmodel: [{say: Hello.}]\n"
EXHAUSTED = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}]\n"
COMPACTS = """\
prompt: Hi
compaction: {window: 1000, keep_turns: 1}
tools: {dump: {returns_chars: 1500}}
model: [{call: {dump: {}}, times: 2}, {say: The same.}]
summaries: [{say: Nothing but x.}]
"""


def by_loop(text: str, *loops: str) -> dict[str, Row]:
    scenario = parse_scenario(text)
    return {loop: Row.of(loop, verify(scenario, Until.END, loop=loop)) for loop in loops or DESIGNS}


def told(row: Row, *names: str) -> list[Any]:
    return [row.facts[name] for name in names]


async def runs_a_tool_of_its_own(prompt: str, world: World) -> str:
    """Answer a call without `world.tools`, as an agent on a framework does."""
    messages: list[Message] = [UserMessage(prompt)]
    tool = ToolSpec("look", "Look.", msgspec.Raw(b'{"type":"object"}'))
    reply = await world.model.reply(messages, tools=[tool])
    messages += [reply.message, ToolMessage(reply.message.calls[0].id, "found")]
    return (await world.model.reply(messages, tools=[tool])).message.text


class TestRows:
    def test_tell_what_each_run_came_to(self) -> None:
        for row in by_loop(LOOKS).values():
            assert told(row, "outcome", "error", "text") == ["completed", None, "Found."]
            assert told(row, "model_calls", "summaries", "tool_runs") == [2, 0, 1]
            assert told(row, "elapsed_ns", "status") == [120_000_000, "ok"]
            assert (row.ending, row.exit_code, row.findings) == ("completed", 0, ())

    def test_are_judged_by_what_is_expected_of_that_loop(self) -> None:
        rows = by_loop(BROKEN_SERVER)
        assert [rows[loop].exit_code for loop in DESIGNS] == [0, 0, 1, 0]
        assert rows["react"].findings == ("expect.unused: expected 2, got 1: model.1",)
        # A command would need a file, and this scenario has none.
        again = rows["react"].facts["reproduce"]
        assert again == "simloop.run(scenario, seed=0, loop='react')"

    def test_count_a_retry_as_a_call_of_its_own(self) -> None:
        rows = by_loop(BROKEN_SERVER)
        assert [rows[name].cells()[2] for name in ("reference", "pi")] == ["2", "1"]

    def test_count_summaries_apart(self) -> None:
        assert by_loop(COMPACTS, "reference")["reference"].cells()[2] == "3+1"

    def test_count_the_calls_that_only_the_messages_of_an_agent_show(self) -> None:
        text = LOOKS.replace("{look: {returns: found, takes: 120ms}}", "{look: {}}")
        loop = f"{__name__}:{runs_a_tool_of_its_own.__name__}"
        row = by_loop(text, loop)[loop]
        assert told(row, "outcome", "tool_runs", "failures") == ["completed", 1, []]


class TestWhatALoopCannotExpress:
    def test_is_a_row_with_the_reason_and_no_failure(self) -> None:
        row = by_loop(HOOKED)["react"]
        assert row.cannot == "react has no hooks"
        assert (row.ending, row.exit_code, row.findings) == ("cannot", 0, (row.cannot,))
        assert told(row, "model_calls", "tool_runs", "elapsed_ns") == [None] * 3

    def test_has_all_the_reasons(self) -> None:
        reasons = by_loop(f"abort: {{at: 1s}}\n{HOOKED}")["react"].cannot.split("; ")
        assert sorted(reasons) == sorted(
            ReactLoop.unsupported[feature] for feature in (Feature.ABORT, Feature.HOOKS)
        )


class TestErrors:
    def test_that_end_a_run_stand_in_the_place_of_its_outcome(self) -> None:
        row = by_loop(EXHAUSTED, "pi")["pi"]
        assert told(row, "outcome", "error") == [None, "ScriptExhausted"]
        assert (row.ending, row.cells()[2], row.exit_code) == ("ScriptExhausted", "2", 1)
        (finding,) = row.findings
        assert finding.startswith("ScriptExhausted: model: the script has no reply for request 2")

    def test_that_are_expected_are_as_they_should_be(self) -> None:
        row = by_loop(f"{EXHAUSTED}expect_on: {{pi: {{error: ScriptExhausted}}}}\n", "pi")["pi"]
        assert (row.ending, row.exit_code, row.findings) == ("ScriptExhausted", 0, ())

    def test_leave_the_outcome_of_a_run_that_had_one(self) -> None:
        unused = LOOKS.replace("{say: Found.}", "{say: Found.}, {say: More.}")
        row = by_loop(unused, "pi")["pi"]
        assert told(row, "outcome", "error") == ["completed", "ScriptUnused"]
        assert (row.ending, row.exit_code) == ("completed", 1)

    def test_of_ours_end_with_their_own_code(self) -> None:
        row = Row.of("pi", Verdict(errors=[InternalError("broken"), ScenarioError("x")]))
        assert (row.facts["error"], row.exit_code) == ("InternalError", 3)

    def test_of_a_run_that_never_ends_come_with_the_command_that_shows_it(self) -> None:
        # One text, always with a call, is what the loop of document 001 never leaves.
        text = (
            "prompt: Hi\nmax_transitions: 50\ntools: {t: {}}\n"
            "model: [{call: {t: {}}, times: always}]\n"
        )
        row = by_loop(text, "pi")["pi"]
        assert told(row, "error", "elapsed_ns") == ["RunawayRun", 0]
        assert row.facts["reproduce"].startswith("simloop.run(")
        assert "reproduce" not in row.findings[0]


def test_rows_in_which_an_earlier_prompt_ended_otherwise_did_not_go_the_same_way() -> None:
    text = "prompt: x\nthen: [y]\nmodel: [{say: Half, finish: content-filter}, {say: Done.}]"
    rows = by_loop(text, "reference", "react")
    assert rows["reference"].cells()[1] == "content-filtered, completed"
    assert rows["react"].cells()[1] == "completed, completed"
    assert not rows["react"].went_as(rows["reference"])


def test_rows_went_the_same_way_if_all_that_they_tell_of_the_run_is_equal() -> None:
    one = by_loop(LOOKS, "pi")["pi"]
    for name in ("text", "model_calls", "tool_runs", "elapsed_ns", "outcomes"):
        assert not one.went_as(Row({**one.facts, name: "another"}))
    assert one.went_as(Row({**one.facts, "loop": "react", "status": "failed"}, ("wrong",), 1))
