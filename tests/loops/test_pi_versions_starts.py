"""When the versions of pi report that a call starts, and that the user said something.

The sequences are those of the real programs, which ran the same scripts: packages
@mariozechner/pi-agent-core 0.73.1 and @earendil-works/pi-agent-core 0.87.1.
"""

from typing import Any

import pytest
from piversions import BOTH, SEQUENTIAL, TOOLS, play, talk, word

from simloop import Conversation, Reply, Result, Scenario, ScriptedHook, simulate
from simloop.runs.conversation import event_view
from simloop.scenario.triggers import Queued, Trigger
from simloop.trace.exports import pi_program_events as pi
from simloop.trace.exports.event import Event

TWO = Reply(call=[{"slow": {}}, {"quick": {}}])
DONE = Reply(say="Done.")
ASKS = ScriptedHook(at="before_tool_call", takes="1s")
SECOND = 10**9


def seen(events: list[Event]) -> list[str]:
    """The starts and ends of calls, each with its second."""
    told = [e for e in events if isinstance(e, pi.ToolExecutionStart | pi.ToolExecutionEnd)]
    return [f"{e.at_ns / SECOND:g} {word(e).removeprefix('tool_execution_')}" for e in told]


def calls(loop: str, *hooks: ScriptedHook, **more: Any) -> list[str]:
    """What the trace of a run with two calls tells of them."""
    replies = [TWO] if "abort" in more else [TWO, DONE]  # the call after an abort uses none
    result: Result = play(loop, *replies, hooks=list(hooks), **more)
    view = event_view(Scenario(prompt="Go."), loop, "program")
    return seen([event for line in result.trace.entries for event in view.feed(line)])


@BOTH
def test_a_call_starts_before_its_hooks_and_the_next_one_after_them(loop: str) -> None:
    assert calls(loop, ASKS) == ["0 start:call-1", "1 start:call-2", "3 end:call-2", "4 end:call-1"]
    more = ScriptedHook(at="before_tool_call", takes="500ms")
    expected = ["0 start:call-1", "1.5 start:call-2", "4 end:call-2", "5 end:call-1"]
    assert calls(loop, ASKS, more) == expected


@BOTH
def test_in_order_a_call_starts_before_its_hooks_when_the_one_before_has_ended(loop: str) -> None:
    expected = ["0 start:call-1", "3 end:call-1", "3 start:call-2", "5 end:call-2"]
    assert calls(loop, ASKS, tool_execution=SEQUENTIAL) == expected


@BOTH
@pytest.mark.parametrize("does", [{"block": "no"}, {"raises": "oops"}], ids=["blocks", "raises"])
def test_a_call_that_a_hook_answers_has_started_before_the_hook(
    loop: str, does: dict[str, Any]
) -> None:
    hook = ScriptedHook(at="before_tool_call", tool="slow", takes="1s", **does)
    expected = ["0 start:call-1", "1 end:call-1", "1 start:call-2", "2 end:call-2"]
    assert calls(loop, hook) == expected


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("pi@0.73.1", ["0 start:call-1", "1 start:call-2", "3 end:call-2", "4 end:call-1"]),
        ("pi@0.87.1", ["0 start:call-1", "1 end:call-1"]),
    ],
)
def test_after_an_abort_in_the_first_hook_0_87_1_starts_no_other_call(
    loop: str, expected: list[str]
) -> None:
    assert calls(loop, ASKS, abort=Trigger(at="500ms")) == expected


def test_a_live_listener_hears_of_a_start_before_the_hook() -> None:
    async def converse() -> list[Event]:
        scenario = Scenario(
            prompt="unused", loop="pi@0.87.1", tools=TOOLS, hooks=[ASKS], model=[TWO, DONE]
        )
        return [event async for event in Conversation(scenario, events="program").run("Go.")]

    assert seen(simulate(converse()))[:2] == ["0 start:call-1", "1 start:call-2"]


@pytest.mark.parametrize(
    ("loop", "nth", "ended", "ran"),
    [
        ("pi@0.73.1", 1, ["call-2", "call-1"], ["slow", "quick"]),
        ("pi@0.73.1", 2, ["call-2", "call-1"], ["slow", "quick"]),
        ("pi@0.87.1", 1, ["call-1"], []),
        ("pi@0.87.1", 2, ["call-2", "call-1"], []),
    ],
)
def test_a_listener_of_a_start_can_abort_before_the_tool_runs(
    loop: str, nth: int, ended: list[str], ran: list[str]
) -> None:
    found = talk(loop, TWO, on="tool_execution_start", nth=nth, act="abort")
    ends = [event for event in found.events if event.startswith("tool_execution_end")]
    assert (ends, found.tools) == ([f"tool_execution_end:{call}" for call in ended], ran)


# The user's messages


@BOTH
@pytest.mark.parametrize("on", ["agent_start", "turn_start", "message_start", "message_end"])
def test_what_a_listener_of_the_first_message_says_goes_with_the_first_request(
    loop: str, on: str
) -> None:
    found = talk(loop, TWO, DONE, on=on, nth=1, act="steer")
    assert found.requests == ["user user", "user user assistant tool tool"]
    assert found.events[:6] == [
        "agent_start", "turn_start", "message_start:user", "message_end:user",
        "message_start:user", "message_end:user",
    ]  # fmt: skip


@BOTH
def test_what_a_listener_of_a_later_prompt_says_goes_with_its_first_request(loop: str) -> None:
    async def converse() -> list[str]:
        model = [Reply(say="One."), Reply(say="Two.")]
        agent = Conversation(Scenario(prompt="unused", loop=loop, model=model), events="program")

        def listen(event: pi.MessageEnd) -> None:
            if event.content == "Again.":
                agent.steer("And?")

        agent.on("message_end", listen)
        events = [e for text in ("Go.", "Again.") async for e in agent.run(text)]
        return [e.content for e in events if isinstance(e, pi.MessageEnd)]

    assert simulate(converse()) == ["Go.", "One.", "Again.", "And?", "Two."]


@BOTH
def test_words_that_the_user_repeats_are_told_each_time(loop: str) -> None:
    async def converse() -> list[str]:
        model = [Reply(finish="error"), Reply(say="Two."), Reply(say="Three.")]
        later = [Queued(after="finish", nth=2, say="Go.")]
        scenario = Scenario(prompt="unused", loop=loop, model=model, queue=later)
        agent = Conversation(scenario, events="program")
        agent.steer("Go.")
        events = [e for text in ("Go.", "Go.") async for e in agent.run(text)]
        ends = [e for e in events if isinstance(e, pi.MessageEnd)]
        return [e.content for e in ends if e.role == "user"]

    assert simulate(converse()) == ["Go.", "Go.", "Go.", "Go."]
