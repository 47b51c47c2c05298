"""Agents that ask a model over HTTP and run their own tools, under all invariants."""

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from textwrap import dedent
from typing import Any

import pytest
from wire import Heard, posted

from simloop import Http, Reply, Scenario, parse_scenario, traced
from simloop.check.trial import verify
from simloop.errors import InvariantViolated, ScriptUnused
from simloop.virtual.threads.calls import run_blocking

Body = dict[str, Any]
MOST_TRIES, MOST_ROUNDS = 3, 10
_PASSING = {408, 409, 429, 500, 502, 503, 504, 529}
_ENDED = {"stop", "tool_calls"}


class Failed(Exception):  # noqa: N818 - the end of a run
    """The model call failed, or its reply was cut off."""


@traced
async def read(path: str = "") -> str:
    return f"The contents of {path}."


@traced
async def write(path: str = "") -> str:
    return f"Wrote {path}."


TOOLS: dict[str, Callable[..., Any]] = {"read": read, "write": write}
OFFERED = [{"type": "function", "function": {"name": name}} for name in TOOLS]


class OverHttp:
    """A correct agent on Chat Completions: whole replies, one tool after the other."""

    streams = False
    most_tries = MOST_TRIES

    async def __call__(self, prompt: str) -> str:
        return await self.converse([{"role": "user", "content": prompt}])

    async def converse(self, messages: list[Body]) -> str:
        for _ in range(MOST_ROUNDS):
            message, finish = await self.ask(messages)
            calls = message.get("tool_calls") or ()
            self.check(finish)
            if not calls:
                return str(message.get("content") or "")
            messages.append(message)
            messages += [await self.act(call) for call in calls]
        raise Failed("no answer")

    def check(self, finish: str | None) -> None:
        if finish not in _ENDED:
            raise Failed(f"the reply ended with {finish}")

    async def act(self, call: Body) -> Body:
        function = call["function"]
        try:
            text = await TOOLS[function["name"]](**json.loads(function["arguments"]))
        except (KeyError, TypeError, ValueError) as error:
            text = f"Error: {error}"
        return {"role": "tool", "tool_call_id": call["id"], "content": text}

    async def ask(self, messages: Sequence[Body]) -> tuple[Body, str | None]:
        """Return a message of the model, and its finish reason."""
        body = {"model": "m", "messages": messages, "tools": OFFERED, "stream": self.streams}
        for _ in range(self.most_tries):
            heard = await Heard().listen(posted(body))
            if heard.error or heard.status in _PASSING:
                continue
            if heard.status != 200:
                break
            return streamed(heard.body) if self.streams else whole(heard.body)
        raise Failed(heard.error or f"status {heard.status}: {heard.body.decode():.200}")


class Streaming(OverHttp):
    """A correct agent whose replies are streamed."""

    streams = True


class InPool:
    """A correct agent that is not async, and calls the tools of a reply in threads."""

    def __init__(self) -> None:
        self.agent = OverHttp()

    def __call__(self, prompt: str) -> str:
        messages = [{"role": "user", "content": prompt}]
        for _ in range(MOST_ROUNDS):
            message, finish = run_blocking(self.agent.ask(messages))
            self.agent.check(finish)
            calls = message.get("tool_calls") or ()
            if not calls:
                return str(message.get("content") or "")
            with ThreadPoolExecutor(1) as pool:
                results = [*pool.map(self.act, calls)]
            messages += [message, *results]
        raise Failed("no answer")

    def act(self, call: Body) -> Body:
        return run_blocking(self.agent.act(call))


class InThread:
    """A correct agent whose whole work is done in a thread that a task waits for."""

    async def __call__(self, prompt: str) -> str:
        return await asyncio.to_thread(InPool(), prompt)


def whole(body: bytes) -> tuple[Body, str | None]:
    """Return the message of a completion, and its finish reason."""
    choice = json.loads(body)["choices"][0]
    message = {name: value for name, value in choice["message"].items() if value is not None}
    return message, choice["finish_reason"]


