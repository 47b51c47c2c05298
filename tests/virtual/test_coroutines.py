"""A coroutine that a statement makes and drops is recorded, with its place."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from simloop import Scenario, Simulation, World
from simloop.trace.entries import LeftBehind

pytestmark = pytest.mark.filterwarnings("ignore:coroutine")


async def note() -> str:
    return "noted"


class Desk:
    async def note(self) -> None:
        """Note nothing."""


async def _drops() -> None:
    note()  # type: ignore[unused-coroutine]


async def _drops_that_of_a_method() -> None:
    Desk().note()  # type: ignore[unused-coroutine]


async def _awaits() -> None:
    await note()


async def _keeps() -> None:
    kept = note()
    await asyncio.sleep(0)
    await kept


async def _closes() -> None:
    note().close()


_package: dict[str, Any] = {"__name__": "package", "__file__": "/lib/site-packages/package.py"}
exec(compile("def drop(made): made()", "/lib/site-packages/package.py", "exec"), _package)


async def _drops_in_a_package() -> None:
    _package["drop"](note)


@pytest.mark.parametrize(
    ("does", "left"),
    [
        (_drops, [("note", "_drops")]),
        (_drops_that_of_a_method, [("Desk.note", "_drops_that_of_a_method")]),
        (_awaits, []),
        (_keeps, []),
        (_closes, []),
        (_drops_in_a_package, []),
    ],
)
def test_a_call_without_await_is_recorded(
    does: Callable[[], Any], left: list[tuple[str, str]]
) -> None:
    async def agent(_: str, world: World) -> str:
        await does()
        return "Done."

    found = Simulation(Scenario(prompt="Go."), loop=agent).run_unchecked().trace.entries
    names = [(each.name, each.place) for each in found if isinstance(each, LeftBehind)]
    assert [name for name, _ in names] == [name for name, _ in left]
    for (_, place), (_, where) in zip(names, left, strict=True):
        assert place.startswith("test_coroutines.py:")
        assert place.endswith(f" in {where}")


def test_outside_of_a_simulation_python_warns_of_it() -> None:
    with pytest.warns(RuntimeWarning, match="never awaited"):
        note()  # type: ignore[unused-coroutine]
