import itertools
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from simloop.check.compare import Row, compare, unread
from simloop.check.trial import Verdict
from simloop.errors import InternalError, ScenarioError
from simloop.kernel.machine import Feature
from simloop.loops.react import ReactLoop
from simloop.messages import Message, ToolMessage, ToolSpec, UserMessage
from simloop.runs.run import Simulation
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


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The loop of every run that is made."""
    made: list[str] = []
    run = Simulation.run

    def noted(self: Simulation) -> object:
        made.append(self.trace.header.loop)
        return run(self)

    monkeypatch.setattr(Simulation, "run", noted)
    return made


def by_loop(text: str, *loops: str) -> dict[str, Row]:
    rows = compare(parse_scenario(text), loops or tuple(DESIGNS))
    return {row.loop: row for row in rows}


async def runs_a_tool_of_its_own(prompt: str, world: World) -> str:
    """Answer a call without `world.tools`, as an agent on a framework does."""
    messages: list[Message] = [UserMessage(prompt)]
    tool = ToolSpec("look", "Look.", msgspec.Raw(b'{"type":"object"}'))
    reply = await world.model.reply(messages, tools=[tool])
    messages += [reply.message, ToolMessage(reply.message.calls[0].id, "found")]
    return (await world.model.reply(messages, tools=[tool])).message.text


class TestRows:
    def test_are_one_for_each_loop_in_the_order_that_is_asked_for(self) -> None:
        scenario = parse_scenario(LOOKS)
        assert [row.loop for row in compare(scenario)] == list(DESIGNS)
        backwards = tuple(DESIGNS)[::-1]
        assert tuple(row.loop for row in compare(scenario, backwards)) == backwards

    def test_tell_what_each_run_came_to(self) -> None:
        for row in compare(parse_scenario(LOOKS)):
            assert (row.outcome, row.error, row.text) == ("completed", "", "Found.")
            assert (row.model_calls, row.summaries, row.tool_runs) == (2, 0, 1)
            assert (row.elapsed_ns, row.ending) == (120_000_000, "completed")
            assert (row.ok, row.exit_code, row.failures) == (True, 0, ())

    def test_cost_one_run_each(self, runs: list[str]) -> None:
        compare(parse_scenario(BROKEN_SERVER))
        assert runs == list(DESIGNS)

    def test_are_the_same_each_time(self) -> None:
        scenario = parse_scenario(BROKEN_SERVER)
        assert compare(scenario) == compare(scenario)

    def test_are_judged_by_what_is_expected_of_that_loop(self) -> None:
        rows = by_loop(BROKEN_SERVER)
        assert [rows[loop].ok for loop in DESIGNS] == [True, True, False, True]
        assert rows["react"].failures == ("expect.unused: expected 2, got 1: model.1",)
        # A command would need a file, and this scenario has none.
        assert rows["react"].reproduce == "simloop.run(scenario, seed=0, loop='react')"

    def test_count_a_retry_as_a_call_of_its_own(self) -> None:
        rows = by_loop(BROKEN_SERVER)
        assert (rows["reference"].model_calls, rows["pi"].model_calls) == (2, 1)

    def test_count_summaries_apart(self) -> None:
        row = by_loop(COMPACTS, "reference")["reference"]
        assert (row.model_calls, row.summaries) == (3, 1)

    def test_count_the_calls_that_only_the_messages_of_an_agent_show(self) -> None:
        text = LOOKS.replace("{look: {returns: found, takes: 120ms}}", "{look: {}}")
        loop = f"{__name__}:{runs_a_tool_of_its_own.__name__}"
        row = by_loop(text, loop)[loop]
        assert (row.outcome, row.tool_runs, row.failures) == ("completed", 1, ())

    def test_take_the_seed_that_is_given(self) -> None:
        (row,) = compare(parse_scenario(LOOKS), ("pi",), seed=9)
        assert row.verdict is not None
        assert row.verdict.trace is not None
        assert row.verdict.trace.header.seed == 9

    def test_may_be_of_a_version_of_a_design(self) -> None:
        row = by_loop(LOOKS, "opencode@1.18.34")["opencode@1.18.34"]
        assert (row.outcome, row.ok) == ("completed", True)


class TestWhatALoopCannotExpress:
    def test_is_a_row_with_the_reason_and_no_failure(self, runs: list[str]) -> None:
        row = by_loop(HOOKED)["react"]
        assert row.cannot == "react has no hooks"
        assert (row.ending, row.ok, row.exit_code, row.failures) == ("cannot", None, 0, ())
        assert (row.model_calls, row.tool_runs, row.elapsed_ns) == (None, None, None)
        assert runs == ["reference", "pi", "opencode"]

    def test_has_all_the_reasons(self) -> None:
        reasons = by_loop(f"abort: {{at: 1s}}\n{HOOKED}")["react"].cannot.split("; ")
        assert sorted(reasons) == sorted(
            ReactLoop.unsupported[feature] for feature in (Feature.ABORT, Feature.HOOKS)
        )


class TestErrors:
    def test_that_end_a_run_stand_in_the_place_of_its_outcome(self) -> None:
        row = by_loop(EXHAUSTED, "pi")["pi"]
        assert (row.outcome, row.error, row.ending) == ("", "ScriptExhausted", "ScriptExhausted")
        assert (row.model_calls, row.tool_runs, row.ok, row.exit_code) == (2, 1, False, 1)
        (failure,) = row.failures
        assert failure.startswith("ScriptExhausted: model: the script has no reply for request 2")

    def test_that_are_expected_are_as_they_should_be(self) -> None:
        row = by_loop(f"{EXHAUSTED}expect_on: {{pi: {{error: ScriptExhausted}}}}\n", "pi")["pi"]
        assert (row.ending, row.ok, row.failures) == ("ScriptExhausted", True, ())

    def test_leave_the_outcome_of_a_run_that_had_one(self) -> None:
        unused = LOOKS.replace("{say: Found.}", "{say: Found.}, {say: More.}")
        row = by_loop(unused, "pi")["pi"]
        assert (row.outcome, row.error) == ("completed", "ScriptUnused")
        assert (row.ending, row.ok) == ("completed", False)

    def test_name_no_file_because_the_rows_have_it_in_common(self, tmp_path: Path) -> None:
        file = tmp_path / "a.simloop.yaml"
        file.write_text(EXHAUSTED, "utf-8")
        rows = compare(file)
        assert all(row.failures for row in rows)
        assert not any(str(tmp_path) in failure for row in rows for failure in row.failures)

    def test_that_keep_a_file_from_being_read_are_in_each_row(
        self, tmp_path: Path, runs: list[str]
    ) -> None:
        file = tmp_path / "a.simloop.yaml"
        file.write_text("modell: []", "utf-8")
        rows = compare(file)
        assert [row.loop for row in rows] == list(DESIGNS)
        assert {row.ending for row in rows} == {"ScenarioError"}
        assert {row.failures[0].split(" ")[1] for row in rows} == {f"{file}:1:1:"}
        assert [row.exit_code for row in rows] == [2] * len(DESIGNS)
        assert len({id(row.verdict) for row in rows}) == 1
        assert runs == []

    def test_of_an_argument_that_means_nothing_are_rows_too(self) -> None:
        error = ScenarioError("gone", hint="look elsewhere")
        rows = unread(error, ("pi", "react"))
        assert [(row.loop, row.failures) for row in rows] == [
            ("pi", ("ScenarioError: gone (look elsewhere)",)),
            ("react", ("ScenarioError: gone (look elsewhere)",)),
        ]

    def test_of_ours_end_with_their_own_code(self) -> None:
        row = Row.of("pi", Verdict(errors=[InternalError("broken"), ScenarioError("x")]))
        assert (row.error, row.exit_code) == ("InternalError", 3)

    def test_of_a_run_that_never_ends_come_with_the_command_that_shows_it(self) -> None:
        # One text, always with a call, is what the loop of document 001 never leaves.
        text = (
            "prompt: Hi\nmax_transitions: 50\ntools: {t: {}}\n"
            "model: [{call: {t: {}}, times: always}]\n"
        )
        row = by_loop(text, "pi")["pi"]
        assert (row.error, row.exit_code) == ("RunawayRun", 1)
        assert row.reproduce.startswith("simloop.run(")
        assert row.elapsed_ns == 0
        assert "reproduce" not in row.failures[0]


def test_rows_in_which_an_earlier_prompt_ended_otherwise_did_not_go_the_same_way() -> None:
    text = "prompt: x\nthen: [y]\nmodel: [{say: Half, finish: content-filter}, {say: Done.}]"
    rows = by_loop(text, "reference", "react")
    assert rows["reference"].endings == "content-filtered, completed"
    assert rows["react"].endings == "completed, completed"
    assert not rows["react"].went_as(rows["reference"])


def test_rows_went_the_same_way_if_all_that_they_tell_of_the_run_is_equal() -> None:
    one = Row(loop="pi", outcome="completed", text="a", model_calls=1, tool_runs=0, elapsed_ns=5)
    others = [
        Row(
            loop="react",
            outcome="completed",
            text=text,
            model_calls=calls,
            elapsed_ns=ns,
            tool_runs=0,
        )
        for text, calls, ns in itertools.product(("a", "b"), (1, 2), (5, 6))
    ]
    assert [one.went_as(other) for other in others] == [True, *[False] * 7]
    assert one.went_as(replace(one, loop="react", failures=("expect.hooks: wrong",), exit_code=1))
