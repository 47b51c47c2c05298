"""Each invariant on compactions is violated by a compactor, or a machine, that is broken in one
line."""

import pytest
from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated

from simloop import Scenario

COMPACTOR = "engine.compaction:Compactor"
LOOP = "loops.reference:ReferenceLoop"
LONG = {"say": "x" * 200, "call": {"look": {}}}
SUMMARY = {"say": "Short."}
SMALL = {"window": 120, "keep_turns": 1}
DROPS = {**SMALL, "strategy": "drop-oldest"}
CUT = {"say": "x" * 40, "finish": "length"}
TOO_LONG = {"http": {"status": 400, "message": "prompt is too long"}}


def long_run(**given: object) -> Scenario:
    """Two long replies, of which the first is compacted before the third request."""
    options: dict[str, object] = {"compaction": SMALL, "summaries": [SUMMARY], **given}
    return scenario(LONG, LONG, DONE, **options)


CASES = [
    (
        "compaction-sizes-match-context",
        part("engine.compaction:Compacted.shrunk", "<", "<="),
        scenario(CUT, DONE, compaction=DROPS),
    ),
    (
        "compaction-sizes-match-context",
        part(f"{COMPACTOR}._summarise", "shorter.tokens >= history.tokens", "False"),
        long_run(summaries=[{"say": "x" * 2000}]),
    ),
    (
        "compactions-remove-only-counted-messages",
        part(f"{COMPACTOR}.shorten", "count - len(history.messages)", "9"),
        long_run(),
    ),
    (
        "compactions-keep-newest-user-message",
        part("engine.compaction:plan_cut", "index != newest_user and not lasting", "not lasting"),
        long_run(compaction=DROPS, summaries=[]),
    ),
    (
        "compactions-keep-call-result-pairs",
        part(
            "engine.compaction:turns_of",
            "isinstance(message, ToolMessage) and turns",
            "len(turns) > 1 and False",
        ),
        long_run(),
    ),
    (
        "summaries-come-from-model",
        part(f"{COMPACTOR}._ask_for_summary", 'return text, ""', 'return text.upper(), ""'),
        long_run(),
    ),
    (
        "summaries-come-from-model",
        part(f"{COMPACTOR}._ask_for_summary", "if reply.finish not in (", "if False and ("),
        long_run(summaries=[{"say": "Short.", "finish": "length"}]),
    ),
    (
        "summaries-come-from-model",
        part(
            f"{COMPACTOR}._summarise",
            "self._ask_for_summary(cut.removed)",
            "self._ask_for_summary(history.messages)",
        ),
        long_run(),
    ),
    (
        "compactions-have-a-reason",
        part(f"{LOOP}._enter_round", "if over and", "if"),
        long_run(compaction={**DROPS, "window": 4000}, summaries=[]),
    ),
    (
        "full-contexts-compacted",
        part(f"{LOOP}._enter_round", "if over and", "if False and"),
        long_run(compaction=DROPS, summaries=[]),
    ),
    (
        "cut-off-replies-force-compaction",
        part(f"{LOOP}._follow", "if reason is _LENGTH:", "if False:"),
        scenario(LOOK, CUT, DONE, compaction=DROPS),
    ),
    (
        "overflows-force-compaction",
        part(f"{LOOP}._decide_rarely", "signal.error is ErrorClass.OVERFLOW", "False"),
        scenario(LOOK, LOOK, TOO_LONG, DONE, compaction=DROPS),
    ),
    (
        "max-compaction-attempts-enforced",
        part(f"{LOOP}._make_room", "run.compaction_attempts >= ", "run.compaction_attempts > "),
        scenario(CUT, CUT, CUT, DONE, context={"shrunk": [True]}),
    ),
    (
        "useless-forced-compaction-ends-run",
        part(f"{LOOP}._resume", "if forced:", "if False:"),
        scenario(CUT, DONE, compaction=DROPS),
    ),
    (
        "useless-compaction-not-repeated",
        part(f"{LOOP}._resume", "if shrunk:", "if True:"),
        scenario(DONE, context={"over": [True, True, False], "shrunk": [False]}),
    ),
]


@pytest.mark.parametrize(("name", "broken", "played"), CASES)
def test_a_broken_compaction_is_found(name: str, broken: Part, played: Scenario) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)
