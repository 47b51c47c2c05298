"""`simloop doctor --audit`: which gaps of the border does a program use?

Not here: how they are seen (sim/observing.py). The rule to keep: a report tells apart a use
that was seen, a gap without a use in this one run, and a gap that no run can show.
"""

import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from simloop.cli.terminal import note, out, plain
from simloop.errors import ScenarioError
from simloop.sim.gaps import GAPS, Gap
from simloop.sim.observing import Observer, extension_modules, held_clocks, other_threads
from simloop.sim.simulate import running_loop, simulate

_PLACES = 5


def audit(target: str) -> int:
    """Run the function `module:function` in a simulation and report; returns the exit code."""
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
        "c-extensions": extension_modules(before),
        "older-threads": threads,
    }
    used = [_report(gap, observer.uses.get(gap.name), found.get(gap.name, [])) for gap in GAPS]
    for escape in dict.fromkeys(escapes):
        _line("refused", "", escape)
    if ending and not escapes:
        _line("failed", "", ending)
    out(_verdict(sum(used), len(escapes), ending))
    return 1 if any(used) or escapes or ending else 0


def _load(target: str) -> Callable[[], Any]:
    """The function of that name. Raises ScenarioError if there is none."""
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
    """How the program failed, in words; empty if it did not."""
    try:
        simulate(main())
    except SystemExit as error:
        return f"it called sys.exit({error.code!r})"
    except Exception as error:  # noqa: BLE001 - the program is somebody's code
        text = str(error)
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return ""


def _report(gap: Gap, places: Counter[str] | None, found: list[str]) -> bool:
    """Print the line of one gap; returns whether the program was seen to use it."""
    if not gap.visible:
        _line("unknown", gap.name, f"{gap.real}: no run can show it; {gap.instead}")
    elif places:
        ranked = places.most_common(_PLACES)
        times = [f"{place}, {count} time{'s' * (count != 1)}" for place, count in ranked]
        more = [f"and {len(places) - _PLACES} more places"] if len(places) > _PLACES else []
        _line("used", gap.name, f"{'; '.join([*times, *more, *found])}; {gap.instead}")
    elif found:
        _line("possible", gap.name, f"{', '.join(found)}; {gap.instead}")
    else:
        _line("not seen", gap.name, gap.real)
    return bool(places)


def _line(word: str, name: str, detail: str) -> None:
    out(f"{word:<8}  {name:<13}  {plain(detail)}")


def _verdict(used: int, refused: int, ending: str) -> str:
    if refused:
        note("the simulation refused a call, so the program may not have run to its end")
    if used or refused:
        return (
            f"the program uses {used} of {len(GAPS)} gaps, and {refused} of its calls are refused"
        )
    return "the program failed" if ending else "this run used none of the gaps that can be seen"
