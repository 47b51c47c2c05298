"""Several agents in one program: which replies a request gets, and where its party is seen."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from incases import in_cases
from msgspec import Raw
from msgspec.structs import replace
from wire import ASK, Heard, posted

from simloop import (
    ExpectationFailed,
    ModelCallFailed,
    Party,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
    ToolMessage,
    ToolSpec,
    UserMessage,
    World,
    parse_scenario,
    run,
)
from simloop.check.replay import recorded_scenario
from simloop.cursor.keys import FactView
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.views import view
from simloop.fuzz.shrink import with_planned_faults
from simloop.messages import AssistantMessage, ToolCall
from simloop.scenario.writing import content, scenario_text
from simloop.trace.codec import decode, encode
from simloop.trace.entries import Request
from simloop.trace.otel import otel
from simloop.trace.timeline import timeline

REVIEWER: dict[str, Any] = {"system": {"contains": "You review"}}
LOOK = ToolSpec("look", "", Raw(b"{}"))
CALLED = (
    UserMessage("Is it in Berlin?"),
    AssistantMessage("", (ToolCall("call-1", "look", "{}"),)),
    ToolMessage("call-1", "yes"),
)


def asked(models: dict[str, Any], *requests: dict[str, Any], **given: Any) -> tuple[str, ...]:
    """The replies to requests of an agent, one after the other."""
    heard: list[str] = []

    async def agent(prompt: str, world: World) -> None:
        for request in requests:
            sent = {"messages": [UserMessage(prompt)], **request}
            heard.append((await world.model.reply(**sent)).message.text)

    result = made(agent, models, **given)
    result.check()
    return tuple(heard)


def made(agent: Any, models: dict[str, Any], **given: Any) -> Result:
    return run(Scenario(prompt="Go.", models=models, **given), loop=agent)


def party(when: dict[str, Any], *says: str) -> Party:
    return Party(when=when, replies=[Reply(say=each) for each in says])


def test_each_request_gets_the_next_reply_of_its_party_and_the_others_those_of_model() -> None:
    models = {"reviewer": party(REVIEWER, "r1", "r2")}
    review = {"system_prompt": "You review texts."}
    model = [Reply(say="m1"), Reply(say="m2")]
    assert asked(models, {}, review, {}, review, model=model) == ("m1", "r1", "m2", "r2")


def test_the_first_party_that_fits_answers() -> None:
    models = {"a": party({"role": "user"}, "a"), "b": party(REVIEWER, "b")}
    with pytest.raises(ScriptUnused, match=r"did not use models\.b\.replies\.0"):
        asked(models, {"system_prompt": "You review"})


CONDITIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"system": "You review."}, {"system_prompt": "You review."}),
    ({"system": {"contains": ["review", "You"]}}, {"system_prompt": "You review."}),
    ({"model": "small"}, {"model": "small"}),
    ({"model": {"contains": "small"}}, {"model": "a-small-one"}),
    ({"tools": ["look"]}, {"tools": [ToolSpec("other", "", Raw(b"{}")), LOOK]}),
    ({"contains": "Berlin"}, {"messages": CALLED[:1]}),
    ({"role": "tool"}, {"messages": CALLED}),
    ({"conversation": {"contains": "Berlin"}}, {"messages": CALLED}),
    ({"conversation": "yes"}, {"messages": CALLED}),
    ({**REVIEWER, "tools": ["look"]}, {"system_prompt": "You review", "tools": [LOOK]}),
]


@in_cases(CONDITIONS)
def test_a_request_is_of_a_party_if_all_of_its_condition_holds(
    when: dict[str, Any], request: dict[str, Any]
) -> None:
    answers = asked({"a": party(when, "it")}, {}, request, model=[Reply(say="others")])
    assert answers == ("others", "it")


def test_over_http_the_name_of_the_model_and_the_headers_count() -> None:
    heard: list[str] = []

    async def agent(_: str) -> None:
        for model, user in (("large", "a"), ("small", "a"), ("large", "b"), ("large", "c")):
            asked = replace(posted({**ASK, "model": model}), headers=(("x-user", user),))
            body = json.loads((await Heard().listen(asked)).body)
            heard.append(body["choices"][0]["message"]["content"])

    models = {
        "small": party({"model": "small"}, "s"),
        "b": party({"headers": {"X-User": "b"}}, "b"),
    }
    made(agent, models, model=[Reply(say="m1"), Reply(say="m2")]).check()
    assert heard == ["m1", "s", "b", "m2"]


def test_over_http_the_schema_of_the_answer_counts() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    heard: list[str] = []

    async def agent(_: str) -> None:
        for more in ({}, {"response_format": wanted}):
            body = json.loads((await Heard().listen(posted({**ASK, **more}))).body)
            heard.append(body["choices"][0]["message"]["content"])

    models = {"a": party({"output": {"contains": "city"}}, "it")}
    made(agent, models, model=[Reply(say="others")]).check()
    assert heard == ["others", "it"]


def test_a_request_for_a_summary_is_of_no_party() -> None:
    async def agent(prompt: str, world: World) -> None:
        for purpose in ("main", "summary"):
            await world.model.reply([UserMessage(prompt)], purpose=purpose)

    models = {"a": party({"role": "user"}, "it")}
    result = made(agent, models, summaries=[Reply(say="In short.", times="always")])
    result.check()
    assert parties(result.requests) == ["a", ""]


def test_a_party_whose_replies_are_used_up_is_named() -> None:
    with pytest.raises(ScriptExhausted) as raised:
        asked({"a": party({"role": "user"}, "once")}, {}, {})
    assert str(raised.value).startswith(
        "models.a.replies: no reply of a is left for request 2: the run used 1 ordered reply"
    )


def test_a_request_of_no_party_is_told_apart_from_a_script_that_is_too_short() -> None:
    says = "the script has no reply for request 1, which fits no `when` of reviewer: "
    with pytest.raises(ScriptExhausted, match=says):
        asked({"reviewer": party(REVIEWER)}, {})


def test_the_requests_of_a_party_are_counted() -> None:
    models = {"reviewer": party(REVIEWER, "r1", "r2")}
    review = {"system_prompt": "You review."}
    given = {"model": [Reply(say="m")], "expect": {"requests": {"reviewer": {"max": 1}}}}
    with pytest.raises(ExpectationFailed) as raised:
        asked(models, review, {}, review, **given)
    assert "expect.requests.reviewer: expected at most 1, got 2" in str(raised.value)


@in_cases([
    ("models: {a: {when: {}}}", "models.a.when: say which requests are for it"),
    ("models: {min: {when: {role: user}}}", "models.min: give it another name"),
    ("models: {a: {when: {role: user}, replies: [{say: 1}]}}",
     "models.a.replies.0.say: must be a text or a list of texts"),
    ("models: {a: {when: {roles: user}}}", "models.a.when.roles: unknown key"),
    ("expect: {requests: {reviewer: 1}}",
     "expect.requests.reviewer: there is no `reviewer` in models"),
    ("models: {a: {when: {role: user}}}\nexpect: {requests: {a: -1}}",
     "expect.requests.a: must be at least 0"),
    ("models: {b: {when: {role: user}}}\nexpect_on: {pi: {requests: {a: 1}}}",
     "3:29: expect_on.pi.requests.a: there is no `a` in models: it has b"),
])  # fmt: skip
def test_a_mistake_is_told_at_its_place(text: str, says: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(f"prompt: x\n{text}")
    assert says in str(raised.value)


def two() -> Result:
    """A writer and a reviewer side by side; the first request of the reviewer fails."""

    async def told(world: World, system: str) -> None:
        for _ in range(9):
            try:
                await world.model.reply([UserMessage("Go.")], system_prompt=system)
            except ModelCallFailed:
                await asyncio.sleep(1)
            else:
                break

    async def agent(_: str, world: World) -> None:
        await asyncio.gather(told(world, "You write."), told(world, "You review."))

    replies = [Reply(http={"status": 503}), Reply(say="Good.")]
    models = {"reviewer": Party(when=REVIEWER, replies=replies)}
    return made(agent, models, model=[Reply(say="A line.")])


def parties(requests: Sequence[Any]) -> list[str]:
    return [each.party for each in requests]


def test_the_trace_the_timeline_the_replayer_and_the_spans_name_the_party() -> None:
    result = two()
    assert parties(result.requests) == ["", "reviewer", "reviewer"]
    trace = decode(encode(result.trace))
    assert trace.entries == result.trace.entries
    lines = [line.strip() for line in timeline(trace)]
    assert any(line.endswith("#2 of reviewer: 1 message, nothing new") for line in lines)
    assert "gen_ai.agent.name" in str(otel(trace))
    recording = RecordedRun.of_trace(trace)
    newest = Position(recording, len(recording.entries) - 1)
    assert "party: reviewer" in [str(each).strip() for each in view(FactView.REQUEST, newest)]


def test_the_trace_names_a_model_that_is_not_that_of_the_first_request() -> None:
    async def agent(_: str, world: World) -> str:
        for model in ("gpt-5", "gpt-5-mini", "gpt-5"):
            await world.model.reply([UserMessage("Go.")], model=model)
        return "Done."

    result = made(agent, {}, model=[Reply(say="Yes.", times=3)])
    assert [each.model for each in result.requests] == ["", "gpt-5-mini", ""]
    lines = [line.strip() for line in timeline(decode(encode(result.trace)))]
    assert any(line.endswith("#2 to gpt-5-mini: 1 message, nothing new") for line in lines)


def test_the_replayer_compares_a_request_with_the_one_before_it_of_its_party() -> None:
    recording = RecordedRun.of_trace(two().trace)
    record = enumerate(recording.entries)
    at = [Position(recording, n) for n, each in record if isinstance(each, Request)]
    found = [(each.request, each.earlier_request, each.shared) for each in at]
    assert [(now.number, old and old.number, kept) for now, old, kept in found if now] == [
        (1, None, 0), (2, None, 0), (3, 2, 1),
    ]  # fmt: skip


def test_a_scenario_with_parties_is_read_as_it_was_written() -> None:
    scenario = recorded_scenario(two().trace)
    assert parse_scenario(scenario_text(scenario)) == scenario


def test_the_way_back_from_a_trace_gives_each_party_its_own_replies() -> None:
    result = two()
    tree = with_planned_faults(content(recorded_scenario(result.trace)), result.trace.entries)
    assert [reply.get("say") for reply in tree["model"]] == [["A", " line."]]
    planned = tree["models"]["reviewer"]
    assert planned["when"] == REVIEWER
    assert planned["replies"][0]["http"]["status"] == 503
    assert planned["replies"][1]["say"] == ["Good."]


def test_after_a_fault_of_chance_each_party_gets_its_own_reply_again() -> None:
    heard: dict[str, str] = {}

    async def told(world: World, system: str) -> None:
        for _ in range(99):
            try:
                reply = await world.model.reply([UserMessage("Go.")], system_prompt=system)
            except ModelCallFailed:
                await asyncio.sleep(1)
            else:
                heard[system] = reply.message.text
                return

    async def agent(_: str, world: World) -> None:
        await asyncio.gather(told(world, "You write."), told(world, "You review."))

    faults = {"activate": 1.0, "fire": 0.5, "sites": ["model.lost-mid-output"]}
    models = {"reviewer": party(REVIEWER, "It is good.")}
    cut = 0
    for seed in range(8):
        model = [Reply(say="A line of text.")]
        scenario = Scenario(prompt="Go.", model=model, models=models, faults=faults, seed=seed)
        cut += len(run(scenario, loop=agent).requests) > 2
        assert heard == {"You write.": "A line of text.", "You review.": "It is good."}
    assert cut > 0
