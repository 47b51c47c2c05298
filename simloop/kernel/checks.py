"""Settings given in Python are checked as those of a file are, which pydantic reads."""

import dataclasses
import functools
import typing
from types import NoneType
from typing import Any, ClassVar

from annotated_types import Ge, Le

from simloop.errors import ScenarioError
from simloop.kernel.durations import Lasting, Milliseconds


def written_name(name: str) -> str:
    """Return the key of a file for the setting `name`: without `_ms`, as its value has a unit."""
    return name.removesuffix("_ms")


class Checked:
    """The base of frozen settings. `at` is their key in a scenario. Raises ScenarioError."""

    __slots__ = ()
    # No unknown keys, no guessing. Not `use_attribute_docstrings`: pydantic would read the source
    # of each class at each start, for descriptions that only the JSON Schema has.
    __pydantic_config__: ClassVar = {
        "extra": "forbid", "strict": True, "alias_generator": written_name,
    }  # fmt: skip
    _at: ClassVar[str] = ""

    def __init_subclass__(cls, at: str = "") -> None:
        cls._at = at or cls._at  # a dataclass with slots is made twice, without the argument

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, default, parts in _fields(cls):
            value = getattr(self, name)
            if value is default:  # most settings are, and each run makes several objects of them
                continue
            try:
                checked = _checked(value, parts)
            except (TypeError, ValueError) as error:
                raise ScenarioError(str(error), key=f"{self._at}.{name}") from None
            if checked is not value:
                object.__setattr__(self, name, checked)


@functools.lru_cache(maxsize=64)
def as_written(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass of settings by the keys of a file, durations as text."""
    values = ((f.name, getattr(settings, f.name)) for f in dataclasses.fields(settings))
    return {
        written_name(name): value.as_written() if hasattr(value, "as_written") else value
        for name, value in values
    }


@functools.lru_cache(maxsize=32)
def _fields(cls: Any) -> tuple[tuple[str, Any, tuple[Any, ...]], ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = dataclasses.fields(cls)
    return tuple([(f.name, f.default, tuple(_parts(hints[f.name]))) for f in fields])


def _parts(hint: Any) -> typing.Iterator[Any]:
    if isinstance(hint, type | Ge | Le | str):
        yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)


def _checked(value: Any, parts: tuple[Any, ...]) -> Any:
    """Return the value to keep. Raises TypeError or ValueError for one that does not fit."""
    if value is None and NoneType in parts:
        return None
    if words := [part for part in parts if isinstance(part, str)]:
        if value not in words:
            raise ValueError(f"{value!r} is none of {', '.join(words)}")
        return value
    if bool in parts:
        if not isinstance(value, bool):
            raise TypeError(f"{value!r} is neither true nor false")
        return value
    return _number(value, parts)


def _number(value: Any, parts: tuple[Any, ...]) -> int | float:
    kinds = (int, float) if float in parts else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError(f"{value!r} is no number that fits here")
    for bound in parts:
        if isinstance(bound, Le) and not value <= bound.le:  # type: ignore[operator]
            raise ValueError(f"{value} is too large: must be at most {bound.le}")
        if isinstance(bound, Ge) and not value >= bound.ge:  # type: ignore[operator]
            raise ValueError(f"{value} is too small: must be at least {bound.ge}")
    lasts = any(isinstance(part, Lasting) for part in parts)
    return Milliseconds(value) if lasts and type(value) is not Milliseconds else value
