"""The passes of the shrinker: smaller versions of a scenario, as data.

A pass is a generator. It yields a smaller candidate, receives by `send` whether the candidate still
fails, and continues from the smallest failing one. A candidate may be invalid.
"""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeAlias

from simloop.kernel.durations import PATTERN, UNITS_NS, format_duration, parse_duration

Tree: TypeAlias = Any
Path: TypeAlias = tuple[str | int, ...]
Pass: TypeAlias = Generator[Tree, bool, Tree]

KEPT = frozenset({"prompt", "loop", "judge_as"})
"""The keys that no pass removes: a scenario needs its prompt, and fails on its loop."""
_LISTS = ("then", "model", "history", "queue", "hooks", "summaries")
_BOUNDS = frozenset({"max_transitions", "max_trace_chars"})
"""The bounds of a runaway. They are not lowered: under a low bound, any run is a runaway."""
_WORDS = frozenset({"finish", "at", "after", "loop", "judge_as", "status"}) | _BOUNDS
_DURATION = re.compile(PATTERN)
_ROUND = ("0s", "1s", "2s", "5s", "1m", "1h", "1ms")
_SHORT = 12


def at(tree: Tree, path: Path) -> Tree:
    """Return the part of the tree at `path`."""
    for key in path:
        tree = tree[key]
    return tree


def put(tree: Tree, path: Path, value: Any) -> Tree:
    """Return the tree with another value at `path`; it shares the rest with the old one."""
    if not path:
        return value
    copy: Any = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = put(tree[path[0]], path[1:], value)
    return copy


def without(tree: Tree, path: Path, keys: Sequence[str | int]) -> Tree:
    """Return the tree without some keys or indexes of the container at `path`."""
    gone, old = frozenset(keys), at(tree, path)
    if isinstance(old, dict):
        return put(tree, path, {key: each for key, each in old.items() if key not in gone})
    return put(tree, path, [each for index, each in enumerate(old) if index not in gone])


def cost(text: str) -> tuple[int, int, str]:
    """Return the size of a tree by its JSON: first the number of parts, then the length."""
    return text.count(":") + text.count(","), len(text), text


def removed(tree: Tree, path: Path) -> Pass:
    """Remove items of a container: all, halves, quarters, single ones, the last ones first."""
    size = len(at(tree, path))
    while size:
        keys = _removable(tree, path)
        end = len(keys)
        while end > 0:
            chunk = keys[max(0, end - size) : end]
            smaller = without(tree, path, chunk)
            if (yield smaller):
                tree, keys = smaller, _removable(smaller, path)
            end = min(end - len(chunk), len(keys))
        size //= 2
    return tree


def _removable(tree: Tree, path: Path) -> list[str | int]:
    keys = _keys(at(tree, path))
    return keys if path else [key for key in keys if key not in KEPT | _BOUNDS]


def prompts(tree: Tree) -> Pass:
    """Begin with a later prompt."""
    while tree.get("then"):
        first, *others = tree["then"]
        text = first if isinstance(first, str) else first["say"]
        later = {**tree, "prompt": text, "then": others}
        if not (yield later):
            break
        tree = later
    return tree


def lists(tree: Tree) -> Pass:
    """Remove prompts, replies, messages, hooks."""
    for key in _LISTS:
        if tree.get(key):
            tree = yield from removed(tree, (key,))
    return tree


def repetitions(tree: Tree) -> Pass:
    """Let one reply replace all replies after it, or its neighbour."""
    for key in ("model", "summaries"):
        index = 0
        while index + 1 < len(tree.get(key, ())):
            before, reply, after = tree[key][:index], tree[key][index], tree[key][index + 1 :]
            merged = [*_merged(reply, after[0]), *_merged(after[0], reply)]
            for fewer in (
                [*before, {**reply, "times": "always"}],
                *([*before, each, *after[1:]] for each in merged),
            ):
                if (yield {**tree, key: fewer}):
                    tree = {**tree, key: fewer}
                    break
            else:
                index += 1
    return tree


