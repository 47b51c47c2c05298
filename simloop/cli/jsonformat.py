"""The parts that the JSON of `run`, `check`, `compare` and `replay` have in common.

Not here: the documents (report.py, compare_text.py, replay.py). The rules to keep: a word has one
meaning in all of them, and `FORMAT_VERSION` grows when a key changes its meaning or is removed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from simloop.errors import ErrorDetails, SimloopError
from simloop.runs.mismatch import Mismatch
from simloop.trace.diff import Divergence

FORMAT_VERSION = 2

Status: TypeAlias = Literal["ok", "failed", "error", "cannot"]
_STATUS: tuple[Status, ...] = ("ok", "failed", "error")


def status_for(exit_code: int, *, cannot: bool = False) -> Status:
    """Return the status for this exit code.

    `failed`: the loop is wrong; `error`: the file, the call or simloop is wrong; `cannot`: the loop
    cannot express the scenario.
    """
    return "cannot" if cannot else _STATUS[min(exit_code, 2)]


def failures_of(mismatches: Iterable[Mismatch]) -> list[dict[str, Any]]:
    """Return the expectations that do not hold: `key`, `expected`, `got`, `seq`, `message`."""
    return [
        _failure(f"expect.{each.key}", each.expected, each.got, each.seq, str(each))
        for each in mismatches
    ]


def failure_of(divergence: Divergence) -> dict[str, Any]:
    """Return the first difference of two traces, with the keys of `failures_of`."""
    message = "\n".join(divergence.lines("recorded", "replayed"))
    return _failure(divergence.field, divergence.expected, divergence.got, divergence.seq, message)


def errors_of(errors: Iterable[SimloopError]) -> list[dict[str, Any]]:
    """Return one object for each mistake: its type, message and place."""
    return list(as_objects(details for error in errors for details in ErrorDetails.of(error)))


def as_objects(details: Iterable[ErrorDetails]) -> Iterator[dict[str, Any]]:
    """Yield an object for each error, with null for an unknown value."""
    return map(asdict, details)


def _failure(key: str, expected: Any, got: Any, seq: int | None, message: str) -> dict[str, Any]:
    return {
        "key": key,
        "expected": _plain(expected),
        "got": _plain(got),
        "seq": seq,
        "message": message,
    }


def _plain(value: Any) -> Any:
    """Return the value as it is written in a file."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return value
