"""Calling hooks and callbacks so that what they do wrong stays theirs.

Not here: tools (toolcalls.py isolates those). The rule to keep: nothing that a hook or a callback
raises leaves this file, except our own errors and what ends the whole program; and a hook that
hangs costs its timeout, not the run (document 002 sections 9 and 10, bugs D15, D16).
"""

import asyncio
from typing import Any

from simloop.errors import SimloopError
from simloop.kernel.policies import HookIsolation, OnHookFailure
from simloop.kernel.signals import HookFailed
from simloop.sim.hooks import Blockable, UserFunction
from simloop.sim.interrupts import Interrupts, Watch
from simloop.trace import entries
from simloop.trace.recorder import Recorder


class UserCode:
    """Runs hooks and callbacks under one isolation policy, and records what they did."""

    def __init__(
        self, isolation: HookIsolation, recorder: Recorder, interrupts: Interrupts
    ) -> None:
        self._isolation = isolation
        self._recorder = recorder
        self._interrupts = interrupts
        self.failure = ""

    async def fire(
        self, point: str, hooks: tuple[UserFunction, ...], given: Any, watch: Watch
    ) -> None:
        """Run the hooks of one point in order. Stops at the first that blocks.

        Raises CancelledError if the run is to end, by a hook's failure or for another reason.
        """
        blockable = isinstance(given, Blockable)
        for hook in hooks:
            self._interrupts.check()
            start_ns = watch.loop.now_ns
            did, detail = await self._call(hook, (given,), watch)
            if did != "ok":
                self._apply_isolation(given, hook, detail)
            if blockable and given.blocked is not None and did == "ok":
                did, detail = "blocked", given.blocked
            took_ns = watch.loop.now_ns - start_ns
            self._recorder.record(entries.Hook, point, hook.name, did, took_ns, detail)
            if blockable and given.blocked is not None:
                break
        self._interrupts.check()

    def _apply_isolation(self, given: Any, hook: UserFunction, detail: str) -> None:
        on_failure = self._isolation.on_failure
        if on_failure is OnHookFailure.FAIL_RUN:
            self.failure = f"hook {hook.name}: {detail}"
            self._interrupts.end_run(HookFailed())
        elif on_failure is OnHookFailure.BLOCK_CALL and isinstance(given, Blockable):
            given.block(f"hook {hook.name} failed: {detail}")

    async def notify(
        self, callback: UserFunction, arguments: tuple[Any, ...], watch: Watch
    ) -> None:
        """Call a callback; a failure is recorded and goes no further."""
        did, detail = await self._call(callback, arguments, watch)
        if did != "ok":
            self._recorder.record(entries.Callback, callback.name, detail)

    async def _call(
        self, user: UserFunction, arguments: tuple[Any, ...], watch: Watch
    ) -> tuple[str, str]:
        """What the function did, and the detail of a failure."""
        try:
            if not user.is_async:
                result = user.function(*arguments)
                if result is None or not asyncio.iscoroutine(result):
                    return "ok", ""
                return await self._await(result, watch)
            return await self._await(user.function(*arguments), watch)
        except SimloopError:
            raise  # a wrong script or a deadlock is not the hook's failure
        except Exception as error:  # noqa: BLE001 - user code is isolated here
            return "failed", describe(error)

    async def _await(self, awaitable: Any, watch: Watch) -> tuple[str, str]:
        timeout_ms = self._isolation.timeout_ms
        with watch.deadline(timeout_ms) as deadline:
            try:
                await awaitable
            except asyncio.CancelledError:
                if deadline.expired or watch.task.cancelling() or self._interrupts.pending:
                    raise
                return "failed", "CancelledError"  # it cancelled itself; nobody asked (bug D4)
        if deadline.expired:
            return "timed-out", f"took longer than {timeout_ms} ms"
        return "ok", ""


def describe(error: BaseException) -> str:
    """An exception as one says it: the type's name and the message, never an address."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