def _merged(reply: Tree, other: Tree) -> list[Tree]:
    times = [each.get("times", 1) for each in (reply, other)]
    return [{**reply, "times": sum(times)}] if all(type(n) is int for n in times) else []


def parts(tree: Tree, path: Path = ()) -> Pass:
    """Remove items of each container, outer containers first."""
    if path:
        tree = yield from removed(tree, path)
        match at(tree, path):
            case [dict()] if path[-1] == "say":
                pass  # a long text; if it is no item, it is streamed by word, which takes long
            case [item] if (yield put(tree, path, item)):
                tree = put(tree, path, item)
    for key in _keys(at(tree, path)):
        if isinstance(at(tree, (*path, key)), dict | list):
            tree = yield from parts(tree, (*path, key))
    return tree


def _keys(node: Tree) -> list[Any]:
    if isinstance(node, dict):
        return list(node)
    return list(range(len(node))) if isinstance(node, list) else []  # the one item of a list


def values(tree: Tree) -> Pass:
    """Make each number smaller, each duration rounder and each text shorter."""
    for path, value in list(_leaves(tree, ())):
        if path[-1] in _WORDS or isinstance(value, bool | float | None):
            continue
        is_time = isinstance(value, str) and _DURATION.fullmatch(value)
        smaller = _lower if isinstance(value, int) else _rounder if is_time else _shorter
        tree = yield from smaller(tree, path)
    return tree


def _leaves(node: Tree, path: Path) -> Iterator[tuple[Path, Any]]:
    if not isinstance(node, dict | list):
        yield path, node
        return
    for key in _keys(node):
        yield from _leaves(node[key], (*path, key))


def _lower(tree: Tree, path: Path) -> Pass:
    for small in (0, 1):
        if small < at(tree, path) and (yield put(tree, path, small)):
            return put(tree, path, small)
    return (yield from _bisected(tree, path, int, at(tree, path)))


def _bisected(tree: Tree, path: Path, make: Callable[[int], Any], high: int) -> Pass:
    low = 1
    while high - low > 1:
        middle = (low + high) // 2
        smaller = put(tree, path, make(middle))
        if (yield smaller):
            tree, high = smaller, middle
        else:
            low = middle
    return tree


def _rounder(tree: Tree, path: Path) -> Pass:
    second, now = UNITS_NS["s"], parse_duration(at(tree, path))
    for text in _ROUND:
        if parse_duration(text) < now and (yield put(tree, path, text)):
            return put(tree, path, text)
    seconds = now // second
    return (yield from _bisected(tree, path, lambda n: format_duration(n * second), seconds + 1))


def _shorter(tree: Tree, path: Path) -> Pass:
    text: str = at(tree, path)
    short = "Go." if path[-1] == "prompt" or path[0] in {"then", "queue"} else ""
    if len(short) < len(text) and (yield put(tree, path, short)):
        return put(tree, path, short)
    words = text.split(" ")
    if len(words) > 1:
        first = put(tree, path, words[0])
        if (yield first):
            tree, words = first, words[:1]
        else:
            tree = yield from _bisected(tree, path, lambda n: " ".join(words[:n]), len(words))
    text = at(tree, path)
    if len(text) > _SHORT:
        tree = yield from _bisected(tree, path, lambda n: text[:n], len(text))
    return tree


def bounds(tree: Tree) -> Pass:
    """Remove the bounds of a runaway, for a failure of another kind."""
    for key in sorted(_BOUNDS & tree.keys()):
        if (yield without(tree, (), [key])):
            tree = without(tree, (), [key])
    return tree


PASSES: tuple[Callable[[Tree], Pass], ...] = (
    lambda tree: removed(tree, ()), prompts, lists, repetitions, parts, values,
)  # fmt: skip
"""The passes in their order: the one that removes most comes first."""
