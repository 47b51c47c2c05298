"""The built-in agent: it drives a loop machine in a world, one run for each prompt.

It knows no loop design and no state but `Finished`, so any machine can be driven. Each effect is
answered by one signal; a cause from outside that ends the run arrives as a signal too, after which
nothing new is started. Where an abort is only a flag (`abort_is_flag`), the machine gets answers
that it leads to. Counters count a signal when it is delivered.
"""

import asyncio
from contextlib import suppress
from types import CoroutineType
from typing import Any

from simloop.engine.handlers import EffectHandlers
from simloop.engine.settings import EngineSettings
from simloop.errors import RunawayRun
from simloop.kernel import signals
from simloop.kernel.effects import Effect, EndRun, TakeQueued
from simloop.kernel.machine import Machine, checked_transition
from simloop.kernel.names import NAMES
from simloop.kernel.states import Finished
from simloop.messages import Counters, Message, Outcome, UserMessage
from simloop.trace.entries import Transition
from simloop.world.agent import Ending
from simloop.world.world import World


def _counted(counters: Counters, signal: signals.Signal, errors: int) -> Counters:
    """Count steps and compactions, also for a machine that does not count them."""
    steps, compactions = counters.total_steps, counters.compaction_attempts
    if type(signal) is signals.ModelReplied:
        steps += signal.steps
    elif type(signal) is signals.ContextCompacted:
        compactions += 1
    return Counters(errors, steps, compactions)


class MachineAgent:
    """An agent that decides as `machine` does, which starts afresh for each prompt."""

    def __init__(self, machine: Machine, settings: EngineSettings) -> None:
        self._machine = machine
        self._settings = settings
        self._handlers: Any = None  # from the first prompt on

    @property
    def messages(self) -> tuple[Message, ...]:
        return () if self._handlers is None else tuple(self._handlers.transcript.messages)

    async def __call__(self, prompt: str, world: World) -> str:
        """Run `prompt` to its outcome and return the model's last text: see `answer`."""
        return (await self.answer(prompt, world)).text

    async def answer(self, prompt: str, world: World) -> Ending:
        """Run `prompt` to its outcome. Raises RunawayRun past `max_transitions`."""
        if self._handlers is None:
            self._model, self._recorder = world.model, world.model.recorder
            self._cancellation = world.user.cancellation
            if self._settings.abort_is_flag:
                self._cancellation.note_abort = self._note_abort
            self._handlers = EffectHandlers(world, self._settings)
        self._run = self._machine.start()
        self._counters = Counters(self._run.error_count, 0, 0)
        self._handlers.begin()
        self._handlers.transcript.add((UserMessage(prompt),))
        try:
            return await self._drive_on()
        finally:
            await self._handlers.stop_tools()  # for a run that an error ends

    async def _drive_on(self) -> Ending:
        """Feed signals to the machine and carry out its effects until it has finished.

        Each transition is recorded here, because a round has four.

        Tasks that are ready get a turn before the effects and after those that may wait, so an
        abort or a message that they send takes effect before the next decision. Queued messages
        are taken at the end of a step, before that turn: messages sent in answer to the step
        wait for the step after it. An end from outside replaces the signal.
        """
        signal: Any = signals.Began()  # None after a machine that asked for no answer
        handlers, cancellation, loop = self._handlers, self._cancellation, self._model.loop
        machine, table, ready = self._machine, handlers.table, loop.ready
        most, recorder = self._settings.max_transitions, self._recorder
        record, clock = recorder.entries, recorder.clock
        run, counters = self._run, self._counters
        for _ in range(most):
            run, asked = checked_transition(machine, run, signal)
            self._run, state, kind = run, type(run.state), type(signal)
            is_counted = kind is signals.ModelReplied or kind is signals.ContextCompacted
            if is_counted or run.error_count != counters.error_count:
                self._counters = counters = _counted(counters, signal, run.error_count)
            recorder.append(Transition(len(record), clock.now_ns, signal, NAMES[state], counters))
            if state is Finished:
                return await self._finish(run.state, asked)
            if cancellation.closed:
                cancellation.reopen()  # a machine that goes on after an end can be ended again
            signal = None
            try:
                if ready or loop.has_due:
                    if kind is signals.StepClosed and type(asked[0]) is TakeQueued:
                        handlers.take_queued(asked[0])
                        asked = asked[1:]
                    await asyncio.sleep(0)
                for effect in asked:
                    signal = table[type(effect)](handlers, effect)
                    if type(signal) is CoroutineType:
                        signal = await signal
                        if ready or loop.has_due:
                            await asyncio.sleep(0)
            except asyncio.CancelledError:
                if cancellation.pending is None:
                    raise  # not ours: another task wants this one to stop
            if cancellation.pending is not None:
                signal = await self._stop()
        so_far = f"{self._model.requests} requests, in state {NAMES[type(self._run.state)]}"
        passed = f"the run passed max_transitions={most} without an outcome"
        raise RunawayRun(f"{passed}, after {so_far}")

    async def _stop(self) -> signals.Signal:
        with suppress(asyncio.CancelledError):  # our own again, for a tool that goes on
            await self._handlers.stop_tools()
        return self._cancellation.take()

    async def _finish(self, state: Any, asked: tuple[Effect, ...]) -> Ending:
        """Carry out the last effects; an end from outside no longer changes anything."""
        try:
            for effect in asked:
                if type(effect) is EndRun:
                    await self._handlers.finish(effect, state.outcome)
                elif type(effect) is TakeQueued:
                    self._handlers.take_queued(effect)
        except asyncio.CancelledError:
            if self._cancellation.pending is None:
                raise
        if self._cancellation.pending is not None:
            await self._stop()
        handlers = self._handlers
        errors, cause = self._run.error_count, handlers.cause
        message = handlers.message or state.outcome.message(errors=errors, cause=cause)
        if state.outcome is Outcome.COMPLETED or handlers.text_first:
            message = handlers.said or (message if handlers.text_first else "")
        return Ending(state.outcome, state.limit, message, handlers.text, self._counters)

    def _note_abort(self) -> None:
        recorder, state = self._recorder, NAMES[type(self._run.state)]
        seq, at_ns = len(recorder.entries), recorder.clock.now_ns
        recorder.append(Transition(seq, at_ns, signals.AbortRequested(), state, self._counters))
