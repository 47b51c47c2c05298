"""What can be chosen about the loop of document 004, and what its version chooses.

Each option is shown without it and with it.
"""

from typing import Any

import pytest
from test_opencode import (
    CALLS,
    FIRST,
    FITS,
    RATE_LIMITED,
    STEP,
    WAYS,
    ending,
    play,
    tries,
)
from test_opencode_runs import CALL, DONE, TWO, failing, go

from simloop import (
    ExponentialBackoff,
    Http,
    Limits,
    Outcome,
    Reply,
    RunawayRun,
)
from simloop.kernel import effects, states
from simloop.kernel.machine import Bound
from simloop.kernel.signals import (
    AbortRequested,
)
from simloop.loops.opencode import MAX_STEPS, OpencodeLoop, OpencodeOptions, Steps
from simloop.messages import AssistantMessage, UserMessage
from simloop.scenario.schema import Context, Queued

TOO_LONG = Http(status=400, message="prompt is too long")
RETRIES = Bound("error_count", 6, resets=True)
STEPS = Bound("total_steps", 100, of_turns=True)
VERSION = "opencode@1.18.34"

# The machine: one test for each option


@pytest.mark.parametrize("retries", [0, 1, 5, 9, 32, 50])
def test_max_retries_bounds_the_tries_of_a_call(retries: int) -> None:
    gave_up = (Outcome.TOO_MANY_ERRORS, "max_retries")
    assert ending(*tries(retries), RATE_LIMITED, max_retries=retries) == gave_up
    _, asked = play(*tries(retries), RATE_LIMITED, max_retries=retries + 1)
    assert asked == (effects.Backoff(retries + 1),)


@pytest.mark.parametrize(
    ("steps", "note", "tools", "goes_on"),
    [
        (Steps.ENFORCE, MAX_STEPS, False, False),
        (Steps.ADVISE, MAX_STEPS, True, True),
        (Steps.UNLIMITED, "", True, True),
    ],
)
def test_steps_says_what_becomes_of_the_last_step(
    steps: Steps,
    note: str,
    tools: bool,  # noqa: FBT001
    goes_on: bool,  # noqa: FBT001
) -> None:
    last = (effects.CallModel(note=note, tools=tools, polls=True),)
    assert play(*FIRST, FITS, max_steps=2, steps=steps)[1][-1:] == last
    after, asked = play(*FIRST, *STEP, FITS, max_steps=2, steps=steps)
    if goes_on:
        assert asked[-1:] == last, "and so at every further step"
    else:
        assert after.state == states.Finished(Outcome.MAX_STEPS, "max_steps")


def test_an_abort_is_looked_for_or_seen_at_once() -> None:
    for at_once in (False, True):
        ways = ((*FIRST, FITS), (CALLS,))
        asked = [play(*way, abort_at_once=at_once)[1][-1:] for way in ways]
        polls = not at_once
        assert asked == [(effects.CallModel(polls=polls),), (effects.RunTools(polls=polls),)]
    waiting = WAYS[states.BackingOff]
    assert play(*waiting, AbortRequested())[1] == (effects.CallModel(aborted=True),)
    assert ending(*waiting, AbortRequested(), abort_at_once=True) == (Outcome.ABORTED, "")


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ({}, {"max_retries": RETRIES}),
        (
            {"steps": Steps.ENFORCE},
            {"max_retries": RETRIES, "max_steps": STEPS},
        ),
    ],
    ids=["the-document", "enforced-steps"],
)
def test_the_bounds_are_those_that_the_options_leave(
    options: dict[str, Any], bounds: dict[str, Bound]
) -> None:
    assert OpencodeLoop(options=OpencodeOptions(**options)).bounds == bounds


# The version: what `documented-loops.md` says of it


def test_with_steps_2_the_documents_model_keeps_its_tools_for_10_requests() -> None:
    """Section 4.2: the note stands in every request from the second on, and nothing else does."""
    endless = Reply(call={"t": {}}, times=9)
    result = go(endless, DONE, limits=Limits(max_steps=2))
    assert (result.outcome, len(result.requests), len(result.calls)) == (Outcome.COMPLETED, 10, 9)
    noted = [request.messages[-1] == AssistantMessage(MAX_STEPS) for request in result.requests]
    assert noted == [False] + [True] * 9
    assert all(request.tools for request in result.requests)


# Section 5: tool calls


@pytest.mark.parametrize(("loop", "at_s"), [("opencode", 2), (VERSION, 1)])
def test_the_calls_of_a_reply_run_one_after_the_other_or_in_the_version_at_once(
    loop: str, at_s: int
) -> None:
    assert go(TWO, DONE, loop=loop).elapsed_s == at_s


def test_retry_after_is_taken_as_it_is() -> None:
    asked = [Reply(http=Http(status=429, retry_after=f"{wait}s")) for wait in (45, 1)]
    assert go(*asked, DONE, loop=VERSION).backoffs_s == [45, 1]


def test_the_retry_policy_of_a_scenario_takes_the_place_of_the_first_delay() -> None:
    own = ExponentialBackoff(max_delay_ms=3_000)
    result = go(failing(500, 2), DONE, options={"first_delay_ms": 100}, retry=own)
    assert result.backoffs_s == [2, 3]


# Section 4.6: no guard against compactions that do not help


def test_an_overflow_that_no_compaction_cures_goes_on_for_ever() -> None:
    with pytest.raises(RunawayRun):
        go(
            Reply(http=TOO_LONG, times="always"),
            loop=VERSION,
            context=Context(shrunk=[False]),
            max_transitions=500,
        )


def test_a_context_that_is_always_full_is_compacted_after_every_answer() -> None:
    with pytest.raises(RunawayRun):
        go(
            Reply(say="Done.", times="always"),
            loop=VERSION,
            context=Context(over=[True], shrunk=[False]),
            max_transitions=500,
        )


# The order of the document, where it is easily missed


def test_what_the_user_says_during_a_compaction_goes_with_the_next_request() -> None:
    """Section 4.1: messages are read again from storage at the top of each turn."""
    queue = [Queued(after="compaction", say="now")]
    result = go(CALL, DONE, queue=queue, context=Context(over=[True, False]))
    assert UserMessage("now") in result.requests[1].messages


def test_what_a_run_that_ended_early_did_not_hear_comes_behind_the_next_prompt() -> None:
    """Section 4.1: there it is in storage before that prompt is; ours waits in a queue."""
    result = go(
        failing(401), DONE, queue=[Queued(after="error", say="said first")], then=["said second"]
    )
    said = [message.text for message in result.requests[-1].messages]
    assert said == ["Go.", "said second", "said first"]
