"""A bound on the work of one check of arguments against a JSON Schema.

A schema of 1 KB can ask for more work than any machine can do: an `anyOf` that names one `$ref`
twice doubles the work, and twenty of them in a row multiply it by a million. Not here: the check
itself (tools.py). The rules to keep: the bound is computed without doing the work that it bounds,
in a time linear in the schema for each level of the arguments; and it is never below the work.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

MOST_WORK = 50_000
"""Evaluations of a subschema in one check of arguments; a failed one takes up to 10 KB."""

# Lists or mappings of subschemas; `dependencies`, of older drafts, still counts for the validator.
_EACH = ("allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
_ONE = ("not", "if", "then", "else")
_NAMED = ("properties", "prefixItems")  # each subschema for another child
_EVERY = {
    "patternProperties": True,  # whether it is a mapping of subschemas
    "additionalProperties": False,
    "unevaluatedProperties": False,
    "propertyNames": False,
    "items": False,
    "contains": False,
    "unevaluatedItems": False,
}
_OF_ARRAYS = frozenset({"prefixItems", "items", "contains", "unevaluatedItems"})

Counts = dict[int, int]
"""The number of evaluations of each subschema, by its number."""
Child = tuple[bool, str | None]
"""The children of a value that a subschema is for: of an array or not, and which; None for all."""


_CHILDREN = 50  # that are told apart; the others count as one, which is never too little
_REST = "..."


@dataclass(slots=True)
class _Node:
    """One subschema: those evaluated for the same value, and those for the children of it."""

    here: list[int] = field(default_factory=list)
    below: list[tuple[Child, int]] = field(default_factory=list)


class SchemaWork:
    """The work that `schema`, a JSON value, asks for.

    A schema that `is_plain` never multiplies work. Of one that `refers_to_itself` for the same
    value, as `{"$ref": "#"}` does, the work has no bound.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._values: list[dict[str, Any]] = []
        self._numbers: dict[tuple[str, ...], int] = {}
        self._places: dict[str, tuple[str, ...]] = {}
        for place, value in _mappings(schema):
            self._numbers[place] = len(self._values)
            self._values.append(value)
            for key in ("$id", "$anchor", "$dynamicAnchor"):
                if isinstance(value.get(key), str):
                    self._places[("" if key == "$id" else "#") + value[key]] = place
        self._nodes = [self._node(place, value) for place, value in _mappings(schema)]
        self.refers_to_itself = False
        self._ranks = self._rank()
        self.is_plain = not any(self._nodes[number].here for number in self._ranks)
        self._levels: list[Counts] = []

    def of(self, arguments: Any) -> int:
        """Return the number of evaluations that a check of `arguments` takes, at most."""
        if not self._nodes:
            return 1
        widths = _widths(arguments)
        return sum(width * self._at(level) for level, width in enumerate(widths))

    def _at(self, level: int) -> int:
        """Return the number of evaluations for one value that is nested `level` deep."""
        while len(self._levels) <= level:
            last = self._levels[-1] if self._levels else None
            self._levels.append(self._here({0: 1}) if last is None else self._below(last))
        return sum(self._levels[level].values())

    def _here(self, start: Counts) -> Counts:
        """Return the counts of `start` and of all they evaluate for the same value."""
        counts, waiting = dict(start), list(start)
        reached = set(start)
        while waiting:
            targets = [t for t in self._nodes[waiting.pop()].here if t not in reached]
            reached.update(targets)
            waiting += targets
        for number in sorted(reached, key=self._ranks.__getitem__):
            for target in self._nodes[number].here:
                _add(counts, target, counts[number])
        return counts

    def _below(self, counts: Counts) -> Counts:
        """Return the highest counts of evaluations for any one child of a value."""
        found: dict[Child, Counts] = {}
        for number, count in counts.items():
            for (is_array, name), target in self._nodes[number].below:
                crowd = len(found) > _CHILDREN and (is_array, name) not in found
                _add(found.setdefault((is_array, _REST if crowd else name), {}), target, count)
        most: Counts = {}
        for (is_array, name), own in found.items():
            every = found.get((is_array, None), {}) if name is not None else {}
            for target, count in every.items():
                _add(own, target, count)
            for target, count in self._here(own).items():
                most[target] = max(most.get(target, 0), count)
        return most

    def _reachable(self) -> list[int]:
        """Return the subschemas that can be evaluated; mappings inside `enum` are none."""
        reached = dict.fromkeys([0] if self._nodes else [])
        waiting = list(reached)
        while waiting:
            node = self._nodes[waiting.pop()]
            for target in (*node.here, *(target for _, target in node.below)):
                if target not in reached:
                    reached[target] = None
                    waiting.append(target)
        return list(reached)

    def _rank(self) -> dict[int, int]:
        """Return each subschema with a rank after all that evaluate it for the same value.

        Sets `refers_to_itself` if there is no such order.
        """
        done: dict[int, int] = {}
        begun: set[int] = set()
        for start in self._reachable():
            waiting = [(start, iter(self._nodes[start].here))] if start not in begun else []
            begun.add(start)
            while waiting:
                number, targets = waiting[-1]
                target = next((t for t in targets if t not in done), None)
                if target is None:
                    done[number] = -len(done)
                    waiting.pop()
                elif target in begun:
                    self.refers_to_itself = True
                else:
                    begun.add(target)
                    waiting.append((target, iter(self._nodes[target].here)))
        return done

    def _node(self, place: tuple[str, ...], value: Mapping[str, Any]) -> _Node:
        node = _Node()
        for key in ("$ref", "$dynamicRef"):
            target = self._resolved(value.get(key))
            if target is not None:
                node.here.append(target)
        for key in (*_EACH, *_ONE):
            node.here += self._subschemas(place, value, key, many=key in _EACH).values()
        for key in _NAMED:
            for name, target in self._subschemas(place, value, key, many=True).items():
                node.below.append(((key in _OF_ARRAYS, name), target))
        for key, many in _EVERY.items():
            for target in self._subschemas(place, value, key, many=many).values():
                node.below.append(((key in _OF_ARRAYS, None), target))
        return node

    def _subschemas(
        self, place: tuple[str, ...], value: Mapping[str, Any], key: str, *, many: bool
    ) -> dict[str, int]:
        """Return the subschemas at a keyword by name or index; `true` and `false` cost nothing."""
        if key not in value:
            return {}
        if not many:
            number = self._numbers.get((*place, key))
            return {} if number is None else {"": number}
        found = value[key]
        names = found if isinstance(found, dict) else range(len(found)) if found else ()
        numbers = {str(name): self._numbers.get((*place, key, str(name))) for name in names}
        return {name: number for name, number in numbers.items() if number is not None}

    def _resolved(self, reference: Any) -> int | None:
        """Return the subschema that a reference names; None if the validator refuses it."""
        if not isinstance(reference, str):
            return None
        resource, _, fragment = reference.partition("#")
        start = self._places.get(resource, ()) if resource else ()
        if fragment and not fragment.startswith("/"):
            return self._numbers.get(self._places.get(f"#{fragment}", ("",)))
        steps = [unquote(step) for step in fragment.split("/")[1:]]
        path = tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)
        return self._numbers.get((*start, *path))


def patterns_in(schema: Any) -> int:
    """Return the number of regular expressions in `schema`, at most."""
    found = 0
    for _, value in _mappings(schema):
        found += isinstance(value.get("pattern"), str)
        named = value.get("patternProperties")
        found += len(named) if isinstance(named, dict) else 0
    return found


def _add(counts: Counts, target: int, count: int) -> None:
    counts[target] = min(counts.get(target, 0) + count, MOST_WORK + 1)


def _mappings(schema: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield every mapping in a JSON value with its place, without recursion for deep values."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict):
            yield place, value
            waiting += [((*place, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [((*place, str(index)), inner) for index, inner in enumerate(value)]


def _widths(value: Any) -> list[int]:
    """Return the number of values at each depth of a JSON value."""
    widths, level = [], [value]
    while level:
        widths.append(len(level))
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        level = inner
    return widths
