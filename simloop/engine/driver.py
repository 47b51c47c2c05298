"""The driver: feeds signals to a loop machine and runs the effects that it requests, until it ends.

It knows no loop design and no state but `Finished`, so any machine can be driven.

Not here: any decision about where a run goes next (loops), and how an effect is carried out
(handlers.py). The rules to keep: each effect is answered by one signal; a cause from
outside that ends the run arrives as a signal too, so there is one way out; and after that signal
nothing new is started. Where an abort is only a flag (`OnAbort`), the machine gets the answers that
it leads to; the trace notes the abort as a transition that leads nowhere.
"""

import asyncio
from contextlib import suppress

from simloop.engine.cancellation import Cancellation, Timeouts
from simloop.engine.ended import Ended
from simloop.engine.handlers import EffectHandlers
from simloop.engine.repetition import MARK, Repetition
from simloop.engine.settings import MAX_TRANSITIONS, EngineSettings
from simloop.errors import RunawayRun
from simloop.kernel import signals
from simloop.kernel.effects import Effect, TakeQueued
from simloop.kernel.machine import Machine
from simloop.kernel.names import NAMES
from simloop.kernel.policies import OnAbort
from simloop.kernel.signals import ContextCompacted, ModelReplied, Signal, StepClosed
from simloop.kernel.states import Finished
from simloop.messages import Outcome, UserMessage
from simloop.trace.entries import AnyEntry, Transition
from simloop.trace.recorder import Recorder, Since
from simloop.virtual.clock import VirtualLoop
from simloop.world.queued import Queued
from simloop.world.user_errors import UserError


class Driver:
    """Drives `machine` in `world`, one run after the other. Entries go to `record` as they happen.

    `queued` holds the messages that the user sends during a run. The conversation continues from
    run to run; the machine starts afresh. Must be created and driven inside tasks of a VirtualLoop.
    """

    def __init__(
        self,
        machine: Machine,
        world: EngineSettings,
        record: list[AnyEntry],
        queued: Queued,
    ) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert isinstance(loop, VirtualLoop)
        assert task is not None
        self._loop = loop
        self._machine = machine
        self._run = machine.start()
        self._world = world
        self._record = record
        self._clock = loop if loop.now_ns == 0 else Since(loop)
        self._watch = Timeouts(loop, task)
        flags_abort = world.on_abort is not OnAbort.END_RUN
        self.interrupts = Cancellation(loop, task, self._note_abort if flags_abort else None)
        recorder = Recorder(record, self._clock, world.max_trace_chars)
        self._performer = EffectHandlers(world, recorder, self.interrupts, self._watch, queued)

    @property
    def raised(self) -> list[UserError]:
        """Return the exceptions that the user's functions raised in all runs."""
        return self._performer.raised

    def open(self) -> None:
        """Begin another run in the calling task; its end may be planned from now on."""
        task = asyncio.current_task()
        assert task is not None
        self.interrupts.open(task)
        self._watch.task = task

    async def drive(self, prompt: str) -> Ended:
        """Run `prompt` to its outcome. Raises RunawayRun past `max_transitions`.

        Also raises it for a run that repeats one round without progress, unless `max_transitions`
        is below the default: a bound that somebody set lower is taken as it is.
        What was said before stays in the context. Every run but the first needs `open` before.
        """
        self._run = self._machine.start()
        self._start_ns = self._loop.now_ns
        self._performer.begin()
        self._performer.transcript.add(UserMessage(prompt))
        self._set_wall_clock()
        try:
            return await self._drive_on()
        finally:
            self.interrupts.close()
            await self._performer.stop_tools()  # for a run that an error ends

    async def _drive_on(self) -> Ended:
        signal: Signal | None = signals.Began()
        interrupts = self.interrupts
        most = self._world.max_transitions
        repetition = (
            Repetition(self._record, self._world.model) if most >= MAX_TRANSITIONS else None
        )
        for number in range(most):
            assert signal is not None
            if repetition is not None and number % MARK == 0 and number:
                self._end_repetition(number, repetition.found(number))
            asked = self._advance(signal)
            if interrupts.closed and type(self._run.state) is not Finished:
                self.open()  # a machine that goes on after an abort can be ended again
                self._set_wall_clock()
            signal = await self._perform(asked, after=signal)
            if type(self._run.state) is Finished:
                return self._ended(self._run.state)
        raise RunawayRun(
            f"the run passed max_transitions={self._world.max_transitions} without an outcome, "
            f"after {self._performer.requests.count} requests, in state "
            f"{NAMES[type(self._run.state)]}"
        )

    def _end_repetition(self, transitions: int, repeated: str) -> None:
        if repeated:
            raise RunawayRun(
                f"the run makes no progress: after {transitions} transitions and "
                f"{self._performer.requests.count} requests it repeats {repeated}"
            )

    def _set_wall_clock(self) -> None:
        limit_ms = self._world.limits.max_wall_clock_ms
        if limit_ms is not None:
            self.interrupts.plan(self._start_ns + limit_ms * 1_000_000, signals.WallClockExpired())

    def _advance(self, signal: Signal) -> tuple[Effect, ...]:
        run, asked = self._machine.advance(self._run, signal)
        self._run = run
        self._record_transition(NAMES[type(signal)])
        return asked

    def _note_abort(self) -> None:
        self._record_transition(NAMES[signals.AbortRequested])

    def _record_transition(self, signal: str) -> None:
        record, performer, run = self._record, self._performer, self._run
        record.append(
            Transition(
                len(record),
                self._clock.now_ns,
                signal,
                NAMES[type(run.state)],
                run.error_count,
                performer.total_steps,
                performer.compactions,
            )
        )

    async def _perform(self, asked: tuple[Effect, ...], after: Signal) -> Signal | None:
        """Carry out the effects in order and return a signal; an interruption returns its own.

        Queued messages are taken at the end of a step, before observers hear of the next step.
        Messages sent in answer to that wait for the step after it. Before the first step there
        are none to take.
        """
        signal: Signal | None = None
        performer, interrupts = self._performer, self.interrupts
        try:
            if type(after) is StepClosed and asked and type(asked[0]) is TakeQueued:
                performer.take_queued(asked[0])
                asked = asked[1:]
            if self._world.watched and type(self._run.state) is not Finished:
                await asyncio.sleep(0)  # an abort or a message now comes before what follows
            for effect in asked:
                if type(effect) is TakeQueued:  # once a round, and never waits: no coroutine
                    performer.take_queued(effect)
                else:
                    signal = await performer.table[type(effect)](effect)
        except asyncio.CancelledError:
            if interrupts.pending is None:
                raise  # not ours: whoever runs us wants us to stop
        if interrupts.pending is not None:
            with suppress(asyncio.CancelledError):  # our own again, for a tool that goes on
                await performer.stop_tools()
            self._unsay(signal)
            return interrupts.take()
        return signal

    def _unsay(self, signal: Signal | None) -> None:
        """Take back the counts of a signal that a cancellation dropped."""
        if isinstance(signal, ModelReplied):
            self._performer.total_steps -= signal.steps
        elif isinstance(signal, ContextCompacted):
            self._performer.compactions -= 1

    def _ended(self, state: Finished) -> Ended:
        outcome, run, did = state.outcome, self._run, self._performer
        message = did.message or outcome.message(errors=run.error_count, cause=did.cause)
        if outcome is Outcome.COMPLETED or did.text_first:
            message = did.said or (message if did.text_first else "")
        return Ended(
            run,
            state,
            did.total_steps,
            did.compactions,
            did.text,
            message,
            tuple(did.transcript.messages),
            self._loop.now_ns - self._start_ns,
        )
