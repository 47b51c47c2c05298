"""The finish-reason table of Pulse Coder, as `documented-loops.md` 1.4 prints it.

OLD is 527e790, which documents 000/002 describe; NEW is 8b75a91. The reference loop is the
documented one, mended: where it does as OLD, that is asserted; where it differs on purpose, what
it does and that the difference is listed, by the row of the catalogue of real bugs.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from builders import counters_of

from simloop import Limits, Outcome, Reply, Result, Scenario, ScriptedTool, run
from simloop.loops import reference
from simloop.messages import UserMessage
from simloop.scenario.schema import Context
from simloop.trace import entries

PAGE = Path(reference.__file__).parents[2] / "docs" / "loops.md"
TOOLS = {"t": ScriptedTool(returns="ok")}
DONE = Reply(say="Done.")


def go(*model: Reply, **more: Any) -> Result:
    return run(Scenario(prompt="Go.", tools=TOOLS, model=list(model), **more))


def mends() -> set[str]:
    """The rows of the catalogue that the mends answer, by their numbers."""
    table = PAGE.read_text("utf-8").partition("| mend | answers |")[2].partition("\n\n")[0]
    answers = " ".join(line.split("|")[2] for line in table.splitlines() if line.startswith("|"))
    listed = f"{reference.__doc__} {answers}"
    return set(re.findall(r"\b[A-I]\d{1,2}\b", listed))


def told(result: Result) -> tuple[Outcome, str]:
    return result.outcome, result.message


def is_an_error_that_is_tried_again(reply: Reply) -> None:
    """Three of them end the run, each after a longer wait; one costs one error."""
    once = go(reply, DONE)
    assert (once.outcome, counters_of(once).error_count, once.backoffs_s) == (
        Outcome.COMPLETED,
        1,
        [2.0],
    )
    always = go(reply.model_copy(update={"times": "always"}))
    assert (always.outcome, always.limit) == (Outcome.TOO_MANY_ERRORS, "max_error_count")
    assert len(always.requests) == 3


# stop


def test_pulse_527e790_stop_with_text_gives_the_text() -> None:
    assert told(go(DONE)) == (Outcome.COMPLETED, "Done.")


def test_pulse_8b75a91_stop_with_text_gives_the_text() -> None:
    assert told(go(DONE)) == (Outcome.COMPLETED, "Done.")


EMPTY = Reply(finish="stop")


def test_pulse_527e790_stop_without_text_says_task_completed_and_ours_tries_again() -> None:
    is_an_error_that_is_tried_again(EMPTY)
    assert {"A11", "A15"} <= mends()


def test_pulse_8b75a91_stop_without_text_goes_on_without_bound_and_ours_ends_after_3() -> None:
    always = go(Reply(finish="stop", times="always"))
    assert (always.outcome, len(always.requests)) == (Outcome.TOO_MANY_ERRORS, 3)
    assert {"A11", "A15"} <= mends()


STOP_WITH_CALL = Reply(call={"t": {}}, finish="stop")


def test_pulse_527e790_stop_with_a_call_runs_it_and_ends_and_ours_shows_the_result() -> None:
    result = go(STOP_WITH_CALL, DONE)
    assert ([call.name for call in result.calls], told(result)) == (
        ["t"],
        (Outcome.COMPLETED, "Done."),
    )
    assert "D13" in mends()


@pytest.mark.parametrize("say", ["", "I look."])
def test_pulse_8b75a91_stop_with_a_call_goes_on_and_so_does_ours_with_text_too(say: str) -> None:
    """There it works by accident, when the text is empty; here the calls decide."""
    result = go(Reply(say=say, call={"t": {}}, finish="stop"), DONE)
    assert (len(result.requests), counters_of(result).error_count) == (2, 0)


# length

LENGTH = Reply(say="Half", finish="length")
ROOM = Context(shrunk=[True])


def forced(result: Result) -> list[bool]:
    return [e.forced for e in result.trace.entries if isinstance(e, entries.Compaction)]


def test_pulse_527e790_length_forces_a_compaction_while_attempts_are_left() -> None:
    result = go(LENGTH, LENGTH, DONE, context=ROOM)
    assert (told(result), forced(result)) == ((Outcome.COMPLETED, "Done."), [True, True])
    assert counters_of(result).error_count == 0


def test_pulse_527e790_length_without_attempts_says_context_limit_reached() -> None:
    """The reply's own words are `text`; the program would return those instead."""
    none_left = Limits(max_compaction_attempts=0)
    for say in ("", "Half"):
        result = go(Reply(say=say, finish="length"), limits=none_left)
        assert told(result) == (Outcome.CONTEXT_LIMIT, "Context limit reached.")
        assert (result.text, result.limit) == (say, "max_compaction_attempts")


