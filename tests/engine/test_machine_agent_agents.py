"""The machine agent as an agent: a callable in a world, whose conversation goes on."""

import pytest
from pacing import MS, nap
from worlds import Opened, in_world

from simloop import Callbacks, Reply
from simloop.engine.machine_agent import MachineAgent
from simloop.engine.settings import EngineSettings
from simloop.kernel.machine import IllegalSignal, Run, Transition
from simloop.kernel.policies import ReplyReading
from simloop.kernel.signals import AbortRequested, ModelReplied, Signal
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.messages import (
    AssistantMessage,
    Outcome,
    Request,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from simloop.trace import entries
from simloop.world.agent import Ending

LOOK, DONE = Reply(say="I look.", call={"look": {}}), Reply(say="Done.")


def look() -> str:
    return "seen"


def reference(**settings: object) -> MachineAgent:
    return MachineAgent(ReferenceLoop(), EngineSettings(**settings))  # type: ignore[arg-type]


def script(*replies: Reply) -> object:
    left = iter(replies)
    return lambda _: next(left)


def test_the_conversation_goes_on_from_prompt_to_prompt_and_the_counters_begin_anew() -> None:
    async def main(opened: Opened) -> tuple[MachineAgent, list[int]]:
        agent, steps = reference(), []
        for prompt in ("One.", "Two."):
            ending = await agent.answer(prompt, opened.world)
            assert ending.counters is not None
            steps.append(ending.counters.total_steps)
        return agent, steps

    agent, steps = in_world(main, script(LOOK, DONE, DONE), [look])  # type: ignore[arg-type]
    assert steps == [2, 1]
    assert [type(message) for message in agent.messages] == [
        UserMessage, AssistantMessage, ToolMessage, AssistantMessage, UserMessage, AssistantMessage,
    ]  # fmt: skip


def test_a_transition_holds_the_whole_signal_so_a_machine_can_be_fed_with_it_again() -> None:
    async def main(opened: Opened) -> list[entries.Transition]:
        await MachineAgent(ReactLoop(), EngineSettings())("Go.", opened.world)
        return opened.of(entries.Transition)

    moves = in_world(main, script(LOOK, DONE), [look])  # type: ignore[arg-type]
    machine = ReactLoop()
    run = machine.start()
    for move in moves:
        run, _ = machine.advance(run, move.signal)
        assert str(type(run.state).__name__).lower() == move.state.replace("-", "")


def test_a_signal_that_an_end_replaces_counts_nothing() -> None:
    """The reply has come and is dropped: the run is stopped in the callback of its finish."""

    async def main(opened: Opened) -> Ending:
        agent = reference(callbacks=Callbacks(on_chunk=lambda _: opened.world.user.stop()))
        ending = await agent.answer("Go.", opened.world)
        signals = [type(move.signal) for move in opened.of(entries.Transition)]
        assert ModelReplied not in signals
        assert signals[-1] is AbortRequested
        return ending

    ending = in_world(main, lambda _: "Done.")
    assert ending.counters is not None
    assert (ending.outcome, ending.counters.total_steps) == (Outcome.ABORTED, 0)


class Deaf(ReferenceLoop):
    """A machine that waits for no reply in the state in which the reply comes."""

    def __init__(self) -> None:
        super().__init__()
        self.legal = {
            state: {signal: to for signal, to in of.items() if signal is not ModelReplied}
            for state, of in self.legal.items()
        }

    def advance(self, run: Run, signal: Signal) -> Transition:
        assert not isinstance(signal, ModelReplied)
        return super().advance(run, signal)


def test_a_signal_that_is_not_on_the_map_does_not_reach_the_machine() -> None:
    async def main(opened: Opened) -> None:
        with pytest.raises(IllegalSignal, match="does not wait for ModelReplied"):
            await MachineAgent(Deaf(), EngineSettings())("Go.", opened.world)

    in_world(main)


# ------------------------------------------------------------------------- the stream of a reply


def test_the_clean_up_of_a_model_is_over_before_its_reply_counts() -> None:
    log: list[str] = []

    async def model(_: Request) -> object:
        try:
            for part in DONE.play(1):
                yield part[1]
            yield part[1]
        finally:
            await nap(7)
            log.append("cleaned up")

    async def main(opened: Opened) -> list[int]:
        step = Callbacks(on_step_finish=lambda *_: log.append("step"))
        await reference(callbacks=step)("Go.", opened.world)
        moves = opened.of(entries.Transition)
        return [move.at_ns // MS for move in moves if isinstance(move.signal, ModelReplied)]

    assert in_world(main, model) == [7]
    assert log == ["cleaned up", "step"]


def test_a_callback_hears_a_part_as_the_loop_reads_it_and_the_trace_has_it_as_it_arrived() -> None:
    heard: list[str] = []

    def on_chunk(part: object) -> None:
        if isinstance(part, ToolCallPart):
            heard.append(part.call.name)

    async def main(opened: Opened) -> list[str]:
        reading = ReplyReading(lower_case_names=True)
        await reference(callbacks=Callbacks(on_chunk=on_chunk), replies=reading)(
            "Go.", opened.world
        )
        renamed = [entry.to_name for entry in opened.of(entries.CallRenamed)]
        return [*(entry.name for entry in opened.of(entries.ToolCall)), *renamed]

    loud = Reply(call={"LOOK": {}})
    assert in_world(main, script(loud, DONE), [look]) == ["LOOK", "look"]  # type: ignore[arg-type]
    assert heard == ["look"]
