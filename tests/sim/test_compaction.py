"""Compaction: calls stay with their results, the newest user message stays, smaller or no gain."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop import (
    Callbacks,
    Compaction,
    HookIsolation,
    Hooks,
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScriptExhausted,
    Simulation,
    run,
)
from simloop.kernel.policies import CompactionStrategy
from simloop.messages import (
    AssistantMessage,
    Message,
    Request,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.scenario.replies import StreamFault
from simloop.sim.clock import run_virtual
from simloop.sim.compaction import Compacted, Compactor, Cut, plan_cut, turns_of
from simloop.sim.context import History, message_tokens, utf8_bytes_over_4
from simloop.sim.interrupts import Interrupts, Watch
from simloop.sim.model import FunctionModel
from simloop.sim.modelcalls import ModelCalls
from simloop.sim.requests import Requests
from simloop.sim.session import Session
from simloop.sim.simulate import running_loop
from simloop.sim.usercode import UserCode
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder

PAD = "word " * 40


# ------------------------------------------------------------------------- any history


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Turns of every kind, numbered so that no two messages are equal; at least one user's."""
    kinds = draw(st.lists(st.sampled_from(["user", "said", "calls", "summary"]), max_size=9))
    kinds.insert(draw(st.integers(0, len(kinds))), "user")
    sizes = st.sampled_from([0, 1, 10, 100])
    said: list[Message] = []
    for number, kind in enumerate(kinds):
        text = f"{kind} {number} " + "x" * draw(sizes)
        if kind == "user":
            said.append(UserMessage(text))
        elif kind == "summary":
            said.append(SummaryMessage(text))
        else:
            count = draw(st.integers(1, 3)) if kind == "calls" else 0
            calls = tuple(ToolCall(f"{number}.{i}", "look", "{}") for i in range(count))
            said.append(AssistantMessage(text, calls))
            said += [ToolMessage(call.id, f"saw {call.id} " + "x" * draw(sizes)) for call in calls]
    return said


policies = st.builds(
    lambda window, trigger, target, keep, strategy: Compaction(
        window=window,
        trigger_percent=trigger,
        target_percent=target,
        keep_turns=keep,
        strategy=strategy,
    ),
    st.integers(1, 400),
    st.integers(1, 100),
    st.integers(1, 100),
    st.integers(1, 5),
    st.sampled_from(CompactionStrategy),
)


def size(messages: Sequence[Message]) -> int:
    return sum(message_tokens(message, utf8_bytes_over_4) for message in messages)


def newest_user(messages: Sequence[Message]) -> Message:
    return [message for message in messages if isinstance(message, UserMessage)][-1]


def without_summaries(messages: Sequence[Message], old: Sequence[Message]) -> list[Message]:
    """What is left of `old` in `messages`: all but a summary that was put in."""
    return [message for message in messages if any(message is one for one in old)]


def in_order(part: Sequence[Message], whole: Sequence[Message]) -> bool:
    rest = iter(whole)
    return all(any(message is one for one in rest) for message in part)


def unpaired(messages: Sequence[Message]) -> list[str]:
    """Calls that are not answered right after their reply, and results without a call."""
    wrong: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if open_calls[:1] == [message.call_id]:
                open_calls.pop(0)
            else:
                wrong.append(message.call_id)
            continue
        wrong += open_calls
        calls = message.calls if isinstance(message, AssistantMessage) else ()
        open_calls = [call.id for call in calls]
    return wrong + open_calls


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[Message], Compaction, bool, int, Cut]:
    said, policy, forced = draw(histories()), draw(policies), draw(st.booleans())
    down_to = draw(st.integers(0, 200))
    cut = plan_cut(said, policy, utf8_bytes_over_4, forced=forced, down_to=down_to)
    return said, policy, forced, down_to, cut


Planned = tuple[list[Message], Compaction, bool, int, Cut]
any_cut = given(cuts())
modest = settings(deadline=None, max_examples=80)


