"""Lengths of virtual time in the models of a scenario.

Not here: reading and writing the text (kernel/durations.py). The rule to keep: a field holds
nanoseconds and takes text with a unit, both in Python and in a file.
"""

from typing import Annotated, TypeAlias

from pydantic import WithJsonSchema
from pydantic_core import core_schema

from simloop.kernel.durations import JSON_SCHEMA, format_duration, parse_duration
from simloop.scenario.strict import Written


class Nanoseconds(int):
    """A length of virtual time, read from text.

    It is a separate type because a bare number has no unit, so the models refuse it.
    """

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> core_schema.CoreSchema:
        """Return a schema that reads with `duration` and writes JSON with `format_duration`."""
        as_text = core_schema.plain_serializer_function_ser_schema(
            format_duration, return_schema=core_schema.str_schema(), when_used="json"
        )
        return core_schema.no_info_plain_validator_function(duration, serialization=as_text)


NO_TIME = Nanoseconds(0)


def duration(value: object) -> Nanoseconds:
    """Return nanoseconds from text such as `120ms`. Raises ValueError with the correct form."""
    return value if isinstance(value, Nanoseconds) else Nanoseconds(parse_duration(value))


Duration = Annotated[
    Nanoseconds,
    WithJsonSchema(JSON_SCHEMA),
]
"""Nanoseconds, given in Python and in a file as text with a unit."""

WrittenDuration: TypeAlias = Written[Duration, str | Nanoseconds]
WrittenDurationOrNone: TypeAlias = Written[Duration | None, str | Nanoseconds | None]
