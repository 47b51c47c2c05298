"""A test of many cases that costs what its cases do.

A case of `pytest.mark.parametrize` costs two milliseconds besides its own work, of which pytest
spends one half collecting and reporting it and pytest-xdist the other.
"""

import functools
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def in_cases(
    cases: Iterable[T], name: Callable[[T], str] = str
) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """Return a decorator that has a test check every case, and name each one that fails."""
    every = list(cases)
    assert every

    def decorator(test: Callable[[T], None]) -> Callable[[], None]:
        @functools.wraps(test)
        def checks_every_case() -> None:
            check_each(test, every, name)

        del checks_every_case.__wrapped__  # pytest would take its parameter for a fixture
        return checks_every_case

    return decorator


def check_each(
    test: Callable[[T], None], cases: Iterable[T], name: Callable[[T], str] = str
) -> None:
    """Check every case. Raises the error of the one that fails, or those of all that do."""
    failed: list[Exception] = []
    for case in cases:
        try:
            test(case)
        except Exception as error:  # noqa: BLE001 - whatever a case raises, the others are checked
            error.add_note(f"in the case of {name(case)}")
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise ExceptionGroup(f"{len(failed)} cases fail", failed)