@any_cut
@modest
def test_a_cut_parts_the_history_in_two_and_loses_nothing(planned: Planned) -> None:
    said, *_, cut = planned
    assert sorted(map(id, (*cut.removed, *cut.kept))) == sorted(map(id, said))


@any_cut
@modest
def test_a_cut_keeps_the_order(planned: Planned) -> None:
    said, *_, cut = planned
    assert in_order(cut.removed, said)
    assert in_order(cut.kept, said)


@any_cut
@modest
def test_a_cut_never_parts_a_call_from_its_results(planned: Planned) -> None:
    *_, cut = planned
    assert (unpaired(cut.removed), unpaired(cut.kept)) == ([], [])


@any_cut
@modest
def test_a_cut_keeps_the_newest_user_message(planned: Planned) -> None:
    said, *_, cut = planned
    assert newest_user(said) in cut.kept


@any_cut
@modest
def test_a_cut_keeps_the_newest_turns(planned: Planned) -> None:
    said, policy, forced, _, cut = planned
    newest = turns_of(said)[-(1 if forced else policy.keep_turns) :]
    assert in_order([message for turn in newest for message in turn], cut.kept)


@any_cut
@modest
def test_a_cut_takes_the_oldest_turns_first(planned: Planned) -> None:
    said, *_, cut = planned
    if cut.removed:
        last = next(i for i, message in enumerate(said) if message is cut.removed[-1])
        stayed = without_summaries(said[: last + 1], cut.kept)
        assert [m for m in stayed if not isinstance(m, SummaryMessage)] in (
            [],
            [newest_user(said)],
        )


@any_cut
@modest
def test_a_cut_takes_no_turn_more_than_it_must(planned: Planned) -> None:
    said, _, _, down_to, cut = planned
    if cut.removed:
        last_turn = turns_of(cut.removed)[-1]
        assert size(cut.kept) + size(last_turn) > down_to
    else:
        assert cut.kept == tuple(said)


@any_cut
@modest
def test_a_cut_gets_down_to_its_aim_unless_nothing_more_may_go(planned: Planned) -> None:
    said, policy, forced, down_to, cut = planned
    everything = plan_cut(said, policy, utf8_bytes_over_4, forced=forced, down_to=-1)
    assert size(cut.kept) <= down_to or cut == everything


@any_cut
@modest
def test_a_summary_stands_where_the_first_removed_message_stood(planned: Planned) -> None:
    said, *_, cut = planned
    if cut.removed:
        before = next(i for i, message in enumerate(said) if message is cut.removed[0])
        assert list(cut.with_summary("S")[: before + 1]) == [*said[:before], SummaryMessage("S")]


def test_turns_are_a_message_with_the_results_that_follow_it() -> None:
    call = ToolCall("a", "look", "{}")
    user, said, result = UserMessage("u"), AssistantMessage("s", (call,)), ToolMessage("a", "r")
    assert turns_of([user, said, result, user]) == [[user], [said, result], [user]]


# ------------------------------------------------------------------------- any compaction


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
    record: list[AnyEntry] = []

    async def main() -> Shortened:
        loop, task = running_loop(), asyncio.current_task()
        assert task is not None
        recorder, interrupts = Recorder(record, loop), Interrupts(loop, task)
        user_code = UserCode(HookIsolation(), recorder, interrupts)
        session = Session(recorder, interrupts, user_code, Hooks(), Callbacks())
        history = History(said, utf8_bytes_over_4)
        compactor = Compactor(
            policy,
            history,
            Requests(history, recorder),
            ModelCalls(model, Limits(), session),
            Watch(loop, task),
        )
        compacted = await compactor.shorten(forced=forced)
        entry = record[-1]
        assert isinstance(entry, entries.Compaction)
        assert history.tokens == size(history.messages)
        return Shortened(list(said), history.messages, compacted, entry, model.requests)

    return run_virtual(main())


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
@modest
def test_a_compaction_makes_the_context_smaller_or_leaves_it_alone(done: Shortened) -> None:
    assert size(done.after) < size(done.before) or done.after == done.before


