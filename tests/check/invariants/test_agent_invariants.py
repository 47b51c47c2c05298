import copy
from itertools import product
from math import inf
from typing import Any

import pytest
from incases import in_cases
from msgspec import Raw, structs
from recording import Recording, returned, said

from simloop import ExponentialBackoff, Limits, Scenario
from simloop.check.invariants.agents import (
    agent_backoff_matches_policy,
    agent_respects_its_limits,
    agent_uses_its_limits,
    calls_wait_for_something,
    event_loop_not_blocked,
    further_prompts_reach_the_model,
    no_empty_answers,
    no_failure_after_an_answer,
    no_lock_held_while_waiting,
    no_mistake_in_the_code,
    no_retry_of_permanent_failure,
    prompts_go_on_alike,
    repeated_retries_wait,
    retry_after_respected,
)
from simloop.check.invariants.decisions import completed_without_open_calls
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.judge import choose
from simloop.check.invariants.requests import one_system_prompt
from simloop.check.invariants.subject import Subject
from simloop.fuzz.search import Group
from simloop.kernel.limits import DeclaredLimits
from simloop.kernel.machine import Machine
from simloop.loops.reference import ReferenceLoop
from simloop.messages import (
    Fault,
    FinishReason,
    Message,
    Outcome,
    StructuredOutput,
    UserMessage,
)
from simloop.scenario.expect import Expect
from simloop.scenario.schema import ScriptedTool
from simloop.trace import entries
from simloop.trace.entries import (
    Error,
    Input,
    LeftBehind,
    LockHeld,
    LoopBlocked,
    ToolCallDelta,
)
from simloop.world.user_functions import describe

GO = UserMessage("Go.")
ASKED: list[Message] = [GO, said("", "a")]
FAILED = Outcome.FAILED


def asked() -> Recording:
    return Recording().prompt().request([GO])


def declaring() -> Subject:
    retry = ExponentialBackoff(initial_delay_ms=1_000, max_delay_ms=3_000)
    return Subject(limits=Limits(max_steps=2, max_error_count=3), retry=retry)


def failing(times: int, wait_s: float) -> Recording:
    run = asked()
    for _ in range(times):
        run.failed().after(wait_s).request([GO])
    return run


def given_up(times: int) -> Recording:
    """A run whose agent does not wait for the replies."""
    run = asked()
    for _ in range(times):
        run.after(90).request([GO])
    return run


def overflowed(times: int = 1) -> Recording:
    """A run that shortens its context after each overflow."""
    older = [UserMessage(f"Older {number}.") for number in range(times)]
    run = Recording().prompt()
    for number in range(times):
        run.request([*older[number:], GO]).failed(413, words="prompt is too long")
    return run.request([GO])


def looking(times: int, *, text: str = "seen") -> Recording:
    """A run that calls its tool so often, each time with the result `text` and the number."""
    run = asked()
    messages: list[Message] = [GO]
    for number in range(times):
        result = text.format(number)
        run.replied("", f"{number}").started(f"{number}").result(f"{number}", result)
        messages = [*messages, said("", f"{number}"), UserMessage(result)]
        run.request(messages)
    return run


def broke_off(through: str = "") -> Recording:
    """A run that ends by the scripted failure of a tool."""
    run = asked().replied("", "a").started("a").result("a", "Error: full", is_error=True)
    return run.add(entries.Ended, FAILED, "", "Error: full", "", 0, through=through)


DECLARED: list[tuple[Invariant, Recording, str]] = [
    (agent_backoff_matches_policy, failing(1, 0.5),
     "500 ms after request 1 failed, as failure 1 of the run, not 1000 ms"),
    (agent_backoff_matches_policy, failing(2, 1),
     "1000 ms after request 2 failed, as failure 2 of the run, not 2000 ms"),
    (agent_backoff_matches_policy,
     asked().failed(retry_after="9").after(9).request([GO]).finish().after(9).request([GO]),
     "9000 ms after request 2 failed, as failure 2 of the run, not 2000 ms"),
    (no_retry_of_permanent_failure, asked().failed(402).after(1).request([GO]),
     "repeats request 1, which failed permanently"),
    (agent_respects_its_limits, failing(3, 1), "0 steps and 3 errors; the agent declares max_err"),
    (agent_respects_its_limits, overflowed(5),
     "0 steps and 3 errors; the agent declares max_error_count=3"),
    (agent_uses_its_limits, given_up(1).failed().ended(FAILED),
     "after 0 steps and 1 errors, of which the last can be retried"),
    (agent_respects_its_limits, looking(2), "2 steps and 0 errors; the agent declares max_steps=2"),
    (agent_uses_its_limits, asked().failed().ended(FAILED),
     "after 0 steps and 1 errors, of which the last can be retried"),
    (agent_uses_its_limits,
     failing(2, 1).failed().ended(FAILED).prompt().request([GO]).failed().ended(FAILED),
     "and 1 errors"),
    (agent_uses_its_limits, asked().replied("", "a").started("a").result("a").ended(FAILED),
     "after 1 steps and 0 errors, and the agent declares max_steps=2"),
    (agent_uses_its_limits, asked().replied("", "a").started("a").ended(FAILED, message="late"),
     "the run fails (late) after 1 steps and 0 errors, and the agent declares max_steps=2"),
    (agent_uses_its_limits, broke_off(), "after 1 steps and 0 errors"),
    (no_empty_answers, asked().finish().ended(), "the reply to request 1 has none"),
    (no_empty_answers, asked().text("Let me see.").finish(FinishReason.TOOL_CALLS)
     .ended(text="Let me see."), "is completed, and the reply to request 1 lacks its calls"),
    (agent_uses_its_limits,
     looking(1).replied("", "a").started("a").result("a").ended(FAILED).prompt().request([GO])
     .replied("", "b").started("b").result("b").ended(FAILED), "after 1 steps and 0 errors"),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "run", "why"), DECLARED)
def test_an_agent_that_does_not_do_as_it_declares_is_found(
    invariant: Invariant, run: Recording, why: str
) -> None:
    (found,) = run.found(invariant, declaring())
    assert why in found


