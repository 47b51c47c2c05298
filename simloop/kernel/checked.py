"""Settings given in Python are checked as those of a file are.

A file goes through pydantic; a call such as `ToolExecution(order="parallel")` does not. The rule to
keep: a word becomes its enum member and a number out of range is refused, or a policy would
compare equal to no member, and silently do nothing.
"""

import dataclasses
import functools
import typing
from enum import StrEnum
from types import NoneType
from typing import Any

from annotated_types import Ge, Le

from simloop.errors import ScenarioError
from simloop.kernel.durations import Lasting, Milliseconds


def written_name(name: str) -> str:
    """Return the key of a file for the setting `name`: without `_ms`, as its value has a unit."""
    return name.removesuffix("_ms")


AS_WRITTEN = {
    "extra": "forbid",
    "strict": True,
    "alias_generator": written_name,
}
"""The rules for settings in a file: no unknown keys, no guessing.

Not `use_attribute_docstrings`: pydantic would read the source of each class at each start, for
descriptions that only the JSON Schema has. `scenario/jsonschema.py` reads them itself.
"""


def as_written(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass of settings by the keys of a file, durations as text."""
    return {
        written_name(field.name): value.as_written() if isinstance(value, Milliseconds) else value
        for field in dataclasses.fields(settings)
        for value in (getattr(settings, field.name),)
    }


class Word(StrEnum):
    """The base of settings that are one of several words; each may be given as plain text."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return the schema of pydantic, which else takes the text from a file only."""
        schema = handler(source)
        handler.resolve_ref_schema(schema)["strict"] = False
        return schema


def check_settings(settings: object, where: str) -> None:
    """Check the fields of a frozen dataclass by their annotations.

    Words become enum members, and milliseconds a type of their own: see `Milliseconds`.

    Raises ScenarioError with the key `where.field`.
    """
    kind: Any = type(settings)
    for name, hint in _hints(kind).items():
        value = getattr(settings, name)
        kinds, bounds = _taken_apart(hint)
        enum = next((kind for kind in kinds if issubclass(kind, StrEnum)), None)
        try:
            if value is None and NoneType in kinds:
                continue
            if enum is not None:
                object.__setattr__(settings, name, enum(value))
            elif bool in kinds:
                _check_flag(value)
            else:
                _check_number(value, kinds, bounds)
                if any(isinstance(bound, Lasting) for bound in bounds):
                    object.__setattr__(settings, name, Milliseconds(value))
        except (TypeError, ValueError) as error:
            raise ScenarioError(str(error), key=f"{where}.{name}") from None


@functools.lru_cache(maxsize=32)
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if not name.startswith("__")}


@functools.lru_cache(maxsize=128)
def _taken_apart(hint: Any) -> tuple[tuple[type, ...], tuple[Any, ...]]:
    """Return the plain types of an annotation, and the bounds on its numbers."""
    if isinstance(hint, type):
        return (hint,), ()
    bounds = getattr(hint, "__metadata__", ())
    parts = [_taken_apart(part) for part in typing.get_args(hint) if not isinstance(part, Ge | Le)]
    kinds = tuple(kind for part in parts for kind in part[0])
    return kinds, (*bounds, *(bound for part in parts for bound in part[1]))


def _check_flag(value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")


def _check_number(value: Any, kinds: tuple[type, ...], bounds: tuple[Any, ...]) -> None:
    wanted = (int, float) if float in kinds else (int,)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise TypeError(f"{value!r} is no number that fits here")
    for bound in bounds:
        if isinstance(bound, Ge) and not value >= bound.ge:  # type: ignore[operator]
            raise ValueError(f"{value} is too small: must be at least {bound.ge}")
        if isinstance(bound, Le) and not value <= bound.le:  # type: ignore[operator]
            raise ValueError(f"{value} is too large: must be at most {bound.le}")
