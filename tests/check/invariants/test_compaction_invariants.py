"""Each invariant on compactions is violated by a machine that is misled, or by a record of a
compactor that is wrong."""

from typing import Any

import pytest
from faultyruns import (
    DONE,
    LOOK,
    Edit,
    changed,
    hearing,
    misled,
    remembering,
    scenario,
    sending,
    violated,
)

from simloop import Scenario
from simloop.kernel import signals
from simloop.kernel.errorclass import ErrorClass
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.reference import ReferenceLoop
from simloop.messages import FinishReason, Message, SummaryMessage, ToolMessage
from simloop.trace.entries import Compaction, Finish, Request

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


def without_results(messages: tuple[Message, ...]) -> list[Message]:
    return [each for each in messages if type(each) is not ToolMessage]


def with_another_summary(messages: tuple[Message, ...]) -> list[Message]:
    return [SummaryMessage("SHORT."), *messages[1:]]


RECORDS = [
    ("compaction-sizes-match-context", changed(signals.ContextCompacted, shrunk=True),
     scenario(CUT, DONE, compaction=DROPS)),
    ("compaction-sizes-match-context", changed(Compaction, tokens_after=700), long_run()),
    ("summaries-come-from-model", sending(3, with_another_summary), long_run()),
    ("summaries-come-from-model", changed(Finish, 2, reason=FinishReason.LENGTH), long_run()),
    ("summaries-come-from-model", changed(Request, 2, kept=2), long_run()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), RECORDS)
def test_a_wrong_record_of_a_compaction_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)


MACHINES = [
    ("compactions-have-a-reason",
     misled(ReferenceLoop, hearing(signals.ContextMeasured, over=True)),
     long_run(compaction={**DROPS, "window": 4000}, summaries=[])),
    ("full-contexts-compacted", misled(ReferenceLoop, hearing(signals.ContextMeasured, over=False)),
     long_run(compaction=DROPS, summaries=[])),
    ("overflows-force-compaction", misled(ReferenceLoop, remembering(FinishReason.STOP)),
     scenario(LOOK, CUT, DONE, compaction=DROPS)),
    ("overflows-force-compaction",
     misled(ReferenceLoop, hearing(signals.ModelFailed, error=ErrorClass.SERVER)),
     scenario(LOOK, LOOK, TOO_LONG, DONE, compaction=DROPS)),
    ("useless-compaction-ends-run",
     misled(ReferenceLoop, hearing(signals.ContextCompacted, shrunk=True)),
     scenario(CUT, DONE, compaction=DROPS)),
    ("useless-compaction-not-repeated",
     misled(ReferenceLoop, hearing(signals.ContextCompacted, shrunk=True)),
     scenario(DONE, context={"over": [True, True, False], "shrunk": [False]})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "loop", "played"), MACHINES)
def test_a_wrong_decision_on_a_compaction_is_found(name: str, loop: Any, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, loop=loop)


def test_a_compaction_in_vain_that_no_limit_counts_must_end_the_run() -> None:
    played = scenario(LOOK, LOOK, DONE, context={"over": [True], "shrunk": [False]})
    assert not violated(played, loop="opencode")
    loop = misled(OpencodeLoop, hearing(signals.ContextCompacted, shrunk=True))
    assert violated(played, loop=loop) == {"useless-compaction-ends-run"}
