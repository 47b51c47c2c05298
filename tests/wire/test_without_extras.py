"""The core neither imports nor needs an extra, and names the one that a call needs."""

import sys

import pytest

from simloop import Reply, Scenario, World, mcp_session, run
from simloop.errors import ScenarioError


def test_an_mcp_session_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def agent(_: str, world: World) -> None:
        async with mcp_session(world):
            raise AssertionError("not reached")

    monkeypatch.setitem(sys.modules, "mcp", None)  # as if it were not installed
    with pytest.raises(ScenarioError, match="needs the package mcp") as refused:
        run(Scenario(prompt="Hi", model=[Reply(say="x")]), loop=agent)
    assert refused.value.hint == "in a clone of simloop: pip install '.[mcp]'"
