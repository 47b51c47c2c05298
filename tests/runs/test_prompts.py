"""Several prompts in one conversation: each run begins anew, and what was said stays."""

import asyncio
import time
from typing import Any

import pytest
from builders import counters_of, entries_of, play_text

from simloop import Outcome, Result, ScenarioError, Simulation, run, simulate
from simloop.messages import AssistantMessage, Counters, Message, ToolMessage, UserMessage
from simloop.scenario.designs import DESIGNS
from simloop.scenario.loader import parse_scenario
from simloop.trace import entries
from simloop.trace.codec import decode, encode

S = 10**9
EVERY_LOOP = pytest.mark.parametrize("loop", DESIGNS)

# For each outcome of the first run: the loops that can come to it, and what brings them there.
FIRST: list[tuple[Outcome, str, str]] = [
    (Outcome.COMPLETED, "reference pi react opencode", "model: [{say: One.}, {say: Done.}]"),
    (
        Outcome.FAILED,
        "reference pi react opencode",
        "model: [{http: {status: 401}}, {say: Done.}]",
    ),
    (
        Outcome.TIMED_OUT,
        "reference pi react opencode",
        """
limits: {max_wall_clock: 1000ms}
model: [{say: Late., pace: {first_part: 2s}}, {say: Done.}]
""",
    ),
    (
        Outcome.ABORTED,
        "reference pi opencode pi@0.87.1 opencode@1.18.34",
        "abort: {after: tool-started}\nmodel: [{call: {t: {}, slow: {}}}, {say: Done.}]",
    ),
    (
        Outcome.MAX_STEPS,
        "reference react opencode",
        """
loops: {opencode: {steps: enforce}}
limits: {max_steps: 1}
model: [{call: {t: {}}}, {say: Done.}]
""",
    ),
    (
        Outcome.BLOCKED,
        "reference pi opencode",
        "hooks: [{at: before_llm_call, nth: 1, block: Not now.}]\nmodel: [{say: Done.}]",
    ),
    (
        Outcome.TOO_MANY_ERRORS,
        "reference opencode",
        "limits: {max_error_count: 6}\nmodel: [{http: {status: 500}, times: 6}, {say: Done.}]",
    ),
    (
        Outcome.CONTENT_FILTERED,
        "reference pi opencode@1.18.34",
        "model: [{say: Half., finish: content-filter}, {say: Done.}]",
    ),
    (
        Outcome.MODEL_ERROR,
        "reference pi",
        "model: [{say: Half., finish: error}, {say: Done.}]",
    ),
    (
        Outcome.CONTEXT_LIMIT,
        "reference",
        "limits: {max_compaction_attempts: 0}\nmodel: [{say: Half., finish: length}, {say: Done.}]",
    ),
    (
        Outcome.CONTEXT_LIMIT,
        "opencode",
        "context: {over: [true, false], shrunk: [false]}\nmodel: [{say: One.}, {say: Done.}]",
    ),
]
CASES = [(loop, outcome, script) for outcome, loops, script in FIRST for loop in loops.split()]
TOOLS = "tools: {t: {}, slow: {takes: 1s}}"


def play(loop: str, text: str, **given: Any) -> Result:
    scenario = parse_scenario(f"prompt: Go.\nthen: [Again.]\n{TOOLS}\n{text}\n")
    return run(scenario, loop=loop, **given)


def open_calls(messages: list[Message]) -> set[str]:
    """The calls that have no result, and the results that answer no call."""
    asked = {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }
    return asked ^ {message.call_id for message in messages if isinstance(message, ToolMessage)}


def test_every_outcome_is_tried_here() -> None:
    assert {outcome for outcome, _, _ in FIRST} == set(Outcome)


@pytest.mark.parametrize(("loop", "outcome", "script"), CASES)
def test_after_any_outcome_a_second_prompt_begins_anew_and_hears_what_was_said(
    loop: str, outcome: Outcome, script: str
) -> None:
    result = play(loop, script)
    assert result.outcomes == (outcome, Outcome.COMPLETED)
    assert (result.text, result.message, result.limit) == ("Done.", "Done.", "")
    assert counters_of(result) == Counters(0, 1, 0)
    last = list(result.requests[-1].messages)
    users = [message.text for message in last if isinstance(message, UserMessage)]
    assert (users[0], users[-1]) == ("Go.", "Again.")
    assert open_calls(last) == set()
    ended, end = entries_of(result, entries.Ended)
    first, prompt = entries_of(result, entries.Prompt)
    assert (first.seq, first.text, ended.outcome, prompt.text) == (0, "Go.", outcome, "Again.")
    assert (prompt.seq, end) == (ended.seq + 1, result.trace.entries[-1])
    written = encode(result.trace)
    assert encode(play(loop, script).trace) == written
    assert decode(written).entries == result.trace.entries


