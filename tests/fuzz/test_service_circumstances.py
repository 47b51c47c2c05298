"""The circumstances of the services of agents: they refuse, fail, are late, or have pages."""

from typing import Any

import pytest
from msgspec import structs
from offering import AROUND, GO, OverHttp, circumstances_of, native, offered, world_with

from simloop import Limits, Reply, Route, Then
from simloop.scenario.conversation import calls_of
from simloop.scenario.schema import Trigger


def test_a_list_has_a_second_page() -> None:
    name, plain = "https://orders.example", {"orders": [{"id": "A-17", "at": "2026-05-04"}]}
    ends_of: list[tuple[dict[str, Any], object]]
    ends_of = [({"more": False}, True), ({"next": None}, "2"), ({"pages": 1}, 2),
               ({"next": None}, f"{name}/orders?page=2"),
               ({"next": ""}, f"{name}/orders?of={{name}}&page=2")]  # fmt: skip
    for ends, goes_on in ends_of:
        path = "/orders?of={name}" if "{name}" in str(goes_on) else "/orders"
        routes = [Route(get=path, json=plain | ends)]
        base = AROUND.model_copy(update={"services": {name: routes}})
        found = {
            each.name: each for each in circumstances_of(OverHttp, base, offered(OverHttp, AROUND))
        }
        two = found[f"route 0 of {name} has two pages, {goes_on}"]
        made = world_with(two, base, offered(OverHttp, AROUND))
        first, last = made.services[name]
        other = {"orders": [{"id": "other-A-17", "at": "2026-05-04"}], next(iter(ends)): goes_on}
        assert (first.json, first.times, last) == (other, 1, routes[0])
    for more in {"more": True}, {"pages": 3}, {"ends": 1}:
        base = AROUND.model_copy(update={"services": {name: [Route(get="/o", json=plain | more)]}})
        names = [each.name for each in circumstances_of(OverHttp, base, offered(OverHttp, AROUND))]
        assert not [each for each in names if "has two pages" in each]


def test_a_job_fails_or_is_never_done() -> None:
    name = "https://orders.example"

    def worlds_of(**keys: Any) -> dict[str, list[Route]]:
        base = AROUND.model_copy(update={"services": {name: [Route.model_validate(keys)]}})
        offer = offered(OverHttp, AROUND)
        told = [
            each
            for each in circumstances_of(OverHttp, base, offer)
            if "tells of a failure" in each.name or "is never done" in each.name
        ]
        return {each.name: world_with(each, base, offer).services[name] for each in told}

    for key, value in ("state", "done"), ("status", "Succeeded"):
        found = worlds_of(get="/jobs/1", json={key: value, "boards": 2})
        states = [{key: each, "boards": 2} for each in ("failed", "running")]
        assert [route.json for route, _ in found.values()] == states
    assert not worlds_of(get="/jobs/1", json={"state": "running"})
    assert not worlds_of(post="/jobs", json={"state": "done"})
    assert not worlds_of(get="/jobs/1", json=["state", "done"])


def test_the_first_of_two_calls_is_answered_late_and_otherwise_than_the_second() -> None:
    offer, name = offered(OverHttp, AROUND), "https://orders.example"
    routes = [Route(get="/orders", json=[7]), Route(post="/orders", json={})]
    base = AROUND.model_copy(update={"services": {name: routes}})
    found = {each.name: each for each in circumstances_of(OverHttp, base, offer)}
    made = world_with(found[f"{name} is late with the first of two calls"], base, offer, 0)
    assert calls_of(made.model[0].call) == [
        ("find", '{"customer":"Ann"}'), ("find", '{"customer":"other-Ann"}'),
    ]  # fmt: skip
    answers = [(each.takes, each.times, each.json) for each in made.services[name]]
    assert answers == [
        (10**9, 1, [7, 7]), (10**9, 1, {"first": True}), (0, "always", [7]), (0, "always", {}),
    ]  # fmt: skip


def test_one_of_all_calls_at_once_waits_an_hour_for_its_service() -> None:
    offer, name = offered(OverHttp, AROUND), "https://orders.example"
    routes = [Route(get="/orders", json=[7]), Route(post="/orders", json={})]
    base = AROUND.model_copy(update={"services": {name: routes}})
    offer = structs.replace(offer, first=("find", "find"))
    found = [
        each
        for each in circumstances_of(OverHttp, base, offer)
        if each.name.startswith("all tools, and")
    ]
    assert sorted(each.name.split()[4] for each in found) == ["GET", "POST"]
    for each in found:
        made = world_with(each, base, offer, 0)
        assert len(calls_of(made.model[0].call)) == 2
        (slow,) = (route for route in made.services[name] if route.takes)
        assert (slow.takes, slow.times) == (3_600 * 10**9, 1)
        assert getattr(slow, each.name.split()[4].lower())
    one = structs.replace(offer, first=("find",))
    assert not [
        each
        for each in circumstances_of(OverHttp, base, one)
        if each.name.startswith("all tools, and")
    ]


