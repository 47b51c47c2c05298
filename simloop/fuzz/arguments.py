"""The arguments of a call, made from the JSON Schema of its tool: plain, at an edge, or broken.

Each value is a function of a schema and a number. Number 0 is the plain value; each further one is
an edge of one argument (an empty text, the largest number, another word of an `enum`), while the
others stay plain. The validator of tools decides which of them the schema allows, so a candidate
need not know every keyword.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jsonschema_rs

from simloop.errors import ScenarioError
from simloop.world.tools import canonical_json, validator_of

Schema: TypeAlias = Mapping[str, Any]
_DEEP = 6
"""The depth at which a schema that refers to itself gets its smallest value."""
_NESTED = 2
"""The levels of objects inside the arguments that have edges of their own."""
_FORMATS = {
    "date": "2026-03-01", "date-time": "2026-03-01T09:30:00Z", "time": "09:30:00Z",
    "email": "a@example.com", "uri": "https://example.com/a", "hostname": "example.com",
    "uuid": "00000000-0000-4000-8000-000000000001", "ipv4": "192.0.2.1", "duration": "PT5M",
}  # fmt: skip
_TEXTS = ("", " ", 'a "quoted" \\ text\n\twith lines', "é 漢字 \U0001f600 \u202e", "0", "null",
          "x" * 3_000, "../up", "a, b; c")  # fmt: skip
_NUMBERS = (0, -1, 1, 2, 10, 100, 2**31, 10**15, 0.1, -0.5, 1e308)
_CHARS = "abcXYZ0129_- .:/@"


class Arguments:
    """The arguments of one tool. `known` has values by the names of arguments, the newest last.

    `plain` is a valid object, `edges` are further valid ones, and `broken` are objects that the
    schema refuses: a key is missing, or has a value of another type.
    """

    def __init__(self, schema: Schema, known: Mapping[str, Sequence[Any]] | None = None) -> None:
        self._root, self._known = schema, known or {}
        try:
            self._validator: Any = validator_of(canonical_json(schema), "tool")
        except ScenarioError:  # a dialect of the agent's own; the agent judges its values
            self._validator = jsonschema_rs.validator_for({})
        plain = self._value(schema, "", 0)
        self.plain: dict[str, Any] = plain if isinstance(plain, dict) else {}
        self.edges = [each for each in self._edges() if self._validator.is_valid(each)]
        self.broken = [each for each in self._broken() if not self._validator.is_valid(each)]

    def number(self, n: int) -> dict[str, Any]:
        """Return the valid arguments of a number, which begin again after the last edge."""
        place = n % (len(self.edges) + 1)
        return self.edges[place - 1] if place else self.plain

    def _edges(self) -> Iterator[dict[str, Any]]:
        yield from self._of_object(self._root, self.plain, 0)
        for name in self.plain:
            yield {key: value for key, value in self.plain.items() if key != name}
        yield {**self.plain, _EXTRA: True}

    def _of_object(
        self, schema: Schema, plain: Mapping[str, Any], depth: int
    ) -> Iterator[dict[str, Any]]:
        """Yield the object with one value exchanged: the first edge of each, then the second."""
        given = self._resolved(schema).get("properties")
        properties = given if isinstance(given, Mapping) else {}
        edges = {name: [*self._candidates(each, name, depth)] for name, each in properties.items()}
        for place in range(max(map(len, edges.values()), default=0)):
            for name, values in edges.items():
                if place < len(values) and values[place] != plain.get(name, _NONE):
                    yield {**plain, name: values[place]}

    def _broken(self) -> Iterator[Any]:
        for name, value in self.plain.items():
            yield {key: other for key, other in self.plain.items() if key != name}
            yield {**self.plain, name: 17 if isinstance(value, str) else "seventeen"}
            yield {**self.plain, name: None}
        yield {**self.plain, _EXTRA: True}

    def _candidates(self, schema: Any, name: str, depth: int) -> Iterator[Any]:
        schema = self._resolved(schema)
        if "enum" in schema:
            yield from schema["enum"]
            return
        if branches := [*_list(schema, "anyOf"), *_list(schema, "oneOf")]:
            for branch in branches:
                yield from [self._value(branch, name, 1), *self._candidates(branch, name, depth)]
            return
        kinds = _kinds(schema)
        if "string" in kinds:
            shortest, longest = schema.get("minLength", 0), schema.get("maxLength")
            yield from ("x" * n for n in (shortest, longest) if n)
            yield from _TEXTS
        if kinds & {"integer", "number"}:
            yield from (schema[key] for key in ("minimum", "maximum") if key in schema)
            yield from _NUMBERS
        if "boolean" in kinds:
            yield from (False, True)
        if "array" in kinds:
            item = self._value(schema.get("items", {}), name, 1)
            yield from ([], [item] * schema.get("minItems", 2), [item] * schema.get("maxItems", 20))
        if "null" in kinds:
            yield None
        if "object" in kinds and depth < _NESTED:
            yield from self._of_object(schema, self._value(schema, name, 1), depth + 1)

    def _value(self, schema: Any, name: str, depth: int) -> Any:
        schema = self._resolved(schema)
        for key in ("const", "default"):
            if key in schema and schema[key] is not None:
                return schema[key]
        if schema.get("enum"):
            return schema["enum"][0]
        branches = [*_list(schema, "anyOf"), *_list(schema, "oneOf")]
        usual = [each for each in branches if _kinds(self._resolved(each)) != {"null"}]
        if usual and depth < _DEEP:
            return self._value({**schema, "anyOf": [], "oneOf": [], **usual[0]}, name, depth)
        kinds = _kinds(schema)
        if "object" in kinds:
            return self._object(schema, depth)
        if "array" in kinds:
            number = schema.get("minItems", 0 if depth >= _DEEP else 1)
            return [self._value(schema.get("items", {}), name, depth + 1)] * number
        for value in self._returned(name, kinds):
            if re.search(schema.get("pattern", ""), str(value)):
                return value
        if "string" in kinds:
            return _text(schema, name)
        if kinds & {"integer", "number"}:
            return _number(schema)
        return True if "boolean" in kinds else None

    def _returned(self, name: str, kinds: set[str]) -> Iterator[Any]:
        """Yield the values of an argument that tools have returned, the newest first."""
        found = self._known.get(name) or (self._known.get("id", ()) if name.endswith("id") else ())
        yield from (each for each in reversed(found) if _KIND_OF[type(each)] & kinds)

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = schema.get("required") or ()
        names = [name for name in properties if name in required] or (
            [] if required or depth >= _DEEP else [*properties]
        )
        return {name: self._value(properties[name], name, depth + 1) for name in names}

    def _resolved(self, schema: Any) -> dict[str, Any]:
        """Return a schema without a reference in the place of its keys, and with its `allOf`."""
        found: Any = schema if isinstance(schema, Mapping) else {}
        for _ in range(_DEEP):
            reference = found.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                break
            target: Any = self._root
            for part in reference[1:].strip("/").split("/"):
                target = target.get(part, {}) if isinstance(target, Mapping) else {}
            found = {**target, **{key: value for key, value in found.items() if key != "$ref"}}
        for part in _list(found, "allOf"):
            found = {**self._resolved(part), **{k: v for k, v in found.items() if k != "allOf"}}
        return dict(found)


_NONE = object()
_KIND_OF = {str: {"string"}, int: {"integer", "number"}, float: {"number"}, bool: {"boolean"}}
_EXTRA = "no_such_argument"


def _list(schema: Schema, key: str) -> Sequence[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else ()


def _kinds(schema: Schema) -> set[str]:
    """Return the types that a schema allows; one that states none allows an object or a text."""
    given = schema.get("type")
    if given is None:
        return {"object"} if "properties" in schema else {"string"}
    return set(given) if isinstance(given, list) else {given}


def _text(schema: Schema, name: str) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if isinstance(schema.get("pattern"), str):
        return text_of_pattern(schema["pattern"])
    text = f"some {name}" if name else "some text"
    return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", len(text) + 999)]


def _number(schema: Schema) -> int | float:
    step = schema.get("multipleOf", 1)
    least = schema.get("minimum", schema.get("exclusiveMinimum", 1 - step) + step)
    most = schema.get("maximum", schema.get("exclusiveMaximum", least + 2 * step) - step)
    found = min(max(least, step), max(most, least))
    return found if _kinds(schema) == {"number"} else int(found)


def text_of_pattern(pattern: str) -> str:
    """Return a short text that a regular expression matches, or `text` if none is found."""
    try:
        text = "".join(_pieces(re._parser.parse(pattern)))  # type: ignore[attr-defined] # noqa: SLF001
        return text if re.search(pattern, text) else "text"
    except (re.error, RecursionError, ValueError):
        return "text"


def _pieces(parsed: Any) -> Iterator[str]:
    for operation, value in parsed:
        match str(operation):
            case "LITERAL":
                yield chr(value)
            case "IN":
                yield _of_set(value)
            case "ANY" | "NOT_LITERAL":
                yield "a"
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, _, inner = value
                yield "".join(_pieces(inner)) * max(least, 1)
            case "SUBPATTERN":
                yield from _pieces(value[-1])
            case "BRANCH":
                yield from _pieces(value[1][0])


def _of_set(items: Any) -> str:
    expression = re._parser.SubPattern(re._parser.State(), [(re._constants.IN, items)])  # type: ignore[attr-defined] # noqa: SLF001
    accepts = re._compiler.compile(expression).fullmatch  # type: ignore[attr-defined] # noqa: SLF001
    return next(str(char) for char in (*_CHARS, *map(chr, range(32, 127))) if accepts(char))