def streamed(body: bytes) -> tuple[Body, str | None]:
    """Return the message that a stream adds up to, and its finish reason."""
    text, finish = "", None
    calls: dict[int, Body] = {}
    for line in body.decode().splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line.removeprefix("data: ")).get("choices", ()):
            delta = choice["delta"]
            text += delta.get("content") or ""
            finish = choice["finish_reason"] or finish
            for piece in delta.get("tool_calls", ()):
                new = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(piece["index"], new)
                call["id"] += piece.get("id", "")
                for name, value in piece["function"].items():
                    call["function"][name] += value
    message: Body = {"role": "assistant", "content": text or None}
    return message | ({"tool_calls": [*calls.values()]} if calls else {}), finish


CORRECT = (OverHttp, Streaming)


def accused(scenario: Scenario | str, agent: Any) -> list[str]:
    """Return the violations of a run, each with the name of its invariant."""
    given = parse_scenario(scenario) if isinstance(scenario, str) else scenario
    errors = verify(given, loop=agent).errors
    return [str(error) for error in errors if isinstance(error, InvariantViolated)]


READS = Reply(call={"read": {"path": "a"}})
DONE = Reply(say="Done.")
AGAIN: dict[str, list[Reply]] = {
    "lost": [READS.model_copy(update={"lost": "mid-output"}), READS],
    "other arguments, one id": [
        Reply(call={"read": {"path": "a"}}, ids=["x"], lost="mid-output"),
        Reply(call={"read": {"path": "b"}}, ids=["x"]),
    ],
    "the id of an earlier call": [
        Reply(call={"read": {"path": "a"}}, ids=["x"]),
        Reply(call={"read": {"path": "a"}}, ids=["x"], lost="mid-output"),
        Reply(call=[{"read": {"path": "a"}}] * 2, ids=["y", "z"]),
    ],
}


@pytest.mark.parametrize("agent", CORRECT)
@pytest.mark.parametrize("name", AGAIN)
def test_a_tool_that_runs_for_the_retry_of_a_lost_call_is_no_run_of_the_lost_one(
    name: str, agent: Any
) -> None:
    assert accused(Scenario(prompt="Go.", model=[*AGAIN[name], DONE]), agent) == []


class Careless(Streaming):
    """It runs the tools of a reply that breaks off, and asks again."""

    most_tries = 1

    async def ask(self, messages: Any) -> Any:
        try:
            return await super().ask(messages)
        except Exception:  # noqa: BLE001 - any failure
            await self.act(READ_A)
            return await super().ask(messages)


READ_A = {"id": "call-1", "function": {"name": "read", "arguments": '{"path":"a"}'}}


def test_a_tool_that_runs_for_a_lost_call_is_found_if_no_other_call_waits() -> None:
    (error,) = accused(Scenario(prompt="Go.", model=[*AGAIN["lost"], DONE]), Careless)
    assert "no-tools-for-broken-replies: the tool 'read' of call 'call-1'" in error


HALF = Reply(call={"read": {}}, half_call={"write": ""})


@pytest.mark.parametrize("agent", CORRECT)
def test_a_call_that_broke_off_may_be_sent_back_as_the_wire_showed_it(agent: Any) -> None:
    assert accused(Scenario(prompt="Go.", model=[HALF, DONE]), agent) == []


class Forgetful(Streaming):
    """It sends back the newest call of a reply alone."""

    async def ask(self, messages: Any) -> Any:
        message, finish = await super().ask(messages)
        for call in message.get("tool_calls", ())[:-1]:
            await self.act(call)
        return {**message, "tool_calls": message.get("tool_calls", [])[-1:]}, finish


def test_a_call_that_is_missing_beside_one_that_broke_off_is_found() -> None:
    (error,) = accused(Scenario(prompt="Go.", model=[HALF, DONE]), Forgetful)
    assert "replies-with-calls-kept: request 2 has other calls" in error