BAD: list[tuple[Invariant, Recording, str]] = [
    (retry_after_respected, asked().failed(429, retry_after="9").after(8).request([GO]),
     "8000 ms after request 1 failed and asked for 9000 ms"),
    (retry_after_respected,
     asked().failed(429, retry_after="Thu, 01 Jan 2026 00:00:30 GMT").after(1).request([GO]),
     "asked for 30000 ms"),
    (retry_after_respected, asked().failed(429, retry_after="120").after(60).request([GO]),
     "60000 ms after request 1 failed and asked for 120000 ms"),
    (retry_after_respected, asked().failed(429, retry_after="5").after(5_000).request([GO]),
     "request 2 is sent 1.4 hours after request 1 failed and asked for 5000 ms"),
    (retry_after_respected, asked().failed(503).after(3_601).request([GO]),
     "1.0 hours after request 1 failed and asked for no wait"),
    (retry_after_respected, asked().failed(429, retry_after="9000").after(3_599).request([GO]),
     "3.599e+06 ms after request 1 failed and asked for 9e+06 ms"),
    (repeated_retries_wait, failing(3, 0),
     "is retry 3 in a row without a wait, after request 3 failed"),
    (no_retry_of_permanent_failure, asked().failed(401).after(9).request([GO]), "(status 401)"),
    (no_failure_after_an_answer, asked().replied("Done.").ended(FAILED), "the model has answered"),
    (event_loop_not_blocked, asked().after(2).add(LoopBlocked, 2 * 10**9, "mine.py:3 in look"),
     "blocks the event loop for 2.000s at mine.py:3 in look"),
    (no_lock_held_while_waiting, asked().add(LockHeld, 8 * 10**8, "mine.py:3 in reserve"),
     "a thread waits 0.800s for a lock, and the thread that held it waited at mine.py:3"),
    (no_mistake_in_the_code,
     asked().replied("", "a").started("a").result("a", "Error: AssertionError: -1", is_error=True),
     "the tool 'look' of call 'a': Error: AssertionError: -1"),
    (no_mistake_in_the_code, asked().ended(FAILED, message="Error: AssertionError"),
     "AssertionError"),
    (no_mistake_in_the_code,
     asked().ended(FAILED, message="Error: " + describe(ExceptionGroup("two", [KeyError("x")]))),
     "KeyError: 'x'"),
    (no_mistake_in_the_code,
     asked().ended(FAILED, message="Error: ValueError: could not convert string to float: 'soon'"),
     "could not convert string to float: 'soon'"),
    (no_mistake_in_the_code, asked().replied("", "a").ended(FAILED, message="Error: KeyError: 'x'"),
     "KeyError: 'x' after a reply that calls look"),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "run", "why"), BAD)
def test_an_agent_that_does_what_no_agent_should_is_found(
    invariant: Invariant, run: Recording, why: str
) -> None:
    (found,) = run.found(invariant)
    assert why in found


NEXT: list[Message] = [GO, said("Yes."), UserMessage("Next.")]
LOOKED: list[Message] = [GO, said("", "a"), UserMessage("seen")]
GOOD = [
    broke_off("pydantic_ai"),
    # A policy may count the failures since the last useful reply.
    failing(1, 1).replied("", "a").started("a").result("a").request(LOOKED).failed().after(1)
     .request(LOOKED).replied("Done.").ended(),
    asked().replied("Done.").add(LeftBehind, "task", "tick", "mine.py:3 in tick").ended(),
    asked().replied("Done.").ended(FAILED, message="Error: Recursion limit of 25 reached"),
    asked().stop().add(LeftBehind, "exception", "KeyError: 'id'", "mine.py:3 in log"),
    # A request for a summary is no step, also before the first one that offers tools.
    asked().replied("Yes.").ended(text="Yes.").prompt("Next.")
     .request([GO, said("Yes."), UserMessage("Sum up.")], tools=[]).finish()
     .request([*NEXT]).replied("", "a").started("a").result("a")
     .request([*NEXT, said("", "a"), returned("a")]).replied("Done.").ended(text="Done."),
    # A failed summary counts, too.
    asked().replied("", "a").started("a").result("a").request([UserMessage("Sum up.")], tools=[])
     .failed().request(LOOKED).failed().after(2).request(LOOKED).replied("Done.").ended(),
    asked().failed().after(1).request([GO]).failed().after(2).request([GO]).replied("Done.")
     .ended(),
    asked().failed(retry_after="9").after(9).request([GO]).replied("Done.").ended(text="Done."),
    asked().failed(401).ended(FAILED),
    asked().failed(401).ended(FAILED, message="Error: ValueError: the key is wrong"),
    asked().failed(503, retry_after="90").ended(FAILED),
    asked().queued("More.").replied("Done.").ended(FAILED),
    asked().failed(401).after(1).request([GO, UserMessage("Go on.")]).replied("Done.").ended(),
    looking(1).replied("Done.").ended(),
    asked().text("Half").finish(FinishReason.LENGTH).ended(FAILED),
    asked().finish().request([GO, UserMessage("And?")]).replied("Done.").ended(text="Done."),
    failing(1, 1).failed().after(2).request([GO]).failed().ended(FAILED),
    looking(1).replied("", "a").started("a").result("a").ended(FAILED),
    asked().text("Half").add(ToolCallDelta, 1, "a", "look", "{").finish().ended(FAILED),
    asked().replied("", "a").started("a").ended(FAILED, message="Error: GaveUp: too many steps"),
    given_up(1).failed().after(1).request([GO]).replied("Done.").ended(text="Done."),
    given_up(1).failed().after(2).request([GO]).replied("Done.").ended(text="Done."),
    given_up(2).failed().ended(FAILED),
    overflowed().failed().after(1).request([GO]).failed().after(2).request([GO])
     .replied("Done.").ended(text="Done."),
    overflowed().failed().after(2).request([GO]).failed().ended(FAILED),
    asked().finish().request([GO, UserMessage("Answer!")]).failed().after(2)
     .request([GO, UserMessage("Answer!")]).failed().ended(FAILED),
]  # fmt: skip


@in_cases(product([*dict.fromkeys(each for each, _, _ in (*DECLARED, *BAD))], GOOD))
def test_an_agent_that_does_as_it_should_is_not_found(invariant: Invariant, run: Recording) -> None:
    assert run.found(invariant, declaring()) == []


@pytest.mark.parametrize(
    ("limits", "invariant", "run"),
    [
        (Limits(max_steps=8), agent_respects_its_limits, failing(7, 1)),
        (Limits(max_steps=8), agent_uses_its_limits, failing(1, 1).failed().ended(FAILED)),
        (Limits(max_error_count=3), agent_respects_its_limits, looking(100)),
        (Limits(max_error_count=3), agent_uses_its_limits,
         asked().replied("", "a").started("a").result("a").ended(FAILED)),
    ],
)  # fmt: skip
def test_a_limit_that_an_agent_does_not_set_is_not_declared(
    limits: Limits, invariant: Invariant, run: Recording
) -> None:
    retry = declaring().retry
    assert run.found(invariant, Subject(limits=limits.declared, retry=retry)) == []
    assert run.found(invariant, Subject(limits=limits, retry=retry)) != []


@pytest.mark.parametrize(("waits_s", "finds"), [(4.5, 0), (5, 0), (4, 1), (6, 1)])
def test_an_agent_need_not_know_the_header_of_some_providers(waits_s: float, finds: int) -> None:
    run = asked().failed(429, retry_after="5", retry_after_ms="4500").after(waits_s).request([GO])
    assert len(run.found(agent_backoff_matches_policy, declaring())) == finds


@pytest.mark.parametrize(("reason", "finds"), [(FinishReason.LENGTH, 0), (FinishReason.STOP, 1)])
def test_a_reply_that_is_cut_off_may_count_as_a_failure_before_a_wait(
    reason: FinishReason, finds: int
) -> None:
    run = asked().text("So.").finish(reason).after(1).request([GO]).failed().after(2).request([GO])
    assert len(run.found(agent_backoff_matches_policy, declaring())) == finds


def test_an_agent_may_wait_an_hour_at_most() -> None:
    run = asked().failed(429, retry_after="9000").after(3_600).request([GO])
    assert run.found(retry_after_respected) == []


