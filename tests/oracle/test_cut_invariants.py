"""The numbers of a compaction are pinned: a record that is off by one in any is found."""

from typing import Any

import pytest
from faultyruns import DONE, Edit, changed, scenario, sending, violated

from simloop import Scenario
from simloop.kernel.policies import CompactionStrategy
from simloop.trace.entries import Compaction, Ended

LONG = {"say": "x" * 200, "call": {"look": {}}}
SUMMARY = {"say": "Short."}
TOO_LONG = {"http": {"status": 400, "message": "prompt is too long"}}
DROPS = {"strategy": "drop-oldest"}
POLICY, STRATEGY = "compaction-matches-policy", "compaction-matches-strategy"


def long_run(*replies: object, **policy: object) -> Scenario:
    """Long replies, of which the older ones are compacted before the last request."""
    given = replies or (LONG, LONG, LONG, DONE)
    summaries = [] if policy.get("strategy") == "drop-oldest" else [SUMMARY] * 4
    options = {"window": 220, "keep_turns": 2, **policy}
    return scenario(*given, compaction=options, summaries=summaries)


def a_turn_less(messages: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out the oldest turn that was kept, behind the summary if there is one."""
    start = next(at for at, each in enumerate(messages) if getattr(each, "calls", ()))
    return (*messages[:start], *messages[start + 2 :])


def a_turn_more(messages: tuple[Any, ...]) -> tuple[Any, ...]:
    start = next(at for at, each in enumerate(messages) if getattr(each, "calls", ()))
    return (*messages[:start], *messages[start : start + 2], *messages[start:])


def as_the_last_thing(record: list[Any]) -> list[Any]:
    """End the run with its compaction, which has taken away a message more."""
    record = changed(Compaction, messages_removed=4)(record)
    end = next(at for at, each in enumerate(record) if type(each) is Compaction)
    return [*record[: end + 2], *(each for each in record[end:] if type(each) is Ended)]


def without_the_request(record: list[Any]) -> list[Any]:
    number = next(each.number for each in record if getattr(each, "purpose", "") == "summary")
    return [
        each
        for each in record
        if number not in (getattr(each, "number", 0), getattr(each, "request", 0))
    ]


CASES = [
    (POLICY, sending(-1, a_turn_less), long_run()),
    (POLICY, sending(-1, a_turn_more), long_run()),
    (POLICY, sending(-1, a_turn_more), long_run(LONG, LONG, LONG, TOO_LONG, DONE, window=4000)),
    (POLICY, sending(-1, a_turn_less),
     long_run(LONG, LONG, LONG, LONG, DONE, window=280, keep_turns=1, **DROPS)),
    (POLICY, as_the_last_thing, long_run()),
    (STRATEGY, changed(Compaction, strategy=CompactionStrategy.DROP_OLDEST), long_run()),
    (STRATEGY, changed(Compaction, strategy=CompactionStrategy.SUMMARISE), long_run(**DROPS)),
    (STRATEGY, without_the_request, long_run()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), CASES)
def test_a_compaction_that_is_off_by_one_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)
