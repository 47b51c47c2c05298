"""Each invariant on decisions, and on limits in time, is violated by a part that is broken in one
line."""

import pytest
from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated

from simloop import Scenario

HANDLERS = "engine.handlers:EffectHandlers"
LOOP = "loops.reference:ReferenceLoop"
PI = "loops.pi:PiLoop"
OPENCODE = "loops.opencode:OpencodeLoop"
READS = "engine.model_calls:ModelCalls"
SLOW = {"say": "Done.", "pace": {"first_part": "9s"}}
MORE = [{"say": "Also this.", "after": "text-delta"}]
LATER = [{"say": "Also this.", "after": "text-delta", "follow_up": True}]
DOWN = {"http": {"status": 500}}

CASES = [
    (
        "answers-complete-runs",
        part(
            f"{LOOP}._answer",
            "self._finish(run, Outcome.COMPLETED)",
            "self._exceeded(run) or self._finish(run, Outcome.COMPLETED)",
        ),
        scenario(DONE, limits={"max_steps": 1}),
    ),
    (
        "no-request-after-an-answer",
        part(f"{LOOP}._answer", "if queued:", "if run.total_steps < 2:"),
        scenario(DONE, DONE),
    ),
    (
        "no-completion-with-queued-messages",
        part(f"{LOOP}._answer", "if queued:", "if False:"),
        scenario(DONE, DONE, queue=MORE),
    ),
    (
        "taken-messages-are-sent",
        part(f"{OPENCODE}._judge", "if goes_on or queued:", "if goes_on:", "_TURN[1:]", "_TURN"),
        scenario(DONE, DONE, queue=MORE, loop="opencode"),
    ),
    (
        "follow-ups-taken-at-run-end",
        part(f"{PI}._follow", "if reply.calls or steering:", "if steering:"),
        scenario(LOOK, DONE, DONE, queue=LATER, loop="pi"),
    ),
    (
        "model-calls-increase-a-counter",
        part(f"{LOOP}._recover", "Run(run.state, run.error_count + 1,", "Run(run.state, 1,"),
        scenario(DOWN, DOWN, DONE),
    ),
    (
        "counters-reset-after-reply",
        part(
            f"{OPENCODE}._counted", "Run(run.state, total", "Run(run.state, run.error_count, total"
        ),
        scenario(DOWN, LOOK, DONE, loop="opencode"),
    ),
    (
        "model-call-timeouts",
        part(
            f"{READS}.__init__",
            "limits.first_part_timeout_ms,",
            "2 * limits.first_part_timeout_ms,",
        ),
        scenario(SLOW, DONE, limits={"first_part_timeout": "5s"}),
    ),
    (
        "model-call-timeouts",
        part(
            f"{READS}.__init__",
            "limits.first_part_timeout_ms,",
            "limits.first_part_timeout_ms // 2,",
        ),
        scenario(SLOW, DONE, limits={"first_part_timeout": "10s"}),
    ),
    (
        "max-wall-clock-enforced",
        part("world.cancellation:Cancellation.open", "wall_clock_ms * NS_PER_MS", "NS_PER_MS"),
        scenario(SLOW, limits={"max_wall_clock": "20s"}),
    ),
    (
        "max-wall-clock-enforced",
        part("world.cancellation:Cancellation.open", "wall_clock_ms * NS_PER_MS", "10**15"),
        scenario(SLOW, limits={"max_wall_clock": "2s"}),
    ),
]


@pytest.mark.parametrize(("name", "broken", "played"), CASES)
def test_a_broken_decision_or_limit_is_found(name: str, broken: Part, played: Scenario) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)