def test_a_change_is_stopped_and_then_lost_when_it_is_made_again() -> None:
    offer, name = offered(OverHttp, AROUND), "https://orders.example"
    routes = [Route(get="/orders", json=[7]), Route(post="/orders", json={})]
    base = AROUND.model_copy(update={"services": {name: routes}})
    words = "a stop, then lost answers, of a "
    known = {each.name: each for each in circumstances_of(OverHttp, base, offer)}
    (found,) = (each for each in known.values() if each.name.startswith(words))
    silent, *_ = world_with(known[f"{name} does not answer"], base, offer, 0).services[name]
    assert (silent.stall, silent.times) == ("before-headers", 4)
    two = base.model_copy(update={"services": {name: [*routes, Route(post="/bills", json={})]}})
    later = [
        each.name
        for each in circumstances_of(OverHttp, two, offer)
        if each.name.startswith("a stop, then")
    ]
    assert sum("POST /orders" in each for each in later) == 3
    assert sum("POST /bills" in each for each in later) == 1
    assert found.name == f"{words}POST /orders to {name}"
    made = world_with(found, base, offer, 0)
    answers = [(each.post, each.takes, each.times, each.lost) for each in made.services[name]]
    assert answers[0] == ("/orders", 3_600 * 10**9, 1, None)
    assert answers[1][2] == 16
    assert answers[1][3] is not None
    assert made.abort is not None
    assert made.then.count(Then(say="Do it again.", after="5m")) == 2


def test_a_route_fails_where_each_call_is_alone_and_all_is_done_again() -> None:
    offer, name = offered(OverHttp, AROUND), "https://orders.example"
    both = Reply(call=[offer.call(0), offer.call(1)])
    offer = structs.replace(offer, course=[both])
    found = {each.name: each for each in circumstances_of(OverHttp, AROUND, offer)}
    refused = world_with(found[f"changes are refused at {name}, which is late"], AROUND, offer)
    assert [len(calls_of(each.call)) for each in refused.model] == [1, 1, 0, 1, 1, 0]
    others = world_with(found[f"changes conflict at {name}, which is late"], AROUND, offer)
    assert [len(calls_of(each.call)) for each in others.model] == [1, 1, 1, 1, 0]
    few = {
        each.name: each
        for each in circumstances_of(OverHttp, AROUND, offer, limits=Limits(max_steps=3))
    }
    rested = world_with(few[f"changes conflict at {name}, which is late"], AROUND, offer)
    assert [len(calls_of(each.call)) for each in rested.model] == [1, 1, 0, 1, 1, 0]
    first, *_ = others.services[name]
    assert (first.post, first.status, first.times) == ("/...", 409, 1)
    made = world_with(found[f"route 0 of {name} fails"], AROUND, offer)
    assert [len(calls_of(each.call)) for each in made.model] == [1, 1, 0, 1, 1, 0]
    first, again, *_ = made.services[name]
    assert (first.get, first.status, first.times, again.status) == ("/orders", 500, 4, 200)
    assert made.then[1:2] == [Then(say="Do it again.", after="5m")]


def test_a_service_asks_for_a_wait_where_each_call_is_alone() -> None:
    offer, name = offered(OverHttp, AROUND), "https://orders.example"
    one, other = offer.call(0), offer.call(1)
    offer = structs.replace(offer, course=[Reply(call=[one, other]), Reply(call=one)])
    found = {each.name: each for each in circumstances_of(OverHttp, AROUND, offer)}
    alone = found[f"{name} asks for a wait, and each call is alone"]
    made = world_with(alone, AROUND, offer)
    calls = [calls_of(each.call) for each in made.model[:6]]
    assert calls[::2] == [calls_of(each) for each in (one, other, one)]
    assert calls[1] == [("find", '{"customer":"other-Ann"}')]
    assert (made.services[name][0].status, made.services[name][0].times) == (429, 2)


def test_a_service_fails_once_and_for_good_before_the_first_calls_come_again() -> None:
    base = GO.model_copy(update={"services": {"https://shop.example": [Route(get="/a", json=[])]}})
    offer = offered(native)
    again = [
        e
        for e in circumstances_of(native, base, offer)
        if e.name.endswith("and the first calls again")
    ]
    routes = [world_with(each, base, offer).services["https://shop.example"][0] for each in again]
    assert sorted(each.times for each in routes if isinstance(each.times, int)) == [1, 4]


