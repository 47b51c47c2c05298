"""The library: the runs that can be opened, the failed traces of the last pytest run first.

Listing reads no trace and runs nothing; one item that is looked at has a verdict and a preview.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from simloop.check.trial import Until, verify
from simloop.errors import ScenarioError, SimloopError
from simloop.escape import escape
from simloop.scenario.catalog import SUFFIX, bundled, find
from simloop.scenario.loader import load_scenario
from simloop.trace import TRACES
from simloop.trace.codec import read_trace
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import timeline

_PREVIEW = 40


class Item(NamedTuple):
    """A run that can be opened: a trace of a failed test, or a scenario.

    `named` is the argument with which `simloop step` opens it.
    """

    named: str
    title: str
    theme: str
    loop: str
    is_trace: bool = False


class Preview(NamedTuple):
    """The verdict on an item, in one word and its reason, and the beginning of its timeline."""

    verdict: str
    reason: str
    preview: tuple[str, ...]


def items(folder: Path) -> tuple[Item, ...]:
    """Return the traces that pytest kept in `folder`, its scenarios, and the bundled scenarios."""
    return (*_traces(folder), *_own(folder), *_bundled())


def found(all_items: Sequence[Item], words: str) -> tuple[Item, ...]:
    """Return the items that have each of `words` in their name, title, theme or loop."""
    wanted = words.lower().split()
    return tuple(
        item
        for item in all_items
        if all(any(word in text.lower() for text in item[:4]) for word in wanted)
    )


def seen(item: Item) -> Preview:
    """Return the verdict and the preview of an item; a scenario is run for that."""
    try:
        trace, verdict, reason = _judged_trace(item) if item.is_trace else _judged_run(item)
    except SimloopError as error:
        return Preview("unreadable", str(error), ())
    lines = () if trace is None else tuple(islice(timeline(trace), _PREVIEW))
    return Preview(verdict, reason, lines)


def _judged_trace(item: Item) -> tuple[LoopTrace, str, str]:
    trace = read_trace(item.named)
    ends = ", ".join(map(str, trace.outcomes))
    return trace, "failed test", f"ended as {ends}" if ends else "it did not end"


def _judged_run(item: Item) -> tuple[LoopTrace | None, str, str]:
    verdict = verify(find(item.named), Until.END)
    if verdict.cannot:
        return verdict.trace, "not possible", verdict.cannot
    reasons = [*map(str, verdict.errors), *verdict.failures]
    word = "failed" if reasons else "passed"
    return verdict.trace, word, escape("; ".join(reasons))


def _traces(folder: Path) -> Iterator[Item]:
    kept = (folder / TRACES).glob("*.trace.jsonl")
    for path in sorted(kept, key=lambda path: (-path.stat().st_mtime_ns, path.name)):
        named = str(path.relative_to(folder))
        yield Item(named, path.name.removesuffix(".trace.jsonl"), "failed tests", "", is_trace=True)


def _own(folder: Path) -> Iterator[Item]:
    """Yield the scenario files in `folder`; one that cannot be read is listed all the same."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            scenario = load_scenario(path)
        except ScenarioError:
            yield Item(path.name, "cannot be read", "this folder", "")
        else:
            yield Item(path.name, scenario.title, "this folder", scenario.loop)


@cache
def _bundled() -> tuple[Item, ...]:
    return tuple(
        Item(each.name, each.title, each.name.partition("/")[0], each.loop) for each in bundled()
    )
