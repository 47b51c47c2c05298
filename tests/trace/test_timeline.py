import asyncio

import pytest
from incases import in_cases

from simloop import (
    Callbacks,
    Hooks,
    Http,
    Limits,
    Outcome,
    Reply,
    Scenario,
    ScriptedTool,
    run,
)
from simloop.check.trial import run_to_the_end
from simloop.kernel.signals import Began
from simloop.messages import Counters, StopCause, UserMessage
from simloop.scenario.catalog import Listed, bundled
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Context
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import clock
from simloop.trace.timeline import describe, timeline
from simloop.world.world import World


def lines(scenario: Scenario) -> list[str]:
    return list(timeline(run(scenario).trace))


def test_a_run_reads_from_its_title_to_its_outcome() -> None:
    assert lines(Scenario(title="It answers", prompt="Hi", model=[Reply(say="Hello there.")])) == [
        "It answers",
        "loop reference, seed 0, default limits",
        "",
        "      0.000s  prompt        Hi",
        "              request       #1: 1 message, about 5 tokens",
        "                              + user: Hi",
        "              text          Hello there.",
        "              finish        stop",
        "              ->            closing-step (errors 0, steps 1, compactions 0)",
        "      0.000s  completed     Hello there.",
        "                            errors 0, steps 1, compactions 0",
    ]


def test_time_is_shown_when_it_has_moved() -> None:
    scenario = Scenario(
        prompt="Hi", model=[Reply(http=Http(status=500)), Reply(say="Hello.")], title="x"
    )
    assert [line[:12].strip() for line in lines(scenario) if line[:12].strip()][2:] == [
        "0.000s",
        "2.000s",
        "2.000s",
    ]


def test_a_limit_that_is_not_the_default_is_named() -> None:
    limits = Limits(max_steps=7, max_wall_clock_ms=300_000)
    scenario = Scenario(prompt="Hi", limits=limits, model=[Reply(say="Hello.")])
    assert lines(scenario)[0] == "loop reference, seed 0, max_steps 7, max_wall_clock 300s"


def test_the_limit_that_ended_the_run_is_named() -> None:
    scenario = Scenario(
        prompt="Hi", limits=Limits(max_error_count=1), model=[Reply(http=Http(status=500))]
    )
    assert lines(scenario)[-1].endswith(
        "errors 1, steps 0, compactions 0; ended by max_error_count"
    )


def test_hostile_text_is_spelled_out_wherever_it_comes_from() -> None:
    scenario = Scenario(
        title="\x1b[2J title",
        prompt="\x1b[2J prompt",
        system_prompt="\x1b[2J system",
        tools={"look": ScriptedTool(returns="\x1b[2J result")},
        model=[Reply(say="\x1b[2J text", think="\x1b[2J", call={"look": {}}), Reply(say="\x07")],
    )
    text = "\n".join(lines(scenario))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.count("\\x1b[2J") >= 6


def test_a_hook_says_what_it_did() -> None:
    def refuse(_: object) -> None:
        raise ValueError("no")

    trace = run(
        Scenario(prompt="Hi", model=[Reply(say="Hello.")]), hooks=Hooks(after_llm_call=[refuse])
    ).trace
    assert any(
        "hook          after_llm_call refuse failed: ValueError: no" in line
        for line in timeline(trace)
    )


def test_a_callback_that_failed_is_told() -> None:
    def refuse(_: object) -> None:
        raise ValueError("no")

    scenario = Scenario(prompt="Hi", model=[Reply(say="Hello.")])
    told = list(timeline(run(scenario, callbacks=Callbacks(on_text=refuse)).trace))
    assert any(line.endswith("callback      on_text failed: ValueError: no") for line in told)


def test_a_trace_that_was_cut_says_so_at_its_end() -> None:
    trace = run(Scenario(prompt="Hi", model=[Reply(say="Hello.")])).trace
    cut = decode(encode(trace).rsplit(b"\n", 2)[0] + b"\n")
    assert list(timeline(cut))[-1].strip().startswith("truncated")


@pytest.mark.slow
@in_cases(bundled(), lambda listed: listed.name)
def test_every_entry_of_a_bundled_scenario_has_words(listed: Listed) -> None:
    scenario = load_scenario(listed.path)
    trace = run_to_the_end(scenario, seed=scenario.seed, loop=scenario.loop)
    assert all(describe(entry) for entry in trace.entries)
    assert all(line == line.rstrip() for line in timeline(trace))


@pytest.mark.parametrize(
    ("at_ns", "shown"),
    [
        (0, "0.000s"),
        (120_000_000, "0.120s"),
        (3_600_000_000_001, "3600.000000001s"),
        (1500, "0.0000015s"),
    ],
)
def test_the_clock_shows_milliseconds_or_all_there_is(at_ns: int, shown: str) -> None:
    assert clock(at_ns) == shown


# ---------------------------------------------------------------------- several prompts, long runs


def test_several_prompts_read_one_after_the_other() -> None:
    scenario = Scenario(
        prompt="Hi", then=["And you?"], model=[Reply(http=Http(status=401)), Reply(say="Well.")]
    )
    told = [line[14:] for line in lines(scenario)]
    ended = next(number for number, line in enumerate(told) if line.startswith("failed"))
    assert told[ended + 1].strip() == "errors 1, steps 0, compactions 0"
    assert told[ended + 2] == "prompt        And you?"
    assert told[-2] == "completed     Well."


