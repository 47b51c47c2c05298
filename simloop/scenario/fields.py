"""The base of the models that people write, in a file or in Python, and the types of their fields.

A type checker without plugins accepts exactly the values that the models accept.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError, WithJsonSchema
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import BeforeValidator
from pydantic_core import PydanticCustomError, core_schema

from simloop.kernel.durations import JSON_SCHEMA, format_duration, parse_duration
from simloop.scenario.mistakes import refusal

T = TypeVar("T")


class _Lax:
    """A mark as `pydantic.Strict(False)`, which cannot annotate a dataclass."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schema = handler(source)
        resolved: Any = handler.resolve_ref_schema(schema)
        kinds = {"list": (list, tuple), "tuple": (tuple, list)}.get(resolved["type"])
        if kinds is not None:  # a lax list would take a model apart, and a lax tuple any set
            read = functools.partial(_as, *kinds)
            return core_schema.no_info_before_validator_function(read, schema)
        resolved["strict"] = False  # only the outer form: fields keep their model's configuration
        return schema


def _as(kind: type, other: type, value: object) -> object:
    return kind(value) if isinstance(value, other) else value


Lax = Annotated[T, _Lax()]
"""A type that also accepts another form.

That is a word for an enum member, a mapping for a model, a tuple for a list or a list for a tuple.
"""

if TYPE_CHECKING:
    _Read_co = TypeVar("_Read_co", covariant=True)
    _Given_contra = TypeVar("_Given_contra", contravariant=True)

    class Written(Generic[_Read_co, _Given_contra]):
        """The type of a field that has one type when read and accepts another when set.

        Type checkers take the type of an argument from `__set__`, and that of an attribute from
        `__get__`. At run time it is the first type, which is what pydantic validates.
        """

        def __get__(self, instance: object, owner: type | None = None) -> _Read_co: ...
        def __set__(self, instance: object, value: _Given_contra) -> None: ...

else:

    class Written:
        """The first of two types at run time."""

        def __class_getitem__(cls, kinds: tuple[Any, Any]) -> Any:
            return kinds[0]


One: TypeAlias = Written[Lax[T], T | Mapping[str, Any]]
OneOrNone: TypeAlias = Written[Lax[T] | None, T | Mapping[str, Any] | None]
Many: TypeAlias = Written[Lax[list[Lax[T]]], Sequence[T | Mapping[str, Any]]]
Named: TypeAlias = Written[dict[str, Lax[T]], Mapping[str, T | Mapping[str, Any]]]
"""A mapping of names to models, each given as a model or as a mapping with its keys."""


def kept(default: Any) -> Any:
    """Return the default of a `Written` field, or its factory, as a type that checkers accept."""
    return default


def defaults_of(model: type[BaseModel]) -> Any:
    """Return a model with its defaults, as a default of a field, without building its validator."""
    return model.model_construct()


def no_items() -> list[Any]:
    """Return an empty list; pydantic takes longer to ask `list` for its signature."""
    return []


class Strict(BaseModel):  # noqa: PLW1641 - pydantic adds `__hash__` to a frozen model
    """A model of a file's content: no unknown keys, no type guessing, no later change."""

    # Built on first use: the validator of a scenario has those of all its parts in it, and one each
    # for them would take a tenth of the time of `simloop run`.
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, revalidate_instances="always", defer_build=True
    )

    # The header of a trace leaves the defaults out, and nearly every default is the one object.
    # Pydantic compares all its fields even so, which takes as long as writing the rest.
    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the fields that differ from their defaults: a failed test prints this text."""
        for name, value in super().__repr_args__():
            if name not in type(self).model_fields or differs(self, name):
                yield name, _brief(value)

    if not TYPE_CHECKING:  # type checkers read the arguments from the fields

        def __init__(self, /, **data: Any) -> None:
            """Raise ScenarioError, instead of pydantic's error, for wrong arguments."""
            try:
                super().__init__(**data)
            except ValidationError as error:
                raise refusal(type(self), error) from None

        # Pydantic marks its own `__init__` so: it validates a nested model without this call, and a
        # finding keeps its place in the outer model.
        __init__.__pydantic_base_init__ = True


def wrong(key: str, message: str) -> PydanticCustomError:
    """Return the error of a whole model about one of its keys, such as `history.2`."""
    return PydanticCustomError("contradiction", "{says}", {"key": key, "says": message})


def check_place(lost: str | None, stall: str | None, before: str, needs: str) -> None:
    """Raise an error unless what comes before the place of a failure fits; `before` is its name."""
    key, place = "stall" if lost is None else "lost", lost or stall
    if place == "mid-output" and not before:
        raise wrong(key, f"mid-output needs {needs}")
    if place not in (None, "mid-output") and before:
        raise wrong(key, f"{place} has no {before} before it: write mid-output")


def differs(model: BaseModel, field: str) -> bool:
    """Return whether the field has another value than its default, set or not."""
    return bool(getattr(model, field) != _default(type(model), field))


@functools.lru_cache(maxsize=256)
def _default(kind: type[BaseModel], field: str) -> Any:
    return kind.model_fields[field].get_default(call_default_factory=True)


class Nanoseconds(int):
    """A length of virtual time, read from text: a bare number has no unit."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> core_schema.CoreSchema:
        as_text = core_schema.plain_serializer_function_ser_schema(
            format_duration, return_schema=core_schema.str_schema(), when_used="json"
        )
        return core_schema.no_info_plain_validator_function(duration, serialization=as_text)


NO_TIME = Nanoseconds(0)


def duration(value: object) -> Nanoseconds:
    """Return nanoseconds from text such as `120ms`. Raises ValueError with the correct form."""
    return value if isinstance(value, Nanoseconds) else Nanoseconds(parse_duration(value))


Duration = Annotated[Nanoseconds, WithJsonSchema(JSON_SCHEMA)]
"""Nanoseconds, given in Python and in a file as text with a unit."""

WrittenDuration: TypeAlias = Written[Duration, str | Nanoseconds]
WrittenDurationOrNone: TypeAlias = Written[Duration | None, str | Nanoseconds | None]

_LONG, _UNIT, _MOST = 1_000, 32, 50_000_000


def _read(value: Any) -> Any:
    match value:
        case {"repeat": str(part), "chars": int(chars), **more} if part and not more:
            return (part * (chars // len(part) + 1))[:chars] if 0 < chars <= _MOST else value
    return value


def _brief(value: Any) -> Any:
    """Return a long text that is one part again and again as that part, also those of a list."""
    if isinstance(value, list):
        return [*map(_brief, value)]
    size = value.find(value[:_UNIT], 1) if isinstance(value, str) and len(value) >= _LONG else 0
    shown = {"repeat": value[:size], "chars": len(value)} if size > 0 else value
    return shown if _read(shown) == value else value


Text = Annotated[
    str,
    BeforeValidator(_read),
    PlainSerializer(lambda text, info: _brief(text) if info.context else text),
    WithJsonSchema({"type": ["string", "object"], "required": ["repeat", "chars"]}),
]
"""A text; a long one also as {repeat: "some words ", chars: 33000}, as which a file has it."""
