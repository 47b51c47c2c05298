"""The effects that a loop machine requests, carried out by one method for each effect.

Before anything new is started, `cancellation.check` is asked.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from simloop import messages as values
from simloop.engine.context import Compactor, History, ScriptedContext, Transcript
from simloop.engine.hooks import AFTER_LLM_CALL, BEFORE_LLM_CALL, AfterLLMCall, BeforeLLMCall
from simloop.engine.model_calls import ABORTED, ModelCalls, ReplySoFar
from simloop.engine.settings import EngineSettings
from simloop.engine.tool_calls import ToolCalls
from simloop.engine.user_code import ParallelHooks, Rest, UserCode, finished
from simloop.escape import writable
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.retry import StatusRetry, retry_after_ns
from simloop.kernel.signals import Signal
from simloop.messages import AssistantMessage, Fault, FinishReason, Outcome, Queue, UserMessage
from simloop.trace import entries
from simloop.virtual.clock.instants import EPOCH_NS
from simloop.virtual.clock.timeouts import GRACE_MS, Timeout
from simloop.world.model_port import RecordedStream
from simloop.world.world import World

# What the model is told of a call that was not run, or not to its end.
_WORDS: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_REFUSED, _STOPPED = _WORDS["refused"], _WORDS["stopped"]
_ONE_CALL = "Error: not executed, the loop takes one call of a reply"
_INTERRUPTED, _TOOL_CALLS = FinishReason.INTERRUPTED, FinishReason.TOOL_CALLS
_USELESS = {
    _INTERRUPTED: (ErrorClass.INTERRUPTED, "the stream ended without a finish"),
    _TOOL_CALLS: (ErrorClass.MISSING_CALLS, "the reply announced tool calls and has none"),
}
# Signals without text or numbers are built once: every round delivers them.
_STEP_CLOSED, _TOOLS_RETURNED = signals.StepClosed(), signals.ToolsReturned()
_FITS, _OVER = signals.ContextMeasured(over=False), signals.ContextMeasured(over=True)
_EMPTY = (ErrorClass.EMPTY_REPLY, "the reply is empty")

_Answer: TypeAlias = Signal | Coroutine[Any, Any, Signal] | None
"""The signal that answers an effect; a coroutine where something may wait; None for no answer."""


class EffectHandlers:
    """Carries out the effects of one conversation, and keeps their results.

    `table` has the method for each kind of effect but `EndRun`. `history` is the conversation; the
    rest begins anew with each run: see `begin`.
    """

    def __init__(self, world: World, settings: EngineSettings) -> None:
        self._world = world
        self._settings = settings
        self._loop = world.model.loop
        self._user = world.user
        self._tools = world.tools
        self._hooks = settings.hooks
        self._callbacks = own = settings.callbacks
        self._is_watched = any((own.on_step_finish, own.on_response, settings.hooks.after_llm_call))
        self._flags_abort = settings.abort_is_flag
        self._starts_early = settings.tool_execution.start == "when-called"
        self._recorder = recorder = world.model.recorder
        self._cancellation = cancellation = world.user.cancellation
        in_parallel = settings.hook_execution.order == "parallel"
        self._user_code = (ParallelHooks if in_parallel else UserCode)(
            settings.hook_isolation, recorder, self._loop, cancellation, world.model.raised
        )
        self._model_calls = ModelCalls(settings, recorder, self._user_code)
        self._tool_calls = ToolCalls(world, settings, self._user_code)
        self.history = History(settings.history, settings.estimate_tokens)
        self.transcript = Transcript(self.history, is_own=not settings.sent_back.failed)
        given = settings.compaction, self.history, world.model, self._model_calls
        self._compactor: Compactor | ScriptedContext = Compactor(*given)
        if settings.context is not None:
            over, shrunk = map(list, settings.context)
            scripted = over or [False], shrunk, self.history, recorder, self._compactor
            self._compactor = ScriptedContext(*scripted)

    def begin(self) -> None:
        self.said = self.text = ""  # by the newest reply, and by the newest that said something
        self.cause = self.message = ""  # of a failure; of the loop to the user, if it has words
        self.text_first = False  # whether the user is told the text of the last reply, if any
        self._step_number = 0
        self._compactor.reported = False
        self._reply: ReplySoFar | None = None
        self._failed_tries: list[values.Message] = []  # kept until a retry succeeds
        self._fault: Fault | None = None
        self._error = ErrorClass.UNKNOWN
        self._step_tools, self._tools_are_on = self._tools.tools, True
        self._user_code.failure = ""

    def take_queued(self, effect: effects.TakeQueued) -> None:
        if self._user.has():
            texts = self._user.take(effect.queue, one=effect.one)
            self.transcript.add([UserMessage(text) for text in texts])

    def _measure(self, _: effects.MeasureContext) -> Signal:
        return _OVER if self._compactor.over() else _FITS

    async def _compact(self, effect: effects.Compact) -> Signal:
        self._failed_tries = []
        if effect.marker:
            done = await self._compactor.restart(effect.marker, effect.then_say)
        else:
            done = await self._compactor.shorten(forced=effect.forced)
        callback = self._callbacks.on_compacted
        if done.shrunk and callback is not None:
            await self._user_code.notify(callback, (done.tokens_before, done.tokens_after))
        if done.shrunk and effect.then_say and not effect.marker:
            self.history.extend((UserMessage(effect.then_say),))
        return signals.ContextCompacted(done.shrunk)

    async def _call_model(self, effect: effects.CallModel) -> Signal:
        settings, cancellation, port = self._settings, self._cancellation, self._tools
        self._step_number += 1
        self._fault = None
        self._tools_are_on = effect.tools
        self._step_tools, tools = (port.tools, port.specs) if effect.tools else ({}, ())
        system_prompt = settings.system_prompt
        if effect.aborted or (self._flags_abort and cancellation.aborted):
            self._send(system_prompt, tools, effect.note)
            return self._come_back_aborted()
        cancellation.polls = effect.polls
        if settings.warn_after is not None and self._step_number > settings.warn_after:
            told = f"{self._step_number} model calls, and no end yet"
            self._recorder.record(entries.Notice, told)
        if self._hooks.before_llm_call:
            seen = self._step_number, self.history.view(), system_prompt, self._step_tools
            given = BeforeLLMCall(*seen)
            await self._user_code.fire(BEFORE_LLM_CALL, self._hooks.before_llm_call, given)
            if given.blocked is not None:
                self.cause = writable(given.blocked)
                return signals.CallBlocked()
            system_prompt = writable(given.system_prompt)
            self._step_tools = given.tools
            tools = tuple(tool.spec for tool in self._step_tools.values())
        cancellation.check()
        stream, calls = self._send(system_prompt, tools, effect.note), self._tool_calls
        if calls.running.tasks:
            await calls.finish_started()  # of a reply that the machine gave up
        if self._flags_abort:
            if self._loop.busy:
                await asyncio.sleep(0)
            if cancellation.aborted:
                return self._come_back_aborted()
        reply = self._reply = self._model_calls.begin(stream.request, quiet=False)
        if self._starts_early and (self._tools_are_on or self._step_tools):
            reply.on_call = partial(calls.start_newest, self._step_tools)
            reply.on_end = calls.finish_started
        calls.open(reply.calls)
        if (rest := self._model_calls.read(stream, reply)) is not None:
            await rest
        cancellation.polls = False
        words = "".join(reply.pieces)
        reply.pieces = [words]  # joined once, here
        self.said, self.text = words, words or self.text
        if reply.fault is not None:
            return await self._failed(reply, reply.fault)
        return self._replied(reply, words)

    def _send(
        self, system_prompt: str, tools: tuple[values.ToolSpec, ...], note: str
    ) -> RecordedStream:
        history = self.history
        view = history.view((AssistantMessage(note),) if note else ())
        return self._world.model.stream(
            view, system_prompt=system_prompt, tools=tools, tokens=history.tokens
        )

    async def stop_tools(self) -> None:
        await self._tool_calls.running.stop()

    def _come_back_aborted(self) -> Signal:
        self._recorder.record(entries.Classified, ErrorClass.ABORTED, False, ABORTED)  # noqa: FBT003
        self.transcript.add_failed(AssistantMessage("", failed=values.ABORTED_REPLY))
        return signals.ModelFailed(ErrorClass.ABORTED, retryable=False)

    def _replied(self, reply: ReplySoFar, words: str) -> Signal:
        finish = reply.finish
        assert finish is not None
        text = bool(words) and not words.isspace()
        if finish is _INTERRUPTED or (not reply.calls and (not text or finish is _TOOL_CALLS)):
            self._error, self.cause = _USELESS.get(finish, _EMPTY)
        calls = bool(reply.calls) or values.ToolMessage in map(type, self._failed_tries)
        return signals.ModelReplied(finish, text, calls, reply.steps)

    async def _failed(self, reply: ReplySoFar, fault: Fault) -> Signal:
        retry = self._settings.retry
        error = retry.classify(fault)
        retryable = retry.retryable(error)
        own = fault if reply.found_here else None
        self._recorder.record(entries.Classified, error, retryable, own)
        self._fault, self._error, self.cause = fault, error, fault.message
        # Calls that came before the failure were announced, so they are answered, and forgotten.
        # One that was started has its own result: its effects are there, and the retry asks again.
        await self._settle("Error: not executed, the model call failed")
        policy = self._settings.replies
        if policy.keep_failed and (reply.text or reply.calls):
            text = reply.text if fault.code in policy.failing_words else ""  # whole, or none
            said = AssistantMessage(text, tuple(reply.calls))
            self._failed_tries += [said, *self._tool_calls.answered()]
        how = values.ABORTED_REPLY if error is ErrorClass.ABORTED else values.FAILED_REPLY
        self.transcript.add_failed(reply.broken_off(how))
        self._reply = None
        return signals.ModelFailed(error, retryable)

    async def _back_off(self, effect: effects.Backoff) -> Signal:
        settings, fault = self._settings, self._fault
        retry, now_ns = settings.retry, EPOCH_NS + settings.clock_skew_ns + self._loop.now_ns
        draw = settings.seeds.stream("retry-jitter").random()
        delay_ns = retry.delay_ns(effect.failures, fault, now_ns=now_ns, draw=draw)
        ignores = isinstance(retry, StatusRetry) and not retry.honours_retry_after
        asked = fault is not None and not ignores and retry_after_ns(fault, now_ns) is not None
        self._cancellation.polls = effect.polls  # before the entry, at which a trigger may abort
        self._recorder.record(entries.Backoff, effect.failures, delay_ns, self._error, asked)
        if not effect.polls:
            self._cancellation.check()
        await asyncio.sleep(delay_ns / 1e9)
        self._cancellation.polls = False
        return signals.BackoffElapsed()

    def _run_tools(self, effect: effects.RunTools) -> _Answer:
        calls, loop = self._tool_calls, self._loop
        if not self._tools_are_on and not self._step_tools:  # a hook may bring tools all the same
            return self._settle("Error: not executed, tools are off")
        self._cancellation.polls = effect.polls
        if effect.first_only:
            return self._run_first()
        rest = calls.run(self._step_tools)
        if rest is not None or loop.ready or loop.has_due:  # others get a turn before the signal
            return self._run_on(rest)
        return self._tools_returned()

    async def _run_first(self) -> Signal:
        await self._tool_calls.keep_first(_ONE_CALL)
        return await self._run_on(self._tool_calls.run(self._step_tools))

    async def _run_on(self, rest: Rest) -> Signal:
        await finished(rest)
        return self._tools_returned()

    def _tools_returned(self) -> Signal:
        self._cancellation.polls = False
        calls = self._tool_calls
        blocked, terminated = calls.blocked, calls.ask_for_end()
        if blocked is None:
            return signals.ToolsReturned(terminate=True) if terminated else _TOOLS_RETURNED
        self.cause = blocked
        return signals.ToolsReturned(blocked=True, terminate=terminated)

    def _refuse_tools(self, effect: effects.RefuseTools) -> _Answer:
        cause = _REFUSED.get(effect.finish, f"the reply ended with {effect.finish}")
        return self._settle(f"Error: not executed, {cause}")

    async def _settle(self, text: str) -> Signal:
        await self._tool_calls.finish_started()  # the result of a call that was started is true
        await self._tool_calls.settle(text)
        return _TOOLS_RETURNED

    def _close_step(self, effect: effects.CloseStep) -> _Answer:
        """Commit the reply, notify the callbacks, then run the hooks, in this order."""
        reply = self._reply
        assert reply is not None
        keep = effect.keep or (effect.keep_thoughts and bool(reply.thoughts))
        if not keep:
            self.transcript.add_failed(reply.broken_off(values.FAILED_REPLY))
        added = self._commit(reply) if keep else ()
        self._reply = None
        self._failed_tries = []
        return self._report_step(reply, added) if self._is_watched else self._step_closed()

    async def _report_step(self, reply: ReplySoFar, added: tuple[values.Message, ...]) -> Signal:
        callbacks, hooks = self._callbacks, self._hooks
        assert reply.finish is not None
        for callback, given in (
            (callbacks.on_step_finish, (self._step_number, reply.finish)),
            (callbacks.on_response, (added,)),
        ):
            if callback is not None:
                self._cancellation.check()
                await self._user_code.notify(callback, given)
        if hooks.after_llm_call:
            said = (reply.text, tuple(reply.calls), reply.finish, reply.raw, reply.usage)
            done = AfterLLMCall(self._step_number, *said)
            await self._user_code.fire(AFTER_LLM_CALL, hooks.after_llm_call, done)
        return self._step_closed()

    def _step_closed(self) -> Signal:
        user = self._user
        if not user.has():
            return _STEP_CLOSED
        return signals.StepClosed(user.has(Queue.STEERING), user.has(Queue.FOLLOW_UP))

    def _commit(self, reply: ReplySoFar) -> tuple[values.Message, ...]:
        answers, calls = self._tool_calls.answered(), tuple(reply.calls)
        assert len(answers) == len(calls)
        reasoning = reply.reasoning if self._settings.sent_back.reasoning else ""
        said = AssistantMessage(reply.text, calls, reasoning)
        added: tuple[values.Message, ...] = (said, *answers)
        if self._failed_tries:
            added = (*self._failed_tries, *(added if reply.text or calls else ()))
        self.transcript.add(added, self._tool_calls.made_up())
        return added

    async def finish(self, effect: effects.EndRun, outcome: Outcome) -> None:
        """Answer the open calls and keep the reply; nothing more happens in this run."""
        self.message, self.cause = effect.message, self._user_code.failure or self.cause
        self.text_first = effect.text_first
        if (reply := self._reply) is None:
            return
        self.text = reply.text or self.text
        why = _STOPPED.get(outcome, "Error: not executed, the run ended")
        with Timeout.after(self._loop, GRACE_MS):  # for what callbacks make of it
            await self.stop_tools()
            await self._tool_calls.settle(why)
        if reply.finish is None and not self._settings.sent_back.failed:
            self.transcript.add_failed(reply.broken_off(values.ABORTED_REPLY))
        elif effect.keep and (reply.text or reply.calls):
            self._commit(reply)

    # One for all: with its own methods in a table, a run would be left to the garbage collector.
    table: ClassVar[Mapping[type, Callable[..., _Answer]]] = {
        effects.TakeQueued: take_queued, effects.MeasureContext: _measure,
        effects.Compact: _compact, effects.CallModel: _call_model, effects.RunTools: _run_tools,
        effects.RefuseTools: _refuse_tools, effects.CloseStep: _close_step,
        effects.Backoff: _back_off,
    }  # fmt: skip
