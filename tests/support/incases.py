"""A test of many cases that costs what its cases do.

A case of `pytest.mark.parametrize` costs two milliseconds besides its own work, of which pytest
spends one half collecting and reporting it and pytest-xdist the other.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def in_cases(
    cases: Iterable[Any], name: Callable[[Any], str] = str
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Return a decorator that has a test check every case, and name each one that fails.

    A test of several parameters takes each case apart. A generator is read when the test runs.
    """

    def decorator(test: Callable[..., None]) -> Callable[[], None]:
        @functools.wraps(test)
        def checks_every_case() -> None:
            several = len(inspect.signature(test).parameters) > 1
            check_each((lambda case: test(*case)) if several else test, cases, name)

        del checks_every_case.__wrapped__  # pytest would take its parameters for fixtures
        return checks_every_case

    return decorator


def check_each(
    test: Callable[[Any], None], cases: Iterable[Any], name: Callable[[Any], str] = str
) -> None:
    """Check every case. Raises the error of the one that fails, or those of all that do."""
    every = list(cases)
    assert every, "there is no case"
    failed: list[Exception] = []
    for case in every:
        try:
            test(case)
        except Exception as error:  # noqa: BLE001 - whatever a case raises, the others are checked
            error.add_note(f"in the case of {name(case)}")
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise ExceptionGroup(f"{len(failed)} cases fail", failed)
