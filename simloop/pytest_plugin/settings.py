"""The settings of the runs of one test: its markers, the flags of the command line, its runs."""

import shlex
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from simloop.runs.fixtures import Played

_OF_RUNS = ("seed", "loop", "judge_as", "loop_options", "unscripted", "services")
_OF_ASYNC_TESTS = ("seed", "seeds", "shuffle_ties", "max_transitions", "unscripted", "services")
TAKES = ", ".join(f"{name}=" for name in dict.fromkeys((*_OF_RUNS, *_OF_ASYNC_TESTS)))
USERS = frozenset(("simloop_run", "virtual_clock", "fake_model", "hook_benchmark"))
PLAYED: "pytest.StashKey[Played]" = pytest.StashKey()


def command(item: pytest.Item, seed: int | None = None) -> str:
    """Return the command that runs the test again, for a run that needs the code of the test."""
    if seed is None:
        seed = item.config.getoption("--simloop-seed")
    flag = "" if seed is None else f" --simloop-seed {seed}"
    return f"pytest {shlex.quote(item.nodeid)}{flag}"


def settings_of(item: pytest.Item) -> dict[str, Any]:
    """Return the settings for `simloop_run`, overridden by the flags of the command line."""
    return {**_marked(item, _OF_RUNS, "for an async test"), **_flags(item)}


def settings_of_async(item: pytest.Item) -> dict[str, Any]:
    """Return the settings for the runs of an async test, with its seeds as a list."""
    settings = _marked(item, _OF_ASYNC_TESTS, "for `simloop_run`; an async test is its own agent")
    if "seeds" in settings and "seed" in settings:
        pytest.fail("the marker simloop takes seed= or seeds=, not both", pytrace=False)
    if (seeds := settings.pop("seeds", None)) is not None and (type(seeds) is not int or seeds < 1):
        pytest.fail(f"seeds= is a number of runs, such as 200, not {seeds!r}", pytrace=False)
    settings |= _flags(item)
    one = settings.pop("seed", 0 if seeds is None else None)
    return {**settings, "seeds": [*range(seeds or 0)] if one is None else [one]}


def _flags(item: pytest.Item) -> dict[str, Any]:
    flags = {name: item.config.getoption(f"--simloop-{name}") for name in ("seed", "unscripted")}
    return {name: value for name, value in flags.items() if value is not None}


def _marked(item: pytest.Item, fitting: tuple[str, ...], other: str) -> dict[str, Any]:
    """Return the arguments of the markers, the closest last. Fails the test for one of no use."""
    settings: dict[str, Any] = {}
    known = {*_OF_RUNS, *_OF_ASYNC_TESTS}
    for mark in reversed(list(item.iter_markers("simloop"))):
        if unknown := [*map(repr, mark.args), *(mark.kwargs.keys() - known)]:
            wrong = ", ".join(sorted(unknown))
            pytest.fail(f"the marker simloop takes {TAKES}, not {wrong}", pytrace=False)
        settings.update(mark.kwargs)
    if useless := [name for name in settings if name not in fitting]:
        wrong = ", ".join(f"{name}=" for name in useless)
        pytest.fail(f"the argument {wrong} of the marker simloop is {other}", pytrace=False)
    return settings


def played_by(item: pytest.Item) -> "Played":
    """Return the runs of a test so far."""
    from simloop.runs.fixtures import Played  # noqa: PLC0415 - see the docstring of the plugin

    return item.stash.setdefault(PLAYED, Played(item.config.getoption("--simloop-trace") != "off"))
