"""A programmer on the OpenAI SDK: it runs programs, and shortens its own history.

When the history is long, a summary by the model takes the place of the older turns.
"""

import asyncio
import contextlib
import json
from typing import Any

import openai
from openai import AsyncOpenAI

from simloop import Limits

SYSTEM = "You mend a program. Run its tests after each change."
SUMMARISE = "Summarise the conversation above: the goal, what was done, and what is left."
MOST_MESSAGES, KEPT = 16, 4
TEST_TIMEOUT_S = 60
_PATH = {"type": "string", "pattern": "^[a-z_/]+\\.py$"}
TOOLS: dict[str, Any] = {
    "run_tests": {
        "file": _PATH,
        "verbosity": {"type": "integer", "minimum": 0, "maximum": 2},
    },
    "search": {"words": {"type": "string", "minLength": 1}, "file": _PATH},
    "commit": {"message": {"type": "string", "minLength": 1, "maxLength": 72}},
}


class GaveUp(Exception):  # noqa: N818 - the end of a run, which need not be an error
    """The programmer has no answer."""


class Coder:
    """A conversation with the programmer."""

    limits = Limits(max_steps=16)
    tool_timeout = TEST_TIMEOUT_S

    def __init__(self) -> None:
        self.client = AsyncOpenAI(max_retries=3, timeout=45)
        self.messages: list[Any] = []
        self.requests = 0
        self.offered: Any = [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "parameters": {
                        "type": "object", "properties": keys, "required": [*keys],
                    },
                },
            }
            for name, keys in TOOLS.items()
        ]  # fmt: skip

    async def __call__(self, prompt: str) -> str:
        self.messages.append({"role": "user", "content": prompt})
        self.requests = 0
        while self.requests < self.limits.max_steps:
            await self.shorten()
            message = await self.ask(
                "gpt-5", [{"role": "system", "content": SYSTEM}, *self.messages], tools=self.offered
            )
            if message.tool_calls:
                await self.act(message)
            elif (message.content or "").strip():
                self.messages.append({"role": "assistant", "content": message.content})
                return str(message.content)
            else:
                await asyncio.sleep(1)
        raise GaveUp("no answer after so many replies")

    async def ask(self, model: str, messages: list[Any], **more: Any) -> Any:
        """Return the next reply. Raises GaveUp for one that is not whole."""
        self.requests += 1
        reply = await self.client.chat.completions.create(model=model, messages=messages, **more)
        choices = getattr(reply, "choices", None)
        if not choices or choices[0].finish_reason not in ("stop", "tool_calls"):
            raise GaveUp(f"the reply is not whole: {choices}")
        return choices[0].message

    async def shorten(self) -> None:
        """Put a summary in the place of the older messages. The user's newest words stay."""
        if len(self.messages) <= MOST_MESSAGES or self.requests + 1 == self.limits.max_steps:
            return
        newest = max(i for i, each in enumerate(self.messages) if each["role"] == "user")
        start = len(self.messages) - KEPT
        while start > 0 and self.messages[start]["role"] == "tool":
            start -= 1
        kept = self.messages[start:]
        if newest < start:
            kept = [self.messages[newest], *kept]
        asked = [*self.messages, {"role": "user", "content": SUMMARISE}]
        try:
            words = (await self.ask("gpt-5-mini", asked)).content or ""
        except (openai.APIError, GaveUp):
            return  # the history stays as it is, and the next turn tries again
        if words.strip():
            summary = {"role": "user", "content": f"What was before: {words}"}
            self.messages = [summary, *kept]

    async def act(self, message: Any) -> None:
        """Run the calls side by side. Those that a stop cuts off have a result, too."""
        calls = message.tool_calls
        running = [asyncio.create_task(self.result(call.function)) for call in calls]
        try:
            await asyncio.wait(running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self.messages.append(message.model_dump(exclude_none=True))
            for call, task in zip(calls, running, strict=True):
                text = "Error: stopped" if task.cancelled() else task.result()
                self.messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    async def result(self, function: Any) -> str:
        try:
            given = json.loads(function.arguments)
            if function.name == "run_tests":
                return await self.run("pytest", "-" + "v" * int(given["verbosity"]), given["file"])
            if function.name == "search":
                return await self.run("grep", "-n", given["words"], given["file"])
            if function.name == "commit":
                return await self.run("git", "commit", "-am", given["message"])
        except (ValueError, TypeError, KeyError) as error:
            return f"Error: wrong arguments: {error!r}"
        except OSError as error:
            return f"Error: {error}"
        return f"Error: there is no tool {function.name}"

    async def run(self, *command: str) -> str:
        """Return what a program writes, with its status if it fails."""
        program = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(TEST_TIMEOUT_S):
                output, _ = await program.communicate()
        except TimeoutError:
            return f"Error: {command[0]} took over {TEST_TIMEOUT_S} s"
        finally:
            if program.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    program.kill()
                await program.wait()
        text = output.decode(errors="replace")
        return text if program.returncode == 0 else f"{text}\nexit status {program.returncode}"