@pytest.mark.parametrize(("after_s", "finds"), [(100, 0), (101, 1)])
def test_no_request_is_sent_after_the_deadline_and_some_seconds(after_s: int, finds: int) -> None:
    run = asked().replied("", "a").after(after_s).request([*ASKED, returned("a")])
    found = run.found(
        agent_respects_its_limits, Subject(limits=Limits(max_wall_clock_ms=90_000).declared)
    )
    said = [
        "request 2 is sent 101.000s after the prompt; the agent declares max_wall_clock=90.000s"
    ]
    assert found == said[:finds]


def test_a_failure_that_is_told_as_an_answer_is_one() -> None:
    for run, finds in (
        (asked().failed().ended(text="I had to stop."), 1),
        (asked().replied("", "a").started("a").result("a").ended(text="Later."), 0),
    ):
        assert len(run.found(agent_uses_its_limits, declaring())) == finds


@pytest.mark.parametrize(("wait_s", "finds"), [(0.3, 0), (0.6, 1), (1, 0), (1.5, 1), (0.2, 1)])
def test_the_wait_of_a_policy_may_be_longer_than_the_one_that_is_asked_for(
    wait_s: float, finds: int
) -> None:
    run = asked().failed(429, retry_after="0.3").after(wait_s).request([GO])
    assert len(run.found(agent_backoff_matches_policy, declaring())) == finds


@pytest.mark.parametrize("asked_for", ["1e400", "soon"])
def test_an_agent_may_give_up_after_a_wait_that_cannot_be_read(asked_for: str) -> None:
    run = asked().failed(503, retry_after=asked_for).ended(FAILED)
    assert run.found(agent_uses_its_limits, declaring()) == []


def two_prompts(
    status: int = 500, *, message: str = "no more", wait_s: int = 0, result: str = "seen",
    sums: bool = False, hands_over: bool = False, is_too_long: bool = False,
) -> Recording:  # fmt: skip
    """A prompt goes on after a tool and a failure, and the next one fails there."""
    run, history = Recording(), list[Message]()
    for text, code in ("seen", 500), (result, status):
        run.prompt()
        if sums and history:
            run.request([UserMessage("Sum up.")], tools=[], purpose="summary").failed()
        run.request(history := [*history, GO]).replied("", "a").started("a").result("a", text)
        tools = ["pay"] if hands_over and run.requests > 2 else ["look"]
        history = [*history, said("", "a"), returned("a", text)]
        words = "prompt is too long" if is_too_long else "broken"
        run.request(history, tools=tools).failed(400 if is_too_long else code, words=words)
        if run.requests == 2:
            run.after(1).request(history).replied("Yes.").ended(text="Yes.")
            history = [*history, said("Yes.")]
    return run.after(wait_s).ended(FAILED, message=message)


def summed_amid() -> Recording:
    """A prompt goes on after two replies; a later one has one more, and a summary after it."""
    run, history = Recording().prompt(), list[Message]([GO])
    for _ in range(3):
        run.request(history).replied("Hm.")
        history = [*history, said("Hm."), GO]
    run.request(history).replied("Yes.").ended(text="Yes.").prompt()
    history = [*history, said("Yes."), GO]
    run.request(history).replied("Hm.")
    run.request([UserMessage("Go. Hm. Go.")], system_prompt="Sum up.", tools=[]).replied("Hm.")
    history = [UserMessage("Before: Hm."), GO]
    for _ in range(3):
        run.request(history).replied("Hm.")
        history = [*history, said("Hm."), GO]
    return run.ended(FAILED, message="no more")


def test_a_summary_that_fails_before_an_answer_is_no_answer_that_fails() -> None:
    run = Recording().prompt().request([GO, UserMessage("Sum up.")], tools=[]).failed().after(1)
    run.request([GO]).replied("Yes.").ended(text="Yes.").prompt()
    run.request([GO, said("Yes."), GO]).failed().ended(FAILED)
    assert run.found(prompts_go_on_alike) == []


@pytest.mark.parametrize("through", ["", "pydantic_ai"])
def test_a_stop_or_a_framework_may_end_a_prompt_where_another_went_on(through: str) -> None:
    run = two_prompts()
    ended = run.entries.pop()
    run = run if through else run.stop()
    run.add(entries.Ended, FAILED, "", "no more", "", ended.at_ns, through=through)
    assert run.found(prompts_go_on_alike) == []


@pytest.mark.parametrize(
    ("run", "finds"),
    [
        (two_prompts(), 1),
        (two_prompts(503), 0),
        (two_prompts(is_too_long=True), 0),
        (two_prompts(message="Please wait a minute"), 0),
        (two_prompts(wait_s=1), 1),
        (two_prompts(wait_s=2), 0),
        (two_prompts(result="gone"), 0),
        (two_prompts(sums=True), 0),
        (two_prompts(hands_over=True), 0),
        (failing(1, 1).failed().ended(FAILED), 0),
        (summed_amid(), 0),
    ],
)
def test_a_prompt_goes_on_where_the_one_before_it_has_gone_on(run: Recording, finds: int) -> None:
    found = run.found(prompts_go_on_alike)
    assert len(found) == finds
    assert all("fails (no more) where a run before it went on, after the" in each for each in found)


def test_a_prompt_may_wait_for_the_end_of_one_that_was_stopped() -> None:
    run = asked().stop().ended(Outcome.ABORTED).prompt().add(LockHeld, 8 * 10**8, "mine.py:3")
    assert run.found(no_lock_held_while_waiting) == []


@pytest.mark.parametrize(("after_s", "finds"), [(89, 1), (90, 0)])
def test_a_run_may_fail_at_its_deadline(after_s: int, finds: int) -> None:
    run = asked().replied("", "a").started("a").after(after_s).result("a")
    run.ended(FAILED, message="Error: TimeoutError")
    limits = Limits(max_steps=8, max_wall_clock_ms=90_000).declared
    assert len(run.found(agent_uses_its_limits, Subject(limits=limits))) == finds


@pytest.mark.parametrize("waited_s", [0, 1])
@pytest.mark.parametrize("late_s", [-124e-9, 124e-9])
def test_a_date_may_be_over_on_the_clock_of_a_program_and_on_ours_not_yet(
    late_s: float, waited_s: float
) -> None:
    run = Recording().prompt().request([GO]).after(1 + late_s)
    run.failed(429, retry_after="Thu, 01 Jan 2026 00:00:01 GMT").after(waited_s).request([GO])
    assert run.found(agent_backoff_matches_policy, declaring()) == []


def test_a_wait_that_no_clock_explains_is_found_after_a_date() -> None:
    run = asked().failed(429, retry_after="Thu, 01 Jan 2026 00:00:02 GMT").after(1).request([GO])
    (found,) = run.found(agent_backoff_matches_policy, declaring())
    assert (
        found
        == "request 2 is sent 1000 ms after request 1 failed, as failure 1 of the run, not 2000 ms"
    )


@pytest.mark.parametrize("status", [400, 413])
def test_a_rate_limit_that_its_words_alone_tell_may_be_retried(status: int) -> None:
    run = asked().failed(status, words="Too many tokens per minute").after(9).request([GO])
    assert run.found(no_retry_of_permanent_failure) == []