STOPPED = {
    "before a tool": """
        abort: {after: text-delta}
        tools: {read: {takes: 5s}}
        model: [{say: Let me see., call: {read: {path: a}}}]
        expect: {outcomes: ["..."]}
    """,
    "in a tool": """
        abort: {at: 2s}
        tools: {read: {takes: 1.5s}}
        model: [{call: [{read: {path: a}}, {read: {path: b}}]}, {say: Done., times: always}]
        expect: {outcomes: ["..."]}
    """,
    "before another prompt": """
        abort: {after: text-delta}
        tools: {read: {takes: 5s}}
        then: ["And?"]
        model: [{say: Let me see., call: {read: {path: a}}}, {say: Done., times: always}]
        expect: {outcomes: ["..."]}
    """,
}


class Blocking:
    """It blocks its event loop, in a task that no stop reaches meanwhile."""

    async def __call__(self, prompt: str) -> str:
        return InPool()(prompt)


SLOW = "model: [{say: It is so., pace: {per_part: 200ms}}]"
STOPPED_LATE = {
    "an abort before the first request": "abort: {at: 0s}",
    "an abort in a reply": f"abort: {{at: 100ms}}\n{SLOW}",
    "the time limit": f"limits: {{max_wall_clock: 100ms}}\n{SLOW}",
}


@pytest.mark.parametrize("when", STOPPED_LATE)
def test_a_blocked_event_loop_that_cannot_hear_a_stop_accuses_no_agent(when: str) -> None:
    scenario = parse_scenario(f"prompt: Go.\n{STOPPED_LATE[when]}\n{ANY_END}")
    assert [str(error) for error in verify(scenario, loop=Blocking).errors] == []


ANY_END = "expect: {outcomes: ['...']}"


@pytest.mark.parametrize("agent", [InPool, InThread])
@pytest.mark.parametrize("when", STOPPED)
def test_a_thread_that_cannot_hear_an_abort_accuses_no_agent(when: str, agent: Any) -> None:
    verdict = verify(parse_scenario(f"prompt: Go.\n{dedent(STOPPED[when])}"), loop=agent)
    assert [str(one) for one in verdict.errors if not isinstance(one, ScriptUnused)] == []


PAYS = Reply(call={"write": {"path": "bill"}})
FAILS = Reply(http=Http(status=500), times=3)


class Again(OverHttp):
    """It starts a run that has failed again, from the prompt alone, as agno does."""

    async def __call__(self, prompt: str) -> str:
        try:
            return await super().__call__(prompt)
        except Failed:
            return await super().__call__(self.second(prompt))

    def second(self, prompt: str) -> str:
        return prompt


class Anew(Again):
    """It begins another conversation after a failure."""

    def second(self, prompt: str) -> str:
        return f"This failed: {prompt}"


class Locked(Again):
    """It fails between a tool and the request with its result, once."""

    is_locked = True

    async def act(self, call: Any) -> Any:
        result = await super().act(call)
        if self.is_locked:
            self.is_locked = False
            raise Failed("the database is locked")
        return result


class Asking(OverHttp):
    """It has the same conversation with three models, one after the other."""

    async def __call__(self, prompt: str) -> str:
        for _ in range(2):
            await super().__call__(prompt)
        return await super().__call__(prompt)


class Shortening(OverHttp):
    """It replaces all but the prompt by a summary before its third request."""

    async def ask(self, messages: Any) -> Any:
        if len(messages) == 5:
            messages[1:] = [{"role": "user", "content": "So far: the bill."}]
        return await super().ask(messages)


