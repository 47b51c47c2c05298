"""The status and error events of document 004."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from simloop import (
    Callbacks,
    Compaction,
    ExponentialBackoff,
    Http,
    Limits,
    Reply,
    Result,
    Scenario,
    run,
)
from simloop.loops.opencode import OpencodeOptions, Steps
from simloop.messages import Outcome
from simloop.scenario.designs import LoopOptions
from simloop.scenario.schema import Context, ScriptedHook, ScriptedTool
from simloop.scenario.triggers import Trigger
from simloop.trace.exports.events import (
    Event,
    NamedError,
    Retry,
    SessionErrorEvent,
    SessionEvents,
    StatusEvent,
)

SECOND = 10**9
LIMITED = Reply(http=Http(status=429))
TOOLS = {"look": ScriptedTool(returns="found", takes="1s")}
OVERFLOW = Reply(http=Http(status=400, code="context_length_exceeded"))
MADE_ROOM = Context(over=[False], shrunk=[True])
ENFORCED = LoopOptions(opencode=OpencodeOptions(steps=Steps.ENFORCE))
EXACT = ExponentialBackoff(initial_delay_ms=1_000, jitter=0)


def scenario(*model: Reply, **settings: Any) -> Scenario:
    settings.setdefault("retry", EXACT)
    return Scenario(prompt="Go.", loop="opencode", tools=TOOLS, model=list(model), **settings)


def told(result: Result) -> list[Event]:
    view = SessionEvents()
    return [event for line in result.trace.entries for event in view.feed(line)]


def words(events: Iterable[Event]) -> list[str]:
    """Each event as a word: a status by its type, an error by its name."""
    found = []
    for event in events:
        match event:
            case StatusEvent(status=status):
                found.append(str(type(status).__struct_config__.tag))
            case SessionErrorEvent(error=error):
                found.append(error.name)
    return found


def test_a_retry_tells_which_try_failed_why_and_when_the_next_one_comes() -> None:
    events = told(run(scenario(LIMITED, LIMITED, Reply(say="Done."))))
    message = "429 Too Many Requests"
    retries = [e for e in events if isinstance(e, StatusEvent) and isinstance(e.status, Retry)]
    assert [(e.at_ns, e.status) for e in retries] == [
        (0, Retry(1, message, SECOND)),
        (SECOND, Retry(2, message, 3 * SECOND)),
    ]
    assert words(events) == ["retry", "retry"]


def test_the_next_try_comes_when_retry_after_says() -> None:
    busy = Reply(http=Http(status=429, retry_after="7s"))
    events = told(run(scenario(busy, Reply(say="Done."))))
    (retry,) = [e.status for e in events if isinstance(e, StatusEvent) and "next_ns" in repr(e)]
    assert isinstance(retry, Retry)
    assert retry.next_ns == 7 * SECOND


def test_attempts_count_from_one_in_each_step() -> None:
    world = scenario(LIMITED, Reply(call={"look": {}}), LIMITED, Reply(say="Done."))
    events = told(run(world))
    statuses = [event.status for event in events if isinstance(event, StatusEvent)]
    assert [status.attempt for status in statuses] == [1, 1]


def test_attempts_count_from_one_after_a_compaction_within_a_step() -> None:
    world = scenario(LIMITED, OVERFLOW, LIMITED, Reply(say="Done."), context=MADE_ROOM)
    events = told(run(world, loop="opencode@1.18.34"))
    statuses = [event.status for event in events if isinstance(event, StatusEvent)]
    assert [status.attempt for status in statuses] == [1, 1]


def test_events_are_json_by_the_programs_names() -> None:
    encoded = [msgspec.to_builtins(event) for event in told(run(scenario(LIMITED, ERROR)))]
    assert encoded[0] == {
        "type": "session.status",
        "status": {
            "type": "retry",
            "attempt": 1,
            "message": "429 Too Many Requests",
            "next_ns": SECOND,
        },
        "at_ns": 0,
    }
    assert encoded[-1]["type"] == "session.error"
    assert encoded[-1]["error"]["name"] == "APIError"


ERROR = Reply(http=Http(status=401))
BLOCK = ScriptedHook(at="before_tool_call", block="no")
FULL = Context(over=[True], shrunk=[False])
ENDS: dict[str, tuple[Scenario, str, Outcome, list[str]]] = {
    "completed": (scenario(Reply(say="Done.")), "opencode", Outcome.COMPLETED, []),
    "auth": (scenario(ERROR), "opencode", Outcome.FAILED, ["APIError"]),
    "too-many": (
        scenario(Reply(http=Http(status=429), times=6)),
        "opencode",
        Outcome.TOO_MANY_ERRORS,
        ["APIError"],
    ),
    "aborted": (
        scenario(Reply(call={"look": {}}), abort=Trigger(at="500ms")),
        "opencode@1.18.34",
        Outcome.ABORTED,
        ["MessageAbortedError"],
    ),
    "aborted-while-waiting": (
        scenario(LIMITED, abort=Trigger(at="500ms")), "opencode@1.18.34", Outcome.ABORTED, [],
    ),
    "context": (
        scenario(Reply(say="Hm."), context=FULL),
        "opencode",
        Outcome.CONTEXT_LIMIT,
        ["ContextOverflowError"],
    ),
    "filtered": (
        scenario(Reply(say="Hm.", finish="content_filter")),
        "opencode@1.18.34",
        Outcome.CONTENT_FILTERED,
        ["ContentFilterError"],
    ),
    "blocked": (
        scenario(Reply(call={"look": {}}), hooks=[BLOCK]), "opencode", Outcome.BLOCKED, [],
    ),
    "last-step": (
        scenario(Reply(call={"look": {}}), limits=Limits(max_steps=1), loops=ENFORCED),
        "opencode",
        Outcome.MAX_STEPS,
        [],
    ),
    "wall-clock": (
        scenario(Reply(call={"look": {}}), limits=Limits(max_wall_clock_ms=500)),
        "opencode",
        Outcome.TIMED_OUT,
        ["UnknownError"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDS)
def test_an_exit_has_one_error_or_none(case: str) -> None:
    world, loop, outcome, errors = ENDS[case]
    result = run(world, loop=loop)
    assert result.outcome is outcome
    assert [word for word in words(told(result)) if word != "retry"] == errors


def test_an_overflow_that_ends_the_run_is_called_one() -> None:
    overflow = Reply(http=Http(status=400, body={"error": {"code": "context_length_exceeded"}}))
    result = run(scenario(overflow))
    (error,) = [e.error for e in told(result) if isinstance(e, SessionErrorEvent)]
    assert error == NamedError("ContextOverflowError", result.message)


@pytest.mark.parametrize("failed", [LIMITED, OVERFLOW], ids=["retried", "compacted"])
def test_an_end_in_a_later_try_is_not_called_what_the_failed_one_was(failed: Reply) -> None:
    world = scenario(
        failed,
        Reply(stall="before-headers"),
        context=MADE_ROOM,
        limits=Limits(max_wall_clock_ms=1_500),
    )
    result = run(world, loop="opencode@1.18.34")
    assert result.outcome is Outcome.TIMED_OUT
    assert words(told(result))[-1:] == ["UnknownError"]


def test_an_end_after_a_summary_that_failed_is_not_called_what_the_summary_was() -> None:
    async def slowly(*_: object) -> None:
        await asyncio.sleep(9)

    world = scenario(
        *[Reply(call={"look": {}})] * 2,
        compaction=Compaction(max_messages=2, keep_turns=1),
        summaries=[Reply(http=Http(status=500))],
        limits=Limits(max_wall_clock_ms=4_000),
    )
    result = run(world, callbacks=Callbacks(on_compacted=slowly))
    assert result.outcome is Outcome.TIMED_OUT
    assert words(told(result))[-1:] == ["UnknownError"]