@pytest.mark.parametrize(
    ("status", "code", "is_found"),
    [
        (503, "context_length_exceeded", False),
        (429, "context_length_exceeded", False),
        (429, "insufficient_quota", True),
        (400, "context_length_exceeded", True),
        (400, "", True),
        (200, "", False),  # a body that is no reply
    ],
)
def test_a_status_that_passes_goes_before_a_code_that_no_provider_sends_with_it(
    status: int, code: str, *, is_found: bool
) -> None:
    run = asked().add(Error, 1, Fault("too long", code=code, status=status)).request([GO])
    assert bool(run.found(no_retry_of_permanent_failure, declaring())) is is_found


@pytest.mark.parametrize(
    ("source", "finds"),
    [
        ("from openai import OpenAI", 0),
        ("import anthropic", 0),
        ("openai.OpenAI(max_retries=0)", 1),
        ("import httpx", 1),
    ],
)
def test_an_sdk_tries_a_quota_again_by_itself(source: str, finds: int) -> None:
    fault = Fault("no credit", code="insufficient_quota", status=429)
    run, subject = asked().add(Error, 1, fault).request([GO]), declaring()
    subject.source = source
    assert len(run.found(no_retry_of_permanent_failure, subject)) == finds


@pytest.mark.parametrize(
    ("waited_s", "source", "finds"),
    [(0.7, "openai", 1), (0.76, "", 0), (1.24, "openai", 0), (1.24, "", 1), (1.3, "openai", 1)],
)
def test_an_agent_on_an_sdk_may_add_its_jitter(waited_s: float, source: str, finds: int) -> None:
    retry = ExponentialBackoff(initial_delay_ms=1_000, jitter=0.25)
    subject = Subject(retry=retry, source=source)
    assert len(failing(1, waited_s).found(agent_backoff_matches_policy, subject)) == finds


def waited(
    text: str = "Error: no answer within 20 s", *, during: str = "", waits_s: float = 20,
    other: str | None = None, prompts: bool = False,
) -> Recording:  # fmt: skip
    """A call has this result after a time in which nothing happens, or one thing `during` it."""
    ids = "a" if other is None else "ba"
    run = asked()
    for each in ids:
        run.call(each)
    run.finish()
    begun = {
        "service": (entries.ServiceRequest, 1, "https://b.example", "GET", "/b"),
        "program": (entries.ProgramStarted, 1, ("make",)),
        "sleep": (entries.Sleep, 20 * 10**9, "bot.py:7"),
        "tool": (entries.ToolStarted, "a", "look", "{}", True),
        "tool of the world": (entries.ToolStarted, "a", "look", "{}", False),
    }
    if during in begun:
        run.add(*begun[during])
    if during == "failure":
        run.add(*begun["service"]).add(entries.ServiceReply, 1, 503)
    if prompts:
        run.ended().after(waits_s).prompt("Next.")
    elif during == "restart":
        run.after(waits_s).add(entries.Restarted)
    elif during == "input":
        run.after(waits_s).add(entries.Input, "y", "Pay?")
    else:
        run.after(waits_s)
    if during == "another agent":
        run.request([UserMessage("Other.")], system_prompt="Translate.").replied("Autre.")
    results = [returned("b", other)] if other else []
    return run.request([GO, said("", *ids), *results, returned("a", text)])


@pytest.mark.parametrize(
    ("run", "finds"),
    [
        (waited(), 1),
        (waited("Error: broken off"), 0),
        (waited("Done."), 0),
        (waited("Error: broken off", other="It is offline."), 0),
        (waited(other="It is offline."), 1),
        (waited(during="service"), 0),
        (waited(during="program"), 0),
        (waited(during="sleep"), 0),
        (waited(during="failure"), 0),
        (waited(during="input"), 0),
        (waited(during="restart"), 0),
        (waited(during="tool of the world"), 0),
        (waited(during="tool"), 1),
        (waited(during="another agent"), 1),
        (waited(waits_s=4), 0),
        (waited(prompts=True), 0),
    ],
)
def test_a_call_does_not_run_out_of_time_while_nothing_runs(run: Recording, finds: int) -> None:
    found = run.found(calls_wait_for_something)
    assert len(found) == finds
    assert all("answers call 'a'" in each and "ran for 20.000s" in each for each in found)
    slow = Subject(scenario=Scenario(prompt="Go.", tools={"look": ScriptedTool(takes="20s")}))
    assert run.found(calls_wait_for_something, slow) == []
    assert run.found(calls_wait_for_something, Subject(source="import threading")) == []


@pytest.mark.parametrize(
    ("most_ms", "waited_s", "finds"),
    [(120_000, 3_600, 0), (120_000, 120, 0), (120_000, 1_800, 1), (60_000, 3_600, 1)],
)
def test_an_agent_that_declares_no_longest_wait_may_wait_as_long_as_it_is_asked(
    most_ms: int, waited_s: int, finds: int
) -> None:
    subject = Subject(retry=ExponentialBackoff(max_retry_after_ms=most_ms))
    run = asked().failed(429, retry_after="3600").after(waited_s).request([GO])
    assert len(run.found(agent_backoff_matches_policy, subject)) == finds


@pytest.mark.parametrize(
    ("waited_s", "source", "finds"),
    [(0, "openai", 0), (0, "", 1), (1, "openai", 0), (0.5, "openai", 1)],
)
def test_an_agent_on_an_sdk_may_ask_again_at_once_after_an_empty_reply(
    waited_s: float, source: str, finds: int
) -> None:
    run, subject = asked().finish().after(waited_s).request([GO]), declaring()
    subject.source = source
    assert len(run.found(agent_backoff_matches_policy, subject)) == finds


@pytest.mark.parametrize(
    ("asks_s", "declares", "finds"),
    [(9, False, 1), (11, False, 0), (11, True, 1), (61, True, 0)],
)
def test_an_agent_without_a_policy_may_have_no_patience(
    asks_s: int, finds: int, *, declares: bool
) -> None:
    subject = Subject(limits=Limits(max_steps=5, max_error_count=3))
    subject.retry = ExponentialBackoff() if declares else None
    run = asked().failed(503, retry_after=f"{asks_s}").ended(FAILED, message="busy")
    assert len(run.found(agent_uses_its_limits, subject)) == finds


def test_an_empty_reply_may_be_a_failure_for_the_backoff_or_not() -> None:
    run = asked().finish().request([GO, GO]).failed()
    for wait_s in (1, 2):
        again = copy.deepcopy(run).after(wait_s).request([GO, GO])
        assert again.found(agent_backoff_matches_policy, declaring()) == []


@pytest.mark.parametrize(
    ("invariant", "status"),
    [(retry_after_respected, 429), (repeated_retries_wait, 500),
     (no_retry_of_permanent_failure, 401)],
)  # fmt: skip
def test_another_model_may_be_asked_at_once(invariant: Invariant, status: int) -> None:
    def asks(*models: str) -> list[str]:
        run = asked()
        for model in models:
            run.failed(status, retry_after="9").request([GO], model=model)
        return run.found(invariant)

    assert asks("", "", "")
    assert not asks("second", "third", "fourth")


