"""The services of a world: which answer a request gets, when it comes, and what the trace has."""

import asyncio
import json
from typing import Any

import pytest
from builders import DONE, LOOK, simulation
from services import ORDERS, asked, replies, sent
from wire import Heard

from simloop import Deadlock, Result, Route, RunawayRun, Scenario, ScenarioError, ScriptUnused
from simloop.escape import MOST_RECORDED
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.world import services

SHIPPED: dict[str, Any] = {"get": "/orders/{id}", "json": {"id": "{id}", "state": "shipped"}}
DEEP = {"post": "/t", "when": {"body": {"a": {"b": 1}}}}
KEYED = {"get": "/t", "when": {"headers": {"X-Key": "k"}}}
BROKEN = {"lost": "mid-output", "pieces": ["ab", "cd", "ef"]}
SILENT = {"stall": "mid-output", "pieces": ["ab", "cd", "ef"]}


def refusals(result: Result) -> list[str]:
    record = result.trace.entries
    return [entry.asked for entry in record if isinstance(entry, entries.Refused)]


def test_a_service_answers_after_its_time() -> None:
    (found,), result = asked([{**SHIPPED, "takes": "80ms"}], sent())
    assert (found.status, found.headers_at, json.loads(found.body)) == (
        200,
        0.08,
        {"id": "7", "state": "shipped"},
    )
    assert found.headers["content-type"] == "application/json"
    assert replies(result) == [(200, "", '{"id":"7","state":"shipped"}')]


def test_the_trace_has_each_request_with_its_service() -> None:
    _, result = asked(
        [{"post": "/tickets", "json": {"id": 1}}], sent("POST /tickets?a=1", {"b": 2})
    )
    request = next(e for e in result.trace.entries if isinstance(e, entries.ServiceRequest))
    assert (request.number, request.service, request.method, request.path, request.body) == (
        1,
        ORDERS,
        "POST",
        "/tickets?a=1",
        '{"b": 2}',
    )


def test_the_trace_has_the_idempotency_key_of_a_request() -> None:
    keyed = sent("POST /tickets", {"b": 2}, headers={"idempotency-key": "k-1"})
    _, result = asked([{"post": "/tickets", "json": {}}], keyed, sent("POST /tickets", {"b": 2}))
    record = result.trace.entries
    assert [e.once for e in record if isinstance(e, entries.ServiceRequest)] == ["k-1", ""]


def test_the_first_route_that_matches_and_is_not_used_up_answers() -> None:
    routes = [
        {"post": "/tickets", "status": 503, "times": 2},
        {"post": "/tickets", "json": {"id": 1}},
    ]
    found, _ = asked(routes, *[sent("POST /tickets")] * 4)
    assert [each.status for each in found] == [503, 503, 200, 200]


@pytest.mark.parametrize(
    ("route", "request_", "matches"),
    [
        ({"get": "/orders/{id}"}, sent("GET /orders/7"), True),
        ({"get": "/orders/{id}"}, sent("POST /orders/7"), False),
        ({"any": "/orders/{id}"}, sent("POST /orders/7"), True),
        ({"get": "/orders/{id}"}, sent("GET /orders/7/items"), False),
        ({"get": "/orders/..."}, sent("GET /orders/7/items"), True),
        ({"get": "/orders"}, sent("GET /orders?page=2"), True),
        ({"get": "/orders?page=2"}, sent("GET /orders?page=2&size=9"), True),
        ({"get": "/orders?page=2"}, sent("GET /orders?page=3"), False),
        ({"get": "/orders?page="}, sent("GET /orders"), False),
        ({"get": "/a.b"}, sent("GET /axb"), False),
        ({"get": "/"}, sent(f"GET {ORDERS}"), True),
        (DEEP, sent("POST /t", {"a": {"b": 1, "c": 2}}), True),
        (DEEP, sent("POST /t", {"a": {"b": 2}}), False),
        ({"post": "/t", "when": {"body": {"a": 1}}}, sent("POST /t", b"no JSON"), False),
        ({"post": "/t", "when": {"contains": "JSON"}}, sent("POST /t", b"no JSON"), True),
        (KEYED, sent("GET /t", headers={"x-key": "k"}), True),
        (KEYED, sent("GET /t"), False),
    ],
)  # fmt: skip
def test_a_route_says_which_requests_it_answers(
    route: Any,
    request_: Any,
    matches: bool,  # noqa: FBT001
) -> None:
    (found,), _ = asked([{**route, "status": 201}], request_)
    assert found.status == (201 if matches else 404)


def test_the_parameters_of_the_path_stand_in_the_answer() -> None:
    route = {
        "get": "/find/{what}?by={who}",
        "json": [{"found": "{what} by {who}", "as": "{other}"}],
        "headers": {"Location": "/find/{what}"},
    }
    (found,), _ = asked([route], sent("GET /find/a%20cat?by=Ann"))
    assert json.loads(found.body) == [{"found": "a cat by Ann", "as": "{other}"}]
    assert found.headers["location"] == "/find/a cat"


