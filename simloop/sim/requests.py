"""Requests to the model, built and recorded.

Not here: sending them (modelcalls.py). The rule to keep: a request is recorded as what changed
since the last one, so that a trace grows with the run and not with its square.
"""

from typing import Any

from simloop.messages import Request, ToolSpec
from simloop.sim.context import History, View
from simloop.trace import entries
from simloop.trace.recorder import Recorder


class Requests:
    """The requests of one run, counted from 1."""

    def __init__(self, history: History, recorder: Recorder) -> None:
        self._history = history
        self.recorder = recorder
        self._system_prompt = ""
        self._tools: tuple[ToolSpec, ...] = ()
        self.count = 0

    def main(self, system_prompt: str, tools: tuple[ToolSpec, ...]) -> Request:
        """The request that carries the conversation as it is now."""
        history = self._history
        self.count += 1
        changed: dict[str, Any] = {}
        if system_prompt != self._system_prompt:
            changed["system_prompt"] = self._system_prompt = system_prompt
        if tools != self._tools:
            changed["tools"] = self._tools = tools
        kept, added = history.since_last_sent()
        record = self.recorder.entries
        now_ns = self.recorder.clock.now_ns
        size, digest = history.tokens, history.digest
        record.append(
            entries.Request(
                len(record), now_ns, self.count, "main", size, digest, kept, added, **changed
            )
        )
        return Request(self.count, "main", system_prompt, history.view(), tools)

    def summary(self, system_prompt: str, conversation: History) -> Request:
        """A request on the side, for a summary; it does not count as the last one."""
        self.count += 1
        messages = tuple(conversation.messages)
        self.recorder.record(
            entries.Request,
            self.count,
            "summary",
            conversation.tokens,
            conversation.digest,
            0,
            messages,
            system_prompt,
        )
        view = View(conversation.messages, len(messages))
        return Request(self.count, "summary", system_prompt, view, ())
