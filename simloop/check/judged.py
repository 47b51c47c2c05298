"""The violations of a run, compared with those that its scenario expects.

Not here: judging (invariants/judge.py), and the consequences of a violation (verify.py). The rule
to keep: the comparison is exact, so that an expectation which no longer holds is found, too.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence

from simloop.check.invariants import requests
from simloop.check.invariants.catalog import all_invariants
from simloop.check.invariants.judge import Judge, judge
from simloop.check.invariants.subject import Subject
from simloop.errors import InvariantViolated, ScenarioError
from simloop.escape import escape
from simloop.trace.entries import AnyEntry

_SHOWN = 10
OF_PAIRS = frozenset(
    each.name
    for each in (requests.answered_calls, requests.unique_call_ids, requests.adjacent_results)
)
"""The invariants that `broken_pairs` speaks of."""


def check_invariants(
    subject: Subject,
    record: Iterable[AnyEntry],
    expected: Mapping[str, str],
    *,
    pairs_are_broken: bool = False,
) -> None:
    """Raise InvariantViolated unless a run violates exactly the `expected` invariants.

    With `pairs_are_broken` the invariants on pairs of calls
    and results are reported already. Raises ScenarioError for a name that no invariant has, and for
    an invariant of the user that fails.
    """
    _check_names(expected, [each.name for each in all_invariants()])
    judged = judge(subject, record)
    lines = [
        f"invariant {each.name}: {escape(each.text)} (entry {each.seq})"
        for each in judged.violations
        if each.name not in expected and not (pairs_are_broken and each.name in OF_PAIRS)
    ]
    lines += [_not_so(name, judged) for name in expected if not _has(judged, name)]
    if lines:
        more = [f"invariant: and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        raise InvariantViolated("\n".join((*lines[:_SHOWN], *more)))


def _has(judged: Judge, name: str) -> bool:
    return any(each.name == name for each in judged.violations)


def _not_so(name: str, judged: Judge) -> str:
    why = judged.unjudged.get(name)
    but = f"but it is not judged: {why}" if why else "but the run does not violate it"
    return f"invariant {name}: listed in expect.violates, {but}"


def _check_names(expected: Mapping[str, str], known: Sequence[str]) -> None:
    for name in expected:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            nearest = f"did you mean `{close[0]}`? " if close else ""
            raise ScenarioError(
                f"there is no invariant `{escape(name)}`",
                key="expect.violates",
                hint=f"{nearest}see them with: simloop invariants",
            )
