"""A run that is stopped, and what must hold of it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pacing import nap

from simloop import Compaction, Reply, Result, Scenario, ToolExecution, simulate
from simloop.kernel.names import NAMES
from simloop.messages import AssistantMessage, Message, Request, ToolMessage
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace
from simloop.virtual.simulate import running_loop

PAD = "word " * 40
PARALLEL = ToolExecution(order="parallel")
EARLY = ToolExecution(start="when-called")
EARLY_PARALLEL = ToolExecution(order="parallel", start="when-called")
POINTS = ("before_llm_call", "after_llm_call", "before_tool_call", "after_tool_call")
CALLBACKS = (
    "on_chunk", "on_text", "on_tool_call", "on_tool_result", "on_step_finish", "on_response",
    "on_compacted",
)  # fmt: skip
COMPACTS = Compaction(window=130, trigger_percent=80, target_percent=60, keep_turns=1)


class Stop:
    """The user's stop button; notes when it was pressed and how far the trace had come."""

    def __init__(self, *, presses: int = 1) -> None:
        self.presses = presses
        self.simulation: Simulation | None = None
        self.at_ns = -1
        self.mark = -1

    def __call__(self, *_: object) -> None:
        assert self.simulation is not None
        if self.at_ns < 0:
            self.at_ns = running_loop().now_ns
            self.mark = len(self.simulation.trace.entries)
        for _press in range(self.presses):
            self.simulation.abort()


@dataclass(frozen=True)
class Stopped:
    """A run that was stopped: how it ended, and where the trace stood when that was asked."""

    result: Result
    at_ns: int
    mark: int
    tasks_left: int

    @property
    def entries(self) -> list[AnyEntry]:
        return self.result.trace.entries


def play(scenario: Scenario, stop: Stop, *, at_ns: int | None = None, **code: Any) -> Stopped:
    """Run it, pressing `stop` at that instant if one is given, else where `code` does."""
    simulation = stop.simulation = Simulation(scenario, **code)

    async def main() -> Stopped:
        if at_ns is not None:
            running_loop().call_at_ns(at_ns, stop)
        result = await simulation.arun()
        return Stopped(result, stop.at_ns, stop.mark, len(asyncio.all_tasks()) - 1)

    return simulate(main())


def script(*replies: Reply, summaries: Sequence[Reply] = ()) -> Callable[[Request], Reply]:
    """A model that plays replies and does not mind if the run ends before them."""
    main, side = iter(replies), iter(summaries)
    return lambda request: next(side if request.purpose == "summary" else main)


def begun_after(stopped: Stopped) -> list[AnyEntry]:
    """Model calls and tool starts after the stop was asked for."""
    later = stopped.entries[stopped.mark :]
    return [entry for entry in later if isinstance(entry, entries.Request | entries.ToolStarted)]


def unpaired(messages: Sequence[Message]) -> list[str]:
    """Ids of calls that are not answered exactly once right after the reply, and of stray results.

    Ids may repeat, so the results are compared with the calls by position.
    """
    wrong, index = [], 0
    while index < len(messages):
        message = messages[index]
        index += 1
        calls = message.calls if isinstance(message, AssistantMessage) else ()
        wanted = [call.id for call in calls]
        answers: list[str] = []
        while index < len(messages) and isinstance(answer := messages[index], ToolMessage):
            answers.append(answer.call_id)
            index += 1
        if wanted != answers:
            wrong += [*wanted, *answers]
    return wrong


def call_ids(trace: LoopTrace) -> list[str]:
    """Ids of the announced calls, as the engine has them."""
    ids: list[str] = []
    for entry in trace.entries:
        if isinstance(entry, entries.ToolCall):
            ids.append(entry.call_id)
        elif isinstance(entry, entries.CallRenamed):
            assert ids[-1] == entry.call_id
            ids[-1] = entry.to_id
    return ids


def unanswered(trace: LoopTrace) -> Counter[str]:
    """Announced calls that were not answered, or more than once."""
    announced = Counter(call_ids(trace))
    answered = Counter(e.call_id for e in trace.entries if isinstance(e, entries.Answered))
    announced.subtract(answered)
    return Counter({call_id: count for call_id, count in announced.items() if count})


def run_text_matches_last_reply(trace: LoopTrace) -> str:
    """The text of the newest reply that has any, from the parts that had arrived."""
    words, reply, main = "", "", True
    for entry in trace.entries:
        if isinstance(entry, entries.Request):
            main, reply = entry.purpose == "main", ""
        elif isinstance(entry, entries.TextDelta) and main:
            reply += entry.text
            words = reply or words
    return words


def endings(trace: LoopTrace) -> list[str]:
    """The signals that led to the end: there must be one, as the last transition."""
    moves = [e for e in trace.entries if isinstance(e, entries.Transition)]
    assert moves[-1].state == "finished"
    return [NAMES[type(move.signal)] for move in moves if move.state == "finished"]


async def note() -> str:
    await nap(10)
    return "noted"


async def look() -> str:
    await nap(20)
    return "seen"
