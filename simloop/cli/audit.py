"""`simloop doctor --audit`: list the gaps of the boundary that a program uses.

Not here: observing the gaps (virtual/observation.py). The rule to keep: a report distinguishes a
refused call, an observed use, a gap without a use in this one run, and a gap that no run can show.
"""

import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from simloop.cli.terminal import note, out, plain
from simloop.errors import ScenarioError
from simloop.virtual.gaps import GAPS, Gap
from simloop.virtual.observation import Observer, extension_modules, held_clocks, other_threads
from simloop.virtual.simulate import running_loop, simulate

_PLACES = 5
_SUBJECTS = 4


def audit(target: str) -> int:
    """Run the function `module:function` in a simulation, report, and return the exit code."""
    before = set(sys.modules)
    program = _load(target)
    observer, escapes = Observer(), list[str]()

    async def main() -> None:
        try:
            with observer.observing():
                result = program()
                if inspect.isawaitable(result):
                    await result
        finally:
            escapes.extend(str(escape) for escape in running_loop().escapes)

    threads = other_threads()
    ending = _ending(main)
    found = {
        "held-clocks": held_clocks(),
        "c-extensions": [", ".join(extension_modules(before))],
        "older-threads": threads,
    }
    for escape, times in Counter(escapes).items():
        _line("refused", f"{escape}, {times} times" if times > 1 else escape)
    if ending and not escapes:
        _line("failed", ending)
    _report(observer.uses, found)
    used = len(observer.uses)
    out(_verdict(used, len(escapes), ending))
    return 1 if used or escapes or ending else 0


def _load(target: str) -> Callable[[], Any]:
    """Return the function of that name. Raises ScenarioError if there is none."""
    module, colon, path = target.partition(":")
    if not (module and colon and path):
        raise ScenarioError(f"{target!r} is not of the form module:function", key="--audit")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise ScenarioError(f"cannot load {target}: {error}", key="--audit") from error
    if not callable(found):
        raise ScenarioError(f"{target} is not a function", key="--audit")
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError) as error:
        hint = "name a function that can be called without arguments"
        raise ScenarioError(f"{target}: {error}", key="--audit", hint=hint) from error
    return found  # type: ignore[no-any-return]


def _ending(main: Callable[[], Any]) -> str:
    """Return how the program failed, in words; empty if it did not fail."""
    try:
        simulate(main())
    except SystemExit as error:
        return f"it called sys.exit({error.code!r})"
    except Exception as error:  # noqa: BLE001 - the program is somebody's code
        text = str(error)
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return ""


def _report(uses: Mapping[str, Mapping[str, Counter[str]]], found: Mapping[str, list[str]]) -> None:
    """Print the gaps that are used, the gaps that may be used, and the names of all others."""
    seen = [gap for gap in GAPS if gap.name in uses]
    for gap in seen:
        _gap("used", gap, _places(uses[gap.name]))
    for gap in GAPS:
        if gap not in seen and any(found.get(gap.name, ())):
            _gap("possible", gap, _first(found[gap.name], _PLACES))
    for gap in GAPS:
        if not gap.visible:
            _gap("unknown", gap, ["no run can show whether the program depends on it"])
    others = [
        gap.name
        for gap in GAPS
        if gap.visible and gap not in seen and not any(found.get(gap.name, ()))
    ]
    _line("not seen", ", ".join(others))
    for gap in GAPS:
        if gap.visible and gap.unseen:
            _line("unseen", f"{gap.name}: {gap.unseen}")


def _gap(word: str, gap: Gap, details: Iterable[str]) -> None:
    """Print a gap, the known facts about it, and the advice."""
    _line(word, f"{gap.name}: {gap.real}")
    for detail in details:
        _line("", f"- {detail}")
    _line("", f"advice: {gap.instead}")


def _places(uses: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Return the places with the most uses, each with its subjects."""
    ranked = sorted(uses, key=lambda place: -uses[place].total())
    lines = []
    for place in ranked:
        subjects = ", ".join(_first(list(uses[place]), _SUBJECTS))
        times = uses[place].total()
        lines.append(f"{place}, {times} time{'s' * (times != 1)}: {subjects}")
    return _first(lines, _PLACES)


def _first(items: list[str], most: int) -> Iterator[str]:
    yield from items[:most]
    if len(items) > most:
        yield f"and {len(items) - most} more"


def _line(word: str, detail: str) -> None:
    out(f"{word:<8}  {plain(detail)}")


def _verdict(used: int, refused: int, ending: str) -> str:
    if refused:
        note("the simulation refused a call, so the program may not have run to its end")
    if used or refused:
        return (
            f"the program uses {used} of {len(GAPS)} gaps, and {refused} of its calls are refused"
        )
    return "the program failed" if ending else "this run used none of the gaps that can be seen"