# ---------------------------------------------------------------------- time

TWICE_2S = "model: [{say: One., pace: {first_part: 2s}}, {say: Two., pace: {first_part: 2s}}]"


@pytest.mark.parametrize(
    ("loop", "seconds"),
    [("reference", 3), ("pi", 3), ("opencode@1.18.34", 3), ("opencode", 4)],
    ids=str,
)
def test_an_abort_that_falls_into_the_second_run_stops_that(loop: str, seconds: int) -> None:
    result = play(loop, f"abort: {{at: 3s}}\n{TWICE_2S}")
    assert result.outcomes == (Outcome.COMPLETED, Outcome.ABORTED)
    assert result.elapsed_ns == seconds * S


def test_an_abort_that_fell_into_the_first_run_does_not_stop_the_second() -> None:
    result = play("reference", f"abort: {{at: 1s}}\n{TWICE_2S}")
    assert result.outcomes == (Outcome.ABORTED, Outcome.COMPLETED)
    assert result.elapsed_ns == 3 * S


def test_an_abort_that_waits_for_the_trace_may_wait_for_the_second_run() -> None:
    result = play("reference", f"abort: {{after: request, nth: 2}}\n{TWICE_2S}")
    assert result.outcomes == (Outcome.COMPLETED, Outcome.ABORTED)


@EVERY_LOOP
def test_each_run_has_the_whole_wall_clock_and_the_time_of_all_is_told(loop: str) -> None:
    result = play(loop, f"limits: {{max_wall_clock: 2500ms}}\n{TWICE_2S}")
    assert result.outcomes == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert (result.elapsed_ns, result.elapsed_s) == (4 * S, 4.0)
    assert [entry.elapsed_ns for entry in entries_of(result, entries.Ended)] == [2 * S, 2 * S]
    assert result.trace.footer is not None
    assert result.trace.footer.elapsed_ns == 4 * S


@EVERY_LOOP
def test_each_run_has_all_of_its_steps(loop: str) -> None:
    script = "model: [{call: {t: {}}}, {say: One.}, {call: {t: {}}}, {say: Two.}]"
    result = play(loop, f"limits: {{max_steps: 2}}\n{script}")
    assert result.outcomes == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert counters_of(result).total_steps == 2


@pytest.mark.parametrize("loop", ["reference", "opencode"])
def test_each_run_has_all_of_its_errors(loop: str) -> None:
    once = "{http: {status: 500}, times: 2}"
    result = play(loop, f"model: [{once}, {{say: One.}}, {once}, {{say: Two.}}]")
    assert result.outcomes == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert result.backoffs_s[:2] == result.backoffs_s[2:]


@EVERY_LOOP
def test_each_run_has_all_of_its_transitions(loop: str) -> None:
    script = "model: [{say: One.}, {say: Two.}]"
    alone = play_text("prompt: Go.\nmodel: [{say: One.}]", loop=loop)
    enough = len(entries_of(alone, entries.Transition))
    assert play(loop, f"max_transitions: {enough}\n{script}").text == "Two."


def test_calls_of_two_runs_never_share_an_id() -> None:
    call = "{call: {t: {}}, ids: [a]}"
    result = play("reference", f"model: [{call}, {{say: One.}}, {call}, {{say: Two.}}]")
    ids = [entry.call_id for entry in entries_of(result, entries.ToolStarted)]
    assert len(set(ids)) == 2


# ---------------------------------------------------------------------- nothing leaks


@EVERY_LOOP
def test_what_was_written_to_files_is_there_for_the_next_prompt(loop: str) -> None:
    write = "{call: {WriteFile: {path: /a, content: kept}}}"
    read = "{call: {ReadFile: {path: /a}}}"
    result = play(loop, f"files: {{}}\nmodel: [{write}, {{say: One.}}, {read}, {{say: Two.}}]")
    assert (result.text, result.files) == ("Two.", {"a": "kept"})
    assert [entry.text for entry in entries_of(result, entries.ToolResult)][-1] == "kept"


# ---------------------------------------------------------------------- what else is said


def prompts(result: Result) -> list[str]:
    """The prompts after the first one."""
    first, *later = entries_of(result, entries.Prompt)
    assert first.text == "Go."
    return [entry.text for entry in later]


