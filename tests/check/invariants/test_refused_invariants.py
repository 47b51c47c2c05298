from incases import in_cases
from recording import Recording, of_machine

from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.tools import (
    no_tools_for_broken_replies,
    only_offered_tools_run,
)
from simloop.messages import FinishReason, UserMessage
from simloop.trace import entries

GO = UserMessage("Go.")


def called(*tools: str) -> Recording:
    """A run whose first reply calls the tool `look`, and has not ended."""
    return Recording().prompt().request([GO], tools=tools or ["look"]).call("a")


BAD: list[tuple[Invariant, Recording, Subject, str]] = [
    (no_tools_for_broken_replies, called().finish(FinishReason.LENGTH).started("a"), Subject(),
     "its reply ended with length"),
    (no_tools_for_broken_replies, called().failed().started("a"), Subject(), "its reply failed"),
    (no_tools_for_broken_replies,
     called().finish().started("a").result("a").request([GO]).call("a").failed().started("a"),
     Subject(), "its reply failed"),
    (no_tools_for_broken_replies, called().cut().started("a"), of_machine(), "its reply failed"),
    (no_tools_for_broken_replies, called().finish(FinishReason.ERROR).started("a"), of_machine(),
     "its reply ended with error"),
    (only_offered_tools_run, called("read").finish(FinishReason.TOOL_CALLS).started("a"), Subject(),
     "request 1 did not offer it"),
    (only_offered_tools_run,
     Recording().prompt().request([GO], tools=[]).replied("", "a").started("a"), of_machine(),
     "request 1 did not offer it"),
]  # fmt: skip


@in_cases(BAD)
def test_a_tool_that_runs_for_a_call_that_must_not_run_is_found(
    invariant: Invariant, run: Recording, subject: Subject, why: str
) -> None:
    (found,) = run.found(invariant, subject)
    assert why in found


GOOD: list[tuple[Invariant, Recording, Subject]] = [
    (no_tools_for_broken_replies, run, Subject())
    for run in (
        called().finish(FinishReason.TOOL_CALLS).started("a"),
        called().finish(FinishReason.STOP).started("a"),
        called().started("a"),
        # Two calls with one id: the tool runs for the one that may run.
        called().failed().request([GO]).call("a").finish(FinishReason.STOP).started("a"),
        called().finish(FinishReason.STOP).request([GO]).call("a").failed().started("a"),
    )
] + [
    (only_offered_tools_run, called().started("a").result("a"), of_machine()),
    (
        only_offered_tools_run,
        Recording().prompt().request([GO], tools=[]).replied("", "a").started("a"),
        Subject(),
    ),
]


@in_cases(GOOD)
def test_a_tool_that_runs_for_a_call_that_may_run_is_not_found(
    invariant: Invariant, run: Recording, subject: Subject
) -> None:
    assert run.found(invariant, subject) == []


def test_a_call_that_the_engine_has_renamed_was_offered_under_its_new_id() -> None:
    run = called().call("a")
    run.add(entries.CallRenamed, "a", "a#2", "look").finish(FinishReason.TOOL_CALLS)
    assert run.started("a").started("a#2").found(only_offered_tools_run, of_machine()) == []
