"""A context by script: its words in order, the last one for ever, and nothing is taken away."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from builders import counters_of
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop import Outcome, Result, run
from simloop.engine.compaction import Compacted, ScriptedContext
from simloop.engine.context import History
from simloop.engine.settings import ContextScript
from simloop.kernel.policies import utf8_bytes_over_4
from simloop.messages import UserMessage
from simloop.scenario.loader import parse_scenario
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder
from simloop.virtual.simulate import run_virtual, running_loop

SEEDED = settings(derandomize=True)
WORDS = st.lists(st.booleans(), max_size=6).map(tuple)
T = TypeVar("T")


def inside(main: Coroutine[Any, Any, T]) -> T:
    return run_virtual(main)


async def asked(script: ContextScript, times: int) -> tuple[list[bool], list[Compacted], History]:
    """Ask a context that is so many times how full it is, and have it shortened as often."""
    history = History((UserMessage("What does README.md say?"),), utf8_bytes_over_4)
    record: list[AnyEntry] = []
    context = ScriptedContext(script, history, Recorder(record, running_loop()))
    over = [context.over() for _ in range(times)]
    done = [await context.shorten(forced=bool(number % 2)) for number in range(times)]
    told = [entry for entry in record if isinstance(entry, entries.Compaction)]
    assert [(e.tokens_before, e.tokens_after) for e in told] == [
        (one.tokens_before, one.tokens_after) for one in done
    ]
    assert [e.forced for e in told] == [bool(number % 2) for number in range(times)]
    return over, done, history


@SEEDED
@given(over=WORDS, shrunk=WORDS, times=st.integers(0, 10))
def test_the_words_are_played_in_order_and_the_last_one_for_ever(
    over: tuple[bool, ...], shrunk: tuple[bool, ...], times: int
) -> None:
    measured, done, _ = inside(asked(ContextScript(over=over, shrunk=shrunk), times))
    assert measured == [(*over, *over[-1:] * 10)[n] if over else False for n in range(times)]
    gained = [one.shrunk for one in done]
    assert gained == [(*shrunk, *shrunk[-1:] * 10)[n] if shrunk else True for n in range(times)]


def test_without_words_it_is_never_over_and_a_compaction_gains() -> None:
    over, done, _ = inside(asked(ContextScript(), 3))
    assert (over, [one.shrunk for one in done]) == ([False] * 3, [True] * 3)


def test_a_compaction_takes_nothing_away() -> None:
    _, _, history = inside(asked(ContextScript(shrunk=(True, False)), 3))
    assert history.messages == [UserMessage("What does README.md say?")]


def test_two_contexts_of_one_script_do_not_use_up_each_others_words() -> None:
    script = ContextScript(over=(True, False))

    async def both() -> list[list[bool]]:
        return [played[0] for played in await asyncio.gather(asked(script, 2), asked(script, 2))]

    assert inside(both()) == [[True, False]] * 2


# ---------------------------------------------------------------------- in a run


def compacting(context: str, **limits: int) -> Result:
    bounds = ", ".join(f"{name}: {value}" for name, value in limits.items())
    return run(
        parse_scenario(f"""
prompt: x
limits: {{{bounds}}}
context: {context}
tools: {{look: {{}}}}
model: [{{call: {{look: {{}}}}}}, {{say: Done.}}]
""")
    )


def test_a_run_compacts_where_the_script_says_so_and_asks_no_summary() -> None:
    result = compacting("{over: [false, true, false]}")
    assert (result.outcome, counters_of(result).compaction_attempts) == (Outcome.COMPLETED, 1)
    assert [request.purpose for request in result.requests] == ["main", "main"]
    kinds = [type(entry) for entry in result.trace.entries]
    assert kinds.count(entries.Compaction) == 1
    assert kinds.index(entries.ToolResult) < kinds.index(entries.Compaction)


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_a_context_that_is_always_over_uses_up_the_attempts(attempts: int) -> None:
    result = compacting("{over: [true]}", max_compaction_attempts=attempts)
    assert (result.outcome, counters_of(result).compaction_attempts) == (
        Outcome.COMPLETED,
        attempts,
    )
