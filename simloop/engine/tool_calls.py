"""The calls of one reply: validated, guarded by hooks, run, and each answered exactly once.

Every call gets exactly one result, in the order of the calls, whatever happens, and nothing that a
tool raises leaves this file. A call that waits for nothing costs no coroutine.
"""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from msgspec import Struct

from simloop.engine.hooks import AFTER_TOOL_CALL, BEFORE_TOOL_CALL, AfterToolCall, BeforeToolCall
from simloop.engine.settings import EngineSettings
from simloop.engine.user_code import Rest, RunningTasks, UserCode, finished
from simloop.escape import writable
from simloop.messages import NO_RESULT, ToolCall, ToolMessage, ToolResult, ToolResultPart
from simloop.trace import entries
from simloop.virtual.clock.tasks import Started
from simloop.world.tools import Tool, read_again, read_arguments
from simloop.world.tools_port import Breaking, details_of, failed
from simloop.world.world import World

OPERATION_ABORTED = "Operation aborted"  # as pi-agent-core words it


class ReadyCall(Struct, frozen=True, gc=False):
    """A call that may run: its place in the reply, its tool, the arguments, and their JSON."""

    place: int
    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    shown: str


class ToolCalls:
    """Answers calls for one run. `answers` are those of this step, by the place of the call."""

    def __init__(self, world: World, settings: EngineSettings, user_code: UserCode) -> None:
        self._port = world.tools
        self._rules = settings.tool_rules
        self._hooks, self._callbacks = settings.hooks, settings.callbacks
        self._recorder, self._loop = world.model.recorder, world.model.loop
        self._user_code = user_code
        self._cancellation = world.user.cancellation
        self._report_failures = settings.report_failed_tools
        self._notifies = bool(settings.callbacks.on_chunk or settings.callbacks.on_tool_result)
        self._is_watched = self._notifies or bool(settings.hooks.after_tool_call)
        self._flags_abort = settings.abort_is_flag
        self._in_parallel = settings.tool_execution.order == "parallel"
        # Whether anything can come between the begin of a call and its tool.
        self._is_guarded = bool(settings.hooks.before_tool_call) or self._flags_abort
        self.running = RunningTasks(self._loop)  # the calls that `start_newest` started
        self.open([])

    def open(self, calls: list[ToolCall]) -> None:
        """Begin a step with these calls, to which its reply adds; all of them are open."""
        self._calls = calls
        self._started: list[int] = []
        self.answers: dict[int, ToolMessage] = {}
        self.blocked: str | None = None  # why a hook forbade a call of this step
        self._deaf: set[int] = set()  # calls that were started after an abort: they never hear it
        self._ending: set[int] = set()  # calls whose results ask for the end of the run

    def answered(self) -> list[ToolMessage]:
        return [*map(self.answers.__getitem__, sorted(self.answers))]

    def ask_for_end(self) -> bool:
        if not self._ending:
            return False
        made_up = self.made_up()
        given = [index for index, answer in self.answers.items() if answer not in made_up]
        return bool(given) and self._ending.issuperset(given)

    def made_up(self) -> list[ToolMessage]:
        """Return the answers that only complete a request, as no call was begun."""
        if not self._flags_abort:
            return []
        return [answer for answer in self.answers.values() if answer.text == NO_RESULT]

    async def start_newest(self, tools: Mapping[str, Tool]) -> None:
        """Start the call that has just come, while its reply goes on.

        In sequential order the call starts when the calls before it have ended. The call has a turn
        before this returns, so it has started even if no time passes until the reply ends.
        """
        index, in_sequence = len(self._calls) - 1, not self._in_parallel
        self.running.spawn(partial(self._answer_early, index, tools), after_the_last=in_sequence)
        await asyncio.sleep(0)

    def _answer_early(self, index: int, tools: Mapping[str, Tool]) -> Rest:
        return self._answer_call(index, tools) if self._may_begin(index) else None

    async def finish_started(self) -> None:
        """Wait for the calls that `start_newest` started. Raises CancelledError to end the run."""
        if self.running.tasks:
            await self.running.wait()
            self._cancellation.check()

    async def keep_first(self, why: str) -> None:
        """Keep one call; give the others an error result with this text, and forget them."""
        for index in range(1, len(self._calls)):
            await self._reject(index, why)
            del self.answers[index]
        del self._calls[1:]

    def run(self, tools: Mapping[str, Tool]) -> Rest:
        """Run the open calls, as the policy says; one that was interrupted gets an error result."""
        loop, has_begun = self._loop, self.running.tasks or self._started or self.answers
        if len(self._calls) != 1 or has_begun or self._is_guarded or loop.ready or loop.has_due:
            return self._run_all(tools)
        self._cancellation.check()
        return self._answer_call(0, tools)

    async def _run_all(self, tools: Mapping[str, Tool]) -> None:
        if self.running.tasks:
            await self.finish_started()
        for index in self._started:
            if index not in self.answers:
                await self._reject(index, "Error: not finished, it was interrupted")
        if len(self._calls) > 1 and self._is_parallel(tools):
            await self._run_in_parallel(tools)
        else:
            for number, index in enumerate(self._open()):
                if self._loop.busy:
                    await asyncio.sleep(0)
                if not self._may_begin(number):
                    break
                if (rest := self._answer_call(index, tools)) is not None:
                    await rest
        if self._flags_abort and self._is_stopped():
            await self.settle(NO_RESULT)  # of calls that were never begun

    def _is_parallel(self, tools: Mapping[str, Tool]) -> bool:
        called = (tools.get(call.name) for call in self._calls)
        return self._in_parallel and not any(tool and tool.sequential for tool in called)

    def _answer_call(self, index: int, tools: Mapping[str, Tool]) -> Rest:
        if self._is_guarded:
            return self._answer_guarded(index, tools)
        ready = self._read(index, tools)
        if not isinstance(ready, ReadyCall):
            return self._answer(index, ready)
        self._start(ready)
        return self._run_one(ready)

    async def _answer_guarded(self, index: int, tools: Mapping[str, Tool]) -> None:
        if (ready := await self._prepare(index, tools)) is not None:
            self._cancellation.check()
            self._start(ready)
            await finished(self._run_one(ready))

    async def settle(self, text: str) -> None:
        """Give every call that is still open an error result with this text."""
        for index in self._open():
            await self._reject(index, text)

    def _open(self) -> list[int]:
        return [index for index in range(len(self._calls)) if index not in self.answers]

    async def _run_in_parallel(self, tools: Mapping[str, Tool]) -> None:
        """Prepare one after the other, and start all that are ready before any runs."""
        prepared: list[ReadyCall] = []
        for number, index in enumerate(self._open()):
            if self._loop.busy:
                await asyncio.sleep(0)
            if not self._may_begin(number):
                break
            if (ready := await self._prepare(index, tools)) is not None:
                prepared.append(ready)
        if self._loop.busy:
            await asyncio.sleep(0)  # also after a last call that needed no tool
        running = RunningTasks(self._loop)
        for one in await self._start_all(prepared):
            running.spawn(partial(self._run_one, one), after_the_last=False)
        try:
            await running.wait()
        finally:
            await running.stop()
        self._cancellation.check()

    def _may_begin(self, number: int) -> bool:
        """Return whether the next call may begin. Raises CancelledError if the run is to end."""
        if number and self._is_stopped():
            return False
        self._cancellation.check()
        return True

    def _is_stopped(self) -> bool:
        return self._flags_abort and self._cancellation.aborted

    async def _prepare(self, index: int, tools: Mapping[str, Tool]) -> ReadyCall | None:
        ready = self._read(index, tools)
        if self._is_guarded and type(ready) is ReadyCall:
            ready = await self._guard(ready)
        if type(ready) is ToolResult:
            await self._answer(index, ready)
        return ready if type(ready) is ReadyCall else None

    def _read(self, index: int, tools: Mapping[str, Tool]) -> ReadyCall | ToolResult:
        call = self._calls[index]
        if (tool := tools.get(call.name)) is None:
            return ToolResult(f"Error: tool {call.name} not found", is_error=True)
        arguments, shown, wrong = read_arguments(tool, call.arguments, convert=self._rules.convert)
        return _wrong(wrong) if wrong else ReadyCall(index, call, tool, arguments, shown)

    async def _guard(self, ready: ReadyCall) -> ReadyCall | ToolResult:
        """Run the hooks before a call. Return it with its arguments after them, or its result."""
        index, call, tool = ready.place, ready.call, ready.tool
        self._recorder.record(entries.CallBegun, call.id)
        if self._loop.busy:  # after an abort the call does not run
            await asyncio.sleep(0)
        if hooks := self._hooks.before_tool_call:
            given = BeforeToolCall(call, ready.arguments)
            await self._user_code.fire(BEFORE_TOOL_CALL, hooks, given)
            if (answer := self._answer_of_hooks(given)) is not None:
                return answer
            check = self._rules.check_changed
            arguments, shown, wrong = read_again(tool, given.arguments, check=check)
            if wrong:
                return _wrong(wrong)
            ready = ReadyCall(index, call, tool, arguments, shown)
        if self._is_stopped():
            return ToolResult(OPERATION_ABORTED, is_error=True)
        return ready

    def _answer_of_hooks(self, given: BeforeToolCall) -> ToolResult | None:
        if given.failure:
            return failed(given.failure)
        if self._is_stopped():
            return ToolResult(OPERATION_ABORTED, is_error=True)
        if given.blocked is None:
            return None
        self.blocked = writable(given.blocked)
        return ToolResult(f"Error: {given.blocked}", is_error=True)

    async def _start_all(self, ready: list[ReadyCall]) -> list[ReadyCall]:
        """Start the calls in order. After an abort no further call starts; started calls run."""
        started: list[ReadyCall] = []
        for one in ready:
            if started and self._cancellation.pending is not None:
                break
            if self._is_stopped():
                await self._reject(one.place, OPERATION_ABORTED)
                continue
            self._cancellation.check()
            self._start(one)
            started.append(one)
        return started

    def _start(self, ready: ReadyCall) -> None:
        """Record the start of a call; nothing may run between a check for the end and this."""
        self._started.append(ready.place)
        if self._flags_abort and self._is_stopped():
            self._deaf.add(ready.place)
        self._port.start(ready.call, ready.shown)

    def _run_one(self, ready: ReadyCall) -> Rest:
        result = self._port.begin(ready.call, ready.tool, ready.arguments)
        if type(result) is ToolResult and not self._is_watched:
            self._put(ready.place, result, ran=True)
            return None
        return self._run_on(ready, result)

    async def _run_on(self, ready: ReadyCall, result: ToolResult | Started) -> None:
        index, call = ready.place, ready.call
        if isinstance(result, Started):
            result = await self._wait(result, ready)
        hooks = self._hooks.after_tool_call
        reported = self._report_failures or not result.is_error
        if reported and hooks and self._cancellation.pending is None:
            done = AfterToolCall(call, ready.arguments, result)
            try:
                await self._user_code.fire(AFTER_TOOL_CALL, hooks, done)
            except asyncio.CancelledError:
                done.restore()  # what the last hook has begun; the changes before it stand
                self._put(index, done.result, ran=True)  # the run ends, and the tool did run
                raise
            result = failed(done.failure) if done.failure else done.result
        await self._answer(index, result, ran=True)

    async def _wait(self, started: Started, ready: ReadyCall) -> ToolResult:
        can_abort = self._flags_abort and ready.place not in self._deaf
        breaking: Breaking = self._cancellation.breaking if can_abort else nullcontext
        result = await self._port.wait(started, ready.call, ready.tool, breaking)
        return ToolResult(OPERATION_ABORTED, is_error=True) if result is None else result

    async def _reject(self, index: int, text: str) -> None:
        await self._answer(index, ToolResult(text, is_error=True))

    async def _answer(self, index: int, result: ToolResult, *, ran: bool = False) -> None:
        self._put(index, result, ran=ran)
        if not self._notifies or (result.is_error and not self._report_failures):
            return
        call, callbacks = self._calls[index], self._callbacks
        if ran and callbacks.on_chunk is not None:
            await self._user_code.notify(callbacks.on_chunk, (ToolResultPart(call, result),))
        if callbacks.on_tool_result is not None:
            await self._user_code.notify(callbacks.on_tool_result, (call, result))

    def _put(self, index: int, result: ToolResult, *, ran: bool) -> None:
        call, text, recorder = self._calls[index], result.text, self._recorder
        if not text.isascii():
            text = writable(text)
        self.answers[index] = ToolMessage(call.id, text, result.is_error)
        if result.terminate:
            self._ending.add(index)
        details = None if result.details is None else details_of(result, recorder)
        seq, at_ns = len(recorder.entries), recorder.clock.now_ns
        made = entries.Answered(seq, at_ns, call.id, call.name, text, result.is_error, ran, details)
        if ran and not self._hooks.after_tool_call:
            recorder.append(made)  # its characters were counted with the entry of the tool
        else:
            recorder.put(made, len(text))


def _wrong(text: str) -> ToolResult:
    return ToolResult(text, is_error=True, details={"validationErrors": text.splitlines()[1:]})
