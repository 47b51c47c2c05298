"""Compaction in a run: what the model, the callbacks and the counters see of it."""

from typing import Any

import pytest
from builders import counters_of
from histories import PAD

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
from simloop.messages import Request, SummaryMessage
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.timeline import timeline
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


def test_the_second_summary_is_made_from_the_first_one() -> None:
    _, requests = tell(Reply(say="First."), Reply(say="Second."), rounds=6)
    second = [request for request in requests if request.purpose == "summary"][1]
    assert SummaryMessage("First.") in second.messages


def test_the_second_summary_takes_the_place_of_the_first_one() -> None:
    result, _ = tell(Reply(say="First."), Reply(say="Second."), rounds=6)
    summaries = [m for m in result.messages if isinstance(m, SummaryMessage)]
    assert summaries == [SummaryMessage("Second.")]


def test_a_second_summary_that_fails_does_not_lose_the_first_one() -> None:
    result, _ = tell(Reply(say="First."), Reply(http=Http(status=500)), rounds=6)
    assert SummaryMessage("First.") in result.messages


def test_a_summary_is_no_step_and_no_error() -> None:
    result, _ = tell(Reply(http=Http(status=500)), Reply(http=Http(status=500)), rounds=3)
    assert (counters_of(result).total_steps, counters_of(result).error_count) == (4, 0)


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


def test_too_many_messages_that_cannot_be_shortened_are_reported_as_a_count_of_messages() -> None:
    policy = Compaction(max_messages=2, keep_turns=1)
    replies = [Reply(call={"gone": {}}), Reply(say="Done.")]
    scenario = Scenario(prompt="Go.", loop="pi", compaction=policy, model=replies)
    assert notices(run(scenario)) == [f"the context has 3 messages (trigger 2), {STAY} turn stays"]


def test_a_context_that_is_shortened_or_under_its_trigger_is_not_reported() -> None:
    assert notices(tell(Reply(say="First."), Reply(say="Second."), rounds=6)[0]) == []
    assert notices(run(Scenario(prompt="Go.", model=[Reply(say="Done.")]))) == []
