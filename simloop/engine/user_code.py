"""Calls hooks and callbacks, and isolates their failures from the run.

Not here: tools (tool_calls.py isolates those). The rule to keep: nothing that a hook or a callback
raises leaves this file, except our own errors and what ends the whole program; and a hook that
hangs costs its timeout, not the run (document 002 sections 9 and 10, bugs D15, D16).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from simloop.engine.hooks import AfterToolCall, BeforeToolCall, Blockable, HookInput
from simloop.errors import SimloopError
from simloop.escape import writable
from simloop.kernel.policies import HookIsolation, OnHookFailure
from simloop.kernel.signals import HookFailed
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.started import PENDING, Started
from simloop.virtual.timeouts import Timeout, Timeouts
from simloop.world.cancellation import Cancellation
from simloop.world.user_errors import UserError, describe, keep, message_of
from simloop.world.user_function import UserFunction


class UserCode:
    """Runs hooks and callbacks under one isolation policy, and records what they did.

    `raised` gets the exceptions of all functions of the user, those of tools and models too.
    """

    def __init__(
        self,
        isolation: HookIsolation,
        recorder: Recorder,
        interrupts: Cancellation,
        raised: list[UserError],
    ) -> None:
        self._isolation = isolation
        self._recorder = recorder
        self._interrupts = interrupts
        self.failure = ""
        self.raised = raised

    async def fire(
        self, point: str, hooks: tuple[UserFunction, ...], given: HookInput, timeouts: Timeouts
    ) -> None:
        """Run the hooks of one point in order. Stops at the first that blocks.

        Tasks that are ready get a turn before each hook. The changes of a failed hook are undone.
        Raises CancelledError if the run is to end, by a hook's failure or for another reason.
        """
        for hook in hooks:
            if timeouts.loop.busy:
                await asyncio.sleep(0)
            self._interrupts.check()
            start_ns = timeouts.loop.now_ns
            did, detail, words = await self._call(hook, (given,), timeouts, given.keep)
            if did != "ok":
                given.restore()
                self._apply_isolation(given, hook, detail, words)
            blocked = given.blocked if isinstance(given, Blockable) else None
            if blocked is not None and did == "ok":
                did, detail = "blocked", writable(blocked)
            took_ns = timeouts.loop.now_ns - start_ns
            self._recorder.record(entries.Hook, point, hook.name, did, took_ns, detail)
            if blocked is not None or _is_answered(given):
                break
        self._interrupts.check()

    def _apply_isolation(
        self, given: HookInput, hook: UserFunction, detail: str, words: str
    ) -> None:
        on_failure = self._isolation.on_failure
        if on_failure is OnHookFailure.FAIL_RUN:
            self.failure = f"hook {hook.name}: {detail}"
            self._interrupts.end_run(HookFailed())
        elif on_failure is OnHookFailure.BLOCK_CALL and isinstance(given, Blockable):
            given.block(f"hook {hook.name} failed: {detail}")
        elif on_failure is OnHookFailure.ERROR_RESULT and isinstance(given, _AtToolCall):
            given.failure = words

    async def notify(
        self, callback: UserFunction, arguments: tuple[Any, ...], timeouts: Timeouts
    ) -> None:
        """Call a callback, and record a failure without raising it."""
        did, detail, _ = await self._call(callback, arguments, timeouts)
        if did != "ok":
            self._recorder.record(entries.Callback, callback.name, detail)

    async def _wait_for(self, waiting: Awaitable[Any], timeouts: Timeouts) -> Timeout:
        with timeouts.after(self._isolation.timeout_ms) as timeout:
            await waiting
        return timeout

    async def _call(
        self,
        user: UserFunction,
        arguments: tuple[Any, ...],
        timeouts: Timeouts,
        afterwards: Callable[[], None] | None = None,
    ) -> tuple[str, str, str]:
        """Return the outcome of the function, the detail of a failure, and its message.

        A failure of `afterwards` counts as a failure of the function.
        """
        try:
            result = user.function(*arguments)
            if result is not None and (user.is_async or asyncio.iscoroutine(result)):
                start_ns = timeouts.loop.now_ns
                started = Started(result)
                if started.result is PENDING:
                    timeout = await self._wait_for(started, timeouts)
                    if timeout.expired:
                        allowed_ms = (timeout.when_ns - start_ns) // 1_000_000
                        late = f"took longer than {allowed_ms} ms"
                        return "timed-out", late, late
            if afterwards is not None:
                afterwards()
        except SimloopError:
            raise  # a wrong script or a deadlock is not the hook's failure
        except asyncio.CancelledError:
            if timeouts.task.cancelling() or self._interrupts.pending is not None:
                raise
            cancelled = "CancelledError"  # it cancelled itself; nobody asked (bug D4)
            return "failed", cancelled, cancelled
        except Exception as error:  # noqa: BLE001 - user code is isolated here
            kind = "callback" if afterwards is None else "hook"
            keep(self.raised, f"the {kind} {user.name}", error)
            return "failed", describe(error), message_of(error) or type(error).__name__
        return "ok", "", ""


_AtToolCall = BeforeToolCall | AfterToolCall


def _is_answered(given: HookInput) -> bool:
    return isinstance(given, _AtToolCall) and bool(given.failure)
