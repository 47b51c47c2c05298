import pytest
from recording import Recording, of_machine

from oracle.grammar import (
    elapsed_time_matches_trace,
    entries_in_order,
    no_parts_after_reply_end,
    one_result_per_tool_start,
    runs_begin_and_end,
)
from simloop.check.invariants.invariant import Invariant
from simloop.messages import Outcome, UserMessage
from simloop.trace import entries

GO = UserMessage("Go.")
DONE = Outcome.COMPLETED


def asked() -> Recording:
    return Recording().prompt().request([GO])


def misplaced(seq: int, at_ns: int) -> Recording:
    run = Recording().prompt().after(1).request([GO])
    run.entries.append(entries.ToolResult(seq, at_ns, "a", "look", "seen"))
    return run


@pytest.mark.parametrize(
    ("invariant", "run", "why"),
    [
        (entries_in_order, misplaced(1, 1_000_000_000), "entry 1 comes after entry 1"),
        (entries_in_order, misplaced(3, 5), "the time goes back"),
        (runs_begin_and_end, Recording().request([GO]), "a Request entry comes between two runs"),
        (runs_begin_and_end, asked().prompt(), "a prompt comes before the run"),
        (runs_begin_and_end, asked().ended().ended(), "a Ended entry comes between two runs"),
        (runs_begin_and_end, asked().ended().result("a"), "a ToolResult entry comes between"),
        (no_parts_after_reply_end, asked().replied("Yes.").text("No.").ended(),
         "a TextDelta entry (entry 4) arrives after the reply's end"),
        (no_parts_after_reply_end, asked().failed().cut().request([GO]), "a StreamCut entry"),
        (no_parts_after_reply_end, asked().cut().call("a").ended(), "a ToolCall entry"),
        (one_result_per_tool_start, asked().result("a"), "no tool of it runs"),
        (one_result_per_tool_start, asked().started("a").result("a").result("a"), "no tool of it"),
        (elapsed_time_matches_trace, asked().after(1).add(entries.Ended, DONE, "", "", "", 5),
         "took 5 ns, and it took 1000000000 ns"),
    ],
)  # fmt: skip
def test_a_trace_in_a_wrong_order_is_found(invariant: Invariant, run: Recording, why: str) -> None:
    (found,) = run.found(invariant)
    assert why in found


@pytest.mark.parametrize(
    "invariant",
    [
        entries_in_order,
        runs_begin_and_end,
        no_parts_after_reply_end,
        one_result_per_tool_start,
        elapsed_time_matches_trace,
    ],
)
def test_a_trace_in_the_right_order_is_not_found(invariant: Invariant) -> None:
    run = Recording().prompt().after(1).request([GO]).replied("", "a", "b")
    run.started("a").started("b").after(1).result("b").result("a")
    run.result("c", "Error: tool c not found", is_error=True)
    run.request([GO]).text("Ha").failed().after(2).request([GO]).replied("Done.")
    run.ended(text="Done.").queued("Next.").after(1).prompt("Next.").request([GO]).cut()
    assert run.stop().ended(Outcome.ABORTED).found(invariant) == []


def test_a_tool_of_an_agent_may_return_once_in_a_later_run() -> None:
    def run(results: int) -> Recording:
        made = asked().replied("", "a").started("a").stop().ended(Outcome.ABORTED).prompt()
        made.request([GO]).replied("", "a").started("a").result("a")
        for _ in range(results - 1):
            made.result("a")
        return made

    assert run(2).found(one_result_per_tool_start) == []
    assert run(3).found(one_result_per_tool_start)
    assert run(2).found(one_result_per_tool_start, of_machine())


def test_a_tool_that_outlives_a_stop_may_end_between_two_runs_of_an_agent() -> None:
    stopped = asked().started("a").after(1).stop().ended(Outcome.ABORTED)
    again = stopped.prompt("Again.").request([GO]).replied("Yes.").ended()
    assert again.result("a").found(runs_begin_and_end) == []
