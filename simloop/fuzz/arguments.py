"""The arguments of a call, made from the JSON Schema of its tool: plain, at an edge, or broken.

Each value is a function of a schema and a number. Number 0 is the plain value; each further one is
an edge of one argument (an empty text, the largest number, another word of an `enum`), while the
others stay plain. The validator of tools decides which of them the schema allows, so a candidate
need not know every keyword. A schema may name itself, or ask for a billion items.
"""

import json
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import chain, islice, zip_longest
from math import ceil, floor, isfinite
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema_rs

from simloop.errors import ScenarioError
from simloop.world.tools import canonical_json, named_by, validator_of

Schema: TypeAlias = Mapping[str, Any]
_DATA: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_BOUNDS, _FORMATS, _NAMED = _DATA["bounds"], _DATA["formats"], _DATA["formats by names"]
_OF_IDS, _OF_FILES = tuple(_DATA["names of ids"]), tuple(_DATA["names of files"])
"""The ends of the names of such arguments."""
_DEEP = 6  # the depth at which a schema that refers to itself gets its smallest value
_NESTED = 2  # the levels of objects inside the arguments that have edges of their own
_LONG, _ITEMS = 10_000, 100  # the longest text and the longest list that a schema can ask for
_MOST, _RESOLVED = 400, 20_000
"""The most candidates of one tool, and the most schemas that are resolved for them."""
_TEXTS = ("", " ", "it's \"quoted\" \\ text\n\twith lines", "a/b?c=d#e", "é 漢字 \U0001f600 \u202e",
          "0", "x" * 3_000, "null", "../up", "a, b; c")  # fmt: skip
_NUMBERS = (0, -1, 1, 2, 10, 100, 2**31, 10**15, 0.1, -0.5, 1e308)
_CHARS = "abcXYZ0129_- .:/@"


PLAIN_TEXTS = ("some {0}", "{1}1", "2026-03-01", "1", "{1}1")
"""The forms of a plain text, with the name of its argument, or with the letters of the name.

An agent that says no more than `string` in its schema may still refuse a blank, or want a date. The
words of a prompt come before the last form, which stays where none helps.
"""
WORDS, MOST_WORDS = "the words", 3
"""The key of words of prompts, and of examples from descriptions, among the known values."""
_EXAMPLE = re.compile(
    r"(?:such as|[Ee]\.g\.,?|[Ee]xample,?|[Ee]xample:) "
    r"(?:[\"'`]([^\"'`]+)|(\S*\d\S*[^\s.,;)]|[A-Z]\w+))"
).search


def example(description: Any) -> str:
    """Return the example in a description: in quotes, a name, or a word with a digit."""
    found = _EXAMPLE(str(description)[:_LONG])
    return (found[1] or found[2]) if found else ""