def test_pulse_8b75a91_length_goes_on_without_bound_and_ours_ends_after_2_compactions() -> None:
    result = go(LENGTH.model_copy(update={"times": "always"}), context=ROOM)
    assert (result.outcome, len(result.requests)) == (Outcome.CONTEXT_LIMIT, 3)
    assert [type(m) for m in result.requests[-1].messages] == [UserMessage], "none is appended"
    assert "A12" in mends()


def test_pulse_length_with_a_call_executes_nothing() -> None:
    result = go(Reply(call={"t": {}}, finish="length"), DONE, context=ROOM)
    assert (result.calls, result.outcome) == ([], Outcome.COMPLETED)
    assert {"A9", "D11", "D12"} <= mends()


# content-filter and error


@pytest.mark.parametrize(
    ("finish", "outcome", "says"),
    [
        ("content_filter", Outcome.CONTENT_FILTERED, "Content filtered."),
        ("error", Outcome.MODEL_ERROR, "Task failed."),
    ],
)
def test_pulse_527e790_a_filter_or_an_error_without_text_says_so(
    finish: str, outcome: Outcome, says: str
) -> None:
    assert told(go(Reply(finish=finish))) == (outcome, says)


@pytest.mark.parametrize(
    ("finish", "outcome", "says"),
    [
        ("content_filter", Outcome.CONTENT_FILTERED, "Content filtered."),
        ("error", Outcome.MODEL_ERROR, "Task failed."),
    ],
)
def test_pulse_527e790_a_filter_or_an_error_with_text_gives_it_and_ours_keeps_it_apart(
    finish: str, outcome: Outcome, says: str
) -> None:
    result = go(Reply(say="Half", finish=finish))
    assert (told(result), result.text) == ((outcome, says), "Half")


def test_pulse_8b75a91_a_filter_without_text_warns_and_ours_says_the_documents_words() -> None:
    assert go(Reply(finish="content_filter")).message == "Content filtered."


def test_pulse_8b75a91_an_error_is_as_in_527e790() -> None:
    assert told(go(Reply(finish="error"))) == (Outcome.MODEL_ERROR, "Task failed.")


def test_that_an_early_end_does_not_pass_the_text_off_as_its_message_is_listed() -> None:
    """The end tells why. Rows `length`, `content-filter`, `error`, `tool-calls`."""
    assert "an early end is told as such" in PAGE.read_text("utf-8")


# tool-calls

MAX_2 = Limits(max_steps=2)


def test_pulse_527e790_tool_calls_go_on_until_max_steps() -> None:
    result = go(Reply(call={"t": {}}, times=2), limits=MAX_2)
    assert told(result) == (Outcome.MAX_STEPS, "Max steps reached, task may be incomplete.")
    assert (len(result.requests), len(result.calls)) == (2, 2)


def test_pulse_8b75a91_tool_calls_are_as_in_527e790() -> None:
    result = go(Reply(call={"t": {}}), DONE, limits=MAX_2)
    assert (told(result), len(result.requests)) == ((Outcome.COMPLETED, "Done."), 2)


@pytest.mark.parametrize("say", ["", "Hm."], ids=["empty", "text"])
def test_pulse_527e790_tool_calls_without_a_call_loop_to_max_steps_and_ours_is_an_error(
    say: str,
) -> None:
    is_an_error_that_is_tried_again(Reply(say=say, finish="tool_calls"))
    assert "A2" in mends()


# any other word


def test_pulse_527e790_an_unknown_word_with_text_gives_the_text() -> None:
    assert told(go(Reply(say="Done.", finish="weird_reason"))) == (Outcome.COMPLETED, "Done.")


def test_pulse_8b75a91_an_unknown_word_with_text_gives_the_text() -> None:
    result = go(Reply(say="Done.", finish="weird_reason"))
    assert (told(result), len(result.requests)) == ((Outcome.COMPLETED, "Done."), 1)


def test_pulse_527e790_an_unknown_word_without_text_says_completed_and_ours_tries_again() -> None:
    is_an_error_that_is_tried_again(Reply(finish="weird_reason"))
    assert {"A11", "A15"} <= mends()


def test_pulse_8b75a91_an_unknown_word_without_text_has_no_bound_and_ours_ends_after_3() -> None:
    always = go(Reply(finish="weird_reason", times="always"))
    assert (always.outcome, len(always.requests)) == (Outcome.TOO_MANY_ERRORS, 3)
    assert {"A1", "A12"} <= mends()
