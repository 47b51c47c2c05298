from typing import Any

import msgspec
import pytest
from recording import Recording, of_machine, returned, said

from simloop import Scenario, ScriptedTool
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.user import (
    nothing_starts_after_stop,
    outcome_matches_stop,
    stop_ends_one_run,
    stopped_run_ends_in_time,
)
from simloop.messages import (
    AssistantMessage,
    FinishReason,
    Message,
    Outcome,
    StopCause,
    ToolCall,
    UserMessage,
)
from simloop.trace import entries
from simloop.virtual.clock.timeouts import GRACE_MS

GO = UserMessage("Go.")
STOPPED = "after the run was stopped"


def stopped(cause: StopCause = StopCause.ABORT) -> Recording:
    return Recording().prompt().request([GO]).replied("", "a").stop(cause)


def behind(what: str) -> Recording:
    """A stop of the second run, while work that the first one has left behind goes on."""
    run = Recording().prompt().request([GO]).ended().add(entries.LeftBehind, what, "", "bot.py:9")
    return run.prompt("More.").stop()


@pytest.mark.parametrize(
    ("invariant", "run", "why"),
    [
        (nothing_starts_after_stop, stopped().request([GO]), f"request 2 is sent {STOPPED}"),
        (nothing_starts_after_stop, stopped().started("a"), f"a tool starts {STOPPED}"),
        (nothing_starts_after_stop, stopped().add(entries.LeftBehind, "stop", "", "bot.py:9"),
         f"the agent goes on at bot.py:9 {STOPPED}"),
        (nothing_starts_after_stop, behind("task").request([UserMessage("More.")]), "request 2 is"),
        (nothing_starts_after_stop, behind("program").request([GO]), "request 2 is sent after"),
        (stopped_run_ends_in_time, stopped().after(GRACE_MS / 1000 + 0.001).ended(Outcome.ABORTED),
         "the run ends 251 ms after the stop"),
        (outcome_matches_stop, stopped().ended(), "(abort), and ends as completed"),
        (outcome_matches_stop, stopped(StopCause.WALL_CLOCK).ended(Outcome.ABORTED),
         "(wall-clock), and ends as aborted"),
        (outcome_matches_stop, Recording().prompt().ended(Outcome.TIMED_OUT),
         "no stop was requested"),
    ],
)  # fmt: skip
def test_a_run_that_does_not_stop_is_found(invariant: Invariant, run: Recording, why: str) -> None:
    (found,) = run.found(invariant)
    assert why in found


@pytest.mark.parametrize(
    "invariant", [nothing_starts_after_stop, stopped_run_ends_in_time, outcome_matches_stop]
)
@pytest.mark.parametrize(
    "run",
    [
        stopped().after(GRACE_MS / 1000).ended(Outcome.ABORTED).prompt().request([GO]),
        stopped(StopCause.WALL_CLOCK).ended(Outcome.TIMED_OUT),
        stopped().add(entries.LeftBehind, "task", "", "bot.py:9").ended(Outcome.ABORTED),
        Recording().prompt().request([GO]).started("a").ended(),
        behind("task").request([GO]).ended(Outcome.ABORTED),
        behind("thread").request([GO]).ended(Outcome.ABORTED),
    ],
)
def test_a_run_that_stops_is_not_found(invariant: Invariant, run: Recording) -> None:
    assert run.found(invariant) == []


def test_where_an_abort_is_a_flag_the_design_decides_what_follows_it() -> None:
    subject = of_machine()
    assert subject.settings is not None
    subject.settings = msgspec.structs.replace(subject.settings, abort_is_flag=True)
    run = stopped().started("a").after(9).ended()
    for each in (nothing_starts_after_stop, stopped_run_ends_in_time, outcome_matches_stop):
        assert run.found(each, subject) == []
        assert run.found(each, of_machine())


@pytest.mark.parametrize(("late_s", "finds"), [(GRACE_MS / 1000, 1), (0.1, 0)])
def test_who_begins_to_wait_after_a_stop_has_no_grace(late_s: float, finds: int) -> None:
    run = stopped().add(entries.Sleep, 10**9, "bot.py:9 in ask").after(late_s)
    assert len(run.ended(Outcome.ABORTED).found(stopped_run_ends_in_time)) == finds


def test_a_tool_may_outlive_its_cancellation_as_long_as_it_says() -> None:
    late = stopped().after(GRACE_MS / 1000 + 2).ended(Outcome.ABORTED)
    slow = ScriptedTool.model_validate({"outlives_cancel": "2s"})
    assert (
        late.found(
            stopped_run_ends_in_time, Subject(scenario=Scenario(prompt="", tools={"a": slow}))
        )
        == []
    )
    assert late.found(stopped_run_ends_in_time)


