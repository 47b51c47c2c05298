"""The failures of tools in requests of a format that has no word for them.

Not here: the formats (formats). The rule to keep: a message is marked only if the trace has a
failed result with its id and its text, so that nothing is guessed.
"""

from collections.abc import Sequence

import msgspec

from simloop.messages import Message, ToolMessage
from simloop.trace import entries
from simloop.trace.recorder import Recorder


class FailedTools:
    """The results of failed tools in a trace, as far as it has been read."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._seen = 0
        self._failed: set[tuple[str, str]] = set()

    def mark(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return `messages` with the results of failed tools marked as errors."""
        record = self._recorder.entries
        for place in range(self._seen, len(record)):
            entry = record[place]
            if type(entry) is entries.ToolResult and entry.is_error:
                self._failed.add((entry.call_id, entry.text))
        self._seen = len(record)
        if not self._failed:
            return tuple(messages)
        return tuple([self._marked(message) for message in messages])

    def _marked(self, message: Message) -> Message:
        if type(message) is ToolMessage and (message.call_id, message.text) in self._failed:
            return msgspec.structs.replace(message, is_error=True)
        return message
