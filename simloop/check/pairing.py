"""The broken pairs of calls and results in a whole trace, and the comparison with the known ones.

`invariants/pairs.py` finds those in one request.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from simloop.check.invariants.pairs import MORE_RESULTS, NO_RESULT, SHARED, Break, Pairing
from simloop.escape import escape
from simloop.trace import entries
from simloop.trace.facts import Facts
from simloop.trace.looptrace import LoopTrace


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
    """Yield the breaks that a provider would see, then those that no request shows."""
    facts = Facts()
    pairing = Pairing(facts)
    for entry in trace.entries:
        facts.read(entry)
        if type(entry) is entries.Request:
            yield from pairing.read(entry)
    if trace.has_machine:
        yield from _in_steps(trace)


def _in_steps(trace: LoopTrace) -> Iterator[Break]:
    """Yield the breaks between the calls of the replies and the answers of the engine.

    The calls of the last reply are in no request. The calls of a reply to a request for a summary
    are never answered. An agent without an engine answers its calls in its next request alone.
    """
    number, counts, called, answered = 0, True, Counter[str](), Counter[str]()
    for entry in trace.entries:
        if isinstance(entry, entries.Request | entries.Ended):
            yield from _unbalanced(number, called, answered)
            called, answered = Counter(), Counter()
        if isinstance(entry, entries.Request):
            number, counts = entry.number, entry.purpose == "main"
        elif isinstance(entry, entries.ToolCall) and counts:
            called[entry.call_id] += 1
        elif isinstance(entry, entries.CallRenamed):
            called[entry.call_id] -= 1
            called[entry.to_id] += 1
        elif isinstance(entry, entries.Answered):
            answered[entry.call_id] += 1
    if trace.footer is not None:  # a run that was cut short may have answered them later
        yield from _unbalanced(number, called, answered)


def _unbalanced(number: int, called: Counter[str], answered: Counter[str]) -> Iterator[Break]:
    for call_id in called:
        if not called[call_id]:
            continue  # renamed
        if called[call_id] > 1:
            yield Break(number, call_id, SHARED)
        elif not answered[call_id]:
            yield Break(number, call_id, NO_RESULT)
        elif answered[call_id] > 1:
            yield Break(number, call_id, MORE_RESULTS)
    for call_id in answered:
        if not called[call_id]:
            yield Break(number, call_id, "has a result and was not called")


def unexpected_pairs(trace: LoopTrace, known: Sequence[str]) -> Iterator[str]:
    """Yield a line for each broken pair of `trace` that is not known, or is known and not so."""
    found = broken_pairs(trace)
    yield from (f"pairing: {line}" for line in found if line not in known)
    gone = (line for line in known if line not in found)
    yield from (
        f"pairing: listed in expect.broken_pairs, but not so: {escape(line)}" for line in gone
    )