def test_the_longest_address_answers() -> None:
    both = {
        "https://a.example": [{"any": "/...", "text": "outer"}],
        "https://a.example/v1": [{"any": "/...", "text": "inner"}],
    }
    urls = ("https://A.example:443/v1/x", "https://a.example/v12", "https://a.example/v1?q=1")
    found, _ = asked(both, *(sent(f"GET {url}") for url in urls))
    assert [each.body for each in found] == [b"inner", b"outer", b"inner"]


def test_a_request_that_no_route_answers_gets_404_and_is_told() -> None:
    (found,), result = asked([SHIPPED], sent("GET /nothing"))
    assert found.status == 404
    assert refusals(result) == [f"GET {ORDERS}/nothing"]


def test_a_route_with_a_number_must_be_used_up() -> None:
    with pytest.raises(
        ScriptUnused, match=r"not used up: services\.https://orders\.example/api\.0"
    ):
        asked([{**SHIPPED, "times": 2}], sent())
    asked([SHIPPED])
    asked([{**SHIPPED, "times": 2}], sent(), expect={"unused": 1})


@pytest.mark.parametrize(
    ("route", "heard", "told"),
    [
        ({"lost": "before-connect"}, (0, b"", "ConnectionRefused"), (0, "refused", "")),
        ({"lost": "before-headers"}, (0, b"", "ConnectionLost"), (0, "lost", "")),
        ({"lost": "after-headers"}, (200, b"", "ConnectionLost"), (200, "lost", "")),
        (BROKEN, (200, b"abc", "ConnectionLost"), (200, "lost", "abc")),
        ({"stall": "before-headers"}, (0, b"", "TimedOut"), (0, "timed-out", "")),
        (SILENT, (200, b"abc", "TimedOut"), (200, "timed-out", "abc")),
        ({"status": 204, "text": "no body"}, (204, b"", ""), (204, "", "")),
    ],
)  # fmt: skip
def test_a_connection_fails_as_the_route_says(route: Any, heard: Any, told: Any) -> None:
    (found,), result = asked([{"get": "/x", **route}], sent("GET /x", read_timeout_s=5.0))
    assert (found.status, found.body, found.error) == heard
    assert found.ended_at == (5.0 if "stall" in route else 0.0)
    assert replies(result) == [told]


def test_a_connection_that_is_not_made_is_the_clients_limit_for_connecting() -> None:
    request = sent("GET /x", connect_timeout_s=2.0, read_timeout_s=5.0)
    (found,), _ = asked([{"get": "/x", "stall": "before-connect"}], request)
    assert (found.error, found.ended_at) == ("TimedOut", 2.0)


def test_a_stall_without_a_limit_is_a_deadlock() -> None:
    with pytest.raises(Deadlock):
        asked([{"get": "/x", "stall": "after-headers"}], sent("GET /x"))


def test_the_pieces_of_a_body_come_at_their_times() -> None:
    route = {"get": "/x", "pieces": ["a", "b", "c"], "takes": "1s", "per_piece": "250ms"}
    (found,), _ = asked([route], sent("GET /x"))
    assert found.pieces == [(1.0, b"a"), (1.25, b"b"), (1.5, b"c")]


def test_a_head_request_gets_no_body() -> None:
    (found,), _ = asked([{"head": "/x", "text": "Hello"}], sent("HEAD /x"))
    assert (found.body, found.headers["content-length"]) == (b"", "5")


def test_requests_at_once_are_answered_at_once() -> None:
    found, _ = asked([{**SHIPPED, "takes": "1s"}], *[sent()] * 3, at_once=True)
    assert [each.ended_at for each in found] == [1.0] * 3


def test_equal_runs_have_equal_traces() -> None:
    faults = {"activate": 1.0, "fire": 0.5}
    one, two = (asked([SHIPPED], *[sent()] * 9, faults=faults, seed=3)[1] for _ in range(2))
    assert encode(one.trace) == encode(two.trace)


@pytest.mark.parametrize(
    ("site", "heard"),
    [
        ("service.503", (503, 0.0, "")),
        ("service.slow", (200, 20.0, "")),
        ("service.lost", (0, 0.0, "ConnectionLost")),
    ],
)
def test_a_fault_of_chance_reaches_a_service(site: str, heard: Any) -> None:
    faults = {"activate": 1.0, "fire": 1.0, "sites": [site]}
    (found,), _ = asked([SHIPPED], sent(), faults=faults)
    assert (found.status, found.ended_at, found.error) == heard


def test_a_fault_of_chance_uses_no_answer_up() -> None:
    faults = {"activate": 1.0, "fire": 1.0, "sites": ["service.503"]}
    _, result = asked([{**SHIPPED, "times": 1}], sent(), faults=faults, expect={"unused": 1})
    assert not result.failures


