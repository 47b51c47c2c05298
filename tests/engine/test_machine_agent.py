"""The machine agent: one run from prompt to outcome, within its bounds, the same every time."""

import pytest
from builders import DONE, HANGS, JITTERY, LOOK, counters_of, look
from builders import play_loosely as play
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from pacing import paced
from worlds import Opened, in_world

from simloop import Callbacks, Compaction, Http, Limits, Outcome, Reply, RunawayRun, Scenario
from simloop.engine.machine_agent import MachineAgent
from simloop.engine.settings import EngineSettings
from simloop.kernel import effects, signals
from simloop.kernel.machine import Run, Transition
from simloop.kernel.policies import CompactionStrategy
from simloop.kernel.signals import Signal
from simloop.kernel.states import Measuring
from simloop.loops.reference import ReferenceLoop
from simloop.messages import AssistantMessage, ToolMessage, UserMessage
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.trace.entries import AnyEntry
from simloop.world.fake_model import FunctionModel

# ------------------------------------------------------------------------- a whole run


def test_the_transcript_holds_prompt_replies_and_results_in_order() -> None:
    messages = play(LOOK, DONE).messages
    (call,) = messages[1].calls if isinstance(messages[1], AssistantMessage) else ()
    assert messages == (
        UserMessage("Go."),
        AssistantMessage("I look.", (call,)),
        ToolMessage("call-1", "seen"),
        AssistantMessage("Done."),
    )


def test_the_text_of_a_run_is_the_models_last_words() -> None:
    assert play(LOOK, DONE).text == "Done."


def test_a_run_that_ends_early_keeps_the_last_words_there_were() -> None:
    assert play(LOOK, Reply(http=Http(status=401))).text == "I look."


def test_a_completed_run_tells_its_text() -> None:
    assert play(LOOK, DONE).message == "Done."


@pytest.mark.parametrize(
    ("replies", "limits", "outcome", "message"),
    [
        ([LOOK, LOOK], {"max_steps": 2}, "max-steps", "Max steps reached, task may be incomplete."),
        ([Reply(say="a", finish="length")], {}, "context-limit", "Context limit reached."),
        ([Reply(say="a", finish="content-filter")], {}, "content-filtered", "Content filtered."),
        ([Reply(say="a", finish="error")], {}, "model-error", "Task failed."),
        ([Reply(http=Http(status=401))], {}, "failed", "Error: 401 Unauthorized"),
        ([Reply(http=Http(status=500))] * 3, {}, "too-many-errors",
         "Failed after 3 errors: 500 Internal Server Error"),
        ([HANGS], {"max_wall_clock_ms": 5}, "timed-out",
         "Time limit reached, task may be incomplete."),
    ],
)  # fmt: skip
def test_every_early_end_says_what_it_is(
    replies: list[Reply], limits: dict[str, int], outcome: str, message: str
) -> None:
    result = play(*replies, limits=Limits(**limits))
    assert (result.outcome, result.message) == (outcome, message)


def test_a_reply_that_cannot_be_used_is_not_sent_back() -> None:
    messages = play(Reply(say="Half.", unfinished=True), DONE).messages
    assert messages == (UserMessage("Go."), AssistantMessage("Done."))


@pytest.mark.parametrize(
    "reply",
    [
        Reply(say="Half.", call={"look": {}}, unfinished=True),
        Reply(say="Half.", call={"look": {}}, lost="mid-output"),
        Reply(say="Half.", call={"look": {}}, finish="length"),
    ],
)
def test_calls_of_a_reply_that_broke_off_are_not_run(reply: Reply) -> None:
    result = play(reply, DONE, LOOK)
    assert not [e for e in result.trace.entries if isinstance(e, entries.ToolStarted)]


def test_no_request_ends_with_an_assistant_message() -> None:
    replies = iter([Reply(say="Half.", finish="other"), LOOK, Reply(finish="stop"), DONE])
    model = FunctionModel(lambda _: next(replies))
    Simulation(Scenario(prompt="Go."), model=model, tools=[look]).run()
    last = [request.messages[-1] for request in model.requests]
    assert not [message for message in last if isinstance(message, AssistantMessage)]


def test_a_step_number_counts_model_calls() -> None:
    numbers: list[int] = []
    callbacks = Callbacks(on_step_finish=lambda number, _: numbers.append(number))
    scenario = Scenario(prompt="Go.", model=[LOOK, Reply(http=Http(status=503)), DONE])
    Simulation(scenario, tools=[look], callbacks=callbacks).run()
    assert numbers == [1, 3]