MEANWHILE = "queue: [{after: tool-started, say: Also this.}]"
ASKS = "{call: {t: {}}}, {say: One.}"


def test_a_loop_without_a_queue_hears_it_as_the_next_prompt_before_those_that_were_planned() -> (
    None
):
    result = play("react", f"{MEANWHILE}\nmodel: [{ASKS}, {{say: Two.}}, {{say: Three.}}]")
    assert prompts(result) == ["Also this.", "Again."]
    assert result.outcomes == (Outcome.COMPLETED,) * 3


@pytest.mark.parametrize("loop", ["reference", "pi", "opencode"])
def test_a_loop_with_a_queue_hears_it_in_the_same_run(loop: str) -> None:
    result = play(loop, f"{MEANWHILE}\nmodel: [{ASKS}, {{say: Two.}}]")
    assert prompts(result) == ["Again."]
    assert [type(message).__name__ for message in result.requests[1].messages] == [
        *("UserMessage", "AssistantMessage", "ToolMessage", "UserMessage")
    ]


def test_what_is_queued_at_the_very_start_is_heard_in_a_run_that_takes_no_time() -> None:
    text = "prompt: Go.\nqueue: [{at: 0s, say: And this.}]\nmodel: [{say: Done.}]"
    (request,) = play_text(text).requests
    assert [message.text for message in request.messages] == ["Go.", "And this."]


@pytest.mark.parametrize("loop", ["reference", "pi", "opencode"])
@pytest.mark.parametrize(
    ("end", "entry"), [("unfinished: true", "stream-cut"), ("finish: stop", "finish")]
)
def test_a_reply_that_an_abort_overtakes_is_no_step(loop: str, end: str, entry: str) -> None:
    text = f"prompt: Go.\nabort: {{after: {entry}}}\nmodel: [{{say: Hello., {end}}}]"
    result = play_text(text, loop=loop)
    assert (result.outcome, counters_of(result).total_steps) == (Outcome.ABORTED, 0)


@pytest.mark.parametrize("loop", ["reference", "pi", "opencode"])
def test_what_is_said_while_time_passes_in_a_tool_that_waits_for_nothing_is_heard(
    loop: str,
) -> None:
    def work() -> str:
        time.sleep(1)
        return "done"

    text = (
        "prompt: Go.\nqueue: [{at: 500ms, say: More.}]\nmodel: [{call: {work: {}}}, {say: Done.}]"
    )
    result = play_text(text, loop=loop, tools=[work])
    assert [message.text for message in result.requests[-1].messages[-2:]] == ["done", "More."]


@EVERY_LOOP
def test_a_follow_up_is_heard_as_soon_as_may_be_where_there_is_but_one_queue(loop: str) -> None:
    text = """
prompt: Build it.
queue: [{after: tool-started, say: Test it., follow_up: true}]
tools: {build: {}}
model: [{call: {build: {}}}, {say: Done., times: always}]
"""
    after_the_tool = play_text(text, loop=loop).requests[1].messages
    assert (UserMessage("Test it.") in after_the_tool) == (loop in ("reference", "opencode"))


# ---------------------------------------------------------------------- prompts sent one by one

TALK = parse_scenario("prompt: Go.\nmodel: [{say: One.}, {stall: before-headers}, {say: Three.}]")


def test_an_abort_between_two_prompts_stops_neither() -> None:
    simulation = Simulation(parse_scenario("prompt: Go.\nmodel: [{say: One.}, {say: Two.}]"))

    async def talk() -> list[Outcome]:
        simulation.abort()
        first = await simulation.send("Go.")
        simulation.abort()
        await asyncio.sleep(1)
        simulation.abort()
        second = await simulation.send("Again.")
        return [first.outcome, second.outcome]

    assert simulate(talk()) == [Outcome.COMPLETED, Outcome.COMPLETED]


def test_after_a_run_that_was_cancelled_there_is_nothing_to_go_on_from() -> None:
    simulation = Simulation(TALK)

    async def talk() -> None:
        await simulation.send("Go.")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await simulation.send("Again.")
        with pytest.raises(ScenarioError, match="was cut short"):
            await simulation.send("And again.")

    simulate(talk())


def test_two_prompts_cannot_be_run_at_once() -> None:
    simulation = Simulation(TALK)

    async def talk() -> None:
        await simulation.send("Go.")
        waiting = asyncio.create_task(simulation.send("Again."))
        await asyncio.sleep(0)
        with pytest.raises(ScenarioError, match="is under way"):
            await simulation.send("And again.")
        waiting.cancel()

    simulate(talk())
