"""Compaction in a run: what the model, the callbacks and the counters see of it."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from builders import counters_of
from histories import PAD
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop import (
    Callbacks,
    Compaction,
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScriptExhausted,
    run,
)
from simloop.engine.compaction import Compacted, ScriptedContext
from simloop.engine.context import History
from simloop.engine.settings import ContextScript
from simloop.kernel.policies import utf8_bytes_over_4
from simloop.messages import Request, SummaryMessage, UserMessage
from simloop.runs.run import Simulation
from simloop.scenario.loader import parse_scenario
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder
from simloop.trace.timeline import timeline
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.fake_model import FunctionModel


def tell(*summaries: Reply, rounds: int, **options: Any) -> tuple[Result, list[Request]]:
    """A run of long tool rounds that is over the trigger again and again."""
    main = iter([Reply(say=[f"{n} {PAD}"], call={"gone": {}}) for n in range(rounds)])
    side = iter(summaries)

    def answer(request: Request) -> Any:
        return next(side if request.purpose == "summary" else main, "Done.")

    model = FunctionModel(answer)
    policy = Compaction(window=200, trigger_percent=80, keep_turns=1)
    scenario = Scenario(prompt="Go.", compaction=policy, **options)
    callbacks = Callbacks(on_compacted=lambda *_: None)
    return Simulation(scenario, model=model, callbacks=callbacks).run(), model.requests


def test_the_second_summary_takes_the_place_of_the_first_one() -> None:
    result, _ = tell(Reply(say="First."), Reply(say="Second."), rounds=6)
    summaries = [m for m in result.messages if isinstance(m, SummaryMessage)]
    assert summaries == [SummaryMessage("Second.")]


def test_the_second_summary_is_made_from_the_first_one_and_loses_it_only_if_it_is_made() -> None:
    result, requests = tell(Reply(say="First."), Reply(http=Http(status=500)), rounds=6)
    second = [request for request in requests if request.purpose == "summary"][1]
    assert SummaryMessage("First.") in second.messages
    assert SummaryMessage("First.") in result.messages


def test_a_summary_is_told_to_no_callback() -> None:
    heard: list[str] = []
    callbacks = Callbacks(
        on_chunk=lambda part: heard.append(getattr(part, "text", "")), on_text=heard.append
    )
    replies = [Reply(say=[PAD], call={"gone": {}})] * 2 + [Reply(say="Done.")]
    scenario = Scenario(
        prompt="Go.",
        compaction=Compaction(window=130, trigger_percent=80, keep_turns=1),
        model=replies,
        summaries=[Reply(say="Secret.")],
    )
    Simulation(scenario, callbacks=callbacks).run()
    assert "Secret." not in heard


def test_on_compacted_is_told_the_tokens_before_and_after() -> None:
    told: list[tuple[int, int]] = []
    replies = [Reply(say=[PAD], call={"gone": {}})] * 2 + [Reply(say="Done.")]
    scenario = Scenario(
        prompt="Go.",
        compaction=Compaction(window=130, trigger_percent=80, keep_turns=1),
        model=replies,
        summaries=[Reply(say="S")],
    )
    callbacks = Callbacks(on_compacted=lambda before, after: told.append((before, after)))
    trace = Simulation(scenario, callbacks=callbacks).run().trace
    recorded = [e for e in trace.entries if isinstance(e, entries.Compaction)]
    assert told == [(e.tokens_before, e.tokens_after) for e in recorded]


def test_a_summary_that_the_script_does_not_have_is_an_error_of_the_script() -> None:
    scenario = Scenario(
        prompt="Go.",
        compaction=Compaction(window=130, trigger_percent=80, keep_turns=1),
        model=[Reply(say=[PAD], call={"gone": {}})] * 2 + [Reply(say="Done.")],
    )
    with pytest.raises(ScriptExhausted, match="summaries"):
        run(scenario)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(say="Half.", finish="length"),
        Reply(http=Http(status=400, code="context_length_exceeded")),
    ],
    ids=["length", "overflow"],
)
def test_a_forced_compaction_that_gains_nothing_is_the_context_limit(reply: Reply) -> None:
    assert run(Scenario(prompt="Go.", model=[reply])).outcome is Outcome.CONTEXT_LIMIT


def test_a_context_over_the_trigger_without_attempts_left_is_sent_as_it_is() -> None:
    result, _ = tell(rounds=4, limits=Limits(max_compaction_attempts=0))
    assert (result.outcome, len(result.messages)) == (Outcome.COMPLETED, 10)


def notices(result: Result) -> list[str]:
    return [entry.text for entry in result.trace.entries if isinstance(entry, entries.Notice)]


STAY = "but nothing may be dropped: the newest"


def test_a_context_that_cannot_be_shortened_is_reported_once_with_its_size() -> None:
    policy = Compaction(window=100, trigger_percent=50, keep_turns=3)
    replies = [Reply(say=[PAD], call={"gone": {}})] * 2 + [Reply(say="Done.")]
    result = run(Scenario(prompt="Go.", compaction=policy, model=replies))
    assert result.outcome is Outcome.COMPLETED
    assert counters_of(result).compaction_attempts == 0
    text = f"the context has 72 tokens (trigger 50), {STAY} 3 turns stay"
    assert notices(result) == [text]
    assert f"notice        {text}" in "\n".join(timeline(result.trace))


def test_a_context_that_cannot_be_shortened_is_reported_in_each_run_of_a_conversation() -> None:
    policy = Compaction(window=100, trigger_percent=50, keep_turns=4)
    replies = [Reply(say=[PAD], call={"gone": {}}), Reply(say="Done."), Reply(say="Done.")]
    scenario = Scenario(prompt="Go.", then=["Go on."], compaction=policy, model=replies)
    assert [text.partition(" (")[0] for text in notices(run(scenario))] == [
        "the context has 72 tokens",
        "the context has 84 tokens",
    ]


SEEDED = settings(derandomize=True)
WORDS = st.lists(st.booleans(), max_size=6).map(tuple)
T = TypeVar("T")


def inside(main: Coroutine[Any, Any, T]) -> T:
    return run_virtual(main)


async def asked(script: ContextScript, times: int) -> tuple[list[bool], list[Compacted], History]:
    """Ask a context that is so many times how full it is, and have it shortened as often."""
    history = History((UserMessage("What does README.md say?"),), utf8_bytes_over_4)
    record: list[AnyEntry] = []
    context = ScriptedContext(script, history, Recorder(record, running_loop()))
    over = [context.over() for _ in range(times)]
    done = [await context.shorten(forced=bool(number % 2)) for number in range(times)]
    told = [entry for entry in record if isinstance(entry, entries.Compaction)]
    assert [(e.tokens_before, e.tokens_after) for e in told] == [
        (one.tokens_before, one.tokens_after) for one in done
    ]
    assert [e.forced for e in told] == [bool(number % 2) for number in range(times)]
    return over, done, history


@SEEDED
@given(over=WORDS, shrunk=WORDS, times=st.integers(0, 10))
def test_the_words_are_played_in_order_and_the_last_one_for_ever(
    over: tuple[bool, ...], shrunk: tuple[bool, ...], times: int
) -> None:
    measured, done, _ = inside(asked(ContextScript(over=over, shrunk=shrunk), times))
    assert measured == [(*over, *over[-1:] * 10)[n] if over else False for n in range(times)]
    gained = [one.shrunk for one in done]
    assert gained == [(*shrunk, *shrunk[-1:] * 10)[n] if shrunk else True for n in range(times)]


# ---------------------------------------------------------------------- in a run


def compacting(context: str, **limits: int) -> Result:
    bounds = ", ".join(f"{name}: {value}" for name, value in limits.items())
    return run(
        parse_scenario(f"""
prompt: x
limits: {{{bounds}}}
context: {context}
tools: {{look: {{}}}}
model: [{{call: {{look: {{}}}}}}, {{say: Done.}}]
""")
    )


def test_a_run_compacts_where_the_script_says_so_and_asks_no_summary() -> None:
    result = compacting("{over: [false, true, false]}")
    assert (result.outcome, counters_of(result).compaction_attempts) == (Outcome.COMPLETED, 1)
    assert [request.purpose for request in result.requests] == ["main", "main"]
    kinds = [type(entry) for entry in result.trace.entries]
    assert kinds.count(entries.Compaction) == 1
    assert kinds.index(entries.ToolResult) < kinds.index(entries.Compaction)


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_a_context_that_is_always_over_uses_up_the_attempts(attempts: int) -> None:
    result = compacting("{over: [true]}", max_compaction_attempts=attempts)
    assert (result.outcome, counters_of(result).compaction_attempts) == (
        Outcome.COMPLETED,
        attempts,
    )