def test_the_model_may_ask_a_second_agent_again_for_what_failed() -> None:
    def helps(run: Recording) -> Recording:
        return run.request([UserMessage("Look.")], system_prompt="Help.")

    told = [*ASKED, returned("a", "403 Forbidden")]
    run = helps(asked().replied("", "a")).failed(403).request(told).replied("", "b")
    assert helps(run).found(no_retry_of_permanent_failure) == []
    run = helps(helps(asked().replied("", "a")).failed(403))
    assert run.found(no_retry_of_permanent_failure) != []


@pytest.mark.parametrize(("steps", "waits", "is_found"), [
    (1, False, False), (2, False, True), (1, True, False), (2, True, False),
])  # fmt: skip
def test_an_answer_in_the_last_declared_step_counts_unless_a_message_waits(
    steps: int, *, waits: bool, is_found: bool
) -> None:
    run = looking(steps - 1)
    if waits:
        run.queued("More.")
    run.replied("Done.").ended(FAILED, message="Error: GaveUp: the limit is 2 steps")
    assert bool(run.found(no_failure_after_an_answer, declaring())) is is_found


@pytest.mark.parametrize(("most", "is_found"), [(2, False), (3, True)])
def test_a_summary_that_fails_ends_no_run_and_the_last_step_may_have_no_tools(
    most: int, *, is_found: bool
) -> None:
    run = asked().replied("", "a").started("a").result("a").request([*ASKED, GO], tools=[]).failed()
    run.after(9).request([*ASKED, GO], tools=[]).failed().ended(FAILED)
    found = run.found(agent_uses_its_limits, Subject(limits=Limits(max_steps=most)))
    assert bool(found) is is_found
    assert not found or "over a request without tools" in found[0]
    run = asked().replied("", "a").started("a").result("a")
    run.request([*ASKED, returned("a")], tools=[]).finish().ended(FAILED)
    assert not run.found(agent_uses_its_limits, Subject(limits=Limits(max_steps=9)))


def test_a_request_with_another_system_prompt_is_no_retry() -> None:
    run = asked().failed(413, retry_after="9").request([GO], system_prompt="Answer.")
    assert run.found(retry_after_respected) == []


def test_an_agent_that_answers_by_a_tool_has_no_answer_in_a_text() -> None:
    limits = Subject(limits=Limits(max_steps=1))
    for tools, finds in (["look"], 1), (["look", "final_result"], 0):
        run = Recording().prompt().request([GO], tools=tools).replied("Yes.")
        run.ended(FAILED, message="the limit is reached")
        assert len(run.found(no_failure_after_an_answer, limits)) == finds


@pytest.mark.parametrize(
    ("text", "finds"),
    [
        ('{"text":"Yes."}', 1),
        ("{}", 0),
        ('{"text":""}', 0),
        ('{"text":" "}', 0),
        ('{"of":[]}', 0),
        ("Yes.", 0),
    ],
)
def test_an_agent_may_want_more_than_an_empty_text_in_an_object(text: str, finds: int) -> None:
    run = asked()
    run.entries[-1] = structs.replace(run.entries[-1], output=StructuredOutput(Raw(b"{}")))
    run.replied(text).ended(FAILED, message="the answer has no text")
    assert len(run.found(no_failure_after_an_answer)) == finds


def test_a_call_of_a_tool_that_nobody_offers_is_no_part_of_an_answer() -> None:
    run = Recording().prompt().request([GO], tools=[]).replied("", "a")
    run.request([UserMessage("A part.")], tools=[]).replied("Yes.").ended(FAILED, message="a call")
    assert run.found(no_failure_after_an_answer) == []
    run = Recording().prompt().request([GO], tools=[]).text("Yes.").replied("", "a")
    assert run.ended(text="Yes.").found(completed_without_open_calls) == []


def test_an_answer_to_one_part_is_none_to_a_part_whose_request_has_failed() -> None:
    for again, finds in (UserMessage("A part."), 0), (GO, 1):
        run = asked().failed(401).request([again]).replied("Yes.").ended(FAILED)
        assert len(run.found(no_failure_after_an_answer)) == finds


def test_an_agent_may_give_up_when_its_user_has_left() -> None:
    for ends, finds in (True, 0), (False, 1):
        run = asked().replied("", "a").started("a").add(Input, "", "Name? ", ends).result("a")
        run.ended(FAILED, message="nobody is there")
        assert len(run.found(agent_uses_its_limits, declaring())) == finds


def test_a_request_of_another_conversation_is_no_retry() -> None:
    run = asked().failed(429, retry_after="9").request([UserMessage("A task.")])
    for each in (retry_after_respected, repeated_retries_wait, no_retry_of_permanent_failure):
        assert run.found(each) == []


def test_a_reply_that_was_cut_off_may_be_asked_for_again_whatever_its_status() -> None:
    for code, is_found in (("interrupted", False), ("bad_request", True)):
        run = asked().add(Error, 1, Fault("broken off", code=code, status=400)).request([GO])
        assert bool(run.found(no_retry_of_permanent_failure)) is is_found


def test_a_failed_request_with_another_system_prompt_or_other_tools_is_not_repeated() -> None:
    for changed in ({"system_prompt": "Be brief."}, {"tools": ["read"]}):
        run = asked().failed(401).request([GO], **changed)
        assert run.found(no_retry_of_permanent_failure) == []


@in_cases([
    looking(2).replied("", "c").started("c").result("c", "Error: full", is_error=True)
     .ended(FAILED, message="Error: the tool 'look' exceeded its 3 retries"),
    looking(1).replied("", "a").ended(FAILED, message="Error: GaveUp: the limit is 1 look"),
    asked().replied("", "a").started("a").result("a", "Error: full", is_error=True)
     .request([*ASKED, returned("a", "Error: full")]).replied("", "b").started("b").ended(FAILED),
    asked().call("a", name="other").finish(FinishReason.TOOL_CALLS).ended(FAILED),
])  # fmt: skip
def test_an_agent_may_have_other_bounds_and_give_up_where_a_tool_fails_again(
    run: Recording,
) -> None:
    roomy = Subject(limits=Limits(max_steps=9, max_error_count=9))
    assert run.found(agent_uses_its_limits, roomy) == []


def test_a_request_for_a_summary_need_not_count_as_a_step() -> None:
    summed = [*ASKED, returned("a"), UserMessage("Sum up.")]
    run = asked().replied("", "a").started("a").result("a").request(summed, tools=[])
    for _ in range(3):
        run.failed().after(9).request(summed, tools=[])
    run.replied("They looked.").request([*ASKED, returned("a")])
    assert run.found(agent_respects_its_limits, declaring()) == []
    assert run.failed().ended(FAILED).found(agent_uses_its_limits, declaring()) == []


@pytest.mark.parametrize(
    ("message", "most", "finds"),
    [("too many steps", 8, 1), ("too many calls", 8, 0), ("too many steps", 2, 0)],
)
def test_a_count_of_steps_that_goes_on_is_no_bound(message: str, most: int, finds: int) -> None:
    run = looking(2).ended().prompt().request([GO]).replied("", "c").ended(FAILED, message=message)
    assert len(run.found(agent_uses_its_limits, Subject(limits=Limits(max_steps=most)))) == finds


