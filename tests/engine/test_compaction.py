"""Compaction: calls stay with their results, the newest user message stays, smaller or no gain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from histories import (
    PAD,
    histories,
    in_order,
    newest_user,
    policies,
    size,
    unpaired,
    without_summaries,
)
from hypothesis import given
from hypothesis import strategies as st
from interrupting import current
from worlds import Opened, in_world

from simloop import Compaction, HookIsolation, Http, Limits, Reply, Scenario, run
from simloop.engine.compaction import Compacted, Compactor, plan_cut, turns_of
from simloop.engine.context import History
from simloop.engine.model_calls import ModelCalls
from simloop.engine.settings import EngineSettings
from simloop.engine.user_code import UserCode
from simloop.kernel.policies import CompactionStrategy, utf8_bytes_over_4
from simloop.messages import AssistantMessage, Message, Request, SummaryMessage, UserMessage
from simloop.runs.run import Simulation
from simloop.scenario.replies import StreamFault
from simloop.trace import entries
from simloop.virtual.clock.timeouts import Timeouts
from simloop.world.fake_model import FunctionModel


@dataclass(frozen=True)
class Shortened:
    """What a compaction of a history came to."""

    before: list[Message]
    after: list[Message]
    compacted: Compacted
    entry: entries.Compaction
    requests: list[Request]


def shorten(
    said: Sequence[Message], policy: Compaction, summary: Reply, *, forced: bool = False
) -> Shortened:
    """Shorten a history outside of any run."""
    model = FunctionModel(lambda _: summary)

    async def main(opened: Opened) -> Shortened:
        port, interrupts = opened.world.model, opened.world.user.cancellation
        user_code = UserCode(HookIsolation(), port.recorder, interrupts, opened.raised)
        history = History(said, utf8_bytes_over_4)
        calls = ModelCalls(EngineSettings(), port.recorder, user_code)
        compactor = Compactor(policy, history, port, calls, Timeouts(*current()))
        compacted = await compactor.shorten(forced=forced)
        entry = opened.entries[-1]
        assert isinstance(entry, entries.Compaction)
        assert history.tokens == size(history.messages)
        return Shortened(list(said), history.messages, compacted, entry, model.requests)

    return in_world(main, model)


summaries = st.sampled_from(
    [
        Reply(say="S"),
        Reply(say=["S"], finish="any-word"),
        Reply(say=["long " * 300]),
        Reply(say=["cut off"], finish="length"),
        Reply(say=["filtered"], finish="content-filter"),
        Reply(say=[" \n "]),
        Reply(finish="stop"),
        Reply(say=["calls"], call={"look": {}}),
        Reply(say=["half"], unfinished=True),
        Reply(say=["half"], lost="mid-output"),
        Reply(http=Http(status=500)),
        Reply(error=StreamFault(message="too long", code="context_length_exceeded")),
        Reply(stall="before-headers"),
    ]
)
shortened = st.builds(
    lambda said, policy, summary, forced: shorten(said, policy, summary, forced=forced),
    histories(), policies, summaries, st.booleans(),
)  # fmt: skip


@given(shortened)
def test_a_compaction_makes_the_context_smaller_or_leaves_it_alone(done: Shortened) -> None:
    assert size(done.after) < size(done.before) or done.after == done.before


@given(shortened)
def test_a_compaction_says_truly_whether_it_helped(done: Shortened) -> None:
    assert done.compacted.shrunk == (size(done.after) < size(done.before))


@given(shortened)
def test_a_compaction_never_loses_the_newest_user_message(done: Shortened) -> None:
    assert newest_user(done.before) in done.after


@given(shortened)
def test_a_compaction_never_parts_a_call_from_its_results(done: Shortened) -> None:
    assert unpaired(done.after) == []


@given(shortened)
def test_a_compaction_keeps_the_order_of_what_stays(done: Shortened) -> None:
    assert in_order(without_summaries(done.after, done.before), done.before)


@given(shortened)
def test_a_compaction_puts_in_one_summary_at_most(done: Shortened) -> None:
    put_in = len(done.after) - len(without_summaries(done.after, done.before))
    assert put_in == (done.entry.strategy == CompactionStrategy.SUMMARISE)


@given(shortened)
def test_the_summary_is_asked_of_all_that_goes_and_a_last_user_message(done: Shortened) -> None:
    for request in done.requests:
        *conversation, asked = request.messages
        assert isinstance(asked, UserMessage)
        assert unpaired(conversation) == []
        if done.entry.strategy == CompactionStrategy.SUMMARISE:
            gone = [m for m in done.before if not any(m is one for one in done.after)]
            assert conversation == gone


@given(histories(), policies, st.booleans())
def test_to_drop_the_oldest_asks_no_model(
    said: list[Message],
    policy: Compaction,
    forced: bool,  # noqa: FBT001
) -> None:
    dropping = Compaction(
        window=policy.window, keep_turns=policy.keep_turns, strategy=CompactionStrategy.DROP_OLDEST
    )
    assert shorten(said, dropping, Reply(say="S"), forced=forced).requests == []


@given(shortened)
def test_a_compaction_records_its_tokens_and_its_strategy_exactly_if_it_helped(
    done: Shortened,
) -> None:
    entry = done.entry
    assert (entry.tokens_before, entry.tokens_after) == (size(done.before), size(done.after))
    assert bool(entry.strategy) == done.compacted.shrunk


@given(histories(), policies, st.booleans(), st.integers(0, 200))
def test_a_cut_takes_the_oldest_turns_and_none_more_than_it_must(
    said: list[Message],
    policy: Compaction,
    forced: bool,  # noqa: FBT001
    down_to: int,
) -> None:
    def cut_to(least: int) -> Any:
        return plan_cut(said, policy, utf8_bytes_over_4, forced=forced, down_to=least)

    cut, newest = cut_to(down_to), turns_of(said)[-(1 if forced else policy.keep_turns) :]
    assert in_order([message for turn in newest for message in turn], cut.kept)
    assert size(cut.kept) <= down_to or cut == cut_to(-1)
    assert not any(isinstance(message, SummaryMessage) for message in cut.removed)
    if not cut.removed:
        assert cut.kept == tuple(said)
        return
    assert size(cut.kept) + size(turns_of(cut.removed)[-1]) > down_to
    places = {id(message): place for place, message in enumerate(said)}
    first, last = places[id(cut.removed[0])], places[id(cut.removed[-1])]
    older = [m for m in cut.kept if places[id(m)] < last and not isinstance(m, SummaryMessage)]
    assert older in ([], [newest_user(said)])
    assert list(cut.with_summary("S")[: first + 1]) == [*said[:first], SummaryMessage("S")]


# ------------------------------------------------------------------------- fallbacks


CONVERSATION: list[Message] = [
    UserMessage("Go."),
    *(AssistantMessage(f"{number} {PAD}") for number in range(6)),
]
SIZE = size(CONVERSATION)
SUMMARISES = Compaction(window=2 * SIZE, target_percent=25, keep_turns=2)


@pytest.mark.parametrize(
    ("summary", "detail"),
    [
        (Reply(http=Http(status=500)), "the summary failed: 500 Internal Server Error"),
        (Reply(say=["half"], lost="mid-output"),
         "the summary failed: connection lost mid output"),
        (Reply(stall="before-headers"), "the summary failed: the model did not answer in time"),
        (Reply(finish="stop"), "the summary is of no use: finish stop, 0 characters"),
        (Reply(say="cut", finish="length"),
         "the summary is of no use: finish length, 3 characters"),
        (Reply(say="half", unfinished=True),
         "the summary is of no use: finish interrupted, 4 characters"),
        (Reply(say=["long " * 2_000]), "the summary is no shorter than what it replaces"),
    ],
)  # fmt: skip
def test_a_useless_summary_gives_way_to_dropping_the_oldest_turns(
    summary: Reply, detail: str
) -> None:
    entry = shorten(CONVERSATION, SUMMARISES, summary).entry
    assert (entry.strategy, entry.detail) == (CompactionStrategy.DROP_OLDEST, detail)


def test_a_summary_that_stalls_costs_the_timeout_of_a_model_call() -> None:
    scenario = Scenario(
        prompt="Go.",
        compaction=Compaction(window=130, trigger_percent=80, keep_turns=1),
        limits=Limits(first_part_timeout_ms=40),
    )
    rounds = [Reply(say=[PAD], call={"gone": {}})] * 2 + [Reply(say="Done.")]
    stalled = scenario.model_copy(
        update={"model": rounds, "summaries": [Reply(stall="before-headers")]}
    )
    assert run(stalled).elapsed_ns == 40_000_000


def test_a_normal_compaction_drops_down_to_the_target() -> None:
    policy = Compaction(
        window=2 * SIZE, target_percent=25, keep_turns=1, strategy=CompactionStrategy.DROP_OLDEST
    )
    after = size(shorten(CONVERSATION, policy, Reply(say="S")).after)
    assert policy.target - size(CONVERSATION[1:2]) < after <= policy.target


def test_a_normal_compaction_keeps_as_many_turns_as_the_policy_says() -> None:
    after = shorten(CONVERSATION, SUMMARISES, Reply(say="S")).after
    assert after == [CONVERSATION[0], SummaryMessage("S"), *CONVERSATION[-2:]]


def test_where_nothing_may_go_no_summary_is_asked_for() -> None:
    assert shorten(CONVERSATION[:3], SUMMARISES, Reply(say="S")).requests == []


def test_a_forced_compaction_drops_at_least_half_although_the_target_is_met() -> None:
    policy = Compaction(window=10 * SIZE, strategy=CompactionStrategy.DROP_OLDEST)
    after = shorten(CONVERSATION, policy, Reply(say="S"), forced=True).after
    assert size(after) <= SIZE // 2


def test_a_forced_compaction_keeps_the_newest_turn_only() -> None:
    after = shorten(CONVERSATION, SUMMARISES, Reply(say="S"), forced=True).after
    assert after == [CONVERSATION[0], SummaryMessage("S"), CONVERSATION[-1]]


def test_lone_surrogates_in_a_summary_are_replaced() -> None:
    def model(request: Request) -> Any:
        return "S\ud800" if request.purpose == "summary" else next(rounds)

    rounds = iter([Reply(say=[PAD], call={"gone": {}})] * 2 + [Reply(say="Done.")])
    policy = Compaction(window=130, trigger_percent=80, keep_turns=1)
    result = Simulation(Scenario(prompt="Go.", compaction=policy), model=model).run()
    assert result.messages[1] == SummaryMessage("S\ufffd")