@pytest.mark.parametrize(
    ("in_thread", "hears", "finds"), [(False, False, 1), (True, False, 0), (False, True, 0)]
)
def test_who_does_nothing_at_a_stop_while_a_tool_runs_has_no_grace(
    *, in_thread: bool, hears: bool, finds: int
) -> None:
    run = Recording().prompt().request([UserMessage("Go.")]).call("a").finish()
    run.add(entries.ToolStarted, "a", "look", "{}", in_thread=in_thread).stop()
    if hears:
        run.add(entries.TaskCancelled, "task", "a.py:3")
    ended = run.after(GRACE_MS / 1000).ended(Outcome.ABORTED)
    assert len(ended.found(stopped_run_ends_in_time)) == finds


def test_of_two_stops_either_may_be_the_outcome() -> None:
    both = stopped().stop(StopCause.WALL_CLOCK)
    assert both.ended(Outcome.TIMED_OUT).found(outcome_matches_stop) == []


def test_a_model_call_that_comes_back_as_aborted_needs_no_stop() -> None:
    run = Recording().prompt().request([GO]).failed(499).ended(Outcome.ABORTED)
    assert run.found(outcome_matches_stop) == []


def own(run: Recording, **how: bool) -> Recording:
    return run.add(entries.ToolStarted, "own-1", "look", "{}", **how)


def test_a_tool_of_own_code_that_was_due_at_the_stop_or_runs_in_a_thread_is_not_judged() -> None:
    assert own(stopped(), own=True).found(nothing_starts_after_stop) == []
    assert own(stopped().after(1), own=True, in_thread=True).found(nothing_starts_after_stop) == []
    for late in (own(stopped().after(0.001), own=True), own(stopped())):
        (found,) = late.found(nothing_starts_after_stop)
        assert f"a tool starts {STOPPED}" in found


@pytest.mark.parametrize(
    ("failure", "status", "body", "source", "finds"),
    [
        ("closed", 0, "{}", "", 1), ("closed", 0, "[]", "", 0), ("lost", 0, "{}", "", 1),
        ("", 503, "{}", "", 1), ("", 429, "{}", "", 1), ("", 200, "{}", "", 0),
        ("lost", 0, "{}", "to_thread", 0), ("lost", 0, "{}", "check_same_thread=False", 1),
    ],
)  # fmt: skip
def test_a_request_that_a_stop_has_broken_off_or_that_fails_then_is_not_sent_again(
    failure: str, status: int, body: str, source: str, finds: int
) -> None:
    def pays(run: Recording, number: int, body: str) -> Recording:
        return run.add(entries.ServiceRequest, number, "https://b.example", "POST", "/pay", body)

    run = pays(Recording().prompt().request([GO]), 1, "{}").stop()
    run.add(entries.ServiceReply, 1, status, "", failure).ended(Outcome.ABORTED).after(2)
    found = pays(run, 2, body).found(nothing_starts_after_stop, Subject(source=source))
    assert len(found) == finds
    assert not finds or found[0].startswith("the request POST https://b.example/pay is sent again")
    later = pays(run.prompt("Next."), 3, "{}")
    assert len(later.found(nothing_starts_after_stop, Subject(source=source))) == finds


@pytest.mark.parametrize(("body", "finds"), [("{}", 1), ("[]", 0)])
def test_a_request_without_an_answer_is_not_sent_again_after_a_stop(body: str, finds: int) -> None:
    run, pays = Recording().prompt().request([GO]), ("https://b.example", "POST", "/pay")
    run.add(entries.ServiceRequest, 1, *pays, "{}").stop().ended(Outcome.ABORTED).after(1)
    run.add(entries.ServiceRequest, 2, *pays, body)
    assert len(run.found(nothing_starts_after_stop)) == finds


@pytest.mark.parametrize(
    ("method", "after_s", "keys", "finds"),
    [
        ("POST", 1, {}, 1),
        ("POST", 0, {}, 0),  # it was due at the stop
        ("DELETE", 1, {}, 0),
        ("POST", 1, {"before": True}, 0),  # it may take back what was done
        ("POST", 1, {"before": True, "prompts": True}, 1),
        ("POST", 1, {"source": "import threading"}, 0),
        ("POST", 1, {"mutating": ()}, 0),
    ],
)
def test_no_change_is_begun_after_a_stop(
    method: str, after_s: int, keys: dict[str, Any], finds: int
) -> None:
    run = Recording().prompt().request([GO])
    if keys.get("before"):
        run.add(entries.ServiceRequest, 1, "https://b.example", "POST", "/hold", "{}")
        run.add(entries.ServiceReply, 1, 200)
    if keys.get("prompts"):
        run.ended().prompt("Next.").request([GO, UserMessage("Next.")])
    run.stop().ended(Outcome.ABORTED).after(after_s)
    run.add(entries.ServiceRequest, 2, "https://b.example", method, "/pay", "{}")
    subject = Subject(
        source=keys.get("source", ""), mutating=keys.get("mutating", ("https://b.example",))
    )
    found = run.found(nothing_starts_after_stop, subject)
    assert len(found) == finds
    assert all("POST https://b.example/pay is sent after the run was stopped" in f for f in found)


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("method", ["DELETE", "POST"])
def test_the_clean_up_after_a_stop_may_try_again(*, method: str, fails: bool) -> None:
    run, undo = Recording().prompt().request([GO]).stop(), ("https://b.example", method, "/7")
    run.add(entries.ServiceRequest, 1, *undo)
    if fails:
        run.add(entries.ServiceReply, 1, 503)
    run.ended(Outcome.ABORTED).add(entries.ServiceRequest, 2, *undo)
    declared = Subject(source="threading", mutating={"https://b.example"})
    assert run.found(nothing_starts_after_stop, declared) == []