@given(shortened)
@modest
def test_a_compaction_says_truly_whether_it_helped(done: Shortened) -> None:
    assert done.compacted.shrunk == (size(done.after) < size(done.before))


@given(shortened)
@modest
def test_a_compaction_names_its_strategy_exactly_if_it_helped(done: Shortened) -> None:
    assert bool(done.entry.strategy) == done.compacted.shrunk


@given(shortened)
@modest
def test_a_compaction_records_the_tokens_before_and_after(done: Shortened) -> None:
    recorded = (done.entry.tokens_before, done.entry.tokens_after)
    assert recorded == (size(done.before), size(done.after))


@given(shortened)
@modest
def test_a_compaction_never_loses_the_newest_user_message(done: Shortened) -> None:
    assert newest_user(done.before) in done.after


@given(shortened)
@modest
def test_a_compaction_never_parts_a_call_from_its_results(done: Shortened) -> None:
    assert unpaired(done.after) == []


@given(shortened)
@modest
def test_a_compaction_keeps_the_order_of_what_stays(done: Shortened) -> None:
    assert in_order(without_summaries(done.after, done.before), done.before)


@given(shortened)
@modest
def test_a_compaction_puts_in_one_summary_at_most(done: Shortened) -> None:
    put_in = len(done.after) - len(without_summaries(done.after, done.before))
    assert put_in == (done.entry.strategy == CompactionStrategy.SUMMARISE)


@given(shortened)
@modest
def test_the_summary_is_asked_of_all_that_goes_and_a_last_user_message(done: Shortened) -> None:
    for request in done.requests:
        *conversation, asked = request.messages
        assert isinstance(asked, UserMessage)
        assert unpaired(conversation) == []
        if done.entry.strategy == CompactionStrategy.SUMMARISE:
            gone = [m for m in done.before if not any(m is one for one in done.after)]
            assert conversation == gone


@given(histories(), policies, st.booleans())
@modest
def test_to_drop_the_oldest_asks_no_model(
    said: list[Message],
    policy: Compaction,
    forced: bool,  # noqa: FBT001
) -> None:
    dropping = Compaction(
        window=policy.window, keep_turns=policy.keep_turns, strategy=CompactionStrategy.DROP_OLDEST
    )
    assert shorten(said, dropping, Reply(say="S"), forced=forced).requests == []


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


def test_a_forced_compaction_drops_at_least_half_although_the_target_is_met() -> None:
    policy = Compaction(window=10 * SIZE, strategy=CompactionStrategy.DROP_OLDEST)
    after = shorten(CONVERSATION, policy, Reply(say="S"), forced=True).after
    assert size(after) <= SIZE // 2


def test_a_normal_compaction_keeps_as_many_turns_as_the_policy_says() -> None:
    after = shorten(CONVERSATION, SUMMARISES, Reply(say="S")).after
    assert after == [CONVERSATION[0], SummaryMessage("S"), *CONVERSATION[-2:]]


def test_a_forced_compaction_keeps_the_newest_turn_only() -> None:
    after = shorten(CONVERSATION, SUMMARISES, Reply(say="S"), forced=True).after
    assert after == [CONVERSATION[0], SummaryMessage("S"), CONVERSATION[-1]]


def test_where_nothing_may_go_no_summary_is_asked_for() -> None:
    assert shorten(CONVERSATION[:3], SUMMARISES, Reply(say="S")).requests == []


def test_lone_surrogates_in_a_summary_are_replaced() -> None:
    def model(request: Request) -> Any:
        return "S\ud800" if request.purpose == "summary" else next(rounds)

    rounds = iter([Reply(say=[PAD], call={"gone": {}})] * 2 + [Reply(say="Done.")])
    policy = Compaction(window=130, trigger_percent=80, keep_turns=1)
    result = Simulation(Scenario(prompt="Go.", compaction=policy), model=model).run()
    assert result.messages[1] == SummaryMessage("S\ufffd")


# ------------------------------------------------------------------------- in a run


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
    assert (result.counters.total_steps, result.counters.error_count) == (4, 0)


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