def test_counters_that_begin_anew_with_a_prompt_are_no_move() -> None:
    scenario = Scenario(
        prompt="Hi", then=["And you?"], model=[Reply(say="Hello."), Reply(say="Well.")]
    )
    told = [line[14:] for line in lines(scenario)]
    assert told[told.index("prompt        And you?") + 1].startswith("request ")


def test_a_long_run_is_noted_at_each_further_call() -> None:
    scenario = Scenario(
        prompt="Hi",
        loop="pi",
        tools={"look": ScriptedTool()},
        model=[Reply(call={"look": {}}, times=51), Reply(say="Done.")],
        context=Context(over=[False]),
    )
    noted = [line.strip() for line in lines(scenario) if line[14:].startswith("notice")]
    assert noted == [
        "notice        51 model calls, and no end yet",
        "notice        52 model calls, and no end yet",
    ]


def test_a_note_stands_below_the_request_that_it_is_for() -> None:
    scenario = Scenario(
        prompt="Hi", loop="opencode", limits=Limits(max_steps=1), model=[Reply(say="Done.")]
    )
    told = [line[14:].strip() for line in lines(scenario)]
    request = next(number for number, line in enumerate(told) if line.startswith("request"))
    note = next(number for number, line in enumerate(told) if line.startswith("+ assistant: The"))
    answered = next(number for number, line in enumerate(told) if line.startswith("text"))
    assert request < note < answered
    assert told[note].startswith("+ assistant: The steps are used up.")


def told_of(scenario: Scenario) -> list[str]:
    """Return the lines without their times."""
    return [line[14:] for line in lines(scenario)]


def test_an_error_has_its_class_below_it_whoever_found_it() -> None:
    stalled = Scenario(prompt="Hi", loop="react", model=[Reply(stall="before-headers")])
    refused = Scenario(prompt="Hi", loop="react", model=[Reply(http=Http(status=401))])
    below = []
    for scenario in (stalled, refused):
        told = told_of(scenario)
        number = next(n for n, line in enumerate(told) if line.startswith("error "))
        below.append((told[number].split(maxsplit=1)[1], told[number + 1].strip()))
    assert below == [
        ("the model did not answer in time", "timeout, can be retried"),
        ("401 Unauthorized", "auth, cannot be retried"),
    ]


def test_an_abort_in_a_tool_never_says_that_the_tool_did_not_run() -> None:
    told = told_of(
        load_scenario(next(one.path for one in bundled() if one.name == "abort/in-tool"))
    )
    assert "stop          the user aborts the run" in told
    assert [line[14:] for line in told if line.startswith("no result")] == [
        "Error: not finished, the request was aborted [call-1]",
        "Error: not finished, the request was aborted [call-2]",
    ]


COUNTED = Counters(1, 2, 3)


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (entries.Notice(0, 0, "51 model calls"), "notice 51 model calls"),
        (entries.Prompt(0, 0, "\x1b[2J"), "prompt \\x1b[2J"),
        (
            entries.Ended(
                0, 0, Outcome.MAX_STEPS, "max_steps", "Enough.", "text", 1, Counters(2, 3, 4)
            ),
            "max-steps Enough.",
        ),
        (
            entries.Transition(0, 0, Began(), "halting", Counters(1, 2, 3)),
            "-> halting on began (errors 1,",
        ),
        (
            entries.CallRenamed(0, 0, "call-0", "call-0#2", "read"),
            "call renamed [call-0] becomes read [call-0#2]",
        ),
        (
            entries.CallRenamed(0, 0, "", "call#1", "read"),
            "call renamed a call without an id becomes read [call#1]",
        ),
        (entries.CallBegun(0, 0, "call-1"), "call begun [call-1]"),
        (entries.StopRequested(0, 0, StopCause.WALL_CLOCK), "stop max_wall_clock is reached"),
        (entries.StreamCut(0, 0, 1), "cut the stream ended without a finish reason"),
    ],
    ids=["notice", "prompt", "ended", "halting", "renamed", "no-id", "begun", "clock", "cut"],
)
def test_an_entry_of_its_own_is_one_plain_line(entry: AnyEntry, line: str) -> None:
    assert describe(entry).startswith(line)


def test_replies_that_come_at_the_same_time_are_told_apart_by_their_request() -> None:
    async def asks_twice_at_once(_: str, world: World) -> str:
        one, other = UserMessage("one"), UserMessage("other")
        await asyncio.gather(world.model.reply([one]), world.model.reply([other]))
        return "Done."

    replies = [Reply(say=["a", "b"]), Reply(say=["c", "d"])]
    trace = run(Scenario(prompt="Hi", model=replies), loop=asks_twice_at_once).trace
    shown = [line[14:].split() for line in timeline(trace)]
    assert [words for words in shown if words[:1] in (["text"], ["finish"])] == [
        ["text", "a", "[#1]"],
        ["text", "c"],
        ["text", "b", "[#1]"],
        ["text", "d"],
        ["finish", "stop", "[#1]"],
        ["finish", "stop"],
    ]


def test_the_pieces_of_reasoning_are_one_line_as_those_of_a_text_are() -> None:
    shown = lines(Scenario(prompt="Hi", model=[Reply(think="I look around.", say="So I do.")]))
    said = [line.split(maxsplit=1) for line in shown]
    assert ["reasoning", "I look around."] in said
    assert ["text", "So I do."] in said


def test_the_findings_on_a_run_stand_in_its_header() -> None:
    trace = run(Scenario(title="It answers", prompt="Hi", model=[Reply(say="Hello.")])).trace
    title, _, wrong, empty, *_ = timeline(trace, ["expect.text: expected \x1b"])
    assert (title, wrong, empty) == ("It answers", r"FAILED: expect.text: expected \x1b", "")
