"""The numbers of a compaction are pinned: a compactor that is off by one in any is found."""

import pytest
from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated

from simloop import Scenario

PLAN = "engine.compaction:plan_cut"
COMPACTOR = "engine.compaction:Compactor"
LONG = {"say": "x" * 200, "call": {"look": {}}}
SUMMARY = {"say": "Short."}
CUT = {"say": "x" * 40, "finish": "length"}
TOO_LONG = {"http": {"status": 400, "message": "prompt is too long"}}


def long_run(*replies: object, **policy: object) -> Scenario:
    """Long replies, of which the older ones are compacted before the last request."""
    given = replies or (LONG, LONG, LONG, DONE)
    summaries = [] if policy.get("strategy") == "drop-oldest" else [SUMMARY] * 4
    options = {"window": 220, "keep_turns": 2, **policy}
    return scenario(*given, compaction=options, summaries=summaries)


DROPS = {"strategy": "drop-oldest"}
POLICY, STRATEGY = "compaction-matches-policy", "compaction-matches-strategy"

CASES = [
    (POLICY, part(PLAN, "len(turns) - keep_turns", "len(turns) - keep_turns + 1"), long_run()),
    (POLICY, part(PLAN, "len(turns) - keep_turns", "len(turns) - keep_turns - 1"), long_run()),
    (
        POLICY,
        part(PLAN, "1 if forced else policy.keep_turns", "2 if forced else policy.keep_turns"),
        long_run(LONG, LONG, LONG, TOO_LONG, DONE, window=4000),
    ),
    (
        POLICY,
        part(PLAN, "tokens <= down_to", "tokens < 1"),
        long_run(LONG, LONG, LONG, LONG, DONE, window=280, keep_turns=1, **DROPS),
    ),
    (
        POLICY,
        part(f"{COMPACTOR}._drop_oldest", "forced or self._policy.max_messages is not None", "0"),
        long_run(LONG, LONG, LONG, TOO_LONG, DONE, window=4000, **DROPS),
    ),
    (
        STRATEGY,
        part(f"{COMPACTOR}._ask_for_summary", 'return text, ""', 'return "", "no"'),
        long_run(),
    ),
    (
        STRATEGY,
        part(f"{COMPACTOR}._summarise", "shorter.tokens >= history.tokens", "True"),
        long_run(),
    ),
    (
        STRATEGY,
        part(
            f"{COMPACTOR}.shorten",
            "self._policy.strategy is CompactionStrategy.SUMMARISE:",
            "False:",
        ),
        long_run(),
    ),
]


@pytest.mark.parametrize(("name", "broken", "played"), CASES)
def test_a_compaction_that_is_off_by_one_is_found(
    name: str, broken: Part, played: Scenario
) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)


def test_a_compaction_in_vain_that_no_limit_counts_must_end_the_run() -> None:
    played = scenario(LOOK, LOOK, DONE, context={"over": [True], "shrunk": [False]})
    assert not violated(played, loop="opencode")
    broken = part("loops.opencode:OpencodeLoop._resume", "if not shrunk and", "if False and")
    with faulty(broken):
        assert violated(played, loop="opencode") == {"useless-unlimited-compaction-ends-run"}
