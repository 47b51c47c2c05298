import asyncio

import pytest

from simloop import (
    Callbacks,
    Hooks,
    Http,
    Limits,
    Outcome,
    Reply,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    run,
)
from simloop.check.replay import run_to_the_end
from simloop.scenario.catalog import Listed, bundled
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Context, Trigger
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import clock, describe, timeline


def lines(scenario: Scenario) -> list[str]:
    return list(timeline(run(scenario).trace))


def test_a_run_reads_from_its_title_to_its_outcome() -> None:
    assert lines(Scenario(title="It answers", prompt="Hi", model=[Reply(say="Hello there.")])) == [
        "It answers",
        "loop reference, seed 0, default limits",
        "",
        "      0.000s  request       #1: 1 message, about 5 tokens",
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


@pytest.mark.parametrize("listed", list(bundled()), ids=lambda listed: listed.name)
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


def rounds(trace: LoopTrace) -> list[tuple[int, str | None, tuple[str, ...]]]:
    return [(r.request_number, r.finish_reason, r.tools) for r in trace.rounds()]


def test_rounds_summarise_each_call_of_the_model() -> None:
    scenario = Scenario(
        prompt="Hi",
        tools={"look": ScriptedTool(returns="x")},
        model=[Reply(http=Http(status=500)), Reply(call={"look": {}}), Reply(say="Done.")],
    )
    assert rounds(run(scenario).trace) == [
        (1, None, ()),
        (2, "tool-calls", ("look",)),
        (3, "stop", ()),
    ]


def test_a_round_knows_its_size_and_the_time_of_its_hooks() -> None:
    async def slow(_: object) -> None:
        await asyncio.sleep(0.25)

    trace = run(
        Scenario(prompt="Hi", model=[Reply(say="Hello.")]),
        hooks=Hooks(before_llm_call=[slow], after_llm_call=[slow]),
    ).trace
    (only,) = trace.rounds()
    assert (only.messages, only.tokens, only.hooks_ns) == (1, 5, 500_000_000)


def test_rounds_are_those_of_a_loop_that_measures_nothing_too() -> None:
    scenario = Scenario(
        prompt="Hi",
        loop="react",
        then=["Again"],
        tools={"look": ScriptedTool(returns="x")},
        model=[Reply(call={"look": {}}), Reply(say="Done."), Reply(say="Done again.")],
    )
    assert rounds(run(scenario).trace) == [
        (1, "tool-calls", ("look",)),
        (2, "stop", ()),
        (3, "stop", ()),
    ]


@pytest.mark.parametrize("loop", ["reference", "pi", "opencode"])
def test_the_rounds_of_a_loop_that_has_hooks_have_the_time_of_their_own_hooks(loop: str) -> None:
    hooks = [
        ScriptedHook(at="before_llm_call", nth=2, takes="250ms"),
        ScriptedHook(at="after_llm_call", nth=1, takes="500ms"),
    ]
    scenario = Scenario(
        prompt="Hi",
        loop=loop,
        hooks=hooks,
        tools={"look": ScriptedTool(returns="x")},
        model=[Reply(call={"look": {}}), Reply(say="Done.")],
    )
    trace = run(scenario).trace
    assert [r.hooks_ns for r in trace.rounds()] == [500_000_000, 250_000_000]


FORCED = Scenario(
    prompt="Hi",
    tools={"look": ScriptedTool(returns="x" * 400)},
    model=[
        Reply(call={"look": {}}, times=2),
        Reply(http=Http(status=400, code="context_length_exceeded")),
        Reply(say="Done."),
    ],
    summaries=[Reply(say="Looked.")],
)


def test_a_failed_call_has_no_finish_though_a_summary_that_follows_it_has() -> None:
    trace = run(FORCED).trace
    compacted = [entry for entry in trace.entries if isinstance(entry, entries.Compaction)]
    assert [entry.forced for entry in compacted] == [True]
    assert [(r.finish_reason, r.tools) for r in trace.rounds()] == [
        ("tool-calls", ("look",)),
        ("tool-calls", ("look",)),
        (None, ()),
        ("stop", ()),
    ]


def test_a_call_that_is_made_after_an_abort_is_a_round_without_a_finish() -> None:
    scenario = Scenario(
        prompt="Hi",
        loop="pi@0.87.1",
        tools={"look": ScriptedTool(takes="2s")},
        model=[Reply(call={"look": {}})],
        abort=Trigger(at="1s"),
    )
    assert rounds(run(scenario).trace) == [(1, "tool-calls", ("look",)), (2, None, ())]


# ---------------------------------------------------------------------- several prompts, long runs


def test_several_prompts_read_one_after_the_other() -> None:
    scenario = Scenario(
        prompt="Hi", then=["And you?"], model=[Reply(http=Http(status=401)), Reply(say="Well.")]
    )
    told = [line[14:] for line in lines(scenario)]
    ended = next(number for number, line in enumerate(told) if line.startswith("failed"))
    assert told[ended + 1] == "prompt        And you?"
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
    note = next(number for number, line in enumerate(told) if line.startswith("this time only"))
    answered = next(number for number, line in enumerate(told) if line.startswith("text"))
    assert request < note < answered
    assert told[note].startswith("this time only: assistant: The steps are used up.")


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (entries.Notice(0, 0, "51 model calls"), "notice 51 model calls"),
        (entries.Prompt(0, 0, "\x1b[2J"), "prompt \\x1b[2J"),
        (
            entries.Ended(0, 0, Outcome.MAX_STEPS, "max_steps", "Enough.", "text", 1, 2, 3, 4),
            "max-steps Enough.",
        ),
        (entries.Transition(0, 0, "began", "halting", 1, 2, 3), "-> halting on began (errors 1,"),
    ],
    ids=["notice", "prompt", "ended", "halting"],
)
def test_an_entry_of_its_own_is_one_plain_line(entry: AnyEntry, line: str) -> None:
    assert describe(entry).startswith(line)
