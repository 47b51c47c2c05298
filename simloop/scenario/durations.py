"""Lengths of virtual time as people write them: `120ms`, `5s`, `1.5h`.

The rule to keep: exact integers of nanoseconds inside, never a float, so that `0.1s` ten times is
one second.
"""

import re
from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import WithJsonSchema
from pydantic_core import core_schema

from simloop.scenario.strict import Written

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9}
LONGEST_NS = 100 * 365 * 24 * UNITS_NS["h"]

PATTERN = r"^\d{1,12}(\.\d{1,9})?(ns|us|ms|s|m|h)$"
_DURATION = re.compile(PATTERN)


class Nanoseconds(int):
    """A length of virtual time that was read from text.

    A type of its own, because a bare number says nothing of its unit and is refused.
    """

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> core_schema.CoreSchema:
        """Read by `duration`, and written by `format_duration` in JSON."""
        as_text = core_schema.plain_serializer_function_ser_schema(
            format_duration, return_schema=core_schema.str_schema(), when_used="json"
        )
        return core_schema.no_info_plain_validator_function(duration, serialization=as_text)


NO_TIME = Nanoseconds(0)


def duration(value: object) -> Nanoseconds:
    """Nanoseconds from text such as `120ms`. Raises ValueError, saying how to write one."""
    if isinstance(value, Nanoseconds):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        # ValueError, which pydantic reports with its place; it lets a TypeError pass.
        raise ValueError(f"{value!r} has no unit: write '{value}s' or '{value}ms'")  # noqa: TRY004
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value.isascii() else None
    if match is None or not isinstance(value, str):
        raise ValueError("a duration is a number and a unit (ns, us, ms, s, m, h), such as 120ms")
    unit = match[2]
    nanoseconds = Decimal(value.removesuffix(unit)) * UNITS_NS[unit]
    if nanoseconds > LONGEST_NS:
        raise ValueError("a duration is at most a hundred years")
    if nanoseconds != int(nanoseconds):
        raise ValueError("a duration cannot be finer than a nanosecond")
    return Nanoseconds(nanoseconds)


def format_duration(nanoseconds: int) -> str:
    """The shortest way to write it in one unit of at most seconds: 5s, 5.12s, 120ms, 250us."""
    for unit in ("s", "ms", "us"):
        if nanoseconds >= UNITS_NS[unit]:
            amount = (Decimal(nanoseconds) / UNITS_NS[unit]).normalize()
            return f"{amount:f}{unit}"
    return f"{nanoseconds}ns" if nanoseconds else "0s"


Duration = Annotated[
    Nanoseconds,
    WithJsonSchema({"type": "string", "pattern": PATTERN, "examples": ["120ms", "5s", "1h"]}),
]
"""Nanoseconds; in Python and in a file given as text with a unit."""

WrittenDuration: TypeAlias = Written[Duration, str | Nanoseconds]
WrittenDurationOrNone: TypeAlias = Written[Duration | None, str | Nanoseconds | None]
