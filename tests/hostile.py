"""Text that must reach no terminal, XML file or page as it is, and where it can stand.

The places come from the types of traces and scenarios, so that a new field cannot be forgotten.
"""

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct, UnsetType
from pydantic import BaseModel

from simloop.scenario.catalog import bundled_folder
from simloop.scenario.schema import Scenario
from simloop.scenario.yaml import read_yaml_file

HOSTILE = "a\x1b[31m\a\nFORGED ok\r\t\x7f\x9b2J\u200b\u202e\u2028\ufeff<b>&]]>\0"
_CONTROLS = "\x1b\a\r\x7f\x9b\u200b\u202e\u2028\ufeff\0"


def raw_in(shown: str) -> list[str]:
    """The lines of `shown` that hold something of HOSTILE which should have been escaped."""
    return [
        line
        for line in shown.split("\n")
        if any(character in line for character in _CONTROLS)
        or line.lstrip(" E+->|").startswith("FORGED")
        or any("\ud800" <= character <= "\udfff" for character in line)
    ]


def plain(kind: Any) -> Any:
    """A harmless value of a type as entries have them."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return kind(*(plain(hint) for hint in _fields(kind).values()))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated or origin in (typing.Union, types.UnionType):
        return plain(arguments[0])
    harmless: dict[Any, Any] = {
        str: "x", int: 0, bool: False, Any: None, Raw: Raw(b'"x"'), tuple: (), Mapping: {}
    }  # fmt: skip
    return harmless[typing.get_origin(kind) or kind]


def hostile(kind: Any) -> Iterator[Any]:
    """Values of that type, each with HOSTILE in another one of the places that hold text."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = _fields(kind)
        for name, hint in hints.items():
            for value in hostile(hint):
                given = [value if name == other else plain(hints[other]) for other in hints]
                yield kind(*given)
        return
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        yield from hostile(arguments[0])
    elif origin in (typing.Union, types.UnionType):
        for argument in arguments:
            yield from hostile(argument)
    elif origin is tuple and arguments[-1] is ...:
        yield from ((value,) for value in hostile(arguments[0]))
    elif origin is tuple:
        for at, argument in enumerate(arguments):
            for value in hostile(argument):
                yield tuple(value if at == i else plain(a) for i, a in enumerate(arguments))
    elif origin is not None and issubclass(origin, Mapping):
        yield {HOSTILE: 7}
    elif kind is Any:
        yield {HOSTILE: HOSTILE}
    elif kind is Raw:
        yield Raw(json.dumps(HOSTILE).encode())
    elif kind is str:
        yield HOSTILE
    else:
        known = kind in (int, bool, types.NoneType, UnsetType) or issubclass(kind, enum.Enum)
        assert known, f"it must be said here whether {kind} can hold text"


def _fields(kind: type[Struct]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in msgspec.structs.fields(kind)}


Field = tuple[str, str]
"""The name of a model of scenarios, and of one of its fields."""
Place = tuple[str | int, ...]


def text_fields(model: Any = Scenario) -> set[Field]:
    """The fields of scenarios, and of the models in them, that can hold any text."""
    found = set()
    for name, hint in _model_fields(model).items():
        if {str, Any} & set(_parts(hint)):
            found.add((model.__name__, name))
        for inner in _models(hint):
            found |= text_fields(inner)
    return found


def texts(document: Any, model: Any = Scenario, place: Place = ()) -> Iterator[tuple[Place, Field]]:
    """The places of all texts and of all keys that an author chooses, each with its field."""
    fields = _model_fields(model)
    for name in document:
        field = (model.__name__, name)
        yield from _texts(document[name], _models(fields[name]), (*place, name), field)


def _texts(
    value: Any, models: list[Any], place: Place, field: Field
) -> Iterator[tuple[Place, Field]]:
    if isinstance(value, str):
        yield place, field
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, models, (*place, index), field)
    elif isinstance(value, dict):
        for model in models:
            if value.keys() <= _model_fields(model).keys():
                yield from texts(value, model, place)
                return
        for key, item in value.items():
            yield (*place, key, _KEY), field
            yield from _texts(item, models, (*place, key), field)


_KEY = -1
"""The end of a place: not the value is meant, but its key."""


def with_hostile(document: Any, place: Place) -> Any:
    """A copy of `document` with HOSTILE at that place."""
    copy = json.loads(json.dumps(document))
    *way, last = place
    holder = copy
    if last == _KEY:
        *way, last = way
        for step in way:
            holder = holder[step]
        holder[HOSTILE] = holder.pop(last)
        return copy
    for step in way:
        holder = holder[step]
    holder[last] = HOSTILE
    return copy


