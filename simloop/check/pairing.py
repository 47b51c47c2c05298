"""The broken pairs of calls and results in a whole trace, and the comparison with the known ones.

Not here: finding them (invariants/pairs.py), and the consequences of a broken pair (verify.py).
"""

from collections.abc import Iterator, Sequence

from simloop.check.invariants.pairs import Break, Pairing
from simloop.errors import InvariantViolated
from simloop.escape import escape
from simloop.trace import entries
from simloop.trace.facts import Facts
from simloop.trace.looptrace import LoopTrace

_SHOWN = 5


def broken_pairs(trace: LoopTrace) -> list[str]:
    """Return the broken pairs of a trace, each with the number of the request and the call's id.

    A break that stays in the conversation is listed once, with the first request that has it.
    """
    first: dict[tuple[str, str], Break] = {}
    for found in _breaks(trace):
        place = found.call_id, found.why
        first[place] = min(found, first.get(place, found))
    return list(map(str, sorted(first.values())))


def _breaks(trace: LoopTrace) -> Iterator[Break]:
    facts = Facts()
    engine = entries.Transition in map(type, trace.entries)
    pairing = Pairing(facts, has_engine=engine)
    for entry in trace.entries:
        facts.read(entry)
        if type(entry) in Pairing.SEES:
            yield from pairing.read(entry)
    if trace.footer is not None:  # a run that was cut short may have answered them later
        yield from pairing.balance()


def check_pairing(trace: LoopTrace, known: Sequence[str] = ()) -> None:
    """Raise InvariantViolated unless the broken pairs of `trace` are exactly the `known` ones."""
    found = broken_pairs(trace)
    new = [line for line in found if line not in known]
    gone = [line for line in known if line not in found]
    if new or gone:
        lines = [f"pairing: {line}" for line in new]
        lines += [
            f"pairing: listed in expect.broken_pairs, but not so: {escape(line)}" for line in gone
        ]
        more = [f"pairing: and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        raise InvariantViolated("\n".join((*lines[:_SHOWN], *more)))
