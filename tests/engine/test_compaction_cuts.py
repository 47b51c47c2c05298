"""Where a history is cut: calls stay with their results, the newest user message stays."""

from histories import (
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

from simloop import Compaction
from simloop.engine.compaction import Cut, plan_cut, turns_of
from simloop.kernel.policies import utf8_bytes_over_4
from simloop.messages import (
    AssistantMessage,
    Message,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[Message], Compaction, bool, int, Cut]:
    said, policy, forced = draw(histories()), draw(policies), draw(st.booleans())
    down_to = draw(st.integers(0, 200))
    cut = plan_cut(said, policy, utf8_bytes_over_4, forced=forced, down_to=down_to)
    return said, policy, forced, down_to, cut


Planned = tuple[list[Message], Compaction, bool, int, Cut]
any_cut = given(cuts())


@any_cut
def test_a_cut_parts_the_history_in_two_and_loses_nothing(planned: Planned) -> None:
    said, *_, cut = planned
    assert sorted(map(id, (*cut.removed, *cut.kept))) == sorted(map(id, said))


@any_cut
def test_a_cut_keeps_the_order(planned: Planned) -> None:
    said, *_, cut = planned
    assert in_order(cut.removed, said)
    assert in_order(cut.kept, said)


@any_cut
def test_a_cut_never_parts_a_call_from_its_results(planned: Planned) -> None:
    *_, cut = planned
    assert (unpaired(cut.removed), unpaired(cut.kept)) == ([], [])


@any_cut
def test_a_cut_keeps_the_newest_user_message(planned: Planned) -> None:
    said, *_, cut = planned
    assert newest_user(said) in cut.kept


@any_cut
def test_a_cut_keeps_the_newest_turns(planned: Planned) -> None:
    said, policy, forced, _, cut = planned
    newest = turns_of(said)[-(1 if forced else policy.keep_turns) :]
    assert in_order([message for turn in newest for message in turn], cut.kept)


@any_cut
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
def test_a_cut_takes_no_turn_more_than_it_must(planned: Planned) -> None:
    said, _, _, down_to, cut = planned
    if cut.removed:
        last_turn = turns_of(cut.removed)[-1]
        assert size(cut.kept) + size(last_turn) > down_to
    else:
        assert cut.kept == tuple(said)


@any_cut
def test_a_cut_gets_down_to_its_aim_unless_nothing_more_may_go(planned: Planned) -> None:
    said, policy, forced, down_to, cut = planned
    everything = plan_cut(said, policy, utf8_bytes_over_4, forced=forced, down_to=-1)
    assert size(cut.kept) <= down_to or cut == everything


@any_cut
def test_a_summary_stands_where_the_first_removed_message_stood(planned: Planned) -> None:
    said, *_, cut = planned
    if cut.removed:
        before = next(i for i, message in enumerate(said) if message is cut.removed[0])
        assert list(cut.with_summary("S")[: before + 1]) == [*said[:before], SummaryMessage("S")]


def test_turns_are_a_message_with_the_results_that_follow_it() -> None:
    call = ToolCall("a", "look", "{}")
    user, said, result = UserMessage("u"), AssistantMessage("s", (call,)), ToolMessage("a", "r")
    assert turns_of([user, said, result, user]) == [[user], [said, result], [user]]