@pytest.mark.parametrize("most_errors", [9, inf])
def test_an_empty_reply_may_count_as_an_error_and_not_as_a_step(most_errors: float) -> None:
    run = asked().finish().after(1).request([GO]).replied("", "a").started("a").result("a")
    run.request([*ASKED, returned("a")])
    limits = DeclaredLimits(max_steps=2, max_error_count=most_errors)
    assert run.found(agent_respects_its_limits, Subject(limits=limits)) == []


def test_blanks_may_be_an_answer() -> None:
    assert asked().text(" ").finish().ended(text=" ").found(no_empty_answers, declaring()) == []


def test_a_retry_after_of_no_time_may_be_obeyed() -> None:
    for asks, (waits_s, finds) in product(("0", "-3"), ((0, 0), (1, 0), (0.5, 1))):
        run = asked().failed(429, retry_after=asks).after(waits_s).request([GO])  # the policy: 1 s
        assert len(run.found(agent_backoff_matches_policy, declaring())) == finds


@pytest.mark.parametrize(("summaries", "finds"), [(2, 1), (3, 0)])
def test_summaries_of_no_use_may_use_up_the_errors(summaries: int, finds: int) -> None:
    run = asked().replied("", "a").started("a").result("a")
    for _ in range(summaries):
        run.request([GO], purpose="summary").text("In").finish(FinishReason.LENGTH)
    limits = DeclaredLimits(max_steps=9, max_error_count=3)
    found = run.ended(FAILED).found(agent_uses_its_limits, Subject(limits=limits))
    assert len(found) == finds


@pytest.mark.parametrize(("status", "finds"), [(520, 0), (502, 1)])
def test_a_status_that_no_provider_documents_may_end_a_run(status: int, finds: int) -> None:
    run = asked().failed(status).ended(FAILED)
    assert len(run.found(agent_uses_its_limits, declaring())) == finds


def test_a_reply_that_is_cut_off_may_count_as_an_error() -> None:
    limits = Limits(max_steps=9, max_error_count=3)
    for run, finds in (asked().text("Some").finish(FinishReason.LENGTH), 0), (asked().failed(), 1):
        run.after(1).request([GO])
        for _ in range(1 - finds):
            run.failed().after(1).request([GO])
        subject = Subject(limits=limits, retry=declaring().retry)
        assert len(run.failed().ended(FAILED).found(agent_uses_its_limits, subject)) == finds


@pytest.mark.parametrize(
    ("code", "source", "finds"),
    [
        ("connection", "", 1),
        ("overloaded_error", "import anthropic", 1),
        ("overloaded_error", "import openai", 0),
        ("timeout", "", 0),
    ],
)
def test_a_connection_that_is_lost_can_be_retried_and_so_can_an_overload_of_anthropic(
    code: str, source: str, finds: int
) -> None:
    run = asked().add(Error, 1, Fault("It is away.", code=code)).ended(FAILED)
    subject = Subject(limits=Limits(max_steps=9, max_error_count=3), source=source)
    assert len(run.found(agent_uses_its_limits, subject)) == finds


@pytest.mark.parametrize(
    ("retry_after", "code", "finds"),
    [
        (None, "", 1), (None, "context_length_exceeded", 0),
        ("2", "", 1), ("0.25", "", 0), ("61", "", 0), ("soon", "", 0),
    ],
)  # fmt: skip
def test_a_code_and_an_odd_wait_may_end_a_run(
    retry_after: str | None, code: str, finds: int
) -> None:
    headers = () if retry_after is None else (("retry-after", retry_after),)
    fault = Fault("It is busy.", status=503, code=code, headers=headers)
    run = asked().add(Error, 1, fault).ended(FAILED)
    subject = Subject(limits=Limits(max_steps=9, max_error_count=3))
    assert len(run.found(agent_uses_its_limits, subject)) == finds


@pytest.mark.parametrize(("calls", "finds"), [(["a"], 0), ([], 1)])
def test_a_reply_that_is_asked_for_again_may_count_as_an_error(
    calls: list[str], finds: int
) -> None:
    run = asked()
    for each in calls:
        run.replied("", each).request([GO])
    run.failed().request([GO]).failed().ended(FAILED)
    subject = Subject(limits=Limits(max_steps=9, max_error_count=3))
    assert len(run.found(agent_uses_its_limits, subject)) == finds


@pytest.mark.parametrize(
    ("status", "words", "message", "finds"),
    [
        (429, "too many tokens", "This is too long for the model.", 1),
        (429, "too many tokens", "The model is busy.", 0),
        (429, "it is too long for a minute", "Error 429: it is too long for a minute", 0),
        (429, "slow down", "A wait of an hour is too long.", 0),
        (400, "too many tokens", "This is too long for the model.", 0),
    ],
)
def test_a_limit_of_the_rate_is_not_told_as_a_conversation_that_is_too_long(
    status: int, words: str, message: str, finds: int
) -> None:
    run = asked().failed(status, words=words).ended(FAILED, message=message)
    limits = Limits(max_error_count=3)
    assert len(run.found(agent_uses_its_limits, Subject(limits=limits))) == finds


@pytest.mark.parametrize(("most", "finds"), [(2, 0), (9, 1)])
def test_each_try_may_count_as_a_step(most: int, finds: int) -> None:
    run = looking(1).failed().after(1).request([*ASKED, returned("a")]).replied("", "b")
    run.started("b").result("b").ended(FAILED, message="no answer after 2 replies")
    limits = Limits(max_steps=most + 1, max_error_count=9)
    assert len(run.found(agent_uses_its_limits, Subject(limits=limits))) == finds


@pytest.mark.parametrize(
    ("limits", "cuts", "finds"),
    [
        (Limits(max_steps=3, max_error_count=4), 3, 0),
        (Limits(max_steps=3, max_error_count=4), 4, 1),
        (Limits(max_steps=3).declared, 3, 0),
        (Limits(max_steps=3).declared, 6, 1),
    ],
)
def test_a_reply_that_is_cut_off_counts_as_a_step_or_as_an_error(
    limits: Limits, cuts: int, finds: int
) -> None:
    run = asked()
    for _ in range(cuts):
        run.text("Some").finish(FinishReason.LENGTH).request([GO])
    assert len(run.found(agent_respects_its_limits, Subject(limits=limits))) == finds


@pytest.mark.parametrize(("blanks", "finds"), [(1, 0), (3, 0), (4, 1)])
def test_a_blank_reply_before_a_message_counts_as_a_step_or_as_an_error(
    blanks: int, finds: int
) -> None:
    run, sent = asked(), [GO]
    for _ in range(blanks):
        sent = [*sent, UserMessage("Well?")]
        run.text(" ").finish().request(sent)
    limits = Limits(max_steps=blanks, max_error_count=4)
    assert len(run.found(agent_respects_its_limits, Subject(limits=limits))) == finds


@pytest.mark.parametrize(("empty", "finds"), [(5, 0), (6, 1)])
def test_who_declares_no_number_of_errors_asks_a_few_times_again(empty: int, finds: int) -> None:
    run = asked()
    for _ in range(empty):
        run.finish().after(1).request([GO])
    limits = Limits(max_steps=empty).declared
    assert len(run.found(agent_respects_its_limits, Subject(limits=limits))) == finds


