"""A machine's map as a picture: Mermaid text, which repositories and editors draw.

The rule to keep: drawn from the map that the machine is checked against, so it cannot be out of
date. What can arrive everywhere (abort, wall clock) is left out, or it would be all one sees.
"""

from collections.abc import Iterator

from simloop.kernel.machine import LegalMap
from simloop.kernel.signals import AbortRequested, WallClockExpired

_EVERYWHERE = (AbortRequested, WallClockExpired)


def mermaid(legal: LegalMap) -> str:
    """The map as a Mermaid state diagram: one arrow for each pair of states, with its signals."""
    return "\n".join(["stateDiagram-v2", *(f"    {line}" for line in _arrows(legal))])


def _arrows(legal: LegalMap) -> Iterator[str]:
    states = [state.__name__ for state in legal]
    yield f"[*] --> {states[0]}"
    for state, accepted in legal.items():
        signals_to: dict[str, list[str]] = {}
        for signal, targets in accepted.items():
            if signal not in _EVERYWHERE:
                for target in targets:
                    signals_to.setdefault(target.__name__, []).append(signal.__name__)
        for name in sorted(signals_to, key=states.index):
            yield f"{state.__name__} --> {name}: {', '.join(signals_to[name])}"
        if not accepted:
            yield f"{state.__name__} --> [*]"
