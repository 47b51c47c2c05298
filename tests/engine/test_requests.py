"""Requests: what a trace says was sent is what was sent, to the last message."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from simloop.engine.requests import Requests

from simloop import Compaction, Hooks, Http, Limits, Reply, Scenario, Simulation
from simloop.engine.context import History, utf8_bytes_over_4
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import AssistantMessage, Message, Request, ToolSpec, UserMessage
from simloop.trace import entries, views
from simloop.trace.codec import decode, encode
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder
from simloop.virtual.clock import run_virtual
from simloop.virtual.simulate import running_loop
from simloop.world.fake_model import FunctionModel

PAD = "word " * 40
COMPACTS = Compaction(window=130, trigger_percent=80, target_percent=60, keep_turns=1)
Sent = tuple[int, str, str, list[Message], tuple[ToolSpec, ...]]
"""Number, purpose, system prompt, messages, tools."""


def replay(recorded: Sequence[AnyEntry]) -> Iterator[Sent]:
    """The requests, made again from what the trace says changed since the last main one.

    A summary request stands on its own: it has no tools and is nobody's last one.
    """
    system_prompt, messages, tools = "", list[Message](), tuple[ToolSpec, ...]()
    for entry in recorded:
        if not isinstance(entry, entries.Request):
            continue
        if entry.purpose == "summary":
            assert entry.system_prompt is not UNSET
            assert (entry.kept, entry.tools) == (0, UNSET)
            yield entry.number, entry.purpose, str(entry.system_prompt), list(entry.added), ()
            continue
        messages = [*messages[: entry.kept], *entry.added]
        system_prompt = system_prompt if entry.system_prompt is UNSET else str(entry.system_prompt)
        tools = tools if isinstance(entry.tools, type(UNSET)) else entry.tools
        yield entry.number, entry.purpose, system_prompt, messages, tools


def sent(requests: Sequence[Request]) -> list[Sent]:
    return [(r.number, r.purpose, r.system_prompt, list(r.messages), r.tools) for r in requests]


def look() -> str:
    return "seen"


def note(text: str = "") -> str:
    return text


rounds = st.lists(
    st.sampled_from(
        [
            Reply(say=[PAD], call={"look": {}}),
            Reply(say=[PAD], call=[{"note": {"text": "é\u2028"}}, {"gone": {}}]),
            Reply(call={"look": {}}),
            Reply(say="Half.", finish="length"),
            Reply(say="Lost.", call={"look": {}}, lost="mid-output"),
            Reply(http=Http(status=503)),
            Reply(http=Http(status=400, code="context_length_exceeded")),
            Reply(finish="stop"),
        ]
    ),
    max_size=8,
)
changes = st.lists(
    st.tuples(st.sampled_from(["", "Be brief.", "Be long."]), st.booleans()), max_size=8
)


def play(
    replies: Sequence[Reply], changes: Sequence[tuple[str, bool]], summaries: Sequence[Reply]
) -> tuple[Simulation, list[Request]]:
    """A run whose hook makes another request of each call."""
    main, side, change = iter(replies), iter(summaries), iter(changes)

    def answer(request: Request) -> Any:
        return next(side if request.purpose == "summary" else main, "Done.")

    def hook(given: Any) -> None:
        given.system_prompt, withhold = next(change, (given.system_prompt, False))
        if withhold:
            given.tools.pop("look")

    model = FunctionModel(answer)
    scenario = Scenario(
        prompt="Go.",
        system_prompt="Be nice.",
        compaction=COMPACTS,
        limits=Limits(max_error_count=5, max_compaction_attempts=3),
        retry=ExponentialBackoff(initial_delay_ms=1),
    )
    hooks = Hooks(before_llm_call=[hook])
    simulation = Simulation(scenario, model=model, hooks=hooks, tools=[look, note])
    simulation.run()
    return simulation, model.requests


any_run = st.builds(
    play,
    rounds,
    changes,
    st.lists(st.sampled_from([Reply(say="Sum."), Reply(http=Http(status=500))]), max_size=3),
)
modest = settings(deadline=None, max_examples=60)


@given(any_run)
@modest
def test_the_trace_gives_every_request_as_it_was_sent(
    played: tuple[Simulation, list[Request]],
) -> None:
    simulation, requests = played
    assert list(replay(simulation.trace.entries)) == sent(requests)


@given(any_run)
@modest
def test_a_trace_that_was_written_and_read_gives_every_request_as_it_was_sent(
    played: tuple[Simulation, list[Request]],
) -> None:
    simulation, requests = played
    recorded = decode(encode(simulation.trace)).entries
    assert list(replay(recorded)) == sent(requests)


@given(any_run)
@modest
def test_tokens_and_digest_of_a_request_are_those_of_its_messages(
    played: tuple[Simulation, list[Request]],
) -> None:
    simulation, requests = played
    recorded = [e for e in simulation.trace.entries if isinstance(e, entries.Request)]
    histories = [History(request.messages, utf8_bytes_over_4) for request in requests]
    assert [(e.tokens, e.digest) for e in recorded] == [(h.tokens, h.digest) for h in histories]


@given(any_run)
@modest
def test_requests_are_numbered_from_one_without_a_gap(
    played: tuple[Simulation, list[Request]],
) -> None:
    simulation, requests = played
    assert [request.number for request in requests] == list(range(1, len(requests) + 1))
    assert simulation.trace.footer is not None


def recorded(*replies: Reply, change: Callable[[Any], None] | None = None) -> list[entries.Request]:
    hooks = Hooks(before_llm_call=[change] if change else [])
    model = iter(replies)
    scenario = Scenario(prompt="Go.", system_prompt="Be nice.")
    run = Simulation(scenario, model=lambda _: next(model), tools=[look], hooks=hooks).run()
    return [entry for entry in run.trace.entries if isinstance(entry, entries.Request)]


LOOK, DONE = Reply(call={"look": {}}), Reply(say="Done.")


def test_a_request_records_only_what_is_new() -> None:
    second = recorded(LOOK, DONE)[1]
    assert (second.kept, len(second.added)) == (1, 2)


def test_a_retry_records_no_message_again() -> None:
    second = recorded(Reply(http=Http(status=503)), DONE)[1]
    assert (second.kept, second.added) == (1, ())


def test_system_prompt_and_tools_are_recorded_when_they_change() -> None:
    first, second = recorded(LOOK, DONE)
    assert first.system_prompt == "Be nice."
    assert isinstance(first.tools, tuple)
    assert (second.system_prompt, second.tools) == (UNSET, UNSET)


def test_a_system_prompt_that_changes_back_is_recorded_again() -> None:
    def hook(given: Any) -> None:
        if given.step_number == 1:
            given.system_prompt = "Be brief."

    prompts = [entry.system_prompt for entry in recorded(LOOK, DONE, change=hook)]
    assert prompts == ["Be brief.", "Be nice."]


def test_a_request_never_changes_after_it_was_sent() -> None:
    model = FunctionModel(lambda r: "Done." if len(r.messages) > 6 else LOOK)
    Simulation(Scenario(prompt="Go."), model=model, tools=[look]).run()
    assert [len(request.messages) for request in model.requests] == [1, 3, 5, 7]


def test_the_trace_grows_with_the_run_and_not_with_its_square() -> None:
    def added(rounds: int) -> int:
        return sum(len(entry.added) for entry in recorded(*[LOOK] * rounds, DONE))

    assert added(40) == 2 * added(20) - 1


# ---------------------------------------------------------------------- a note


def noted(*notes: str) -> tuple[list[Request], list[entries.Request], History]:
    """Requests over one growing history, each with its note or without one."""

    async def inside() -> tuple[list[Request], list[entries.Request], History]:
        history, record = History((UserMessage("Go."),), utf8_bytes_over_4), list[AnyEntry]()
        requests = Requests(history, Recorder(record, running_loop()))
        made = []
        for number, text in enumerate(notes):
            made.append(requests.main("Be nice.", (), text))
            history.append(UserMessage(f"More {number}."))
        return made, [e for e in record if isinstance(e, entries.Request)], history

    return run_virtual(inside())


@given(st.lists(st.sampled_from(["", "The last one.", "é\u2028"]), min_size=1, max_size=5))
@settings(deadline=None, derandomize=True)
def test_a_note_is_the_last_message_of_its_request_and_of_no_other(notes: list[str]) -> None:
    made, _, history = noted(*notes)
    for number, (request, text) in enumerate(zip(made, notes, strict=True)):
        plain = history.messages[: number + 1]
        assert list(request.messages) == [*plain, *([AssistantMessage(text)] if text else [])]


def test_a_note_never_becomes_part_of_the_conversation() -> None:
    _, _, history = noted("One.", "", "Two.")
    assert {type(message) for message in history.messages} == {UserMessage}


@given(st.lists(st.sampled_from(["", "The last one."]), min_size=1, max_size=5))
@settings(deadline=None, derandomize=True)
def test_a_note_is_recorded_beside_the_messages_and_not_among_them(notes: list[str]) -> None:
    _, with_notes, _ = noted(*notes)
    _, without, _ = noted(*[""] * len(notes))
    assert [entry.note for entry in with_notes] == notes
    assert [(e.kept, e.added, e.tokens, e.digest) for e in with_notes] == [
        (e.kept, e.added, e.tokens, e.digest) for e in without
    ]


def test_a_trace_that_was_written_and_read_gives_a_note_as_it_was_sent() -> None:
    scenario = Scenario(prompt="Go.", loop="opencode", limits=Limits(max_steps=2))
    model = FunctionModel(lambda r: "Done." if len(r.messages) > 3 else LOOK)
    simulation = Simulation(scenario, model=model, tools=[look])
    simulation.run()
    read = list(views.requests(decode(encode(simulation.trace)).entries))
    assert sent(read) == sent(model.requests)
    assert [type(request.messages[-1]) for request in read] == [UserMessage, AssistantMessage]