@pytest.mark.parametrize(("summaries", "finds"), [(1, 1), (2, 0)])
def test_the_failures_of_summaries_may_count_as_errors(summaries: int, finds: int) -> None:
    run = asked().failed(503).after(1)
    for _ in range(summaries):
        run.request([GO, UserMessage("Sum up.")], purpose="summary", tools=[]).failed().after(1)
    run.request([GO]).failed(503).ended(FAILED, message="no more")
    limits = Limits(max_steps=9, max_error_count=4)
    assert len(run.found(agent_uses_its_limits, Subject(limits=limits))) == finds


@pytest.mark.parametrize(("tools", "plans"), [([], True), (["look"], False), (None, False)])
def test_a_request_for_a_plan_is_none_for_a_summary(
    tools: list[str] | None, *, plans: bool
) -> None:
    run = Recording().prompt()
    if tools is not None:
        run = run.request([GO], tools=tools)
        run = run.failed(503).after(1) if tools else run.replied("Plan.")
    history = [*ASKED, returned("a"), UserMessage("And?")]
    run.request([GO]).replied("", "a").started("a").result("a").request(history, tools=[])
    run.failed(401).ended(FAILED, message="no more")
    found = run.found(agent_uses_its_limits, Subject(limits=Limits(max_steps=9)))
    assert bool(found) is not plans


def test_a_plan_is_no_answer() -> None:
    run = asked().replied("", "a").started("a").result("a")
    for tools, finds in ([], 0), (["look"], 1):
        ended = copy.deepcopy(run).request([*ASKED, returned("a")], tools=tools).replied("Plan.")
        ended.ended(FAILED, message="no more")
        assert len(ended.found(no_failure_after_an_answer)) == finds


@pytest.mark.parametrize(("outlives", "finds"), [({}, 1), ({"outlives_cancel": "1ms"}, 0)])
def test_a_tool_that_outlives_its_end_outlives_a_deadline(
    outlives: dict[str, str], finds: int
) -> None:
    given = {"prompt": "Go.", "model": [{"say": "Hi."}], "tools": {"look": outlives}}
    run = asked().replied("", "a").after(101).request([*ASKED, returned("a")])
    limits = Limits(max_wall_clock_ms=90_000).declared
    subject = Subject(limits=limits, scenario=Scenario.model_validate(given))
    assert len(run.found(agent_respects_its_limits, subject)) == finds


def test_the_failures_of_a_summary_need_not_count() -> None:
    run = asked().replied("Yes.").ended().prompt("And?")
    for _ in range(3):
        run.request([GO, UserMessage("Sum up.")], tools=[]).failed().after(9)
    run.request([GO, UserMessage("And?")])
    assert run.found(agent_respects_its_limits, declaring()) == []


def test_an_empty_reply_may_be_the_end_where_no_errors_are_counted() -> None:
    run = asked().finish().ended()
    assert run.found(no_empty_answers, Subject(limits=DeclaredLimits(max_steps=9))) == []


def test_a_run_that_ends_after_an_empty_reply_may_have_the_words_of_one_before() -> None:
    run = asked().replied("Done.", "a").request([GO]).finish().ended(text="Done.")
    assert run.found(no_empty_answers, declaring()) == []


def test_a_stopped_run_may_fail_while_a_retry_is_left() -> None:
    assert asked().failed().stop().ended(FAILED).found(agent_uses_its_limits, declaring()) == []


TASK = UserMessage("A task.")


@pytest.mark.parametrize(
    "run",
    [
        asked().failed(503).after(3_600).request([GO]),
        asked().failed(429).after(5_000).request([GO]),  # the quota of the day is used up
        asked().failed(429, retry_after="86400").after(86_400).request([GO]),
        asked().failed(503, retry_after="in two hours").after(7_200).request([GO]),
        asked().failed(503).after(5_000).request([TASK]),
        asked().failed(503).after(5_000).request([GO, TASK]),
        looking(1).after(5_000).request([GO]),
        asked().finish().after(5_000).request([GO]),
        Recording().prompt().request([GO, GO, TASK]).failed(503).after(5_000).request([GO]),
    ],
)
def test_a_long_wait_that_a_failure_explains_is_not_found(run: Recording) -> None:
    assert run.found(retry_after_respected) == []


def test_a_wait_of_over_a_minute_that_a_failure_asks_for_need_not_be_kept() -> None:
    run = asked().failed(429, retry_after="61").after(9).request([GO])
    assert run.found(retry_after_respected) == []


def test_a_declared_policy_may_wait_for_hours() -> None:
    run = asked().failed(503).after(5_000).request([GO])
    assert run.found(retry_after_respected, declaring()) == []


@pytest.mark.parametrize(
    "run",
    [
        asked().ended(FAILED, message="Error: ValueError: no key"),
        asked().ended(FAILED, message="Error: KeyErrorOfMine: gone"),
        asked().ended(FAILED, message="the KeyError: 'x' was handled"),
        asked().replied("KeyError: 'x'").ended(text="KeyError: 'x'"),
        asked().stop().ended(Outcome.ABORTED, message="Error: KeyError: 'x'"),
    ],
)
def test_an_error_that_an_agent_means_to_raise_is_no_mistake(run: Recording) -> None:
    assert run.found(no_mistake_in_the_code) == []


@pytest.mark.parametrize(
    ("expects", "is_found"),
    [({"outcome": "failed"}, False), ({"outcome": "completed"}, True),
     ({"outcomes": ["completed", "failed"]}, False), ({"outcomes": ["completed"]}, True)],
)  # fmt: skip
def test_a_mistake_that_is_expected_is_none(expects: dict[str, Any], *, is_found: bool) -> None:
    expected = Expect.model_validate(expects)
    run = asked().ended(FAILED, message="Error: KeyError: 'x'")
    assert bool(run.found(no_mistake_in_the_code, Subject(expected=expected))) is is_found


def test_mistakes_of_different_kinds_are_different_failures_whatever_was_called_before() -> None:
    def group(text: str, *calls: str) -> Group:
        run = asked().replied("", *calls).ended(FAILED, message=f"Error: {text}")
        (found,) = run.found(no_mistake_in_the_code)
        return Group.of("no-mistake-in-the-code", found)

    assert group("KeyError: 'x'", "a") == group("KeyError: 'y'")
    assert group("AssertionError", "a") == group("AssertionError") == group("AssertionError: b")
    assert group("KeyError: 'x'") != group("AssertionError")


def test_a_machine_is_not_judged_as_an_agent() -> None:
    machine: Machine = ReferenceLoop()
    reasons = choose(Subject(machine=machine), [repeated_retries_wait]).unjudged
    assert reasons == {
        "repeated-retries-wait": "the loop is a machine, and the invariant is for other agents"
    }


def prompted_again() -> Recording:
    return asked().replied("Yes.").ended().prompt("Next.")


def test_a_further_prompt_that_fails_before_the_model_is_asked_is_found() -> None:
    unusable = prompted_again().ended(FAILED, message="Error: call a has no result")
    assert unusable.found(further_prompts_reach_the_model) == [
        "the run of the prompt 'Next.' sends no request: Error: call a has no result"
    ]


