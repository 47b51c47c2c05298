"""A machine's map as a picture: Mermaid text, which repositories and editors draw.

The rule to keep: the diagram is drawn from the map that the machine is checked against, so it
cannot be out of date. Signals that can arrive in every state (abort, wall clock) are left out,
because their arrows would hide the others.
"""

from collections.abc import Collection, Iterator

from msgspec import Struct

from simloop.kernel.machine import LegalMap
from simloop.kernel.signals import AbortRequested, WallClockExpired
from simloop.kernel.states import Finished

_EVERYWHERE = (AbortRequested, WallClockExpired)


Edge = tuple[type[Struct], type[Struct], type[Struct]]
"""An edge of a map: the types of a state, a signal, and the state that it leads to."""


def mermaid(
    legal: LegalMap, *, without: Collection[Edge] = (), marked: Collection[Edge] = ()
) -> str:
    """Return the map as a Mermaid state diagram, with one arrow and its signals per pair of states.

    Edges in `without` are left out, those in `marked` have a star.
    """
    arrows = _arrows(legal, without, marked)
    return "\n".join(["stateDiagram-v2", *(f"    {line}" for line in arrows)])


def _arrows(legal: LegalMap, without: Collection[Edge], marked: Collection[Edge]) -> Iterator[str]:
    states = [state.__name__ for state in legal]
    yield f"[*] --> {states[0]}"
    for state, accepted in legal.items():
        signals_to: dict[str, list[str]] = {}
        for signal, targets in accepted.items():
            for target in targets:
                edge = (state, signal, target)
                ends_anywhere = signal in _EVERYWHERE and target is Finished
                if not ends_anywhere and edge not in without:
                    star = "*" if edge in marked else ""
                    signals_to.setdefault(target.__name__, []).append(signal.__name__ + star)
        for name in sorted(signals_to, key=states.index):
            yield f"{state.__name__} --> {name}: {', '.join(signals_to[name])}"
        if not accepted:
            yield f"{state.__name__} --> [*]"
