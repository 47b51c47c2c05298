"""The services of a scenario file: what is written, and what is said of mistakes."""

import pytest

from simloop import Answer, Route, Scenario, ScenarioError, parse_scenario
from simloop.scenario.writing import scenario_text

FILE = """\
prompt: x
services:
  https://orders.example/api:
    - {get: "/orders/{id}", json: {state: shipped}, takes: 80ms}
    - {post: /tickets, status: 503, times: 2}
    - {post: /tickets, json: {id: 1}, when: {body: {kind: a}, headers: {X-Key: k}}}
    - {get: /log, pieces: [a, b], per_piece: 1s, lost: mid-output}
"""


def test_a_file_and_python_state_the_same_services() -> None:
    in_python = Scenario(
        prompt="x",
        services={
            "https://orders.example/api": [
                Route(get="/orders/{id}", json={"state": "shipped"}, takes="80ms"),
                {"post": "/tickets", "status": 503, "times": 2},
                Route(
                    post="/tickets",
                    json={"id": 1},
                    when={"body": {"kind": "a"}, "headers": {"X-Key": "k"}},
                ),
                Route(get="/log", pieces=["a", "b"], per_piece="1s", lost="mid-output"),
            ]
        },
    )
    assert parse_scenario(FILE) == in_python
    assert parse_scenario(scenario_text(in_python)) == in_python


@pytest.mark.parametrize(
    ("route", "says"),
    [
        (
            "{json: 1}",
            "4:7: @: a route has one method: give one of get,",
        ),
        ("{get: /a, post: /b}", "4:17: @.post: a route has one method"),
        ("{get: a}", "4:13: @.get: must be a path that begins with /"),
        ("{path: /a, json: 1}", "4:8: @.path: a route has one method: give one of get,"),
        ("{gets: /a}", "4:8: @.gets: unknown key (did you mean `get`?)"),
        (
            "{get: /, json: 1, text: a}",
            "4:25: @.text: an answer has one",
        ),
        ("{get: /, lost: mid-output}", "4:16: @.lost: mid-output needs"),
        ("{get: /, text: a, stall: before-headers}", ".0.stall: before-headers has no body before"),
        ("{get: /, lost: mid-output, stall: mid-output}", ".0.stall: an answer fails in one way"),
        ("{get: /, per_piece: 1s}", ".0.per_piece: this body is not in pieces: write pieces"),
        ("{get: /, takes: 5}", ".0.takes: "),
        ("{get: /, status: 99}", ".0.status: must be at least 200"),
        ("{get: /, times: 0}", ".0.times"),
        ("{get: /, headers: {a b: c}}", ".0.headers: 'a b' with 'c' is no header"),
        ('{get: /, headers: {a: "b\\nc"}}', ".0.headers: 'a' with "),
        ("{get: /, json: .nan}", ".0.json: this is not JSON"),
    ],
)
def test_a_mistake_in_a_route_is_told_at_its_place(route: str, says: str) -> None:
    with pytest.raises(ScenarioError) as error:
        parse_scenario(f"prompt: x\nservices:\n  https://a.example:\n    - {route}\n")
    assert says.replace("@", "services.'https://a.example'.0") in str(error.value)


@pytest.mark.parametrize(
    "address", ["a.example", "ftp://a.example", "https://", "https://a.example?x=1", "https://a:x"]
)
def test_what_is_no_address_is_refused_at_its_place(address: str) -> None:
    with pytest.raises(ScenarioError, match=r"<text>:2:12: services.*must be the address"):
        parse_scenario(f"prompt: x\nservices: {{'{address}': []}}")


def test_an_answer_is_a_value() -> None:
    assert Answer(json={"a": 1}) == Answer(json={"a": 1})
    assert repr(Answer(status=503)) == "Answer(status=503)"
