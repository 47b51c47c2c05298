"""Each invariant on counters, limits and retries is violated by a machine or a policy that is
broken in one line, and is kept by the whole one."""

from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated
from incases import in_cases

from simloop import Scenario

HANDLERS = "engine.handlers:EffectHandlers"
AGENT = "engine.machine_agent"
LOOP = "loops.reference:ReferenceLoop"
POLICY = "kernel.retry:ExponentialBackoff"
BUSY = {"http": {"status": 429}}
DOWN = {"http": {"status": 500}}
WAITS = {"http": {"status": 429, "retry_after": "9s"}}
EMPTY = {"finish": "stop"}

CASES = [
    (
        "counters-match-trace",
        part(f"{AGENT}:_Engine._ended", "self._counters)", "Counters(0, 0, 0))"),
        scenario(DONE),
    ),
    (
        "counters-zero-at-run-start",
        part(
            f"{LOOP}.start",
            "Run(Ready())",
            "Run(Ready(), *[self.__dict__.setdefault('more', [0]).append(1) or "
            "len(self.more) // 3])",
        ),
        scenario(DONE, DONE, then=["Again."]),
    ),
    (
        "counters-never-decrease",
        part(
            f"{LOOP}._take_reply",
            "Run(ClosingStep(reply), run.error_count,",
            "Run(ClosingStep(reply), 0,",
        ),
        scenario(DOWN, DONE),
    ),
    (
        "every-attempt-counted",
        part(f"{LOOP}._recover", "run.error_count + 1", "run.error_count + 2"),
        scenario(DOWN, DONE, limits={"max_error_count": 9}),
    ),
    (
        "useless-replies-count-as-errors",
        part(
            f"{LOOP}._answer",
            "self.options.empty_reply_fails:\n        return self._recover(run, retryable=True)",
            "self.options.empty_reply_fails:\n        return self._measure(run)",
        ),
        scenario(EMPTY, DONE),
    ),
    (
        "limits-enforced",
        part(
            f"{LOOP}._exceeded", "run.total_steps >= self.limits", "run.total_steps > self.limits"
        ),
        scenario(LOOK, LOOK, DONE, limits={"max_steps": 2}),
    ),
    (
        "limits-not-enforced-early",
        part(
            f"{LOOP}._exceeded",
            "run.total_steps >= self.limits",
            "run.total_steps + 1 >= self.limits",
        ),
        scenario(LOOK, LOOK, DONE, limits={"max_steps": 3}),
    ),
    (
        "max-steps-per-round-enforced",
        part(f"{LOOP}._take_reply", "signal.steps > ", "signal.steps > 9 + "),
        scenario({"call": {"look": {}}, "steps": 4}, DONE, limits={"max_steps_per_round": 3}),
    ),
    (
        "backoff-matches-policy",
        part(f"{POLICY}.delay_ns", "min(failures - 1, 64)", "min(failures, 64)"),
        scenario(DOWN, DONE),
    ),
    (
        "backoff-matches-policy",
        part(f"{HANDLERS}._call_model", "self._fault = None", "pass"),
        scenario(WAITS, EMPTY, DONE),
    ),
    (
        "backoff-lasts-as-recorded",
        part(f"{HANDLERS}._back_off", "sleep(delay_ns / 1e9)", "sleep(delay_ns / 2e9)"),
        scenario(DOWN, DONE),
    ),
    (
        "failures-numbered-in-order",
        part(f"{LOOP}._recover", "effects.Backoff(failed.error_count", "effects.Backoff(1"),
        scenario(DOWN, DOWN, DONE),
    ),
    (
        "failure-class-matches-policy",
        part(
            f"{HANDLERS}._failed",
            "signals.ModelFailed(error, retryable)",
            "signals.ModelFailed(error, True)",
        ),
        scenario({"http": {"status": 400}}, DONE),
    ),
    (
        "failure-class-matches-policy",
        part("kernel.errorclass:class_of_status", "return known", "return ErrorClass.SERVER"),
        scenario({"http": {"status": 401}}, DONE),
    ),
    (
        "failure-class-matches-policy",
        part(
            "kernel.errorclass:classify",
            "if status in _MAY_BE_OVERFLOW:",
            "if status in _MAY_BE_OVERFLOW or status == 429:",
        ),
        scenario({"http": {"status": 429, "message": "prompt is too long"}}, DONE),
    ),
    (
        "failure-class-matches-policy",
        part("kernel.errorclass:classify", "status in (None, _OK)", "status == _OK"),
        scenario({"error": {"message": "busy", "code": "overloaded_error"}}, DONE),
    ),
    (
        "answers-match-tool-runs",
        part("engine.tool_calls:_wrong", "is_error=True", "is_error=False"),
        scenario({"call": {"look": {"none": 1}}}, DONE, tools={"look": {}}),
    ),
    (
        "only-retryable-failures-retried",
        part(f"{LOOP}._recover", "if not retryable:", "if False:"),
        scenario({"http": {"status": 400}}, DONE),
    ),
    (
        "retryable-failures-retried",
        part(f"{LOOP}._recover", "if not retryable:", "if retryable:"),
        scenario(DOWN, DONE),
    ),
]


@in_cases(CASES)
def test_a_broken_counter_or_retry_is_found(name: str, broken: Part, played: Scenario) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)
