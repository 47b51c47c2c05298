"""Requests: what a trace says was sent is what was sent, to the last message."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UnsetType
from worlds import Opened, in_world

from simloop import Compaction, Hooks, Http, Limits, Reply, Scenario
from simloop.engine.context import History
from simloop.kernel.policies import utf8_bytes_over_4
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import (
    AssistantMessage,
    Message,
    Request,
    ToolSpec,
    UserMessage,
)
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.trace.entries import AnyEntry
from simloop.trace.requests import requests
from simloop.world.fake_model import FunctionModel

PAD = "word " * 40
COMPACTS = Compaction(window=130, trigger_percent=80, target_percent=60, keep_turns=1)
Sent = tuple[int, str, str, list[Message], tuple[ToolSpec, ...]]
"""Number, purpose, system prompt, messages, tools."""


def replay(recorded: Sequence[AnyEntry]) -> Iterator[Sent]:
    """The requests, made again from what the trace says changed since the base of each."""
    made: dict[int, Sent] = {0: (0, "", "", [], ())}
    for entry in recorded:
        if not isinstance(entry, entries.Request):
            continue
        _, _, prompt, messages, tools = made[entry.base]
        prompt = prompt if isinstance(entry.system_prompt, UnsetType) else entry.system_prompt
        tools = tools if isinstance(entry.tools, UnsetType) else entry.tools
        messages = [*messages[: entry.kept], *entry.added]
        made[entry.number] = entry.number, entry.purpose, prompt, messages, tools
        yield made[entry.number]


def sent(asked: Sequence[Request]) -> list[Sent]:
    return [(r.number, r.purpose, r.system_prompt, list(r.messages), r.tools) for r in asked]


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


@given(any_run)
def test_a_trace_gives_every_request_as_it_was_sent_also_after_it_was_written(
    played: tuple[Simulation, list[Request]],
) -> None:
    simulation, asked = played
    written = decode(encode(simulation.trace)).entries
    assert list(replay(simulation.trace.entries)) == sent(asked)
    assert sent(list(requests(written))) == sent(asked)
    assert [request.number for request in asked] == list(range(1, len(asked) + 1))


@given(any_run)
def test_tokens_and_digest_of_a_request_are_those_of_its_messages(
    played: tuple[Simulation, list[Request]],
) -> None:
    simulation, asked = played
    recorded = [e for e in simulation.trace.entries if isinstance(e, entries.Request)]
    histories = [History(request.messages, utf8_bytes_over_4) for request in asked]
    assert [e.tokens for e in recorded] == [history.tokens for history in histories]
    by_digest: dict[str, list[Message]] = {}
    for entry, request in zip(recorded, asked, strict=True):
        assert by_digest.setdefault(entry.digest, list(request.messages)) == list(request.messages)


def recorded(*replies: Reply, change: Callable[[Any], None] | None = None) -> list[entries.Request]:
    hooks = Hooks(before_llm_call=[change] if change else [])
    model = iter(replies)
    scenario = Scenario(prompt="Go.", system_prompt="Be nice.")
    run = Simulation(scenario, model=lambda _: next(model), tools=[look], hooks=hooks).run()
    return [entry for entry in run.trace.entries if isinstance(entry, entries.Request)]


LOOK, DONE = Reply(call={"look": {}}), Reply(say="Done.")


def test_a_system_prompt_that_changes_back_is_recorded_again() -> None:
    def hook(given: Any) -> None:
        if given.step_number == 1:
            given.system_prompt = "Be brief."

    prompts = [entry.system_prompt for entry in recorded(LOOK, DONE, change=hook)]
    assert prompts == ["Be brief.", "Be nice."]


def test_the_trace_grows_with_the_run_and_not_with_its_square() -> None:
    def added(rounds: int) -> int:
        return sum(len(entry.added) for entry in recorded(*[LOOK] * rounds, DONE))

    assert added(40) == 2 * added(20) - 1


# ---------------------------------------------------------------------- any list of messages


def streamed(*asked: Sequence[Message]) -> list[entries.Request]:
    """Send these requests through a port, one after the other, without reading the replies."""

    async def main(opened: Opened) -> list[entries.Request]:
        for messages in asked:
            opened.world.model.stream(messages)
        return opened.of(entries.Request)

    return in_world(main)


A, B, C = (UserMessage(text) for text in "abc")


@given(st.lists(st.sampled_from([A, B, C])), st.lists(st.sampled_from([A, B, C])))
def test_of_a_conversation_that_only_grew_everything_is_kept(
    start: list[Message], more: list[Message]
) -> None:
    entry = streamed(start, [*start, *more])[1]
    assert (entry.base, entry.kept, entry.added) == (1, len(start), tuple(more))


def test_two_conversations_in_turns_are_each_coded_against_their_own_last_request() -> None:
    recorded = streamed([A, A], [B, B], [A, A, C], [B, B, C])
    assert [(e.base, e.kept) for e in recorded] == [(0, 0), (1, 0), (1, 2), (2, 2)]


# ---------------------------------------------------------------------- a note


def noted(*notes: str) -> tuple[list[Request], list[entries.Request], History]:
    """Requests over one growing history, each with its note or without one."""

    async def main(opened: Opened) -> tuple[list[Request], list[entries.Request], History]:
        history = History((UserMessage("Go."),), utf8_bytes_over_4)
        made = []
        for number, text in enumerate(notes):
            view = history.view(AssistantMessage(text)) if text else history.view()
            made.append(opened.world.model.stream(view).request)
            history.append(UserMessage(f"More {number}."))
        return made, opened.of(entries.Request), history

    return in_world(main)


@given(st.lists(st.sampled_from(["", "The last one.", "é\u2028"]), min_size=1, max_size=5))
@settings(derandomize=True)
def test_a_note_is_the_last_message_of_its_request_and_of_no_other(notes: list[str]) -> None:
    made, _, history = noted(*notes)
    for number, (request, text) in enumerate(zip(made, notes, strict=True)):
        plain = history.messages[: number + 1]
        assert list(request.messages) == [*plain, *([AssistantMessage(text)] if text else [])]


@given(st.lists(st.sampled_from(["", "The last one."]), min_size=1, max_size=5))
@settings(derandomize=True)
def test_the_request_after_a_note_goes_on_from_the_messages_before_the_note(
    notes: list[str],
) -> None:
    _, recorded, _ = noted(*notes)
    for number, (entry, text) in enumerate(zip(recorded, notes, strict=True)):
        assert (entry.base, entry.kept) == (number, number)
        assert len(entry.added) == 1 + bool(text)