def _model_fields(model: Any) -> dict[str, Any]:
    if issubclass(model, BaseModel):
        return {name: field.annotation for name, field in model.model_fields.items()}
    hints = typing.get_type_hints(model)
    return {name: hint for name, hint in hints.items() if not _is_of_the_class(hint)}


def _is_of_the_class(hint: Any) -> bool:
    return hint is ClassVar or typing.get_origin(hint) is ClassVar


def _parts(hint: Any) -> Iterator[Any]:
    """The types that a type is made of; the Annotated metadata is none of them."""
    if typing.get_origin(hint) is typing.Annotated:
        yield from _parts(typing.get_args(hint)[0])
    elif typing.get_origin(hint) is typing.Literal:
        return
    elif arguments := typing.get_args(hint):
        for argument in arguments:
            yield from _parts(argument)
    else:
        yield hint


def _models(hint: Any) -> list[Any]:
    return [
        part
        for part in _parts(hint)
        if isinstance(part, type)
        and (issubclass(part, BaseModel) or dataclasses.is_dataclass(part))
    ]


_ANSWERS: dict[str, Any] = {"prompt": "Hi", "model": [{"say": "Hello."}]}
_NOT_BUNDLED: list[Any] = [
    {**_ANSWERS, "expect": {"violates": {"x": "y"}}},
    {**_ANSWERS, "expect": {"text": {"contains": "x"}}},
    {**_ANSWERS, "judge_as": "x", "about": "x"},
    {**_ANSWERS, "declares": {"mutating": ["x"], "deviations": {"x": "y"}}},
    {**_ANSWERS, "input": ["x"]},
    {**_ANSWERS, "hooks": [{"at": "before_llm_call", "command": "x"}]},
    {
        **_ANSWERS,
        "recorded": "x",
        "tools": {"x": {"answers": [{"returns": "x"}, {"raises": "x"}]}},
        "expect": {"sent": [{"system": "x", "tools": ["x"], "messages": []}]},
    },
    {
        "prompt": "Go.",
        "models": {
            "x": {
                "when": {
                    "model": "x",
                    "tools": ["x"],
                    "system": "x",
                    "headers": {"x": "y"},
                    "conversation": "x",
                    "contains": "x",
                    "output": "x",
                },
                "replies": [{"say": "x"}],
            }
        },
        "model": [{"when": {"conversation": "x", "output": "x"}, "say": "x"}],
    },
    {
        **_ANSWERS,
        "tools": {"x": {}},
        "mcp": {"listed_after": {"x": "1s"}, "unlisted_after": {"x": "2s"}},
    },
    {
        **_ANSWERS,
        "then": [{"say": "Go on."}],
        "offline": ["x.example"],
        "absent": ["x"],
        "input": [{"say": "y", "to": {"contains": "x"}}],
        "services": {
            "https://x.example": [
                *(
                    {method: "/x", "text": "x", "headers": {"x": "y"}}
                    for method in ("get", "post", "put", "patch", "delete", "head", "options")
                ),
                {"any": "/x", "json": {"x": "y"}},
                {"get": "/y", "pieces": ["x"]},
                {"get": "/z", "when": {"body": {"x": "y"}, "contains": "x", "headers": {"x": "y"}}},
            ]
        },
        "programs": {
            "x": [
                {"stdout": "x", "stderr": "y", "stdin": {"contains": "x"}},
                {"pieces": [{"stdout": "x", "stderr": "y"}]},
            ]
        },
        "expect": {"services": ["GET x"], "programs": ["x"], "refused": ["x"], "asked": ["x"]},
    },
]
"""Scenarios with the fields that no bundled scenario has."""


def hostile_scenarios() -> Iterator[tuple[str, str]]:
    """A name and a text of YAML for each field and key of scenarios, with HOSTILE in that place.

    Each is a bundled scenario but for that text.
    """
    documents = [read_yaml_file(path).data for path in sorted(bundled_folder().rglob("*.yaml"))]
    documents += _NOT_BUNDLED
    tried = set()
    for document in documents:
        if "error" in document.get("expect", {}):  # such a run can be long
            continue
        for place, field in texts(document):
            if (field, place[-1] == _KEY) not in tried:
                tried.add((field, place[-1] == _KEY))
                kind = "key" if place[-1] == _KEY else "text"
                yield f"{'.'.join(field)}.{kind}", json.dumps(with_hostile(document, place))
    missing = text_fields() - {field for field, _ in tried}
    assert not missing, f"no scenario has a text in {missing}: use it in a bundled one, or here"
