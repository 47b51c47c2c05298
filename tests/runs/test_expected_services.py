"""The requests to services that a run is expected to make."""

from typing import Any

import pytest
from services import asked, sent

from simloop import ExpectationFailed, Result, ScenarioError, parse_scenario
from simloop.runs.result import mismatches

ROUTES = [{"any": "/...", "text": "ok"}]


@pytest.fixture(scope="module")
def result() -> Result:
    requests = (
        sent("GET /orders/7?full=1"),
        sent("POST /tickets", {"a": 1}),
        sent("PUT /t", b"raw"),
    )
    return asked(ROUTES, *requests)[1]


@pytest.mark.parametrize(
    ("holds", "fails"),
    [
        ("[GET /orders/7, ...]", "[GET /orders/8, ...]"),
        ("[get /orders/7, ...]", "[PUT /orders/7, ...]"),
        ("['GET /orders/7?full=1', ...]", "['GET /orders/7?full=2', ...]"),
        ("[GET https://orders.example/api/orders/7, ...]", "[GET https://a.example/orders/7, ...]"),
        ("[..., {POST /tickets: {a: 1}}, ...]", "[..., {POST /tickets: {a: 2}}, ...]"),
        ("[..., {PUT /t: raw}]", "[..., {PUT /t: other}]"),
        ("[..., {PUT /t: ...}]", "[GET /orders/7]"),
        ("[GET /orders/7, POST /tickets, PUT /t]", "[]"),
    ],
)
def test_the_requests_to_services_are_the_expected_ones(
    result: Result, holds: str, fails: str
) -> None:
    def found(text: str) -> Any:
        return mismatches(parse_scenario(f"prompt: x\nexpect: {{services: {text}}}").expect, result)

    assert found(holds) == ()
    assert [each.key for each in found(fails)] == ["services"]


def test_a_request_that_does_not_fit_is_shown_with_its_body(result: Result) -> None:
    with pytest.raises(ExpectationFailed) as error:
        result.expect(services=["GET /orders/7", "POST /other", ...])
    assert "{'POST https://orders.example/api/tickets': {'a': 1}}" in str(error.value)


@pytest.mark.parametrize("wrong", ["[/orders]", "[GET orders]", "[{GET /a: 1, GET /b: 2}]", "[5]"])
def test_what_is_no_request_is_refused_at_its_place(wrong: str) -> None:
    with pytest.raises(ScenarioError, match=r"<text>:2:\d+: expect\.services"):
        parse_scenario(f"prompt: x\nexpect: {{services: {wrong}}}")
