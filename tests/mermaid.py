"""The picture of a machine's map: a Mermaid state diagram, as docs/proofs.md has it."""

from collections.abc import Iterator

from simloop.kernel.machine import ENDINGS, LegalMap
from simloop.kernel.states import Finished


def mermaid(legal: LegalMap) -> str:
    """Return the map as a Mermaid state diagram, without signals that can arrive in every state."""
    return "\n".join(["stateDiagram-v2", *(f"    {line}" for line in _arrows(legal))])


def _arrows(legal: LegalMap) -> Iterator[str]:
    states = [state.__name__ for state in legal]
    yield f"[*] --> {states[0]}"
    for state, accepted in legal.items():
        signals_to: dict[str, list[str]] = {}
        for signal, targets in accepted.items():
            for target in targets:
                if signal not in ENDINGS or target is not Finished:
                    signals_to.setdefault(target.__name__, []).append(signal.__name__)
        for name in sorted(signals_to, key=states.index):
            yield f"{state.__name__} --> {name}: {', '.join(signals_to[name])}"
        if not accepted:
            yield f"{state.__name__} --> [*]"
