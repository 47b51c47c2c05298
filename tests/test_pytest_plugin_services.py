"""The services of a test: `sim.service`, and the services of the marker."""

import pytest
from projects import async_module as play

ASK = '''
from simloop.wire.endpoint import current_endpoint
from simloop.world.http import HttpRequest

SHOP = "https://shop.example/api"

async def get(path, method="GET"):
    endpoint = current_endpoint()
    reply = await endpoint.answer(HttpRequest(method, SHOP + path, (), b""))
    return reply.status, b"".join([piece async for piece in reply.body])

class Notes:
    """An ASGI app."""
    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": scope["path"].encode()})
'''


def test_a_test_scripts_a_service_and_sees_its_requests(project: pytest.Pytester) -> None:
    source = f"""{ASK}
@pytest.fixture
def shop(sim):
    shop = sim.service(SHOP)
    shop.get("/orders/{{id}}", json="a default")
    return shop

@pytest.mark.simloop(seeds=2)
async def test_it(sim, provider, shop):
    shop.get("/orders/{{id}}", status=503, times=1)
    shop.get("/orders/{{id}}", json={{"id": "{{id}}"}}, takes="80ms", times=2)
    assert shop.requests == []
    assert [(await get("/orders/7"))[0] for _ in range(2)] == [503, 200]
    assert await get("/orders/8") == (200, b'{{"id":"8"}}')
    assert sim.now == 0.16
    assert await get("/orders/9") == (200, b'"a default"')
    assert [each.path for each in shop.requests] == [f"/api/orders/{{n}}" for n in (7, 7, 8, 9)]
    provider.expect(services=["GET /orders/7", "...", "GET https://shop.example/api/orders/9"])
    assert sim.trace.header.scenario
"""
    play(project, source).assert_outcomes(passed=1)


def test_an_app_answers_in_a_test(project: pytest.Pytester) -> None:
    source = f"""{ASK}
@pytest.mark.simloop
async def test_one(sim):
    notes = sim.service(SHOP, Notes())
    assert await get("/a") == (200, b"/api/a")
    assert len(notes.requests) == 1

@pytest.mark.simloop(services={{SHOP: lambda request: request.method}})
async def test_two():
    assert await get("/a", "PUT") == (200, b"PUT")

@pytest.mark.simloop
async def test_both(sim):
    sim.service(SHOP, Notes()).get("/x")
"""
    result = play(project, source)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*ScenarioError: services: an app answers https://shop.example*"])


def test_an_answer_that_is_not_used_up_fails_a_test(project: pytest.Pytester) -> None:
    source = f"""{ASK}
@pytest.mark.simloop
async def test_it(sim):
    sim.service(SHOP).get("/orders", times=2)
    assert (await get("/orders"))[0] == 200
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*not used up: services.https://shop.example/api.0*"])


def test_a_request_without_an_answer_is_refused(project: pytest.Pytester) -> None:
    source = f"""{ASK}
@pytest.mark.simloop(unscripted="fail")
async def test_it(sim):
    sim.service(SHOP).get("/orders")
    assert (await get("/order"))[0] == 404
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*request GET https://shop.example/api/order*"])


def test_a_wrong_address_is_refused(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop
async def test_it(sim):
    sim.service("shop.example")
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*`shop.example` must be the address of a service*"])
