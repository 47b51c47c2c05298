"""One step, in the order that a trace must show (DESIGN section 5), user code included."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from simloop import Callbacks, Compaction, Hooks, Http, Reply, Scenario, Tool, ToolExecution
from simloop.kernel.names import NAMES
from simloop.messages import Request
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.entries import AnyEntry

POINTS = ("before_llm_call", "after_llm_call", "before_tool_call", "after_tool_call")
CALLBACKS = (
    "on_chunk", "on_text", "on_tool_call", "on_tool_result", "on_step_finish", "on_response",
    "on_compacted",
)  # fmt: skip
PAD = "word " * 40
COMPACTS = Compaction(window=130, trigger_percent=80, target_percent=60, keep_turns=1)


def script(*replies: Reply, summaries: Sequence[Reply] = ()) -> Callable[[Request], Reply]:
    main, side = iter(replies), iter(summaries)
    return lambda request: next(side if request.purpose == "summary" else main)


class Journal:
    """What user code saw, each note with the length of the trace at that moment."""

    def __init__(self, scenario: Scenario, model: Any, *, tools: Sequence[str] = ()) -> None:
        self.notes: list[tuple[int, str]] = []
        self.simulation = Simulation(
            scenario,
            model=model,
            tools=[Tool(self.noting(f"{name}()"), name=name) for name in tools],
            hooks=Hooks(**{point: [self.noting(f"{point}!")] for point in POINTS}),
            callbacks=Callbacks(**{name: self.noting(f"{name}!") for name in CALLBACKS}),
        )

    def noting(self, name: str) -> Callable[..., None]:
        def note(*_: object, **__: object) -> None:
            self.notes.append((len(self.simulation.trace.entries), name))

        return note

    def lines(self) -> list[str]:
        """Trace entries and user code, in the order in which they happened."""
        recorded = self.simulation.run().trace.entries
        return list(self._merged(recorded))

    def _merged(self, recorded: list[AnyEntry]) -> Iterator[str]:
        notes = iter([*self.notes, (len(recorded), "")])
        at, name = next(notes)
        for index, entry in enumerate(recorded):
            while at <= index:
                yield name
                at, name = next(notes)
            yield said(entry)


def said(entry: AnyEntry) -> str:
    """A transition as signal and state, anything else as its kind."""
    match entry:
        case entries.Transition(signal=signal, state=state):
            return f"{NAMES[type(signal)]} -> {state}"
        case entries.Request(purpose=purpose):
            return f"request {purpose}"
        case entries.ToolCall(name=name) | entries.ToolStarted(name=name):
            return f"{kind(entry)} {name}"
        case entries.ToolResult(name=name):
            return f"{kind(entry)} {name}"
        case entries.Answered(name=name, ran=ran):
            return f"{kind(entry)} {name}" if ran else f"{kind(entry)} {name}, not run"
        case _:
            return kind(entry)


def kind(entry: AnyEntry) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(entry).__name__).lower()


CALLED = ["before_llm_call!", "hook", "request main"]
BEGAN = ["prompt", "began -> measuring"]
TEXT = ["text-delta", "on_chunk!", "on_text!"]
FINISH = ["finish", "on_chunk!"]
FAILED = ["error", "on_chunk!", "classified"]
CLOSED = ["on_step_finish!", "on_response!", "after_llm_call!", "hook"]
LAST_STEP = [
    "context-measured -> calling-model",
    *CALLED, *TEXT, *FINISH,
    "model-replied -> closing-step",
    *CLOSED,
    "step-closed -> finished",
    "ended",
]  # fmt: skip


def call(name: str) -> list[str]:
    return [f"tool-call {name}", "on_chunk!", "on_tool_call!"]


def run_of(name: str) -> list[str]:
    return [
        "call-begun", "before_tool_call!", "hook", f"tool-started {name}", f"{name}()",
        f"tool-result {name}", "after_tool_call!", "hook", f"answered {name}", "on_chunk!",
        "on_tool_result!",
    ]  # fmt: skip


def test_a_tool_round_follows_the_order_of_the_design() -> None:
    rounds = script(Reply(say="Hm.", call={"look": {}}), Reply(say="Done."))
    journal = Journal(Scenario(prompt="Go."), rounds, tools=["look"])
    assert journal.lines() == [
        *BEGAN,
        "context-measured -> calling-model",
        *CALLED, *TEXT, *call("look"), *FINISH,
        "model-replied -> running-tools",
        *run_of("look"),
        "tools-returned -> closing-step",
        *CLOSED,
        "step-closed -> measuring",
        *LAST_STEP,
    ]  # fmt: skip


def test_a_compaction_is_over_and_told_before_the_round_starts_again_at_the_top() -> None:
    rounds = script(
        Reply(say=[PAD], call={"look": {}}),
        Reply(say=[PAD], call={"look": {}}),
        Reply(say="Done."),
        summaries=[Reply(say="Looked.")],
    )
    journal = Journal(Scenario(prompt="Go.", compaction=COMPACTS), rounds, tools=["look"])
    lines = journal.lines()
    assert lines[lines.index("context-measured -> compacting") :] == [
        "context-measured -> compacting",
        "request summary", "text-delta", "finish",
        "compaction", "on_compacted!",
        "context-compacted -> measuring",
        *LAST_STEP,
    ]  # fmt: skip


def test_a_retry_records_the_failure_waits_and_starts_again_at_the_top() -> None:
    rounds = script(Reply(http=Http(status=429)), Reply(say="Done."))
    assert Journal(Scenario(prompt="Go."), rounds).lines() == [
        *BEGAN,
        "context-measured -> calling-model",
        *CALLED,
        *FAILED,
        "model-failed -> backing-off",
        "backoff",
        "backoff-elapsed -> measuring",
        *LAST_STEP,
    ]  # fmt: skip


def test_parallel_calls_all_go_through_their_hooks_and_start_before_the_first_tool_runs() -> None:
    rounds = script(Reply(call={"look": {}, "note": {}}), Reply(say="Done."))
    policy = ToolExecution(order="parallel")
    journal = Journal(Scenario(prompt="Go.", tool_execution=policy), rounds, tools=["look", "note"])
    lines = journal.lines()
    start = lines.index("model-replied -> running-tools") + 1
    look, note = run_of("look"), run_of("note")
    assert lines[start : lines.index("tools-returned -> closing-step")] == [
        *look[:3], *note[:3],  # begun, and the hooks before
        look[3], note[3],  # started
        *look[4:6], *note[4:6],  # run; a call whose tool is ready gets its turn before a hook
        *look[6:], *note[6:],  # the hooks after, and the answer
    ]  # fmt: skip
