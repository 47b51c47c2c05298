"""Calls hooks and callbacks, isolates their failures, and runs work beside the task of the run.

Nothing that a hook or a callback raises leaves this file, except our own errors and what ends the
whole program; one that hangs costs its timeout, not the run (bugs D15, D16). Independent hooks may
run at once; they change nothing. Every task that is spawned is waited for or stopped.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import Struct

from simloop.engine.hooks import AfterToolCall, BeforeToolCall, Blockable, HookInput, apart
from simloop.errors import SimloopError
from simloop.escape import writable
from simloop.kernel.policies import HookIsolation
from simloop.kernel.signals import HookFailed
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.tasks import Started, begin, is_coroutine
from simloop.virtual.clock.timeouts import NS_PER_MS, Timeout
from simloop.world.user_functions import UserError, UserFunction, describe, keep, message_of
from simloop.world.user_port import Cancellation

HookFailure: TypeAlias = tuple[str, str, str]
"""What a function of the user did, the detail of its failure, and the message of that."""
_CANCELLED: HookFailure = ("failed", "CancelledError", "CancelledError")  # by itself (bug D4)
_AtToolCall = BeforeToolCall | AfterToolCall
Rest: TypeAlias = Coroutine[Any, Any, None] | None
"""The rest of some work; None if it waits for nothing, so that it costs no coroutine."""


class UserCode(Struct, eq=False):
    """Runs hooks and callbacks under one isolation policy, and records what they did."""

    _isolation: HookIsolation
    _recorder: Recorder
    loop: VirtualLoop
    cancellation: Cancellation
    raised: list[UserError]
    failure: str = ""

    async def fire(self, point: str, hooks: tuple[UserFunction, ...], given: HookInput) -> None:
        """Run the hooks of one point in order. Stops at the first that blocks.

        Tasks that are ready get a turn before each hook. The changes of a failed hook are undone.
        Raises CancelledError if the run is to end, by a hook's failure or for another reason.
        """
        loop, cancellation, recorder = self.loop, self.cancellation, self._recorder
        arguments, may_block, ready = (given,), isinstance(given, Blockable), loop.ready
        begin_hook, accept, record = self.begin, given.keep, recorder.entries
        clock, entry = recorder.clock, entries.Hook
        for hook in hooks:
            if ready or loop.has_due:
                await asyncio.sleep(0)
            cancellation.check()
            start_ns = loop.now_ns
            failure = begin_hook("hook", hook, arguments, accept)
            if type(failure) is Started:
                failure = await self._wait("hook", hook, failure, accept)
            result, detail = "ok", ""
            if failure is not None:
                result, detail, _ = failure
                given.restore()
                self._apply_isolation(given, hook, failure)
            blocked = given.blocked if may_block else None  # type: ignore[union-attr]
            if blocked is not None and failure is None:
                result, detail = "blocked", writable(blocked)
            if changed := given.changed:
                given.changed = ()  # type: ignore[misc]
            seq, now_ns, took_ns = len(record), clock.now_ns, loop.now_ns - start_ns
            made = entry(seq, now_ns, point, hook.name, result, took_ns, detail, changed)
            recorder.put(made, len(detail))
            if blocked is not None or (failure is not None and _is_decided(given)):
                break
        cancellation.check()

    def _apply_isolation(self, given: HookInput, hook: UserFunction, failure: HookFailure) -> None:
        on_failure, (_, detail, words) = self._isolation.on_failure, failure
        if on_failure == "fail-run":
            self.failure = f"hook {hook.name}: {detail}"
            self.cancellation.end_run(HookFailed())
        elif on_failure == "block-call" and isinstance(given, Blockable):
            given.block(f"hook {hook.name} failed: {detail}")
        elif on_failure == "error-result" and isinstance(given, _AtToolCall):
            given.failure = words

    async def notify(self, callback: Any, arguments: tuple[Any, ...]) -> None:
        failure = self.begin("callback", callback, arguments, _nothing)
        if type(failure) is Started:
            failure = await self._wait("callback", callback, failure, _nothing)
        if failure is not None:
            self._recorder.record(entries.Callback, callback.name, failure[1])

    def begin(
        self, kind: str, user: UserFunction, arguments: tuple[Any, ...], accept: Callable[[], None]
    ) -> Any:
        """Call a function up to its first wait; return the rest, a failure, or None at its end."""
        try:
            result = user.function(*arguments)
            if result is not None and (user.is_async or is_coroutine(result)):
                result = begin(result)
                if type(result) is Started:
                    return result
            accept()
        except SimloopError:
            raise  # a wrong script or a deadlock is not the hook's failure
        except asyncio.CancelledError:
            return _CANCELLED
        except Exception as error:  # noqa: BLE001 - user code is isolated here
            return self._failed(kind, user, error)
        return None

    async def _wait(
        self, kind: str, user: UserFunction, started: Started, accept: Callable[[], None]
    ) -> HookFailure | None:
        start_ns = self.loop.now_ns
        try:
            with Timeout.after(self.loop, self._isolation.timeout_ms) as timeout:
                await started
            if not timeout.expired:
                accept()
                return None
        except SimloopError:
            raise
        except asyncio.CancelledError:
            if timeout.task.cancelling() or self.cancellation.pending is not None:
                raise
            return _CANCELLED
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(kind, user, error)
        late = f"took longer than {(timeout.when_ns - start_ns) // NS_PER_MS} ms"
        return "timed-out", late, late

    def _failed(self, kind: str, user: UserFunction, error: Exception) -> HookFailure:
        keep(self.raised, f"the {kind} {user.name}", error)
        return "failed", describe(error), message_of(error) or type(error).__name__


def _nothing() -> None:
    """Keep nothing: a callback only watches."""


class ParallelHooks(UserCode, eq=False):
    """Runs stretches of independent hooks at once, and every other hook in its place."""

    async def fire(self, point: str, hooks: tuple[UserFunction, ...], given: HookInput) -> None:
        for independent, stretch in groupby(hooks, attrgetter("is_independent")):
            await (self._at_once if independent else super().fire)(point, tuple(stretch), given)
            if _is_decided(given):
                return

    async def _at_once(self, point: str, hooks: tuple[UserFunction, ...], given: HookInput) -> None:
        """Run each hook in a task and with an input of its own, and wait until all have ended."""
        inputs = [apart(given) for _ in hooks]
        running = RunningTasks(self.loop)
        for hook, own in zip(hooks, inputs, strict=True):
            running.spawn(partial(super().fire, point, (hook,), own), after_the_last=False)
        tasks = list(running.tasks)
        try:
            await running.wait()
        finally:
            await running.stop()
        # The run ends; or a hook has cancelled its task, as alone it would cancel that of the run.
        if any(task.cancelled() for task in tasks):
            raise asyncio.CancelledError
        # The decision of the first hook in the list counts, and a block outranks a failure.
        if isinstance(given, Blockable):
            reasons = [own.blocked for own in inputs if isinstance(own, Blockable)]
            given.blocked = next((reason for reason in reasons if reason is not None), None)
        if isinstance(given, _AtToolCall) and not _is_decided(given):
            failures = [own.failure for own in inputs if isinstance(own, _AtToolCall)]
            given.failure = next(filter(None, failures), "")


def _is_decided(given: HookInput) -> bool:
    return bool(getattr(given, "blocked", None) is not None or getattr(given, "failure", ""))


async def finished(rest: Rest) -> None:
    """Wait for the rest of some work."""
    if rest is not None:
        await rest


class RunningTasks:
    """The `tasks` of the tool calls, or of the hooks, that were started."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.tasks: list[asyncio.Task[None]] = []

    def spawn(self, work: Callable[[], Rest], *, after_the_last: bool) -> None:
        """Begin `work` in a task; `after_the_last` waits until the task before it has ended."""
        last = self.tasks[-1] if self.tasks and after_the_last else None

        async def run() -> None:
            if last is not None:
                await asyncio.wait([last])
                if last.cancelled() or last.exception() is not None:
                    return  # the run ends
            await finished(work())

        self.tasks.append(self._loop.create_task(run()))

    async def wait(self) -> None:
        """Wait until all have ended. Raises the error of the first that failed, in order."""
        if self.tasks:
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_EXCEPTION)
            self._raise_errors()
            self.tasks.clear()

    async def stop(self) -> None:
        """Cancel all, wait until they have ended, and raise the error of the first that failed."""
        if not self.tasks:
            return
        for task in self.tasks:
            task.cancel()
        try:
            await asyncio.gather(*self.tasks, return_exceptions=True)
        finally:
            self._raise_errors()
            self.tasks.clear()

    def _raise_errors(self) -> None:
        for task in self.tasks:
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise error
