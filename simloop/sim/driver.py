"""The driver: performs what a loop machine asks for, and tells it what came of it.

It knows no loop design and no state but `Finished`, so any machine can be driven.

Not here: any decision about where a run goes next (loops). The rules to keep: each effect is
performed by one method and answered by one signal; whatever ends the run from outside arrives as a
signal too, so there is one way out; and after that signal nothing new is started.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from simloop.errors import RunawayRun
from simloop.kernel import effects, signals
from simloop.kernel.effects import Queue, TakeQueued
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Machine
from simloop.kernel.names import NAMES
from simloop.kernel.retry import retry_after_ns
from simloop.kernel.signals import ContextCompacted, ModelReplied, Signal
from simloop.kernel.states import Finished
from simloop.messages import (
    AssistantMessage,
    Fault,
    FinishReason,
    Message,
    Outcome,
    ToolSpec,
    UserMessage,
)
from simloop.sim.clock import VirtualLoop
from simloop.sim.compaction import Compactor
from simloop.sim.context import History
from simloop.sim.ended import Ended
from simloop.sim.hooks import AFTER_LLM_CALL, BEFORE_LLM_CALL, AfterLLMCall, BeforeLLMCall
from simloop.sim.interrupts import GRACE_MS, Interrupts, Watch
from simloop.sim.modelcalls import ModelCalls, ReplySoFar
from simloop.sim.queued import Queued
from simloop.sim.refusals import ABORTED, ONE_CALL, REFUSED, STOPPED
from simloop.sim.requests import Requests
from simloop.sim.scriptedcontext import ScriptedContext
from simloop.sim.sealed import EPOCH_NS
from simloop.sim.session import Session
from simloop.sim.toolcalls import ToolCalls
from simloop.sim.usercode import UserCode
from simloop.sim.world import World
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder, Since
from simloop.trace.untrusted import writable

_USELESS = {
    FinishReason.INTERRUPTED: (ErrorClass.INTERRUPTED, "the stream ended without a finish"),
    FinishReason.TOOL_CALLS: (
        ErrorClass.MISSING_CALLS,
        "the reply announced tool calls and has none",
    ),
}
_STEP_CLOSED = signals.StepClosed()
_EMPTY = (ErrorClass.EMPTY_REPLY, "the reply is empty")


class Driver:
    """Drives `machine` in `world`, one run after the other. Entries go to `record` as they happen.

    `queued` is where what the user says meanwhile waits. The conversation goes on from run to run;
    the machine begins anew. Must be created and driven inside tasks of a VirtualLoop.
    """

    def __init__(
        self,
        machine: Machine,
        world: World,
        record: list[AnyEntry],
        queued: Queued | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert isinstance(loop, VirtualLoop)
        assert task is not None
        self._loop = loop
        self._machine = machine
        self._world = world
        self._clock = loop if loop.now_ns == 0 else Since(loop)
        self._record = record
        self._recorder = Recorder(record, self._clock)
        self.interrupts = Interrupts(loop, task)
        self._watch = Watch(loop, task)
        self._user_code = UserCode(world.hook_isolation, self._recorder, self.interrupts)
        session = Session(
            self._recorder, self.interrupts, self._user_code, world.hooks, world.callbacks
        )
        self._model_calls = ModelCalls(world.model, world.limits, session)
        self._tool_calls = ToolCalls(world.tool_execution, session, watched=world.watched)
        self._history = History((), world.estimate_tokens)
        self._requests = Requests(self._history, self._recorder)
        self._compactor: Compactor | ScriptedContext
        if world.context is not None:
            self._compactor = ScriptedContext(world.context, self._history, self._recorder)
        else:
            self._compactor = Compactor(
                world.compaction, self._history, self._requests, self._model_calls, self._watch
            )
        self._queued = Queued() if queued is None else queued
        self._begin()
        self._base_tools = tuple(tool.spec for tool in world.tools.values())
        self._step_tools = world.tools
        self._perform: dict[type, Callable[[Any], Awaitable[Signal | None]]] = {
            effects.MeasureContext: self._measure,
            effects.Compact: self._compact,
            effects.CallModel: self._call_model,
            effects.RunTools: self._run_tools,
            effects.RefuseTools: self._refuse_tools,
            effects.CloseStep: self._close_step,
            effects.Backoff: self._back_off,
            effects.Finish: self._finish,
        }

    def open(self) -> None:
        """Begin another run, in the task that calls: what ends it may be planned from now on."""
        task = asyncio.current_task()
        assert task is not None
        self.interrupts.open(task)
        self._watch.task = task

    def _begin(self) -> None:
        """Nothing has been said or has gone wrong in this run yet."""
        self._run = self._machine.start()
        self._start_ns = self._loop.now_ns
        self._steps = self._total_steps = self._compactions = 0
        self._reply: ReplySoFar | None = None
        self._said = self._text = self._cause = self._message = ""
        self._fault: Fault | None = None
        self._error = ErrorClass.UNKNOWN
        self._user_code.failure = ""

    async def drive(self, prompt: str) -> Ended:
        """Run `prompt` to its outcome. Raises RunawayRun past `max_transitions`.

        What was said before stays in the context. Every run but the first needs `open` before.
        """
        self._begin()
        self._history.append(UserMessage(prompt))
        self._set_wall_clock()
        try:
            return await self._drive_on()
        finally:
            self.interrupts.close()

    async def _drive_on(self) -> Ended:
        signal: Signal | None = signals.Began()
        interrupts = self.interrupts
        for _ in range(self._world.max_transitions):
            assert signal is not None
            asked = self._advance(signal)
            if interrupts.closed and type(self._run.state) is not Finished:
                self.open()  # a machine that goes on after an abort can be ended again
                self._set_wall_clock()
            signal = await self._perform_all(asked)
            if type(self._run.state) is Finished:
                return self._ended(self._run.state)
        raise RunawayRun(
            f"the run passed max_transitions={self._world.max_transitions} without an outcome, "
            f"after {self._requests.count} requests, in state {NAMES[type(self._run.state)]}"
        )

    def _set_wall_clock(self) -> None:
        limit_ms = self._world.limits.max_wall_clock_ms
        if limit_ms is not None:
            self.interrupts.plan(self._start_ns + limit_ms * 1_000_000, signals.WallClockExpired())

    def _advance(self, signal: Signal) -> tuple[effects.Effect, ...]:
        run, asked = self._machine.advance(self._run, signal)
        self._run = run
        record = self._record
        record.append(
            entries.Transition(
                len(record),
                self._clock.now_ns,
                NAMES[type(signal)],
                NAMES[type(run.state)],
                run.error_count,
                self._total_steps,
                self._compactions,
            )
        )
        return asked

    async def _perform_all(self, asked: tuple[effects.Effect, ...]) -> Signal | None:
        """Perform effects in order. What interrupts them is the signal instead."""
        signal: Signal | None = None
        try:
            if self._world.watched and type(self._run.state) is not Finished:
                await asyncio.sleep(0)  # an abort or a message now comes before what follows
            for effect in asked:
                if type(effect) is TakeQueued:  # once a round, and never waits: no coroutine
                    self._take_queued(effect)
                else:
                    signal = await self._perform[type(effect)](effect)
        except asyncio.CancelledError:
            if self.interrupts.pending is None:
                raise  # not ours: whoever runs us wants us to stop
        if self.interrupts.pending is not None:
            self._unsay(signal)
            return self.interrupts.take()
        return signal

    def _unsay(self, signal: Signal | None) -> None:
        """What the machine does not hear of, because the run is stopped first, does not count."""
        if isinstance(signal, ModelReplied):
            self._total_steps -= signal.steps
        elif isinstance(signal, ContextCompacted):
            self._compactions -= 1

    def _ended(self, state: Finished) -> Ended:
        outcome, run = state.outcome, self._run
        message = self._message or outcome.message(errors=run.error_count, cause=self._cause)
        return Ended(
            run,
            state,
            self._total_steps,
            self._compactions,
            self._text,
            self._said if outcome is Outcome.COMPLETED else message,
            tuple(self._history.messages),
            self._loop.now_ns - self._start_ns,
        )

    # ------------------------------------------------------------------ the context

    def _take_queued(self, effect: effects.TakeQueued) -> None:
        for text in self._queued.take(effect) if self._queued else ():
            self._history.append(UserMessage(text))

    async def _measure(self, _: effects.MeasureContext) -> Signal:
        return signals.ContextMeasured(self._compactor.over())

    async def _compact(self, effect: effects.Compact) -> Signal:
        done = await self._compactor.shorten(forced=effect.forced)
        callback = self._world.callbacks.on_compacted
        if done.shrunk and callback is not None:
            given = (done.tokens_before, done.tokens_after)
            await self._user_code.notify(callback, given, self._watch)
        if done.shrunk and effect.then_say:
            self._history.append(UserMessage(effect.then_say))
        self._compactions += 1
        return signals.ContextCompacted(done.shrunk)

    # ------------------------------------------------------------------ the model

    async def _call_model(self, effect: effects.CallModel) -> Signal:
        world = self._world
        self._steps += 1
        self._fault = None
        self._step_tools = world.tools if effect.tools else {}
        system_prompt, tools = world.system_prompt, self._base_tools if effect.tools else ()
        if effect.aborted:
            return self._call_aborted(system_prompt, tools, effect.note)
        self.interrupts.polls = effect.polls
        if world.warn_after is not None and self._steps > world.warn_after:
            self._recorder.record(entries.Notice, f"{self._steps} model calls, and no end yet")
        if world.hooks.before_llm_call:
            specs = {name: tool.spec for name, tool in self._step_tools.items()}
            given = BeforeLLMCall(self._steps, self._history.view(), system_prompt, specs)
            await self._user_code.fire(
                BEFORE_LLM_CALL, world.hooks.before_llm_call, given, self._watch
            )
            if given.blocked is not None:
                self._cause = writable(given.blocked)
                return signals.CallBlocked()
            system_prompt, tools = writable(given.system_prompt), tuple(given.tools.values())
            self._step_tools = {n: t for n, t in self._step_tools.items() if n in given.tools}
        self.interrupts.check()
        request = self._requests.main(system_prompt, tools, effect.note)
        reply = self._reply = ReplySoFar()
        self._tool_calls.open(reply.calls)
        await self._model_calls.read(request, reply, self._watch, quiet=False)
        self.interrupts.polls = False
        return await self._judge(reply)

    def _call_aborted(self, system_prompt: str, tools: tuple[ToolSpec, ...], note: str) -> Signal:
        """A call with a signal that is aborted already: it is made, and comes back at once."""
        self._requests.main(system_prompt, tools, note)
        fault = Fault("the request was aborted", code="aborted")
        self._recorder.record(entries.Error, fault, ErrorClass.ABORTED, False)  # noqa: FBT003
        return signals.ModelFailed(ErrorClass.ABORTED, retryable=False)

    async def _judge(self, reply: ReplySoFar) -> Signal:
        """What the reply, or the lack of one, is to the machine."""
        words = reply.text
        reply.pieces = [words]  # joined once, here
        self._said, self._text = words, words or self._text
        self._tool_calls.open(reply.calls)
        if reply.fault is not None:
            return await self._failed(reply.fault)
        assert reply.finish is not None
        text = bool(words.strip())
        if reply.finish is FinishReason.INTERRUPTED or (
            not reply.calls and (not text or reply.finish is FinishReason.TOOL_CALLS)
        ):
            self._error, self._cause = _USELESS.get(reply.finish, _EMPTY)
        self._total_steps += reply.steps
        return signals.ModelReplied(reply.finish, text, bool(reply.calls), reply.steps)

    async def _failed(self, fault: Fault) -> Signal:
        retry = self._world.retry
        error = retry.classify(fault)
        retryable = retry.retryable(error)
        self._recorder.record(entries.Error, fault, error, retryable)
        self._fault, self._error, self._cause = fault, error, fault.message
        # Calls that came before the failure were announced, so they are answered, and forgotten.
        await self._tool_calls.settle("Error: not executed, the model call failed", self._watch)
        self._reply = None
        return signals.ModelFailed(error, retryable)

    async def _back_off(self, effect: effects.Backoff) -> Signal:
        world = self._world
        now_ns = EPOCH_NS + world.clock_skew_ns + self._loop.now_ns
        draw = world.seeds.stream("retry-jitter").random()
        delay_ns = world.retry.delay_ns(effect.failures, self._fault, now_ns=now_ns, draw=draw)
        asked = self._fault is not None and retry_after_ns(self._fault, now_ns) is not None
        self._recorder.record(entries.Backoff, effect.failures, delay_ns, self._error, asked)
        self.interrupts.check()
        await asyncio.sleep(delay_ns / 1e9)
        return signals.BackoffElapsed()

    # ------------------------------------------------------------------ tools and the step

    async def _run_tools(self, effect: effects.RunTools) -> Signal:
        self.interrupts.polls = effect.polls
        if effect.first_only:
            await self._tool_calls.keep_first(ONE_CALL, self._watch)
        await self._tool_calls.run(self._step_tools, self._watch)
        self.interrupts.polls = False
        blocked = self._tool_calls.blocked
        if blocked is not None:
            self._cause = blocked
        return signals.ToolsReturned(blocked is not None)

    async def _refuse_tools(self, effect: effects.RefuseTools) -> Signal:
        if effect.finish is None:
            why = ABORTED
        else:
            cause = REFUSED.get(effect.finish, f"the reply ended with {effect.finish}")
            why = f"Error: not executed, {cause}"
        await self._tool_calls.settle(why, self._watch)
        return signals.ToolsReturned()

    async def _close_step(self, effect: effects.CloseStep) -> Signal:
        """Commit the reply, tell the callbacks, then the hooks: the documents' order."""
        world, reply = self._world, self._reply
        assert reply is not None
        assert reply.finish is not None
        added = self._commit(reply) if effect.keep else ()
        self._reply = None
        for callback, given in (
            (world.callbacks.on_step_finish, (self._steps, reply.finish)),
            (world.callbacks.on_response, (added,)),
        ):
            if callback is not None:
                self.interrupts.check()
                await self._user_code.notify(callback, given, self._watch)
        if world.hooks.after_llm_call:
            done = AfterLLMCall(
                self._steps, reply.text, tuple(reply.calls), reply.finish, reply.raw, reply.usage
            )
            await self._user_code.fire(
                AFTER_LLM_CALL, world.hooks.after_llm_call, done, self._watch
            )
        queued = self._queued
        if not queued:
            return _STEP_CLOSED
        return signals.StepClosed(queued.has(Queue.STEERING), queued.has(Queue.FOLLOW_UP))

    def _commit(self, reply: ReplySoFar) -> tuple[Message, ...]:
        """Add the reply and the answers to its calls to the context."""
        answers = [answer for answer in self._tool_calls.answers if answer is not None]
        assert len(answers) == len(reply.calls)
        said = AssistantMessage(reply.text, tuple(reply.calls))
        added: tuple[Message, ...] = (said, *answers)
        for message in added:
            self._history.append(message)
        return added

    async def _finish(self, effect: effects.Finish) -> None:
        """Answer what is open and keep what was said; then nothing more happens in this run."""
        self._message, self._cause = effect.message, self._user_code.failure or self._cause
        reply = self._reply
        if reply is None:
            return
        self._text = reply.text or self._text
        if len(self._tool_calls.answers) != len(reply.calls):
            self._tool_calls.open(reply.calls)  # stopped before the stream had ended
        why = STOPPED.get(effect.outcome, "Error: not executed, the run ended")
        with self._watch.deadline(GRACE_MS):  # for what callbacks make of it
            await self._tool_calls.settle(why, self._watch)
        self._tool_calls.settle_quietly(why)
        if reply.text or reply.calls:
            self._commit(reply)
