"""Loops that go on for a little after an abort: what they still do, and what still ends them."""

from simloop import Outcome, Result, run
from simloop.scenario.loader import parse_scenario
from simloop.trace import entries


def aborted(loop: str, extra: str = "", second: str = "{}") -> Result:
    """A run that is aborted while the first of two tools runs."""
    return run(
        parse_scenario(f"""
prompt: x
loop: {loop}
tool_execution: {{order: sequential}}
tools: {{slow: {{takes: 10s}}, other: {second}}}
abort: {{at: 5s}}
model: [{{call: [{{slow: {{}}}}, {{other: {{}}}}]}}]
{extra}
""")
    )


def states(result: Result) -> list[str]:
    return [entry.state for entry in result.trace.entries if isinstance(entry, entries.Transition)]


def test_one_more_call_is_made_which_the_model_never_sees() -> None:
    result = aborted("pi@0.87.1")
    assert (result.outcome, result.message) == (Outcome.ABORTED, "Request aborted.")
    assert [len(request.messages) for request in result.requests] == [1, 4]
    failures = [entry for entry in result.trace.entries if isinstance(entry, entries.Classified)]
    assert [(entry.error_class, entry.retryable) for entry in failures] == [("aborted", False)]


def test_the_wait_before_a_retry_gives_way_to_one_more_call() -> None:
    result = run(
        parse_scenario("""
prompt: x
loop: opencode
abort: {at: 500ms}
model: [{http: {status: 500}}]
""")
    )
    assert (result.outcome, result.elapsed_ns) == (Outcome.ABORTED, 500_000_000)
    assert len(result.requests) == 2
    assert states(result)[-2:] == ["halting", "finished"]


def test_the_wall_clock_still_ends_a_run_that_goes_on_after_an_abort() -> None:
    slow = "hooks: [{at: after_tool_call, takes: 100s}]"
    result = aborted("pi@0.87.1", f"limits: {{max_wall_clock: 60000ms}}\n{slow}")
    assert (result.outcome, result.limit) == (Outcome.TIMED_OUT, "max_wall_clock")
    assert result.elapsed_ns == 60 * 10**9


def test_a_hook_that_must_not_fail_still_ends_a_run_that_goes_on_after_an_abort() -> None:
    result = aborted(
        "pi@0.87.1",
        "hook_isolation: {on_failure: fail-run}\nhooks: [{at: after_tool_call, raises: Oh.}]",
    )
    assert (result.outcome, result.message) == (
        Outcome.FAILED,
        "Error: hook hook-0: ScriptedFailure: Oh.",
    )


def test_after_such_an_end_the_next_prompt_is_heard_and_can_be_stopped_again() -> None:
    result = run(
        parse_scenario("""
prompt: x
loop: pi@0.87.1
tools: {slow: {takes: 10s}}
limits: {max_wall_clock: 6000ms}
abort: {at: 5s}
then: [again]
model: [{call: {slow: {}}}, {call: {slow: {}}}]
""")
    )
    assert result.outcomes == (Outcome.ABORTED, Outcome.TIMED_OUT)
    assert result.elapsed_ns == 11 * 10**9
