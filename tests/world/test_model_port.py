"""The port to the model: every part is in the trace before the agent has it, as it arrived."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupting import is_stopped
from msgspec import Raw, UnsetType
from pacing import nap, paced
from worlds import Opened, in_world

from simloop import Compaction, Hooks, Http, Limits, Pace, Reply, Scenario, ScenarioError
from simloop.engine.context import History
from simloop.kernel.policies import utf8_bytes_over_4
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import (
    AssistantMessage,
    Fault,
    Finish,
    FinishReason,
    Message,
    Part,
    ReasoningDelta,
    Request,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    ToolSpec,
    Usage,
    UserMessage,
    WireState,
)
from simloop.runs.run import Simulation
from simloop.scenario.replies import StreamFault
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.trace.entries import AnyEntry
from simloop.trace.requests import requests
from simloop.world.fake_model import FunctionModel
from simloop.world.model_port import Completion, ModelCallFailed
from simloop.world.user_functions import fault_of

ASK = (UserMessage("Hello?"),)
STOP = Finish(FinishReason.STOP, "stop")
CALL = ToolCall("c", "look", "{}")
PARTS: tuple[Part, ...] = (
    ReasoningDelta("Hm."), TextDelta("I look."), ToolCallDelta("c", "look", "{}"),
    ToolCallPart(CALL), Finish(FinishReason.TOOL_CALLS, "tool_use", Usage(3, 4), 2),
)  # fmt: skip
BOUNDARY = (
    entries.TextDelta, entries.ReasoningDelta, entries.ToolCallDelta, entries.ToolCall,
    entries.Finish, entries.Error, entries.StreamCut,
)  # fmt: skip


def kind(entry: Any) -> str:
    return str(type(entry).__struct_config__.tag)


async def generated(*parts: Part) -> AsyncIterator[Part]:
    for part in parts:
        yield part


async def later(*parts: Part) -> AsyncIterator[Part]:
    await nap(5)
    for part in parts:
        yield part


def iterated(model: Any) -> tuple[list[Part], Opened]:
    """Read one reply with `async for`."""

    async def main(opened: Opened) -> tuple[list[Part], Opened]:
        return [part async for part in opened.world.model.stream(ASK)], opened

    return in_world(main, model)


# ------------------------------------------------------------------------- recording


@pytest.mark.parametrize(
    "model", [lambda _: PARTS, lambda _: generated(*PARTS)], ids=["parts", "generator"]
)
def test_every_part_is_passed_on_and_recorded_with_the_number_of_its_request(model: Any) -> None:
    parts, opened = iterated(model)
    recorded: list[Any] = [entry for entry in opened.entries if isinstance(entry, BOUNDARY)]
    assert tuple(parts) == PARTS
    assert [kind(entry) for entry in recorded] == [
        "reasoning-delta", "text-delta", "tool-call-delta", "tool-call", "finish",
    ]  # fmt: skip
    assert {entry.request for entry in recorded} == {1}
    finish = recorded[-1]
    assert (finish.reason, finish.raw, finish.usage, finish.steps) == (
        FinishReason.TOOL_CALLS, "tool_use", Usage(3, 4), 2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("part", "chars"),
    [
        (TextDelta("I look."), 7),
        (ReasoningDelta("Hm."), 3),
        (ToolCallDelta("id", "look", '{"a'), 9),
        (ToolCallPart(ToolCall("id", "look", '{"a": 1}')), 14),
        (Finish(FinishReason.TOOL_CALLS, "tool_use"), 8),
        (StreamError(Fault("Oh no", status=500, headers=(("retry-after", "9"),))), 17),
    ],
    ids=lambda value: type(value).__name__,
)
def test_all_texts_of_a_part_count_towards_the_bound_of_the_trace(part: Part, chars: int) -> None:
    async def main(opened: Opened) -> int:
        stream = opened.world.model.stream(ASK)
        recorder = opened.world.model.recorder
        before = recorder.chars
        await anext(stream)
        return recorder.chars - before

    last = () if isinstance(part, Finish | StreamError) else (STOP,)
    assert in_world(main, lambda _: (part, *last)) == chars


@pytest.mark.parametrize("last", [STOP, StreamError(Fault("lost", code="connection"))])
def test_nothing_is_read_after_the_last_part(last: Part) -> None:
    parts, opened = iterated(lambda _: (last, TextDelta("more")))
    assert parts == [last]
    assert len(opened.entries) == 2


def test_replies_that_come_at_the_same_time_are_told_apart_by_their_request() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        for _ in range(3):
            await nap(request.number)
            yield TextDelta(f"of {request.number}")
        yield STOP

    async def read(opened: Opened) -> None:
        async for _ in opened.world.model.stream(ASK):
            pass

    async def main(opened: Opened) -> list[tuple[int, str]]:
        await asyncio.gather(read(opened), read(opened))
        return [(entry.request, entry.text) for entry in opened.of(entries.TextDelta)]

    recorded = in_world(main, model)
    assert [request for request, _ in recorded] == [1, 2, 1, 1, 2, 2]
    assert {text for request, text in recorded if request == 2} == {"of 2"}


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
@settings(derandomize=True)
def test_text_that_cannot_be_written_is_passed_on_as_it_is_recorded(
    one: str, two: str, three: str
) -> None:
    lone = "\ud800"
    given_parts = (
        TextDelta(lone + one), ReasoningDelta(lone + two), ToolCallDelta(lone, two, three + lone),
        ToolCallPart(ToolCall(lone, one + lone, lone)), Finish(FinishReason.STOP, lone),
    )  # fmt: skip
    parts, opened = iterated(lambda _: given_parts)
    text, thought, delta, call, finish = parts
    assert isinstance(text, TextDelta)
    assert isinstance(call, ToolCallPart)
    assert text.text == opened.of(entries.TextDelta)[0].text
    recorded = opened.of(entries.ToolCall)[0]
    assert call.call == ToolCall(recorded.call_id, recorded.name, recorded.arguments)
    for part in (text, thought, delta, call, finish):
        assert lone not in str(part).encode("utf-8", "strict").decode()


def test_what_is_no_part_is_the_fault_of_the_model_s_author() -> None:
    with pytest.raises(
        ScenarioError, match="the model gave a str, which is not a part of a stream"
    ):
        iterated(lambda _: ("text", STOP))


# ------------------------------------------------------------------------- failures


class Busy(Exception):  # noqa: N818 - an error of an SDK
    status_code = 529


@pytest.mark.parametrize("when", ["at once", "later", "in the stream", "mid-output"])
@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (Busy("busy"), Fault("Busy: busy", status=529)),
        (ConnectionError("lost"), Fault("ConnectionError: lost", code="connection")),
        (asyncio.CancelledError(), Fault("the model was cancelled")),
    ],
    ids=["status", "connection", "cancelled"],
)
def test_an_exception_of_a_model_is_the_last_part_of_its_reply(
    when: str, error: BaseException, fault: Fault
) -> None:
    def at_once(_: Request) -> str:
        raise error

    async def later(_: Request) -> str:
        await nap(1)
        raise error

    def in_the_stream(_: Request) -> Any:
        raise error
        yield

    async def mid_output(_: Request) -> AsyncIterator[Part]:
        yield TextDelta("Half.")
        raise error

    models = {
        "at once": at_once, "later": later, "in the stream": in_the_stream,
        "mid-output": mid_output,
    }  # fmt: skip
    parts, opened = iterated(models[when])
    assert parts[-1] == StreamError(fault)
    assert [entry.fault for entry in opened.of(entries.Error)] == [fault]
    kept = 0 if isinstance(error, asyncio.CancelledError) else 1
    assert [each.where for each in opened.raised] == ["the model"] * kept


def test_a_cancellation_of_the_task_is_not_the_model_s_failure() -> None:
    async def main(opened: Opened) -> tuple[bool, list[Any]]:
        task = asyncio.current_task()
        assert task is not None
        opened.loop.call_later(0.005, task.cancel)
        stopped = await is_stopped(anext(opened.world.model.stream(ASK)))
        task.uncancel()
        return stopped, opened.of(entries.Error)

    assert in_world(main, lambda _: Reply(stall="before-headers")) == (True, [])


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (TimeoutError(), Fault("TimeoutError", code="timeout")),
        (type("APIUserAbortError", (Exception,), {})(), Fault("APIUserAbortError", code="aborted")),
        (ValueError("no"), Fault("ValueError: no")),
    ],
    ids=["timeout", "abort", "other"],
)
def test_the_fault_of_an_exception_says_what_it_was(error: Exception, fault: Fault) -> None:
    assert fault_of(error) == fault


# ------------------------------------------------------------------------- pieces of text


def test_a_reply_whose_parts_are_all_there_is_taken_at_once() -> None:
    async def main(opened: Opened) -> tuple[list[str], list[Part], list[str]]:
        texts: list[str] = []
        others: list[Part] = []
        assert opened.world.model.stream(ASK).take_whole(texts, others.append)
        return texts, others, [kind(entry) for entry in opened.entries]

    call = ToolCallPart(CALL)
    parts = (TextDelta("a"), TextDelta("\ud800"), call, TextDelta("c"), STOP)
    texts, others, kinds = in_world(main, lambda _: parts)
    assert texts == ["a", "\N{REPLACEMENT CHARACTER}", "c"]
    assert others == [call, STOP]
    assert kinds == ["request", "text-delta", "text-delta", "tool-call", "text-delta", "finish"]


# ------------------------------------------------------------------------- turns


@pytest.mark.parametrize("busy_before", [False, True])
@pytest.mark.parametrize(
    "model",
    [lambda _: Reply(say="a", pace=paced(first_part="5ms")), lambda _: later(TextDelta("a"), STOP)],
    ids=["timed", "generator"],
)
def test_a_task_that_is_ready_when_a_part_arrives_gets_its_turn_before_the_part(
    model: Any,
    busy_before: bool,  # noqa: FBT001
) -> None:
    log: list[str] = []

    async def other() -> None:
        for _ in range(3):  # its timer is set after that of the part
            await asyncio.sleep(0)
        await nap(5)
        log.append("task")

    async def main(opened: Opened) -> None:
        stream = opened.world.model.stream(ASK)
        if not busy_before:
            stream.take()
        task = asyncio.create_task(other())
        await anext(stream)
        log.append("part")
        await task

    in_world(main, model)
    assert log == ["task", "part"]


def read_of(reply: Reply) -> tuple[list[Part], bool, bool]:
    """Read the reply for a virtual minute; return its parts, and what is said of its wire."""

    async def main(opened: Opened) -> tuple[list[Part], bool, bool]:
        stream = opened.world.model.stream(ASK)
        parts: list[Part] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                parts += [part async for part in stream]
        return parts, stream.has_headers, stream.is_unreachable

    return in_world(main, lambda _: reply)


@pytest.mark.parametrize(
    ("reply", "headers", "unreachable"),
    [
        (Reply(stall="after-headers"), True, False),
        (Reply(stall="before-headers"), False, False),
        (Reply(stall="before-connect"), False, True),
        (Reply(lost="after-headers"), True, False),
        (Reply(lost="before-headers"), False, False),
        (Reply(lost="before-connect"), False, True),
        (Reply(lost="after-headers", pace=Pace(first_part="2s")), True, False),
        (Reply(say="Hi", lost="mid-output"), False, False),
    ],
)
def test_a_stream_knows_how_far_the_request_and_the_reply_came(
    reply: Reply, *, headers: bool, unreachable: bool
) -> None:
    parts, *found = read_of(reply)
    assert found == [headers, unreachable]
    assert not any(isinstance(part, WireState) for part in parts)


def closing(log: list[str], *parts: Part) -> Any:
    async def model(_: Request) -> AsyncIterator[Part]:
        try:
            for part in parts:
                yield part
        finally:
            await nap(3)
            log.append("cleaned up")

    return model


def test_a_reply_that_is_read_to_its_end_is_closed_before_the_agent_goes_on() -> None:
    log: list[str] = []

    async def main(opened: Opened) -> None:
        async for _ in opened.world.model.stream(ASK):
            pass
        log.append("goes on")

    in_world(main, closing(log, TextDelta("a"), STOP, STOP))
    assert log == ["cleaned up", "goes on"]


def test_a_reply_that_is_given_up_records_nothing_more() -> None:
    async def main(opened: Opened) -> tuple[list[Part], list[str]]:
        stream = opened.world.model.stream(ASK)
        await anext(stream)
        await stream.aclose()
        return [part async for part in stream], [kind(entry) for entry in opened.entries]

    assert in_world(main, lambda _: PARTS) == ([], ["request", "reasoning-delta"])


def test_an_exception_of_the_clean_up_is_kept_and_ends_nothing() -> None:
    async def model(_: Request) -> AsyncIterator[Part]:
        try:
            yield TextDelta("a")
            yield STOP
            yield STOP
        finally:
            raise ValueError("cannot clean up")

    parts, opened = iterated(model)
    assert parts == [TextDelta("a"), STOP]
    assert [each.where for each in opened.raised] == ["the model"]


@pytest.mark.parametrize(("keeps_finish", "recorded"), [(False, False), (True, True)])
def test_only_a_finish_that_is_kept_is_recorded_when_the_run_is_to_end(
    *, keeps_finish: bool, recorded: bool
) -> None:
    async def main(opened: Opened) -> list[str]:
        stream = opened.world.model.stream(ASK)
        stream.keeps_finish = keeps_finish
        opened.world.user.cancellation.polls = True  # so nothing is cancelled
        opened.world.user.stop()
        with contextlib.suppress(asyncio.CancelledError):
            stream.take()
        return [kind(entry) for entry in opened.entries]

    kinds = in_world(main, lambda _: (STOP,))
    assert ("finish" in kinds) is recorded


ASK = (UserMessage("Hello?"),)


@pytest.mark.parametrize(
    ("reply", "completion"),
    [
        (Reply(say="Hi there."), Completion(AssistantMessage("Hi there."), FinishReason.STOP)),
        (Reply(think="Hm.", say="Hi."), Completion(AssistantMessage("Hi."), FinishReason.STOP)),
        (Reply(say="I look.", call={"look": {}}),
         Completion(AssistantMessage("I look.", (ToolCall("call-1", "look", "{}"),)),
                    FinishReason.TOOL_CALLS)),
        (Reply(say="Cut", finish="length"),
         Completion(AssistantMessage("Cut"), FinishReason.LENGTH)),
    ],
)  # fmt: skip
def test_the_native_client_returns_the_whole_reply(reply: Reply, completion: Completion) -> None:
    async def main(opened: Opened) -> Completion:
        return await opened.world.model.reply(ASK)

    assert in_world(main, lambda _: reply) == completion


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (Reply(http=Http(status=429)), Fault("429 Too Many Requests", status=429)),
        (Reply(say="Half.", error=StreamFault(message="busy", code="overloaded")),
         Fault("busy", code="overloaded")),
        (Reply(say="Half.", unfinished=True),
         Fault("the stream ended without a finish", code="interrupted")),
    ],
    ids=["status", "mid-output", "unfinished"],
)  # fmt: skip
def test_a_call_of_the_native_client_that_fails_says_how(reply: Reply, fault: Fault) -> None:
    async def main(opened: Opened) -> Fault:
        with pytest.raises(ModelCallFailed, match=fault.message) as failed:
            await opened.world.model.reply(ASK)
        return failed.value.fault

    assert in_world(main, lambda _: reply) == fault


def test_the_native_client_sends_what_it_is_given() -> None:
    look = ToolSpec("look", "Look.", Raw(b"{}"))
    asked: list[Request] = []

    async def main(opened: Opened) -> entries.Request:
        await opened.world.model.reply(ASK, system_prompt="Be brief.", tools=[look])
        return opened.of(entries.Request)[0]

    def model(request: Request) -> str:
        asked.append(request)
        return "Hi."

    entry = in_world(main, model)
    (request,) = asked
    assert (entry.number, entry.purpose, entry.system_prompt, entry.tools, entry.added) == (
        1, "main", "Be brief.", (look,), ASK,
    )  # fmt: skip
    assert (request.system_prompt, request.tools, tuple(request.messages)) == (
        "Be brief.", (look,), ASK,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"messages": [{"role": "user", "text": "Hello?"}]}, "dict is no message"),
        ({"messages": "Hello?"}, "str is no message"),
        ({"messages": UserMessage("Hello?")}, "'UserMessage' object is not iterable"),
        ({"messages": [UserMessage(["Hello?"])]}, "Expected `str`, got `array`"),  # type: ignore[arg-type]
        ({"messages": ASK, "tools": ["look"]}, "'str' object has no attribute 'parameters'"),
        ({"messages": ASK, "tools": [ToolSpec("look", "", Raw(b"{look"))]}, "JSON is malformed"),
        ({"messages": ASK, "system_prompt": None}, "object of type 'NoneType' has no len"),
    ],
)
def test_a_request_that_no_trace_can_hold_is_the_fault_of_the_agent_s_author(
    given: dict[str, Any], says: str
) -> None:
    async def main(opened: Opened) -> Opened:
        with pytest.raises(ScenarioError, match=f"request 1 has a wrong part: {re.escape(says)}"):
            await opened.world.model.reply(**given)
        return opened

    opened = in_world(main)
    assert opened.entries == []
    assert opened.world.model.requests == 0, "the next request is the first"
    error = opened.world.model.recorder.error
    assert isinstance(error, ScenarioError), "an agent cannot hide it"


def test_a_request_with_text_that_cannot_be_written_fails_as_with_a_real_client() -> None:
    async def main(opened: Opened) -> Opened:
        for prompt, text in (("\ud800", "Hello?"), ("", "\ud800")):
            with pytest.raises(UnicodeEncodeError):
                await opened.world.model.reply([UserMessage(text)], system_prompt=prompt)
        await opened.world.model.reply(ASK)
        return opened

    assert [request.number for request in in_world(main).of(entries.Request)] == [1]


def test_no_request_is_recorded_and_no_model_asked_after_a_stop() -> None:
    asked: list[Request] = []

    async def main(opened: Opened) -> Opened:
        opened.world.user.stop()
        with pytest.raises(asyncio.CancelledError):
            opened.world.model.stream(ASK).take()
        opened.world.user.cancellation.take()
        return opened

    def answer(request: Request) -> str:
        asked.append(request)
        return "Hello."

    opened = in_world(main, answer)
    assert opened.of(entries.Request) == []
    assert asked == []


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
            view = history.view((AssistantMessage(text),) if text else ())
            made.append(opened.world.model.stream(view).request)
            history.extend((UserMessage(f"More {number}."),))
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
