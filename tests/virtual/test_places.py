"""The places of a report are those of the program, and never those of simloop."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from simloop.virtual.places import callers_place, place_of_task, where_it_waits

WAITING = """
async def request(what):
    await what
"""


@pytest.mark.parametrize(
    ("module", "place"),
    [("simloop.virtual.clock.waits", ""), ("sdk.waits", "waits.py:1 in call")],
)
def test_an_installed_simloop_is_no_place_of_the_program(module: str, place: str) -> None:
    file = f"/venv/lib/site-packages/{module.replace('.', '/')}.py"
    namespace: dict[str, Any] = {"__name__": module}
    exec(compile("def call(what): return what()", file, "exec"), namespace)
    with ThreadPoolExecutor() as pool:  # a stack without code of the program
        assert pool.submit(namespace["call"], callers_place).result() == place


@pytest.mark.parametrize(
    ("modules", "waits", "place"),
    [
        (("simloop.virtual.streams",), "streams.py:3 in request, awaiting Event.wait", ""),
        (
            ("simloop.virtual.streams", "sdk.client"),
            "client.py:3 in request, awaiting request",
            "client.py:3 in request",
        ),
        (
            ("simloop.virtual.streams", "sdk.client", "agent"),
            "agent.py:3 in request, awaiting request",
            "agent.py:3 in request",
        ),
        (("anyio.streams",), "awaiting request", ""),
    ],
    ids=["simloop", "a package", "the program", "anyio"],
)
def test_a_task_waits_where_the_nearest_code_to_the_user_does(
    modules: tuple[str, ...], waits: str, place: str
) -> None:
    async def main() -> tuple[str, str]:
        what: Any = asyncio.Event().wait()
        for module in modules:
            folder = "" if module == "agent" else "/venv/lib/site-packages/"
            namespace: dict[str, Any] = {"__name__": module}
            code = compile(WAITING, f"{folder}{module.replace('.', '/')}.py", "exec")
            exec(code, namespace)
            what = namespace["request"](what)
        task = asyncio.ensure_future(what)
        await asyncio.sleep(0)
        found = where_it_waits(task), place_of_task(task)
        task.cancel()
        return found

    assert asyncio.run(main()) == (waits, place)
