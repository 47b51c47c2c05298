"""Several prompts in one conversation: each run begins anew, and what was said stays."""

import time
from typing import Any

import pytest
from incases import in_cases

from simloop import Outcome, Result, run
from simloop.messages import AssistantMessage, Message, ToolMessage, UserMessage
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
after_any_outcome = in_cases(CASES)
TOOLS = "tools: {t: {}, slow: {takes: 1s}}"


def play(loop: str, text: str, **given: Any) -> Result:
    scenario = parse_scenario(f"prompt: Go.\nthen: [Again.]\n{TOOLS}\n{text}\n")
    return run(scenario, loop=loop, **given)


def of_kind(result: Result, kind: type[Any]) -> list[Any]:
    return [entry for entry in result.trace.entries if isinstance(entry, kind)]


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


@after_any_outcome
def test_after_any_outcome_a_second_prompt_still_works(
    loop: str, outcome: Outcome, script: str
) -> None:
    result = play(loop, script)
    assert result.outcomes == (outcome, Outcome.COMPLETED)
    assert (result.outcome, result.text, result.message) == (
        Outcome.COMPLETED,
        "Done.",
        "Done.",
    )


@after_any_outcome
def test_after_any_outcome_the_model_hears_both_prompts_and_every_call_has_a_result(
    loop: str, outcome: Outcome, script: str
) -> None:
    last = list(play(loop, script).requests[-1].messages)
    users = [message.text for message in last if isinstance(message, UserMessage)]
    assert (users[0], users[-1]) == ("Go.", "Again.")
    assert open_calls(last) == set()


@after_any_outcome
def test_after_any_outcome_the_counters_begin_anew(
    loop: str, outcome: Outcome, script: str
) -> None:
    result = play(loop, script)
    counters = result.counters
    assert counters
    assert (counters.error_count, counters.total_steps) == (0, 1)
    assert (counters.compaction_attempts, result.limit) == (0, "")


@after_any_outcome
def test_after_any_outcome_the_trace_tells_how_the_first_run_ended_and_what_came_then(
    loop: str, outcome: Outcome, script: str
) -> None:
    result = play(loop, script)
    ended, last = of_kind(result, entries.Ended)
    first, prompt = of_kind(result, entries.Prompt)
    assert (first.seq, first.text) == (0, "Go.")
    assert (ended.outcome, prompt.text) == (outcome, "Again.")
    assert prompt.seq == ended.seq + 1
    assert last is result.trace.entries[-1]


@after_any_outcome
def test_after_any_outcome_the_same_conversation_gives_the_same_bytes(
    loop: str, outcome: Outcome, script: str
) -> None:
    written = encode(play(loop, script).trace)
    assert encode(play(loop, script).trace) == written
    assert decode(written).entries == play(loop, script).trace.entries


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


def test_an_abort_at_the_very_start_does_not_stop_the_second() -> None:
    result = play("reference", "abort: {at: 0s}\nmodel: [{say: One.}]")
    assert result.outcomes == (Outcome.ABORTED, Outcome.COMPLETED)


def test_an_abort_that_waits_for_the_trace_may_wait_for_the_second_run() -> None:
    result = play("reference", f"abort: {{after: request, nth: 2}}\n{TWICE_2S}")
    assert result.outcomes == (Outcome.COMPLETED, Outcome.ABORTED)


@EVERY_LOOP
def test_each_run_has_the_whole_wall_clock_and_the_time_of_all_is_told(loop: str) -> None:
    result = play(loop, f"limits: {{max_wall_clock: 2500ms}}\n{TWICE_2S}")
    assert result.outcomes == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert (result.elapsed_ns, result.elapsed_s) == (4 * S, 4.0)
    assert [entry.elapsed_ns for entry in of_kind(result, entries.Ended)] == [2 * S, 2 * S]
    assert result.trace.footer is not None
    assert result.trace.footer.elapsed_ns == 4 * S


@EVERY_LOOP
def test_each_run_has_all_of_its_steps(loop: str) -> None:
    script = "model: [{call: {t: {}}}, {say: One.}, {call: {t: {}}}, {say: Two.}]"
    result = play(loop, f"limits: {{max_steps: 2}}\n{script}")
    assert result.outcomes == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert result.counters
    assert result.counters.total_steps == 2


@pytest.mark.parametrize("loop", ["reference", "opencode"])
def test_each_run_has_all_of_its_errors(loop: str) -> None:
    once = "{http: {status: 500}, times: 2}"
    result = play(loop, f"model: [{once}, {{say: One.}}, {once}, {{say: Two.}}]")
    assert result.outcomes == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert result.backoffs_s[:2] == result.backoffs_s[2:]


@EVERY_LOOP
def test_each_run_has_all_of_its_transitions(loop: str) -> None:
    script = "model: [{say: One.}, {say: Two.}]"
    alone = run(parse_scenario("prompt: Go.\nmodel: [{say: One.}]"), loop=loop)
    enough = len(of_kind(alone, entries.Transition))
    assert play(loop, f"max_transitions: {enough}\n{script}").text == "Two."