class Arguments:
    """The arguments of one tool. `known` has values by the names of arguments, the newest last.

    `form` is the number of one of `PLAIN_TEXTS` and the known words. `plain` is a valid object if
    one was found, or the `given` one, `edges` are further valid ones, and `broken` are objects that
    the schema refuses: by turns a key is missing, or its value is of another type or out of bounds.
    """

    def __init__(
        self, schema: Any, known: Mapping[str, Iterable[Any]] | None = None, form: int = 0,
        given: Any = None,
    ) -> None:  # fmt: skip
        self._root, self._known, self._left = schema, known or {}, _RESOLVED
        *forms, last = PLAIN_TEXTS
        forms += islice(self._known.get(WORDS, ()), MOST_WORDS)
        self._form = (*forms, *[last] * (form + 1))[form]
        try:
            self._validator: Any = validator_of(canonical_json(schema), "tool")
        except (ScenarioError, ValueError, RecursionError):  # the agent judges its values
            self._validator = jsonschema_rs.validator_for({})
        plain = self._value(_joined({"type": "object"}, self._resolved(schema)), "", 0)
        is_valid = self.is_valid = self._validator.is_valid
        plain = given if isinstance(given, dict) and is_valid(given) else plain
        self.plain: dict[str, Any] = plain if isinstance(plain, dict) else {}
        tried = [*islice(self._of_object(schema, self.plain, 0), _MOST)]
        beyond = [each for each in tried if not is_valid(each)]
        self.edges = [*filter(is_valid, (*tried, *self._lacking(), {**self.plain, _EXTRA: True}))]
        self.broken = [each for each in islice(self._broken(beyond), _MOST) if not is_valid(each)]
        if self.edges and not is_valid(self.plain):
            self.plain = self.edges.pop(0)

    def number(self, n: int) -> dict[str, Any]:
        """Return the valid arguments of a number, which begin again after the last edge."""
        place = n % (len(self.edges) + 1)
        return self.edges[place - 1] if place else self.plain

    def _lacking(self) -> list[dict[str, Any]]:
        names = [*self.plain]
        return [{each: self.plain[each] for each in names if each != name} for name in names]

    def _of_object(
        self, schema: Schema, plain: Mapping[str, Any], depth: int
    ) -> Iterator[dict[str, Any]]:
        """Yield the object with one value exchanged: the first edge of each, then the second."""
        properties = _get(self._resolved(schema), "properties", dict)
        chosen = islice(properties.items(), _MOST)
        edges = {name: [*islice(self._candidates(x, name, depth), _ITEMS)] for name, x in chosen}
        # Each word that a schema lists may be a case of its own: four count as one edge.
        per = {name: 4 if "enum" in self._resolved(properties[name]) else 1 for name in edges}
        every = [(n // per[name], name, x) for name in edges for n, x in enumerate(edges[name])]
        for _, name, value in sorted(every, key=lambda each: each[0]):
            if value != plain.get(name, _NONE):
                yield {**plain, name: value}

    def _broken(self, beyond: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        def each_with(change: Callable[[Any], Any]) -> list[dict[str, Any]]:
            return [{**self.plain, name: change(value)} for name, value in self.plain.items()]

        other_types = each_with(lambda value: 17 if isinstance(value, str) else "seventeen")
        # No word of an `enum`, and no text of a pattern.
        other_words = each_with(lambda value: f"no {value}" if isinstance(value, str) else None)
        kinds = self._lacking(), other_types, beyond, other_words, each_with(lambda _: None)
        yield from (each for turn in zip_longest(*kinds) for each in turn if each is not None)
        yield {**self.plain, _EXTRA: True}

    def _candidates(self, schema: Any, name: str, depth: int) -> Iterator[Any]:
        schema = self._resolved(schema)
        if depth > _DEEP or (words := _get(schema, "enum", list)):
            yield from words if depth <= _DEEP else ()
            return
        if branches := [*_get(schema, "anyOf", list), *_get(schema, "oneOf", list)]:
            for each in branches:
                yield self._value(each, name, 1)
                yield from self._candidates(each, name, depth + 1)
            return
        kinds = _kinds(schema)
        if "string" in kinds:
            yield from ("x" * n for key in ("minLength", "maxLength") if (n := _size(schema, key)))
            if name.endswith(_OF_FILES):
                yield from (".", "x" * 3_000)  # a folder, and a name that no file has
            yield from _TEXTS
        if kinds & {"integer", "number"}:
            amounts = [1150.1] * ("number" in kinds)  # with a hundredth that a float has not
            yield from dict.fromkeys((*amounts, *_numbers(schema), *_NUMBERS))
        if "boolean" in kinds:
            yield from (False, True)
        if "array" in kinds:
            least, most = _size(schema, "minItems") or 2, _size(schema, "maxItems") or 20
            yield from (self._items(schema, name, n, 1) for n in (0, least, most))
            items = schema.get("items")
            yield from ([each] for each in islice(self._candidates(items, name, depth + 1), 5))
        if "null" in kinds:
            yield None
        if "object" in kinds and depth < _NESTED:
            plain = self._object(schema, 1)
            yield from self._of_object(schema, plain, depth + 1)
            if isinstance(other := schema.get("additionalProperties"), Mapping):
                yield {**plain, "some key": self._value(other, "", 1)}

    def _value(self, schema: Any, name: str, depth: int, beside: Collection[Any] = ()) -> Any:
        """Return the plain value, but no id or word that is `beside` it, as in a move."""
        schema = self._resolved(schema)
        words = sorted(_get(schema, "enum", list), key=lambda each: each in beside)
        for given in (schema.get("const"), schema.get("default"), *words[:1]):
            if given is not None and self._fits(schema, given):
                return given
        for key in ("anyOf", "oneOf") if depth <= 2 * _DEEP else ():
            if branches := [*map(self._resolved, _get(schema, key, list))]:
                odd = {"null"} if depth < _DEEP else {"object", "array"}
                branch = min(branches, key=lambda each: bool(_kinds(each) & odd))
                rest = {other: value for other, value in schema.items() if other != key}
                return self._value(_joined(rest, branch), name, depth + 1)
        kinds = _kinds(schema)
        if "object" in kinds:
            return self._object(schema, depth)
        if "array" in kinds:
            usual = int(depth < _DEEP and _size(schema, "maxItems") != 0)
            least = _size(schema, "minItems")
            return self._items(schema, name, usual if least is None else least, depth)
        ids = self._known.get("id", ()) if name.endswith(_OF_IDS) else ()
        found = self._known.get(name) or ids
        newest = sorted(islice(reversed([*found]), _ITEMS), key=lambda each: each in beside)
        values = [*newest, *_scalars(schema, name, kinds, self._form)]
        return next((each for each in values if self._fits(schema, each)), (values or [None])[-1])

    def _fits(self, schema: Schema, value: Any) -> bool:
        # Python's `re` could take for ever: it is not asked.
        bounds = {key: schema[key] for key in _BOUNDS if key in schema}
        try:
            return bool(jsonschema_rs.Draft202012Validator(bounds).is_valid(value))
        except (ValueError, jsonschema_rs.ValidationError):
            return True

    def _items(self, schema: Schema, name: str, number: int, depth: int) -> list[Any]:
        """Return so many items, but fewer inside others: a list of lists would have too many."""
        most = max(_ITEMS >> 2 * max(depth - 1, 0), 4) if depth < _DEEP else int(depth <= 2 * _DEEP)
        number = min(number, most)
        first = _get(schema, "prefixItems", list)[:number]
        made = [self._value(each, name, depth + 1) for each in first]
        if len(made) < number:
            made += [self._value(schema.get("items", {}), name, depth + 1)] * (number - len(made))
        return made

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties = _get(schema, "properties", dict)
        required = [each for each in _get(schema, "required", list) if isinstance(each, str)]
        chosen = {*required} if required or depth >= _NESTED else properties
        other = schema.get("additionalProperties")
        made: dict[str, Any] = {}
        for name in {**properties, **dict.fromkeys(required)} if depth <= 2 * _DEEP else ():
            if name in chosen:
                beside = [each for each in made.values() if isinstance(each, str)]
                made[name] = self._value(properties.get(name, other), name, depth + 1, beside)
        return made

    def _resolved(self, schema: Any, depth: int = 0) -> dict[str, Any]:
        self._left -= 1
        found: Any = schema if isinstance(schema, Mapping) and self._left > 0 else {}
        for _ in range(_DEEP):
            reference = found.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                break
            rest = {key: value for key, value in found.items() if key != "$ref"}
            found = _joined(rest, named_by(reference, self._root))
        for part in _get(found, "allOf", list) if depth < _DEEP else ():
            found = _joined(found, self._resolved(part, depth + 1))
        return {key: value for key, value in found.items() if key != "allOf"}


_NONE = object()
_EXTRA = "no_such_argument"


def _get(schema: Schema, key: str, kind: type[list[Any] | dict[str, Any]]) -> Any:
    return found if isinstance(found := schema.get(key), kind) else kind()


def _size(schema: Schema, key: str) -> int | None:
    found = schema.get(key)
    return found if type(found) is int and 0 <= found <= _LONG else None


def _joined(schema: Schema, part: Any) -> dict[str, Any]:
    both = schema, (part if isinstance(part, Mapping) else {})
    properties = {k: v for each in both for k, v in _get(each, "properties", dict).items()}
    required = [name for each in both for name in _get(each, "required", list)]
    return {**both[0], **both[1], "properties": properties, "required": required}


def _kinds(schema: Schema) -> set[str]:
    given = schema.get("type")
    if isinstance(given, str | list):
        return {given} if isinstance(given, str) else {each for each in given if type(each) is str}
    if schema.get("properties"):
        return {"object"}
    return {"array"} if "items" in schema else {"string"}


def _scalars(schema: Schema, name: str, kinds: set[str], form: str) -> Iterator[Any]:
    if "string" in kinds:
        least, most = _size(schema, "minLength") or 0, _size(schema, "maxLength")
        if (named := schema.get("format")) in [*_FORMATS]:
            yield _FORMATS[named]
        if isinstance(pattern := schema.get("pattern"), str):
            yield from (text_of_pattern(pattern, repeats) for repeats in (1, least))
        if form == PLAIN_TEXTS[0]:  # there is no hint that the agent has refused
            yield from (each for each in _get(schema, "examples", list) if isinstance(each, str))
            if found := example(schema.get("description")):
                yield found
            yield from (_FORMATS[each] for end, each in _NAMED.items() if name.endswith(end))
        letters = "".join(filter(str.isalnum, name[:60])) or "text"
        text = form.replace("{0}", name[:60] or "text").replace("{1}", letters)
        yield text.ljust(least, "x")[:most]
    if kinds & {"integer", "number"}:
        yield from _numbers(schema)
    if "boolean" in kinds:
        yield True


def _numbers(schema: Schema) -> Iterator[int | float]:
    values: dict[str, Any] = {key: schema.get(key) for key in _BOUNDS}
    given = {key: Fraction(each) for key, each in values.items()
             if type(each) in {int, float} and isfinite(each)}  # fmt: skip
    step = given.get("multipleOf") or Fraction(1)
    found = [Fraction(1), step]
    for keys, sign, near in ((("minimum", "exclusiveMinimum"), 1, ceil),
                             (("maximum", "exclusiveMaximum"), -1, floor)):  # fmt: skip
        for bound in (given[key] for key in keys if key in given):
            found += [near(bound / step) * step, near(bound / step) * step + sign * step, bound]
    found += [(found[-2] + found[-1]) / 2, Fraction(0)]
    yield from (
        int(each) if each.denominator == 1 and abs(each) < 2**63 else float(each) for each in found
    )  # no file holds a wider integer


def text_of_pattern(pattern: str, repeats: int = 1) -> str:
    """Return a text that a regular expression matches in most cases, or `text`."""
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of a set in a set
        try:
            parsed = re._parser.parse(pattern)  # type: ignore[attr-defined] # noqa: SLF001
            return "".join(_pieces(parsed, repeats))[:_LONG]
        except (re.error, RecursionError, ValueError, OverflowError):
            return "text"


def _pieces(parsed: Any, repeats: int) -> Iterator[str]:
    for operation, value in parsed:
        match str(operation):
            case "LITERAL":
                yield chr(value)
            case "IN":
                yield _of_set(value)
            case "ANY" | "NOT_LITERAL":
                yield "a"
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = value
                number = max(least, min(most, repeats), min(most, 1))
                yield ("".join(_pieces(inner, repeats))[:_LONG] * min(number, _LONG))[:_LONG]
            case "SUBPATTERN":
                yield from _pieces(value[-1], repeats)
            case "BRANCH":
                yield from _pieces(value[1][0], repeats)


def _of_set(items: Any) -> str:
    expression = re._parser.SubPattern(re._parser.State(), [(re._constants.IN, items)])  # type: ignore[attr-defined] # noqa: SLF001
    accepts = re._compiler.compile(expression).fullmatch  # type: ignore[attr-defined] # noqa: SLF001
    return next(filter(accepts, chain(_CHARS, map(chr, range(32, 0xD800)))), "a")