def test_each_route_of_a_service_fails_by_itself_and_others_are_late() -> None:
    shop, routes = "https://shop.example", [Route(get="/a", json=[]), Route(post="/b", json={})]
    base = AROUND.model_copy(update={"services": {shop: routes}})
    found = {
        each.name: each for each in circumstances_of(OverHttp, base, offered(OverHttp, AROUND))
    }
    fails = world_with(found[f"route 1 of {shop} fails"], base, offered(OverHttp, AROUND))
    first, broken, last = fails.services[shop]
    assert (first, last) == (routes[0], routes[1])
    assert (broken.post, broken.status, broken.times) == ("/b", 500, 4)
    assert fails.then == AROUND.then
    again = world_with(found[f"route 0 of {shop} fails"], base, offered(OverHttp, AROUND))
    assert len(again.then) == 2 * len(AROUND.then) + 1
    name = f"changes are refused at {shop}, which is late"
    again, offer = (
        world_with(found[name], base, offered(OverHttp, AROUND)),
        offered(OverHttp, AROUND),
    )
    calls = [dict(calls_of(each.call)) for each in again.model]
    course = [dict(calls_of(each.call)) for each in offer.course]
    assert calls == [*course, {}, *course, {}]
    assert again.then == [*AROUND.then, Then(say="Do it again.", after="5m"), *AROUND.then]
    refused, *_, first, last = again.services[shop]
    late = first, last
    assert (refused.post, refused.status, refused.times) == ("/...", 422, 1)
    assert [each.takes for each in late] == [5 * 10**9] * 2
    unknown = world_with(found[f"nothing is found at {shop}, which is late"], base, offer)
    assert unknown.services[shop][0].status == 404
    assert f"{shop} knows the user no longer" in found
    assert not any(each.startswith("abort after service-request") for each in found), "none is sent"
    for sent, stopped in ((3, 6), (9, 8)):
        offer = structs.replace(offered(OverHttp, AROUND), seen={"service-request": sent})
        names = [each.name for each in circumstances_of(OverHttp, base, offer)]
        stops = [each for each in names if each.startswith("abort after service-request")]
        of_two = [each for each in stops if each.endswith("of two calls")]
        assert (len(of_two), len(stops) - len(of_two)) == (stopped, min(sent, 8))


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_a_change_of_a_service_fails_behind_the_reads(method: str) -> None:
    shop, offer = "https://orders.example", offered(OverHttp, AROUND)
    routes = [Route(get="/a", json=[]), Route.model_validate({method: "/b", "json": {}})]
    base = AROUND.model_copy(update={"services": {shop: routes}})
    found = {each.name: each for each in circumstances_of(OverHttp, base, offer)}
    broken, *rest = world_with(
        found[f"service.503 of a {method.upper()} to {shop}"], base, offer
    ).services[shop]
    assert (getattr(broken, method), broken.status, broken.times, rest) == ("/...", 503, 1, routes)
    breaks = found[f"service.500 of a {method.upper()} to {shop}"]
    first, *_ = world_with(breaks, base, offer).services[shop]
    assert (first.status, first.times) == (500, 1)
    gone = found[f"4 service.504 of a {method.upper()} to {shop}"]
    first, *_ = world_with(gone, base, offer).services[shop]
    assert (first.status, first.times) == (504, 4)
    refuses = found[f"4 service refuses of a {method.upper()} to {shop}"]
    refused = world_with(refuses, base, offer)
    assert (refused.services[shop][0].status, refused.services[shop][0].times) == (422, 4)
    assert Then(say="Do it again.", after="5m") in refused.then
    once = world_with(found[f"service.503 of a {method.upper()} to {shop}"], base, offer)
    assert once.then == base.then
    of_b = f"of a {method.upper()} /b to {shop}"
    stopped = world_with(found[f"a stop, then a failure, {of_b}"], base, offer)
    late = stopped.services[shop][0]
    assert (getattr(late, method), late.status, late.takes) == ("/b", 503, 6 * 10**9)
    busy = world_with(found[f"a stop, then a wait, {of_b}"], base, offer)
    assert (busy.services[shop][0].status, busy.services[shop][0].takes) == (429, 10**9)
    assert (stopped.abort or Trigger()).at == 4 * 10**9
    then = [Then(say=each, after="1m") for each in ("And its price?", "And then?")]
    assert stopped.then == then
