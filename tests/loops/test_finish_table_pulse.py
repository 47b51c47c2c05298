"""The finish-reason table of Pulse Coder, as `documented-loops.md` 1.4 prints it.

The reference loop is the documented one (527e790), mended: each row has what it does, and where it
differs on purpose the rows of the catalogue of real bugs that the mends in docs/loops.md answer.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from builders import counters_of
from incases import in_cases

from simloop import Limits, Outcome, Reply, Result, Scenario, ScriptedTool, run
from simloop.loops import reference
from simloop.messages import UserMessage
from simloop.scenario.schema import Context
from simloop.trace import entries

PAGE = Path(reference.__file__).parents[2] / "docs" / "loops.md"
TOOLS = {"t": ScriptedTool(returns="ok")}
DONE = Reply(say="Done.")
COMPLETED = Outcome.COMPLETED


def go(*model: Reply, **more: Any) -> Result:
    return run(Scenario(prompt="Go.", tools=TOOLS, model=list(model), **more))


def mends() -> set[str]:
    """The rows of the catalogue that the mends answer, by their numbers."""
    table = PAGE.read_text("utf-8").partition("| mend | answers |")[2].partition("\n\n")[0]
    answers = " ".join(line.split("|")[2] for line in table.splitlines() if line.startswith("|"))
    return set(re.findall(r"\b[A-I]\d{1,2}\b", answers))


# The replies; then the outcome, the message to the user, the text, and the requests.
ROWS: dict[str, tuple[list[Reply], tuple[Outcome, str, str, int]]] = {
    "stop, text": ([DONE], (COMPLETED, "Done.", "Done.", 1)),
    "stop, call": (
        [Reply(call={"t": {}}, finish="stop"), DONE],
        (COMPLETED, "Done.", "Done.", 2),
    ),
    "stop, text and call": (
        [Reply(say="I look.", call={"t": {}}, finish="stop"), DONE],
        (COMPLETED, "Done.", "Done.", 2),
    ),
    "filter, nothing": (
        [Reply(finish="content_filter")],
        (Outcome.CONTENT_FILTERED, "Content filtered.", "", 1),
    ),
    "filter, text": (
        [Reply(say="Half", finish="content_filter")],
        (Outcome.CONTENT_FILTERED, "Content filtered.", "Half", 1),
    ),
    "error, nothing": ([Reply(finish="error")], (Outcome.MODEL_ERROR, "Task failed.", "", 1)),
    "error, text": (
        [Reply(say="Half", finish="error")],
        (Outcome.MODEL_ERROR, "Task failed.", "Half", 1),
    ),
    "tool-calls, call": ([Reply(call={"t": {}}), DONE], (COMPLETED, "Done.", "Done.", 2)),
    "other, text": ([Reply(say="Done.", finish="weird")], (COMPLETED, "Done.", "Done.", 1)),
}


@in_cases(ROWS)
def test_a_reply_leads_where_its_row_says(row: str) -> None:
    replies, expected = ROWS[row]
    result = go(*replies)
    assert (result.outcome, result.message, result.text, len(result.requests)) == expected
    assert counters_of(result).error_count == 0


@pytest.mark.parametrize(
    ("reply", "bugs"),
    [
        (Reply(finish="stop"), {"A11", "A15"}),
        (Reply(finish="weird"), {"A11", "A15"}),
        (Reply(finish="tool_calls"), {"A2"}),
        (Reply(say="Hm.", finish="tool_calls"), {"A2"}),
    ],
    ids=["stop", "other", "tool-calls", "tool-calls-with-text"],
)
def test_a_useless_reply_is_an_error_that_is_tried_again(reply: Reply, bugs: set[str]) -> None:
    """Three of them end the run; 527e790 completes, or goes round to `max_steps`."""
    once = go(reply, DONE)
    assert (once.outcome, counters_of(once).error_count, once.backoffs_s) == (COMPLETED, 1, [2.0])
    always = go(reply.model_copy(update={"times": "always"}))
    assert (always.outcome, always.limit) == (Outcome.TOO_MANY_ERRORS, "max_error_count")
    assert len(always.requests) == 3
    assert bugs <= mends()


# length

LENGTH = Reply(say="Half", finish="length")
ROOM = Context(shrunk=[True])


def test_length_forces_a_compaction_while_attempts_are_left() -> None:
    result = go(LENGTH, LENGTH, DONE, context=ROOM)
    forced = [e.forced for e in result.trace.entries if isinstance(e, entries.Compaction)]
    assert (result.outcome, result.message, forced) == (COMPLETED, "Done.", [True, True])
    assert counters_of(result).error_count == 0
    always = go(LENGTH.model_copy(update={"times": "always"}), context=ROOM)
    assert (always.outcome, len(always.requests)) == (Outcome.CONTEXT_LIMIT, 3)
    assert [type(m) for m in always.requests[-1].messages] == [UserMessage], "none is appended"
    assert "A12" in mends()


@pytest.mark.parametrize("say", ["", "Half"])
def test_length_without_attempts_says_context_limit_reached(say: str) -> None:
    result = go(Reply(say=say, finish="length"), limits=Limits(max_compaction_attempts=0))
    assert (result.outcome, result.message) == (Outcome.CONTEXT_LIMIT, "Context limit reached.")
    assert (result.text, result.limit) == (say, "max_compaction_attempts")


def test_length_with_a_call_executes_nothing() -> None:
    result = go(Reply(call={"t": {}}, finish="length"), DONE, context=ROOM)
    assert (result.calls, result.outcome) == ([], COMPLETED)
    assert {"A9", "D11", "D12"} <= mends()


def test_tool_calls_go_on_until_max_steps() -> None:
    result = go(Reply(call={"t": {}}, times=2), limits=Limits(max_steps=2))
    told = (Outcome.MAX_STEPS, "Max steps reached, task may be incomplete.")
    assert (result.outcome, result.message) == told
    assert (len(result.requests), len(result.calls)) == (2, 2)
