"""The places of a report are those of the program, and never those of simloop."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from simloop.virtual.waiting import callers_place


@pytest.mark.parametrize(
    ("module", "place"),
    [("simloop.virtual.waits", ""), ("sdk.waits", "waits.py:1 in call")],
)
def test_an_installed_simloop_is_no_place_of_the_program(module: str, place: str) -> None:
    file = f"/venv/lib/site-packages/{module.replace('.', '/')}.py"
    namespace: dict[str, Any] = {"__name__": module}
    exec(compile("def call(what): return what()", file, "exec"), namespace)
    with ThreadPoolExecutor() as pool:  # a stack without code of the program
        assert pool.submit(namespace["call"], callers_place).result() == place