@pytest.mark.parametrize(
    "run",
    [
        prompted_again().request([GO]).failed().ended(FAILED),
        prompted_again().stop().ended(FAILED),
        prompted_again().ended(),
        prompted_again().ended(FAILED, message="Error: it is down, try again in a minute"),
        Recording().prompt().ended(FAILED).prompt("Next.").ended(FAILED),
    ],
)
def test_a_run_that_asks_or_that_never_could_is_not_found(run: Recording) -> None:
    assert run.found(further_prompts_reach_the_model) == []


SYSTEM = "Be kind.\n\nBe short."


@pytest.mark.parametrize(
    ("system", "messages", "times"),
    [
        (f"{SYSTEM}\n\n{SYSTEM}", [GO], 1),
        ("Be kind.\n\nBe kind.", [GO], 1),
        (SYSTEM, [UserMessage(SYSTEM), GO], 1),
        (SYSTEM, [GO], 0),
        ("", [UserMessage(""), GO], 0),
        (SYSTEM, [UserMessage(f"{SYSTEM} Go."), said(SYSTEM), GO], 0),
        (f"{SYSTEM}\n\nBe kind.", [GO], 0),
    ],
)
def test_a_system_prompt_stands_once(system: str, messages: list[Message], times: int) -> None:
    run = Recording().prompt().request(messages, system_prompt=system)
    assert len(run.found(one_system_prompt)) == times


@pytest.mark.parametrize(
    ("texts", "finds"),
    [
        (["No.", "No.", "No."], 1),
        (["No.", "No.", "Nothing."], 0),
        (["Yes or no?"] * 3, 0),
        (["Please wait."] * 3, 0),
    ],
)
def test_prompts_in_a_row_do_not_end_with_one_text_without_a_request(
    texts: list[str], finds: int
) -> None:
    run = asked().replied("Done.").ended(text="Done.")
    for text in texts:
        run.prompt("More.").ended(text=text)
    assert len(run.found(further_prompts_reach_the_model)) == finds


@pytest.mark.parametrize(("status", "finds"), [(3, 0), (0, 1)])
def test_a_program_of_the_agents_own_may_fail_after_the_answer(status: int, finds: int) -> None:
    def saves(run: Recording, number: int) -> Recording:
        run.add(entries.ProgramStarted, number, ("git", "commit"))
        return run.add(entries.ProgramEnded, number, status).ended(FAILED, message="git failed")

    run = saves(asked().replied("Done."), 1)
    assert len(run.found(no_failure_after_an_answer)) == finds
    assert len(saves(run.prompt("More."), 2).found(further_prompts_reach_the_model)) == finds


@pytest.mark.parametrize(("retried", "finds"), [(0, 1), (1, 0)])
def test_a_reply_whose_calls_are_of_no_use_may_be_asked_for_again(retried: int, finds: int) -> None:
    """Of three replies, an agent may count those that it has left out, or not."""
    run = asked()
    for _ in range(retried):
        run.replied("", "x").request([GO])
    history: list[Message] = [GO]
    for call_id in ("a", "b", "c")[retried:]:
        history += [said("", call_id), returned(call_id)]
        run.replied("", call_id).started(call_id).result(call_id).request(history)
    limits = Limits(max_steps=3).declared
    assert len(run.found(agent_respects_its_limits, Subject(limits=limits))) == finds


@pytest.mark.parametrize(
    ("code", "finds"), [("", 1), ("previous_response_not_found", 0), ("overloaded_error", 0)]
)
def test_a_provider_may_have_forgotten_what_a_request_goes_on_from(code: str, finds: int) -> None:
    run = asked().add(Error, 1, Fault("broken", status=400, code=code)).after(1).request([GO])
    assert len(run.found(no_retry_of_permanent_failure)) == finds


@pytest.mark.parametrize(("source", "finds"), [("ToolOutput(Answer)", 0), ("Agent(Answer)", 1)])
def test_an_agent_that_asks_for_a_call_takes_no_text_for_an_answer(source: str, finds: int) -> None:
    run = asked().replied("Yes.").ended(FAILED, message="no more")
    assert len(run.found(no_failure_after_an_answer, Subject(source=source))) == finds


@pytest.mark.parametrize(("after_s", "finds"), [(59, 0), (60, 1)])
def test_a_provider_that_asks_for_a_wait_need_not_be_asked_before(after_s: int, finds: int) -> None:
    run = asked().failed(429, retry_after="60").ended(FAILED, message="busy").after(after_s)
    run.prompt("Next.").ended(FAILED, message="Error: busy")
    assert len(run.found(further_prompts_reach_the_model)) == finds
    run = asked().failed(429).ended(FAILED, message="busy").prompt("Next.")
    assert run.ended(FAILED, message="Error: busy").found(further_prompts_reach_the_model)


@pytest.mark.parametrize(("ids", "waited_s", "finds"), [("a", 2, 0), ("", 2, 1), ("a", 1, 0)])
def test_calls_in_place_of_a_summary_may_count_as_a_failure(
    ids: str, waited_s: int, finds: int
) -> None:
    run, more = asked().replied("Yes.").ended(text="Yes.").prompt("More."), UserMessage("More.")
    run.request([GO, UserMessage("Sum up.")], tools=[]).replied("So." * (not ids), *ids)
    run.request([GO, said("Yes."), more]).failed(503).after(waited_s)
    run.request([GO, said("Yes."), more])
    assert len(run.found(agent_backoff_matches_policy, declaring())) == finds


@pytest.mark.parametrize(("code", "finds"), [("", 0), ("invalid_api_key", 1)])
def test_a_failure_without_a_status_and_a_code_may_pass(code: str, finds: int) -> None:
    run = asked().add(Error, 1, Fault("broken", code=code)).after(1).request([GO])
    assert len(run.found(no_retry_of_permanent_failure, declaring())) == finds


def test_calls_of_tools_do_not_count_as_failures() -> None:
    run, history = asked().replied("", "a").started("a").result("a"), [*ASKED, returned("a")]
    run.request(history).failed(503).after(2).request(history)
    assert run.found(agent_backoff_matches_policy, declaring())


@pytest.mark.parametrize(("later_s", "finds"), [(0, 0), (2, 1)])
def test_an_agent_that_waits_for_what_its_user_types_serves_nobody_else(
    later_s: int, finds: int
) -> None:
    run = asked().after(2).add(Input, "y", "Go on?").after(later_s)
    run.add(LoopBlocked, 2 * 10**9, "mine.py:3 in look")
    assert len(run.found(event_loop_not_blocked)) == finds


@pytest.mark.parametrize(
    ("status", "words", "finds"), [(413, "In", 0), (413, "", 1), (401, "In", 1)]
)
def test_a_request_that_was_too_long_may_come_again_after_a_summary(
    status: int, words: str, finds: int
) -> None:
    run = asked().failed(status, words="prompt is too long")
    run.request([UserMessage("Sum it up.")], purpose="summary")
    run = run.replied(words) if words else run.failed(503)
    found = run.request([GO]).found(no_retry_of_permanent_failure)
    assert len(found) == finds