# ------------------------------------------------------------------------- bounds


class Treadmill(ReferenceLoop):
    """A loop design that measures its context for ever."""

    def __init__(self) -> None:
        super().__init__()
        stays: dict[type[Struct], frozenset[type[Struct]]]
        stays = {signals.ContextMeasured: frozenset({Measuring})}
        self.legal = {**self.legal, Measuring: {**self.legal[Measuring], **stays}}

    def advance(self, run: Run, signal: Signal) -> Transition:
        if isinstance(signal, signals.Began | signals.ContextMeasured):
            return Run(Measuring()), (effects.MeasureContext(),)
        return super().advance(run, signal)


def test_a_loop_that_does_not_bound_itself_is_stopped_after_max_transitions() -> None:
    async def main(opened: Opened) -> list[AnyEntry]:
        agent = MachineAgent(Treadmill(), EngineSettings(max_transitions=50))
        with pytest.raises(RunawayRun, match="max_transitions=50"):
            await agent("Go.", opened.world)
        return opened.entries

    assert [type(entry) for entry in in_world(main)] == [entries.Transition] * 50


def test_the_context_is_compacted_from_the_trigger_on() -> None:
    def compactions(window: int) -> int:
        policy = Compaction(
            window=window,
            trigger_percent=100,
            keep_turns=1,
            strategy=CompactionStrategy.DROP_OLDEST,
        )
        return counters_of(play(LOOK, LOOK, DONE, compaction=policy)).compaction_attempts

    tokens = max(
        entry.tokens
        for entry in play(LOOK, LOOK, DONE).trace.entries
        if isinstance(entry, entries.Request)
    )
    assert (compactions(tokens), compactions(tokens + 1)) == (1, 0)


# ------------------------------------------------------------------------- determinism


REPLIES = st.sampled_from(
    [
        LOOK,
        Reply(call=[{"look": {}}, {"gone": {}}, {"look": "{"}]),
        Reply(say="a b c", call={"look": {}}, pace=paced(first_part="3ms", per_part="1ms")),
        Reply(http=Http(status=503)),
        Reply(finish="stop"),
        Reply(say="Half.", finish="length"),
        Reply(say="Half.", unfinished=True),
        HANGS,
    ]
)


@given(st.lists(REPLIES, max_size=6), st.integers(0, 3))
def test_the_same_scenario_and_seed_give_the_same_bytes(replies: list[Reply], seed: int) -> None:
    def trace() -> bytes:
        return encode(play(*replies, DONE, retry=JITTERY, seed=seed).trace)

    assert trace() == trace()


@given(st.lists(REPLIES, max_size=6))
def test_entries_are_numbered_without_a_gap_and_time_never_goes_back(replies: list[Reply]) -> None:
    recorded = play(*replies, DONE).trace.entries
    assert [entry.seq for entry in recorded] == list(range(len(recorded)))
    assert [entry.at_ns for entry in recorded] == sorted(entry.at_ns for entry in recorded)


@given(st.lists(REPLIES, max_size=6))
def test_the_last_entry_says_what_the_result_says(replies: list[Reply]) -> None:
    result = play(*replies, DONE)
    last = result.trace.entries[-1]
    assert isinstance(last, entries.Ended)
    assert (last.outcome, last.text, last.message, last.elapsed_ns, last.counters) == (
        result.outcome,
        result.text,
        result.message,
        result.elapsed_ns,
        result.counters,
    )


@given(st.lists(REPLIES, max_size=8), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
def test_the_work_of_a_run_is_bounded_by_its_limits(
    replies: list[Reply], steps: int, errors: int, compactions: int
) -> None:
    limits = Limits(max_steps=steps, max_error_count=errors, max_compaction_attempts=compactions)
    result = play(*replies, *[LOOK] * 10, limits=limits)
    main = [
        e for e in result.trace.entries if isinstance(e, entries.Request) and e.purpose == "main"
    ]
    assert len(main) <= steps + errors + compactions


def test_the_outcome_of_a_finish_reason_does_not_depend_on_the_way_it_was_spelled() -> None:
    assert play(Reply(say="Done.", finish="end_turn")).outcome is Outcome.COMPLETED
    assert play(Reply(say="Done.", finish="STOP")).outcome is Outcome.COMPLETED