def test_a_body_is_recorded_up_to_a_bound() -> None:
    big = "x" * 200_000
    (found,), result = asked([{"post": "/x", "text": big}], sent("POST /x", big.encode()))
    assert len(found.body) == 200_000
    request = next(e for e in result.trace.entries if isinstance(e, entries.ServiceRequest))
    for body in (request.body, replies(result)[0][2]):
        assert body == "x" * MOST_RECORDED + "... (200000 bytes)"


def test_a_body_of_fifty_megabytes_is_answered_and_named_by_its_size() -> None:
    (found,), result = asked(lambda _: b"x" * 50_000_000, sent())
    assert len(found.body) == 50_000_000
    assert replies(result)[0][2].endswith("... (50000000 bytes)")


def test_bytes_that_are_no_text_are_written_as_escapes() -> None:
    _, result = asked([{"post": "/x", "text": "\x1b[31m"}], sent("POST /x", b"\xff\x00a"))
    request = next(e for e in result.trace.entries if isinstance(e, entries.ServiceRequest))
    assert request.body == "\\xff\x00a"
    assert replies(result)[0][2] == "\x1b[31m"


# ---------------------------------------------------------------- functions


def test_a_function_answers_with_what_it_returns() -> None:
    given: list[Any] = [{"a": 1}, "text", b"\x00", None, (201, {"b": 2}), (404, None)]
    found, _ = asked(
        lambda request: given[int(request.path[-1])], *(sent(f"GET /{n}") for n in range(6))
    )
    kinds = [each.headers.get("content-type", "")[:10] for each in found]
    assert [(each.status, each.body) for each in found] == [
        (200, b'{"a":1}'),
        (200, b"text"),
        (200, b"\x00"),
        (204, b""),
        (201, b'{"b":2}'),
        (404, b""),
    ]
    assert kinds == ["applicatio", "text/plain", "applicatio", "", "applicatio", ""]


def test_a_function_that_fails_is_an_error_of_the_server_and_is_told() -> None:
    def answers(_: Any) -> Any:
        raise ValueError("no such order")

    (found,), result = asked(answers, sent())
    assert (found.status, found.body) == (500, b"Internal Server Error")
    assert [(each.where, str(each.error)) for each in result.exceptions] == [
        (f"the service {ORDERS}", "no such order")
    ]


def test_what_is_no_answer_is_an_error_of_the_server() -> None:
    (found,), result = asked(lambda _: object(), sent())
    assert (found.status, type(result.exceptions[0].error)) == (500, TypeError)


def test_two_services_at_one_address_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"two services at https://orders\.example:443/api"):
        asked({ORDERS: [SHIPPED], "https://orders.example:443/api": [SHIPPED]})


def test_a_body_without_end_is_a_runaway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_BYTES", 100)
    with pytest.raises(RunawayRun, match="body of the reply to request 1 to a service passed 100"):
        asked([{"get": "/x", "pieces": ["x" * 60, "x" * 60]}], sent("GET /x"))


def test_an_agent_that_asks_for_ever_is_a_runaway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_REQUESTS", 20)

    async def agent(_: str) -> None:
        while True:
            await Heard().listen(sent())
            await asyncio.sleep(1)

    run = simulation(services={ORDERS: [{**SHIPPED, "status": 503}]}, loop=agent, tools={})
    with pytest.raises(RunawayRun, match=r"passed 20 requests to services, the last at wire\.py"):
        run.run()


@pytest.mark.parametrize("takes", ["5s", "0s"])
def test_a_stop_breaks_a_request_off(takes: str) -> None:
    routes = [{"get": "/x", "pieces": ["a", "b"], "takes": takes, "per_piece": "5s"}]
    _, result = asked(routes, sent("GET /x"), abort={"at": "1s"})
    assert (result.outcome, result.elapsed_s) == ("aborted", 1.0)
    ends = [type(entry).__name__ for entry in result.trace.entries][-3:]
    assert ends == ["StopRequested", "ServiceReply", "Ended"]
    assert replies(result) == [(0, "closed", "") if takes == "5s" else (200, "closed", "a")]
    assert decode(encode(result.trace)).entries == result.trace.entries


def test_a_tool_of_a_machine_asks_a_service() -> None:
    async def look() -> str:
        found = await Heard().listen(sent())
        return found.body.decode()

    run = simulation(LOOK, DONE, services={ORDERS: [SHIPPED]}, tools=[look])
    result = run.run()
    assert [message.text for message in result.messages][-2:] == [
        '{"id":"7","state":"shipped"}',
        "Done.",
    ]
    assert len(replies(result)) == 1


def test_a_recorded_run_is_repeated_from_its_trace() -> None:
    _, result = asked([SHIPPED, {"get": "/x", "lost": "before-headers"}], sent(), sent("GET /x"))
    again = Scenario.model_validate_json(bytes(result.trace.header.scenario))
    assert again.services == {ORDERS: [Route(**SHIPPED), Route(get="/x", lost="before-headers")]}
