"""Settings given in Python are checked as those of a file are, which pydantic reads."""

import dataclasses
import functools
import typing
from enum import StrEnum
from types import NoneType
from typing import Any, ClassVar, NamedTuple

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
        "extra": "forbid",
        "strict": True,
        "alias_generator": written_name,
    }
    _at: ClassVar[str] = ""

    def __init_subclass__(cls, at: str = "") -> None:
        cls._at = at or cls._at  # a dataclass with slots is made twice, without the argument

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, default, kind in _fields(cls):
            value = getattr(self, name)
            if value is default:  # most settings are, and each run makes several objects of them
                continue
            try:
                checked = _checked(value, kind)
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


class Word(StrEnum):
    """The base of settings that are one of several words; each may be given as plain text."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return the schema of pydantic, which else takes the text from a file only."""
        schema = handler(source)
        handler.resolve_ref_schema(schema)["strict"] = False
        return schema


class _Kind(NamedTuple):
    is_optional: bool
    word: type[Word] | None
    texts: tuple[str, ...]
    is_flag: bool
    numbers: tuple[type[int | float], ...]
    bounds: tuple[Ge | Le, ...]
    lasts: bool


@functools.lru_cache(maxsize=32)
def _fields(cls: Any) -> tuple[tuple[str, Any, _Kind], ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return tuple(
        (field.name, field.default, _kind(tuple(_parts(hints[field.name]))))
        for field in dataclasses.fields(cls)
    )


def _kind(parts: tuple[Any, ...]) -> _Kind:
    types = [part for part in parts if isinstance(part, type)]
    return _Kind(
        is_optional=NoneType in types,
        word=next((each for each in types if issubclass(each, Word)), None),
        texts=tuple(part for part in parts if isinstance(part, str)),
        is_flag=bool in types,
        numbers=(int, float) if float in types else (int,),
        bounds=tuple(part for part in parts if isinstance(part, Ge | Le)),
        lasts=any(isinstance(part, Lasting) for part in parts),
    )


def _parts(hint: Any) -> typing.Iterator[Any]:
    if isinstance(hint, type | Ge | Le | str):
        yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)


def _checked(value: Any, kind: _Kind) -> Any:
    """Return the value to keep. Raises TypeError or ValueError for one that does not fit."""
    if value is None and kind.is_optional:
        return None
    if kind.word is not None:
        return kind.word(value)
    if kind.texts and value not in kind.texts:
        raise ValueError(f"{value!r} is none of {', '.join(kind.texts)}")
    if kind.is_flag and not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value if kind.texts or kind.is_flag else _number(value, kind)


def _number(value: Any, kind: _Kind) -> int | float:
    if isinstance(value, bool) or not isinstance(value, kind.numbers):
        raise TypeError(f"{value!r} is no number that fits here")
    for bound in kind.bounds:
        if isinstance(bound, Le):
            if not value <= bound.le:  # type: ignore[operator]
                raise ValueError(f"{value} is too large: must be at most {bound.le}")
        elif not value >= bound.ge:  # type: ignore[operator]
            raise ValueError(f"{value} is too small: must be at least {bound.ge}")
    return Milliseconds(value) if kind.lasts and type(value) is not Milliseconds else value
