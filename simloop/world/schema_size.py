"""The size of a JSON Schema when its references are resolved, which bounds the work of a check.

An `anyOf` that names one `$ref` twice doubles the work, and twenty of them in a row multiply it by
a million. The size is computed without resolving anything, in a time linear in the schema.
"""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import unquote

MOST_SUBSCHEMAS = 50_000
"""The largest resolved size of a schema that is checked; a failed subschema takes up to 10 KB."""

# Their subschemas are for the value that the schema around them is for, and not for a part of it.
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_BY_NAME = ("dependentSchemas", "dependencies")
# Values that may look like schemas, and names that may look like keywords.
_PLAIN = {"enum", "const", "default", "examples"}
_NAMES = {"properties", "patternProperties", "$defs", "definitions", *_BY_NAME}

_Place = tuple[str, ...]


def resolved_size(schema: Any) -> int | None:
    """Return the most subschemas of `schema`, a JSON value, that are for one value.

    Each reference counts as what it names. None: a subschema refers to itself for the same value,
    as in `{"$ref": "#"}`, and no check of it ends.
    """
    found = dict(_subschemas(schema))
    anchors = _anchors(found)
    graph = {place: list(_same_value(place, each, anchors)) for place, each in found.items()}
    sizes: dict[_Place, int] = {}
    try:
        for place in TopologicalSorter(graph).static_order():
            sizes[place] = 1 + sum(sizes[each] for each in graph.get(place, ()) if each in found)
    except CycleError:
        return None
    return max(sizes.values(), default=1)


def patterns_in(schema: Any) -> int:
    """Return the number of regular expressions in `schema`, at most."""
    found = 0
    for _, each in _subschemas(schema):
        found += isinstance(each.get("pattern"), str)
        named = each.get("patternProperties")
        found += len(named) if isinstance(named, dict) else 0
    return found


def _subschemas(schema: Any) -> Iterator[tuple[_Place, dict[str, Any]]]:
    """Yield the subschemas with their places, without recursion for deep ones."""
    waiting: list[tuple[_Place, Any, bool]] = [((), schema, False)]
    while waiting:
        place, value, is_named = waiting.pop()
        if isinstance(value, dict):
            if not is_named:
                yield place, value
            waiting += [
                ((*place, key), inner, not is_named and key in _NAMES)
                for key, inner in value.items()
                if is_named or key not in _PLAIN
            ]
        elif isinstance(value, list):
            waiting += [((*place, str(at)), inner, False) for at, inner in enumerate(value)]


def _anchors(found: Mapping[_Place, Mapping[str, Any]]) -> dict[str, _Place]:
    anchors: dict[str, _Place] = {}
    for place, each in found.items():
        for key in ("$id", "$anchor", "$dynamicAnchor"):
            if isinstance(each.get(key), str):
                anchors[("" if key == "$id" else "#") + each[key]] = place
    return anchors


def _same_value(
    place: _Place, schema: Mapping[str, Any], anchors: Mapping[str, _Place]
) -> Iterator[_Place]:
    """Yield the places of the subschemas that are checked for the same value as `schema`."""
    for key in ("$ref", "$dynamicRef"):
        if isinstance(schema.get(key), str):
            yield from _named_by(schema[key], anchors)
    for key in _SAME_VALUE:
        inner = schema.get(key)
        if isinstance(inner, list):
            yield from ((*place, key, str(at)) for at in range(len(inner)))
        elif isinstance(inner, dict):
            yield (*place, key)
    for key in _BY_NAME:
        inner = schema.get(key)
        yield from ((*place, key, name) for name in (inner if isinstance(inner, dict) else ()))


def _named_by(reference: str, anchors: Mapping[str, _Place]) -> Iterator[_Place]:
    """Yield the place that a reference names; nothing if the validator refuses it."""
    resource, _, fragment = reference.partition("#")
    start = anchors.get(resource, ()) if resource else ()
    if not fragment or fragment.startswith("/"):
        steps = [unquote(step) for step in fragment.split("/")[1:]]
        yield (*start, *(step.replace("~1", "/").replace("~0", "~") for step in steps))
    elif f"#{fragment}" in anchors:
        yield anchors[f"#{fragment}"]