def test_calls_of_two_runs_never_share_an_id() -> None:
    call = "{call: {t: {}}, ids: [a]}"
    result = play("reference", f"model: [{call}, {{say: One.}}, {call}, {{say: Two.}}]")
    ids = [entry.call_id for entry in of_kind(result, entries.ToolStarted)]
    assert len(set(ids)) == 2


# ---------------------------------------------------------------------- nothing leaks


def test_what_a_hook_broke_in_one_run_is_not_the_cause_of_the_next_failure() -> None:
    result = play(
        "reference",
        "hook_isolation: {on_failure: fail-run}\n"
        "hooks: [{at: before_llm_call, nth: 1, raises: Oh.}]\n"
        "model: [{http: {status: 401, message: bad key}}]",
    )
    assert [entry.message for entry in of_kind(result, entries.Ended)] == [
        *("Error: hook hook-0: ScriptedFailure: Oh.", "Error: bad key")
    ]
    assert (result.outcome, result.message) == (Outcome.FAILED, "Error: bad key")


def test_the_text_of_one_run_is_not_that_of_the_next() -> None:
    result = play("reference", "model: [{say: One.}, {http: {status: 401}}]")
    assert (result.outcomes[1], result.text) == (Outcome.FAILED, "")


def test_a_call_that_waits_for_its_parts_can_be_stopped_at_once_in_the_next_run() -> None:
    """What `opencode` does in a model call does not last: its waits are stopped as they are."""
    result = play(
        "opencode",
        "limits: {max_wall_clock: 1000ms}\nabort: {at: 1500ms}\n"
        "model: [{say: Late., pace: {first_part: 9s}}, {http: {status: 500}}]",
    )
    assert result.outcomes == (Outcome.TIMED_OUT, Outcome.ABORTED)
    assert result.elapsed_ns == 1_500_000_000


@EVERY_LOOP
def test_what_was_written_to_files_is_there_for_the_next_prompt(loop: str) -> None:
    write = "{call: {WriteFile: {path: /a, content: kept}}}"
    read = "{call: {ReadFile: {path: /a}}}"
    result = play(loop, f"files: {{}}\nmodel: [{write}, {{say: One.}}, {read}, {{say: Two.}}]")
    assert (result.text, result.files) == ("Two.", {"a": "kept"})
    assert [entry.text for entry in of_kind(result, entries.ToolResult)][-1] == "kept"


# ---------------------------------------------------------------------- what else is said


def prompts(result: Result) -> list[str]:
    """The prompts after the first one."""
    first, *later = of_kind(result, entries.Prompt)
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


def test_several_such_messages_are_several_prompts_in_the_order_in_which_they_were_said() -> None:
    queue = "queue: [{after: tool-started, say: A}, {after: finish, nth: 1, say: B}]"
    script = f"model: [{ASKS}, {{say: Two.}}, {{say: Three.}}]"
    result = run(parse_scenario(f"prompt: Go.\n{TOOLS}\n{queue}\n{script}"), loop="react")
    assert prompts(result) == ["B", "A"]


def test_what_was_queued_is_the_next_prompt_of_react_however_the_run_ended() -> None:
    model = "model: [{call: {t: {}}}, {say: Heard.}]"
    text = f"prompt: Go.\nlimits: {{max_steps: 1}}\n{TOOLS}\n{MEANWHILE}\n{model}"
    result = run(parse_scenario(text), loop="react")
    assert result.outcomes == (Outcome.MAX_STEPS, Outcome.COMPLETED)
    assert prompts(result) == ["Also this."]


def test_what_is_queued_at_the_very_start_is_heard_in_a_run_that_takes_no_time() -> None:
    text = "prompt: Go.\nqueue: [{at: 0s, say: And this.}]\nmodel: [{say: Done.}]"
    (request,) = run(parse_scenario(text)).requests
    assert [message.text for message in request.messages] == ["Go.", "And this."]


@pytest.mark.parametrize("loop", ["reference", "pi", "opencode"])
@pytest.mark.parametrize(
    ("end", "entry"), [("unfinished: true", "stream-cut"), ("finish: stop", "finish")]
)
def test_a_reply_that_an_abort_overtakes_is_no_step(loop: str, end: str, entry: str) -> None:
    text = f"prompt: Go.\nabort: {{after: {entry}}}\nmodel: [{{say: Hello., {end}}}]"
    result = run(parse_scenario(text), loop=loop)
    assert result.counters
    assert (result.outcome, result.counters.total_steps) == (Outcome.ABORTED, 0)


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
    result = run(parse_scenario(text), loop=loop, tools=[work])
    assert [message.text for message in result.requests[-1].messages[-2:]] == ["done", "More."]


@EVERY_LOOP
def test_a_follow_up_is_heard_as_soon_as_may_be_where_there_is_but_one_queue(loop: str) -> None:
    text = """
prompt: Build it.
queue: [{after: tool-started, say: Test it., follow_up: true}]
tools: {build: {}}
model: [{call: {build: {}}}, {say: Done., times: always}]
"""
    after_the_tool = run(parse_scenario(text), loop=loop).requests[1].messages
    assert (UserMessage("Test it.") in after_the_tool) == (loop in ("reference", "opencode"))