@pytest.mark.parametrize(
    ("method", "status", "mutating", "finds"),
    [
        ("POST", 429, True, 1),
        ("PUT", 503, True, 1),
        ("POST", 201, True, 0),
        ("DELETE", 503, True, 0),  # it may take back what was done
        ("POST", 503, False, 0),
    ],
)
@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("after_s", [1, 0])
def test_a_change_that_has_failed_is_not_tried_again_after_a_stop(
    *, method: str, status: int, mutating: bool, finds: int, is_before: bool, after_s: int
) -> None:
    """At the moment of the stop, it may have been due."""
    run, sent = Recording().prompt().request([GO]), ("https://b.example", method, "/7")
    run.add(entries.ServiceRequest, 1, *sent)
    if is_before:
        run.add(entries.ServiceReply, 1, status).stop().ended(Outcome.ABORTED)
    else:
        run.stop().ended(Outcome.ABORTED).add(entries.ServiceReply, 1, status)
    run.after(after_s).add(entries.ServiceRequest, 2, *sent)
    subject = Subject(source="threading", mutating={"https://b.example"} if mutating else ())
    assert len(run.found(nothing_starts_after_stop, subject)) == finds * after_s


@pytest.mark.parametrize(
    ("source", "what", "finds"),
    [
        ("import pydantic_ai", "thread", 0),
        ("import pydantic_ai", "task", 1),
        ("import httpx", "thread", 1),
    ],
)
def test_a_framework_waits_for_a_function_in_a_thread(source: str, what: str, finds: int) -> None:
    run = stopped().after(9).add(entries.LeftBehind, what, "worker", "bot.py:9")
    found = run.ended(Outcome.ABORTED).found(stopped_run_ends_in_time, Subject(source=source))
    assert len(found) == finds


STOPS = "Error: stopped before it began."
FLAG = [[("look", STOPS)], [("pay", STOPS)]]


def goes_on(replies: list[list[tuple[str, str]]], between: Recording | None = None) -> Recording:
    """A stopped run, and one whose replies have these calls with these results."""
    run, history = stopped().ended(Outcome.ABORTED).prompt("More."), list[Message]([GO])
    history += [said("", "a"), returned("a", STOPS), UserMessage("More.")]
    run.request([*history])
    for number, pairs in enumerate(replies):
        calls = tuple(ToolCall(f"{number}-{name}", name, "{}") for name, _ in pairs)
        for call in calls:
            run.call(call.id, name=call.name)
        run.finish(FinishReason.TOOL_CALLS)
        history += [AssistantMessage("", calls)]
        history += [returned(f"{number}-{name}", text) for name, text in pairs]
        for each in between.entries if between else ():
            run.entries.append(msgspec.structs.replace(each, seq=len(run.entries)))
        run.now_ns += between.now_ns if between else 0
        run.request([*history])
    return run.ended()


@pytest.mark.parametrize(
    ("run", "finds"),
    [
        (goes_on(FLAG), 1),
        (goes_on([[("look", STOPS), ("pay", STOPS)]]), 1),
        (goes_on([[(name, "Not done: it was given up.")] for name in ("look", "pay")]), 1),
        (goes_on([[(name, "Error: no such order.")] for name in ("look", "pay")]), 0),
        (goes_on([[(name, "Stopped, perhaps it was made.")] for name in ("look", "pay")]), 0),
        (goes_on([[(name, "Stopped at the limit.")] for name in ("look", "pay")]), 0),
        (goes_on([[(name, "Stopped: too late, timed out.")] for name in ("look", "pay")]), 0),
        (goes_on([[(name, "Stopped after eight steps.")] for name in ("look", "pay")]), 0),
        (goes_on([[("look", STOPS)], [("look", STOPS)]]), 0),  # the order may be cancelled
        (goes_on([[("look", STOPS)], [("cancel", STOPS)]]), 0),
        (goes_on([[("look", "Yes."), ("pay", STOPS)], [("look", STOPS)]]), 0),
        (goes_on(FLAG, Recording().after(1)), 0),  # the tool may have been broken off
        (goes_on(FLAG, Recording().add(entries.Input, "n", "Go on?")), 0),
        (goes_on(FLAG, Recording().add(entries.ServiceRequest, 1, "https://b", "GET", "/")), 0),
        (goes_on(FLAG[:1]).prompt("And?").request([GO]).ended(), 0),
    ],
)
def test_no_call_of_a_run_that_was_not_stopped_is_answered_as_stopped(
    run: Recording, finds: int
) -> None:
    found = run.found(stop_ends_one_run)
    assert len(found) == finds
    assert not finds or found[0].endswith(" for look and pay")
