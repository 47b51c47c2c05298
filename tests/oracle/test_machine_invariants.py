"""Each invariant on a machine and its engine is violated by the record of a wrong engine."""

import pytest
from faultyruns import (
    DONE,
    LOOK,
    Edit,
    changed,
    doubled,
    dropped,
    inserted,
    scenario,
    sending,
    violated,
)

from simloop import Scenario
from simloop.kernel import signals
from simloop.kernel.errorclass import ErrorClass
from simloop.messages import Counters, Message, UserMessage
from simloop.trace.entries import Answered, Backoff, Ended, Request, ToolStarted, Transition

RATE_LIMITED = {"http": {"status": 429}}
QUEUED = [{"say": "Also this.", "after": "text-delta"}]
LONG = {"say": "Done.", "pace": {"per_part": "1s"}}
TWO = {"say": "I look twice.", "call": [{"look": {}}, {"look": {}}]}
SMALL = {"window": 120, "keep_turns": 1, "strategy": "drop-oldest"}
FAILING = {
    "hooks": [{"at": "before_llm_call", "raises": "no"}],
    "hook_isolation": {"on_failure": "fail-run"},
}


def shouted(messages: tuple[Message, ...]) -> list[Message]:
    return [
        UserMessage(each.text.upper()) if type(each) is UserMessage else each for each in messages
    ]


def with_results_reversed(messages: tuple[Message, ...]) -> list[Message]:
    said, first, second = messages
    return [said, second, first]


CASES = [
    ("machine-is-deterministic", changed(Transition, state="ready"), scenario(DONE)),
    ("effects-run-once", doubled(Request), scenario(DONE)),
    ("effects-run-once", dropped(Backoff), scenario(RATE_LIMITED, DONE)),
    ("tool-batches-complete",
     inserted(signals.ToolsReturned, ToolStarted(0, 0, "call-1", "look", "{}")),
     scenario({"call": {"look": {}}, "finish": "length"}, DONE)),
    ("tool-batches-complete", dropped(Answered, 1), scenario(TWO, DONE)),
    ("reply-signal-matches-reply", changed(signals.ModelReplied, steps=1),
     scenario({"say": "Done.", "steps": 3})),
    ("reply-signal-matches-reply", changed(signals.ModelReplied, text=True),
     scenario({"say": " "}, DONE)),
    ("context-signal-matches-context", changed(signals.ContextMeasured, 2, over=False),
     scenario(LOOK, LOOK, DONE, prompt="x" * 400, compaction=SMALL)),
    ("queue-signal-matches-queue", changed(signals.StepClosed, steering=False),
     scenario(LONG, DONE, queue=QUEUED)),
    ("queue-signal-matches-queue", changed(signals.StepClosed, steering=True),
     scenario(DONE, DONE)),
    ("stop-signals-match-stops",
     inserted(signals.ModelReplied,
     Transition(0, 0, signals.CallBlocked(), "finished", Counters(0, 0, 0))), scenario(DONE)),
    ("stop-signals-match-stops",
     changed(Transition, -1, signal=signals.ModelFailed(ErrorClass.SERVER, retryable=True)),
     scenario(DONE, **FAILING)),
    ("end-matches-machine", changed(Ended, limit=""), scenario(LOOK, limits={"max_steps": 1})),
    ("context-is-conserved", sending(1, with_results_reversed), scenario(TWO, DONE)),
    ("context-is-conserved", sending(1, shouted), scenario(LONG, DONE, queue=QUEUED)),
    ("request-size-matches-messages", changed(Request, 1, tokens=5), scenario(LOOK, DONE)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), CASES)
def test_a_wrong_engine_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)
