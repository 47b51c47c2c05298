"""Lengths of virtual time, such as `5s`: exact integers inside, and no unit is guessed."""

import functools
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from annotated_types import Ge

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9}
LONGEST_NS = 100 * 365 * 24 * UNITS_NS["h"]

PATTERN = r"^\d{1,12}(\.\d{1,9})?(ns|us|ms|s|m|h)$"
JSON_SCHEMA = {"type": "string", "pattern": PATTERN, "examples": ["120ms", "5s", "1h"]}
_DURATION = re.compile(PATTERN)


def parse_duration(value: object) -> int:
    """Return nanoseconds from text such as `120ms`. Raises ValueError, also for a bare number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        # ValueError, which pydantic reports with its place; it lets a TypeError pass.
        raise ValueError(f"{value!r} has no unit: write '{value}s' or '{value}ms'")  # noqa: TRY004
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value.isascii() else None
    if match is None or not isinstance(value, str):
        raise ValueError("a duration is a number and a unit (ns, us, ms, s, m, h), such as 120ms")
    unit = match[2]
    if (nanoseconds := Decimal(value.removesuffix(unit)) * UNITS_NS[unit]) > LONGEST_NS:
        raise ValueError("a duration is at most a hundred years")
    if nanoseconds != int(nanoseconds):
        raise ValueError("a duration cannot be finer than a nanosecond")
    return int(nanoseconds)


@functools.lru_cache(maxsize=1024, typed=True)  # the header of each run has the same two
def format_duration(nanoseconds: int) -> str:
    """Return the shortest text in one unit of at most seconds: 5s, 5.12s, 120ms, 250us."""
    for unit in ("s", "ms", "us"):
        if nanoseconds >= UNITS_NS[unit]:
            return f"{(Decimal(nanoseconds) / UNITS_NS[unit]).normalize():f}{unit}"
    return f"{nanoseconds}ns" if nanoseconds else "0s"


def rounded_duration(nanoseconds: float, digits: int = 2) -> str:
    """Return a measured time for people, of any sign: 21 ns, 1.1 us, 2.1 ms, 33 s."""
    rounded = float(f"{nanoseconds:.{digits}g}")
    for unit in ("s", "ms", "us"):
        if abs(rounded) >= UNITS_NS[unit]:
            return f"{rounded_number(rounded / UNITS_NS[unit], digits)} {unit}"
    return f"{rounded:.0f} ns"


def rounded_number(number: float, digits: int = 2) -> str:
    """Return a number with two digits that say something, without an exponent: 2.1, 21, 210."""
    rounded = float(f"{number:.{digits}g}")
    return f"{rounded:,.{max(0, digits - len(str(abs(int(rounded)))))}f}"


class Milliseconds(int):
    """The value of a setting whose name ends in `_ms`: a bare number in Python, a text in files."""

    __slots__ = ()

    def as_written(self) -> str:
        return format_duration(self * UNITS_NS["ms"])

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:
        """Write the text in JSON: the JSON Schema shows the default of a setting by this."""
        return _schema(cls)


class Lasting(Ge):
    """Marks a setting in milliseconds, with its minimum: `Annotated[int, Lasting(1)]`."""

    ge: int

    def __get_pydantic_core_schema__(self, *_: object) -> Any:
        return _schema(self._read)

    def __get_pydantic_json_schema__(self, *_: object) -> dict[str, Any]:
        return dict(JSON_SCHEMA)

    def _read(self, value: object) -> Milliseconds:
        if isinstance(value, Milliseconds):
            return value
        milliseconds, finer = divmod(parse_duration(value), UNITS_NS["ms"])
        if finer:
            raise ValueError("must be a whole number of milliseconds")
        if milliseconds < self.ge:
            raise ValueError(f"must be at least {self.ge}ms")
        return Milliseconds(milliseconds)


def _schema(read: Callable[[Any], Any]) -> Any:
    from pydantic_core import core_schema  # noqa: PLC0415 - the kernel works without pydantic

    serialized = core_schema.plain_serializer_function_ser_schema
    as_text = serialized(Milliseconds.as_written, when_used="json")
    return core_schema.no_info_plain_validator_function(read, serialization=as_text)
