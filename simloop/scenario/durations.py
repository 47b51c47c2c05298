"""Lengths of virtual time as people write them: `120ms`, `5s`, `1.5h`.

The rule to keep: exact integers of nanoseconds inside, never a float, so that `0.1s` ten times is
one second.
"""

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9}
LONGEST_NS = 100 * 365 * 24 * UNITS_NS["h"]

PATTERN = r"^\d{1,12}(\.\d{1,9})?(ns|us|ms|s|m|h)$"
_DURATION = re.compile(PATTERN)


def duration(value: Any) -> int:
    """Nanoseconds from text such as `120ms`. Raises ValueError, saying how to write one."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value.isascii() else None
    if match is None or not isinstance(value, str):
        raise ValueError("a duration is a number and a unit (ns, us, ms, s, m, h), such as 120ms")
    unit = match[2]
    nanoseconds = Decimal(value.removesuffix(unit)) * UNITS_NS[unit]
    if nanoseconds > LONGEST_NS:
        raise ValueError("a duration is at most a hundred years")
    if nanoseconds != int(nanoseconds):
        raise ValueError("a duration cannot be finer than a nanosecond")
    return int(nanoseconds)


def format_duration(nanoseconds: int) -> str:
    """The shortest way to write it in one unit of at most seconds: 5s, 5.12s, 120ms, 250us."""
    for unit in ("s", "ms", "us"):
        if nanoseconds >= UNITS_NS[unit]:
            amount = (Decimal(nanoseconds) / UNITS_NS[unit]).normalize()
            return f"{amount:f}{unit}"
    return f"{nanoseconds}ns" if nanoseconds else "0s"


def _read(value: Any, info: ValidationInfo) -> int:
    """In Python, nanoseconds too, which is what the type says; a number in a file has no unit."""
    if info.mode == "python" and type(value) is int and value >= 0:
        return value
    return duration(value)


Duration = Annotated[
    int,
    BeforeValidator(_read),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": PATTERN, "examples": ["120ms", "5s", "1h"]}),
]
"""Nanoseconds; written and read as text with a unit."""
