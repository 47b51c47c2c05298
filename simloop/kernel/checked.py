"""Settings given in Python are checked as those of a file are.

A file goes through pydantic; a call such as `ToolExecution(order="parallel")` does not. The rule to
keep: a word becomes its enum member and a number out of range is refused, or a policy would
compare equal to no member, and silently do nothing.
"""

import dataclasses
import functools
import typing
from collections.abc import Callable
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
    kind: Any = type(settings)
    return {
        key: value.as_written() if hasattr(value, "as_written") else value
        for name, key in _keys(kind)
        for value in (getattr(settings, name),)
    }


@functools.lru_cache(maxsize=32)
def _keys(kind: Any) -> tuple[tuple[str, str], ...]:
    """Return the names of the fields of a class of settings, each with its key in a file."""
    return tuple((field.name, written_name(field.name)) for field in dataclasses.fields(kind))


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
    for name, default, check in _checks(kind):
        value = getattr(settings, name)
        if value is default:
            continue
        try:
            checked = check(value)
        except (TypeError, ValueError) as error:
            raise ScenarioError(str(error), key=f"{where}.{name}") from None
        if checked is not value:
            object.__setattr__(settings, name, checked)


_Check: typing.TypeAlias = Callable[[Any], Any]


@functools.lru_cache(maxsize=32)
def _checks(kind: Any) -> tuple[tuple[str, Any, _Check], ...]:
    """Return the name, the default and the check of each field of a class of settings.

    A default that its own check accepts as it stands is not checked again: most settings are
    defaults, and each run makes several objects of them.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    checks = {name: _check_of(hint) for name, hint in hints.items() if not name.startswith("__")}
    return tuple(
        (name, _accepted(defaults.get(name, dataclasses.MISSING), check), check)
        for name, check in checks.items()
    )


def _accepted(default: Any, check: _Check) -> Any:
    """Return a default that needs no check, or an object that no setting can be."""
    try:
        return default if check(default) is default else _NO_DEFAULT
    except (TypeError, ValueError):
        return _NO_DEFAULT


_NO_DEFAULT = object()


def _check_of(hint: Any) -> _Check:
    """Return a function that takes the value of a field to the one to keep, or raises."""
    if typing.get_origin(hint) is typing.Literal:
        return functools.partial(_word, words=typing.get_args(hint))
    kinds, bounds = _taken_apart(hint)
    enum = next((kind for kind in kinds if issubclass(kind, StrEnum)), None)
    check: _Check
    if enum is not None:
        check = enum
    elif bool in kinds:
        check = _flag
    else:
        lasting = any(isinstance(bound, Lasting) for bound in bounds)
        check = functools.partial(_number, kinds=kinds, bounds=bounds, lasting=lasting)
    return functools.partial(_or_none, check=check) if NoneType in kinds else check


def _or_none(value: Any, check: _Check) -> Any:
    return None if value is None else check(value)


@functools.lru_cache(maxsize=128)
def _taken_apart(hint: Any) -> tuple[tuple[type, ...], tuple[Any, ...]]:
    """Return the plain types of an annotation, and the bounds on its numbers."""
    if isinstance(hint, type):
        return (hint,), ()
    bounds = getattr(hint, "__metadata__", ())
    parts = [_taken_apart(part) for part in typing.get_args(hint) if not isinstance(part, Ge | Le)]
    kinds = tuple(kind for part in parts for kind in part[0])
    return kinds, (*bounds, *(bound for part in parts for bound in part[1]))


def _word(value: Any, *, words: tuple[str, ...]) -> Any:
    if value not in words:
        raise ValueError(f"{value!r} is none of {', '.join(words)}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _number(
    value: Any, *, kinds: tuple[type, ...], bounds: tuple[Any, ...], lasting: bool
) -> int | float:
    wanted = (int, float) if float in kinds else (int,)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise TypeError(f"{value!r} is no number that fits here")
    for bound in bounds:
        if isinstance(bound, Ge) and not value >= bound.ge:  # type: ignore[operator]
            raise ValueError(f"{value} is too small: must be at least {bound.ge}")
        if isinstance(bound, Le) and not value <= bound.le:  # type: ignore[operator]
            raise ValueError(f"{value} is too large: must be at most {bound.le}")
    return Milliseconds(value) if lasting and type(value) is not Milliseconds else value
