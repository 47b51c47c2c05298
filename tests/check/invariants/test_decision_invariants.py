"""Each invariant on decisions, and on limits in time, is violated by a part that is broken in one
line."""

from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated
from incases import in_cases

from simloop import Scenario

HANDLERS = "engine.handlers:EffectHandlers"
LOOP = "loops.reference:ReferenceLoop"
PI = "loops.pi:PiLoop"
REACT = "loops.react:ReactLoop"
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
        "broken-replies-end-runs",
        part(f"{PI}._follow", "if reply.finish in _BREAKS_OFF:", "if False:"),
        scenario({"call": {"look": {}}, "finish": "content_filter"}, DONE, loop="pi"),
    ),
    (
        "broken-replies-end-runs",
        part(f"{PI}._follow", "_BREAKS_OFF[reply.finish])", "Outcome.COMPLETED)"),
        scenario({"say": "Half.", "finish": "error"}, loop="pi"),
    ),
    (
        "aborted-calls-abort-runs",
        part(f"{PI}.advance", "aborted = error is ErrorClass.ABORTED", "aborted = False"),
        scenario({"error": {"message": "stopped", "code": "aborted"}}, loop="pi"),
    ),
    (
        "every-attempt-counted",
        part(f"{REACT}._take_reply", "run.total_steps + 1", "run.total_steps + signal.steps"),
        scenario({"call": {"look": {}}, "steps": 5}, DONE, loop="react"),
    ),
    (
        "failure-class-matches-policy",
        part(
            "kernel.errorclass:class_of_status",
            "_BY_STATUS.get(status)",
            "None if status == 408 else _BY_STATUS.get(status)",
        ),
        scenario({"http": {"status": 408}}, DONE),
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
        "follow-ups-taken-at-run-end",
        part(
            f"{PI}._follow",
            "if reply.calls or steering:",
            "if reply.calls or (steering and not follow_up):",
        ),
        scenario(DONE, DONE, DONE, queue=MORE + LATER, loop="pi"),
    ),
    (
        "vetoes-end-runs",
        part(f"{OPENCODE}._judge", "if run.state.blocked:", "if False:"),
        scenario(LOOK, DONE, hooks=[{"at": "before_tool_call", "block": "no"}], loop="opencode"),
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


@in_cases(CASES)
def test_a_broken_decision_or_limit_is_found(name: str, broken: Part, played: Scenario) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)
