"""Requests to the model, built and recorded.

Not here: sending them (model_calls.py). The rule to keep: a request is recorded as what changed
since the last one, so that a trace grows with the run and not with its square.
"""

from collections.abc import Sequence

from msgspec import UNSET

from simloop.engine.context import History, View
from simloop.messages import AssistantMessage, Message, Request, ToolSpec
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

    def main(self, system_prompt: str, tools: tuple[ToolSpec, ...], note: str = "") -> Request:
        """Return the request that carries the conversation as it is now.

        `note` is an assistant message after it, which only this request has.
        """
        history, record = self._history, self.recorder.entries
        self.count += 1
        kept, added = history.since_last_sent()
        new_prompt, new_tools = system_prompt != self._system_prompt, tools != self._tools
        self.recorder.count(
            _chars(added)
            + len(note)
            + (len(system_prompt) if new_prompt else 0)
            + (sum(len(tool.parameters) for tool in tools) if new_tools else 0)
        )
        record.append(
            entries.Request(
                len(record),
                self.recorder.clock.now_ns,
                self.count,
                "main",
                history.tokens,
                history.digest,
                kept,
                added,
                system_prompt if new_prompt else UNSET,
                tools if new_tools else UNSET,
                note,
            )
        )
        self._system_prompt, self._tools = system_prompt, tools
        messages: Sequence[Message] = history.view()
        if note:
            messages = (*messages, AssistantMessage(note))
        return Request(self.count, "main", system_prompt, messages, tools)

    def summary(self, system_prompt: str, conversation: History) -> Request:
        """Return a request for a summary; it does not count as the last request."""
        self.count += 1
        messages = tuple(conversation.messages)
        self.recorder.count(_chars(messages))
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


def _chars(messages: Sequence[Message]) -> int:
    """Return the number of characters in the messages and the arguments of their calls."""
    chars = 0
    for message in messages:
        chars += len(message.text)
        if isinstance(message, AssistantMessage):
            chars += sum(len(call.arguments) for call in message.calls)
    return chars