@pytest.mark.parametrize(
    ("agent", "replies"),
    [(Again, [PAYS, FAILS, PAYS, DONE]), (Locked, [PAYS, PAYS, DONE])],
    ids=["after a failed call", "after an error of its own"],
)
def test_an_agent_that_starts_again_and_pays_twice_is_found(
    agent: Any, replies: list[Reply]
) -> None:
    (error, *_) = accused(Scenario(prompt="Pay.", model=replies), agent)
    assert "no-tools-run-again-after-a-restart: the tool 'write' of call" in error
    assert 'with {"path":"bill"} runs again: it has run for call \'call-1\'' in error


def test_a_tool_without_a_run_in_the_trace_has_run_when_its_result_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def write(path: str) -> str:
        return results.pop(0) + path

    monkeypatch.setitem(TOOLS, "write", write)
    scenario = Scenario(prompt="Pay.", model=[PAYS, FAILS, PAYS, DONE])
    results = ["Paid: ", "Paid: "]
    (error, *_) = accused(scenario, Again)
    assert 'with {"path":"bill"} runs again: it has run for call \'call-1\'' in error
    results = ["Error: nobody has paid ", "Paid: "]
    assert accused(scenario, Again) == []


@pytest.mark.parametrize(
    ("agent", "replies"),
    [
        (Again, [PAYS, FAILS, DONE]),
        (Again, [PAYS, FAILS, Reply(call={"read": {"path": "bill"}}), DONE]),
        (Again, [PAYS, PAYS, DONE]),  # the model asks twice, and knows of the first time
        (Anew, [PAYS, FAILS, PAYS, DONE]),
        (Asking, [PAYS, DONE] * 3),
        (Shortening, [READS, PAYS, PAYS, DONE]),
    ],
)
def test_a_tool_may_run_again_for_a_model_that_asks_for_it(
    agent: Any, replies: list[Reply]
) -> None:
    assert accused(Scenario(prompt="Pay.", model=replies), agent) == []


def test_a_tool_that_failed_may_run_again_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @traced
    async def write(path: str) -> str:
        raise OSError(path)

    class Telling(Again):
        async def act(self, call: Any) -> Any:
            with suppress(OSError):
                return await super().act(call)
            return {"role": "tool", "tool_call_id": call["id"], "content": "no disk"}

    monkeypatch.setitem(TOOLS, "write", write)
    assert accused(Scenario(prompt="Pay.", model=[PAYS, FAILS, PAYS, DONE]), Telling) == []


class Orphaning(OverHttp):
    """It sends a call back without its result."""

    async def act(self, call: Any) -> Any:
        await super().act(call)
        return {"role": "user", "content": "Done, I think."}


def test_a_conversation_that_a_provider_refuses_is_a_violation_that_names_the_message() -> None:
    (error,) = accused(Scenario(prompt="Pay.", model=[PAYS, DONE]), Orphaning)
    assert "accepted-requests: POST /v1/chat/completions is answered with status 400" in error
    assert "messages.[2].role: An assistant message with 'tool_calls' must be" in error
    assert "did not have response messages: call-1" in error


@pytest.mark.parametrize("streams", [False, True])
def test_a_reply_without_a_finish_reason_is_called_so(*, streams: bool) -> None:
    class Trusting(OverHttp):
        def check(self, finish: str | None) -> None:
            pass

    Trusting.streams = streams
    (error,) = accused(Scenario(prompt="Go.", model=[Reply(say="Hi.", unfinished=True)]), Trusting)
    assert "the run is completed, and the reply to request 1 ended without a finish reason" in error


def test_without_streaming_a_reply_without_a_finish_reason_comes_whole() -> None:
    heard: list[object] = []

    class Listening(OverHttp):
        def check(self, finish: str | None) -> None:
            heard.append(finish)

        async def ask(self, messages: Any) -> Any:
            message, finish = await super().ask(messages)
            heard.append(message["content"])
            return message, finish

    accused(Scenario(prompt="Go.", model=[Reply(say="Hi.", unfinished=True)]), Listening)
    assert heard[:2] == ["Hi.", None]
