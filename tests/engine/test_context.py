"""The history: its size is that of a count from scratch, and its views never change."""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from builders import counters_of
from histories import PAD, histories, in_order, newest_user, policies, size, without_summaries
from hypothesis import given, settings
from hypothesis import strategies as st
from stopping import unpaired
from worlds import Opened, in_world

from simloop import (
    Callbacks,
    Compaction,
    HookIsolation,
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScriptExhausted,
    run,
)
from simloop.engine.context import (
    Compacted,
    Compactor,
    History,
    ScriptedContext,
    plan_cut,
    turns_of,
)
from simloop.engine.model_calls import ModelCalls
from simloop.engine.settings import EngineSettings
from simloop.engine.user_code import UserCode
from simloop.kernel.policies import message_tokens, utf8_bytes_over_4
from simloop.messages import (
    AssistantMessage,
    Message,
    Request,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.runs.run import Simulation
from simloop.scenario.loader import parse_scenario
from simloop.scenario.replies import StreamFault
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder
from simloop.trace.timeline import timeline
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.fake_model import FunctionModel

texts = st.text(st.characters(codec="utf-8"), max_size=20)
ids = st.sampled_from(["a", "b", "c"])
tool_calls = st.builds(ToolCall, ids, ids, texts)
messages = st.one_of(
    st.builds(UserMessage, texts),
    st.builds(AssistantMessage, texts, st.lists(tool_calls, max_size=3).map(tuple)),
    st.builds(ToolMessage, ids, texts, st.booleans()),
    st.builds(SummaryMessage, texts),
)
some_messages = st.lists(messages, max_size=8)
Edit = tuple[str, Any]
edits: st.SearchStrategy[list[Edit]] = st.lists(
    st.one_of(
        st.tuples(st.just("append"), messages),
        st.tuples(st.just("replace"), some_messages),
        st.tuples(st.just("cut"), st.integers(0, 8)),
    ),
    max_size=12,
)


def history_of(said: Sequence[Message]) -> History:
    return History(said, utf8_bytes_over_4)


def edit(history: History, edits: Sequence[Edit]) -> None:
    """Grow and replace it in any order; `cut` keeps the end of what is there."""
    for what, value in edits:
        if what == "append":
            history.extend((value,))
        elif what == "replace":
            history.replace(value)
        else:
            history.replace(history.messages[value:])


def tokens_from_scratch(said: Sequence[Message]) -> int:
    total = 0
    for message in said:
        words = [message.text]
        if isinstance(message, AssistantMessage):
            words += [word for call in message.calls for word in (call.name, call.arguments)]
        total += 4 + sum(-(-len(word.encode()) // 4) for word in words)
    return total


@given(some_messages, edits)
def test_the_tokens_are_those_of_a_count_from_scratch(
    start: list[Message], edits: list[Edit]
) -> None:
    history = history_of(start)
    edit(history, edits)
    assert history.tokens == tokens_from_scratch(history.messages)


@given(some_messages, edits)
def test_a_view_never_changes(start: list[Message], edits: list[Edit]) -> None:
    history = history_of(start)
    view = history.view()
    edit(history, edits)
    assert list(view) == start


# ------------------------------------------------------------------------- views


def test_a_view_is_no_copy() -> None:
    history = history_of([UserMessage("a")])
    assert history.view()[0] is history.messages[0]


# ------------------------------------------------------------------------- token estimates


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("中", 1), ("中文中文", 3), ("\ud800", 1)],
)
def test_a_token_is_a_quarter_of_the_bytes_rounded_up(text: str, tokens: int) -> None:
    assert utf8_bytes_over_4(text) == tokens


def test_a_message_costs_its_text_its_calls_and_its_frame() -> None:
    call = ToolCall("an id is not counted", "look", '{"at": "a"}')
    assert message_tokens(AssistantMessage("12345678", (call,)), utf8_bytes_over_4) == 4 + 2 + 1 + 3


def test_any_estimate_of_tokens_can_be_given() -> None:
    history = History([UserMessage("one two three")], lambda text: len(text.split()))
    assert history.tokens == 4 + 3


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
        user_code = UserCode(HookIsolation(), port.recorder, port.loop, interrupts, opened.raised)
        history = History(said, utf8_bytes_over_4)
        calls = ModelCalls(EngineSettings(), port.recorder, user_code)
        compactor = Compactor(policy, history, port, calls)
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
def test_a_compaction_gains_something_or_changes_nothing_and_says_so_truly(done: Shortened) -> None:
    entry = done.entry
    assert size(done.after) < size(done.before) or done.after == done.before
    assert done.compacted.shrunk == (size(done.after) < size(done.before))
    assert (entry.tokens_before, entry.tokens_after) == (size(done.before), size(done.after))
    assert bool(entry.strategy) == done.compacted.shrunk


@given(shortened)
def test_a_compaction_keeps_the_newest_question_the_pairs_and_the_order(done: Shortened) -> None:
    assert newest_user(done.before) in done.after
    assert unpaired(done.after) == []
    stays = without_summaries(done.after, done.before)
    assert in_order(stays, done.before)
    assert len(done.after) - len(stays) == (done.entry.strategy == "summarise")


@given(shortened)
def test_the_summary_is_asked_of_all_that_goes_and_a_last_user_message(done: Shortened) -> None:
    for request in done.requests:
        *conversation, asked = request.messages
        assert isinstance(asked, UserMessage)
        assert unpaired(conversation) == []
        if done.entry.strategy == "summarise":
            gone = [m for m in done.before if not any(m is one for one in done.after)]
            assert conversation == gone


@given(histories(), policies, st.booleans())
def test_to_drop_the_oldest_asks_no_model(
    said: list[Message],
    policy: Compaction,
    forced: bool,  # noqa: FBT001
) -> None:
    dropping = Compaction(
        window=policy.window, keep_turns=policy.keep_turns, strategy="drop-oldest"
    )
    assert shorten(said, dropping, Reply(say="S"), forced=forced).requests == []


@given(histories(), policies, st.booleans(), st.integers(0, 200))
def test_a_cut_takes_the_oldest_turns_and_none_more_than_it_must(
    said: list[Message],
    policy: Compaction,
    forced: bool,  # noqa: FBT001
    down_to: int,
) -> None:
    def cut_to(least: int) -> Any:
        return plan_cut(History(said, utf8_bytes_over_4), policy, forced=forced, down_to=least)

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
    assert (entry.strategy, entry.detail) == ("drop-oldest", detail)


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


def test_a_normal_compaction_keeps_as_many_turns_as_the_policy_says() -> None:
    after = shorten(CONVERSATION, SUMMARISES, Reply(say="S")).after
    assert after == [CONVERSATION[0], SummaryMessage("S"), *CONVERSATION[-2:]]


def test_where_nothing_may_go_no_summary_is_asked_for() -> None:
    assert shorten(CONVERSATION[:3], SUMMARISES, Reply(say="S")).requests == []


def test_a_forced_compaction_drops_at_least_half_although_the_target_is_met() -> None:
    policy = Compaction(window=10 * SIZE, strategy="drop-oldest")
    after = shorten(CONVERSATION, policy, Reply(say="S"), forced=True).after
    assert size(after) <= SIZE // 2


def test_a_forced_compaction_keeps_the_newest_turn_only() -> None:
    after = shorten(CONVERSATION, SUMMARISES, Reply(say="S"), forced=True).after
    assert after == [CONVERSATION[0], SummaryMessage("S"), CONVERSATION[-1]]


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


async def asked(
    over: tuple[bool, ...], shrunk: tuple[bool, ...], times: int
) -> tuple[list[bool], list[Compacted], History]:
    """Ask a context that is so many times how full it is, and have it shortened as often."""
    history = History((UserMessage("What does README.md say?"),), utf8_bytes_over_4)
    record: list[AnyEntry] = []
    compactor: Any = None  # needed without a script alone
    recorder = Recorder(record, running_loop())
    context = ScriptedContext([*over] or [False], [*shrunk] or [True], history, recorder, compactor)
    measured = [context.over() for _ in range(times)]
    done = [await context.shorten(forced=bool(number % 2)) for number in range(times)]
    told = [entry for entry in record if isinstance(entry, entries.Compaction)]
    assert [(e.tokens_before, e.tokens_after) for e in told] == [
        (one.tokens_before, one.tokens_after) for one in done
    ]
    assert [e.forced for e in told] == [bool(number % 2) for number in range(times)]
    return measured, done, history


@SEEDED
@given(over=WORDS, shrunk=WORDS, times=st.integers(0, 10))
def test_the_words_are_played_in_order_and_the_last_one_for_ever(
    over: tuple[bool, ...], shrunk: tuple[bool, ...], times: int
) -> None:
    measured, done, _ = inside(asked(over, shrunk, times))
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
