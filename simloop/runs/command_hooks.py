"""Command hooks: a process for each call of a hook, which reads JSON and answers by its exit.

The input and the answers are those of the hooks of Claude Code, as its documentation had them in
November 2026. A process is played by the programs of the scenario, or it runs on this machine.
"""

import asyncio
import subprocess
from collections.abc import Mapping
from subprocess import PIPE
from time import perf_counter_ns
from typing import Any, TypeAlias

import msgspec

from simloop.engine import hooks
from simloop.messages import UserMessage, json_value

EVENTS: Mapping[str, str] = {
    hooks.BEFORE_LLM_CALL: "UserPromptSubmit", hooks.AFTER_LLM_CALL: "Stop",
    hooks.BEFORE_TOOL_CALL: "PreToolUse", hooks.AFTER_TOOL_CALL: "PostToolUse",
}  # fmt: skip
"""The events of Claude Code, by the hook points that are like them."""
HookTimes: TypeAlias = dict[tuple[str, str], list[int]]
"""The times of hooks in ns, by the point of a program and the hook there."""
BLOCKED = 2
"""The exit status by which a hook forbids a call; its reason is on its standard error."""


async def call(command: str, point: str, given: hooks.HookInput, *, is_real: bool) -> None:
    """Call a command hook, and make the change that it asks for. Raises RuntimeError."""
    run = _really if is_real else _played
    status, *told = await run(command, msgspec.json.encode(input_of(point, given)))
    said, why = (text.decode(errors="replace") for text in told)
    if status not in (0, BLOCKED):
        reason = why.strip() or "it says nothing"
        raise RuntimeError(f"`{command}` ends with exit status {status}: {reason}")
    answer = json_value(said)
    answer = answer if isinstance(answer, dict) else {}
    own = answer.get("hookSpecificOutput")
    answer = {**answer, **(own if isinstance(own, dict) else {})}
    decisions = answer.get("decision"), answer.get("permissionDecision")
    if status == BLOCKED or decisions[0] == "block" or decisions[1] == "deny":
        reason = answer.get("permissionDecisionReason") or answer.get("reason") or why
        reason = str(reason or f"forbidden by `{command}`").strip()
        if isinstance(given, hooks.Blockable):
            given.block(reason)
        elif isinstance(given, hooks.AfterToolCall):  # it has run: the model is told
            text = f"{given.result.text}\n{reason}".strip()
            given.result = msgspec.structs.replace(given.result, text=text)
    elif isinstance(given, hooks.BeforeToolCall) and isinstance(answer.get("updatedInput"), dict):
        given.arguments = answer["updatedInput"]


def input_of(point: str, given: hooks.HookInput) -> dict[str, Any]:
    """Return what a command hook reads."""
    told: dict[str, Any] = {"session_id": "simloop", "cwd": ".", "hook_event_name": EVENTS[point]}
    if isinstance(given, hooks.BeforeLLMCall):
        said = [each.text for each in given.messages if isinstance(each, UserMessage)]
        return {**told, "prompt": said[-1] if said else ""}
    if isinstance(given, hooks.AfterLLMCall):
        return {**told, "stop_hook_active": False, "last_assistant_message": given.text}
    called = given.call
    told |= {"tool_name": called.name, "tool_input": given.arguments, "tool_use_id": called.id}
    if isinstance(given, hooks.AfterToolCall):
        told |= {"tool_response": given.result.text}
    return told


async def _played(command: str, given: bytes) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_shell(command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        said, why = await process.communicate(given)
    finally:
        if process.returncode is None:  # a timeout of the hook, or an abort
            process.kill()
            await process.wait()
    return process.returncode or 0, said, why


async def _really(command: str, given: bytes) -> tuple[int, bytes, bytes]:
    done, took_ns = run_real_command(command, given)
    await asyncio.sleep(took_ns / 1e9)
    return done.returncode, done.stdout, done.stderr


def run_real_command(command: str, given: bytes) -> tuple[subprocess.CompletedProcess[bytes], int]:
    """Run a command of the shell in real time; return its end, and how long it took in ns."""
    # No border keeps this function from the machine (`asking_functions` of real_world.json).
    start_ns = perf_counter_ns()
    done = subprocess.run(command, shell=True, input=given, capture_output=True, check=False)  # noqa: S602 - as its program does
    return done, perf_counter_ns() - start_ns
