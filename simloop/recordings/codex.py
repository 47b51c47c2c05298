"""Rollouts of Codex: items of the Responses API, and events.

Events restate most items, so a reply is made of items, up to its usage. Prompts are taken from the
events, because the items of the user hold what the program has written too.
"""

from typing import Any

from simloop.messages import ToolMessage, json_value
from simloop.recordings.dialects import assistant_of, text_of, usage_in
from simloop.recordings.failures import failure_keys
from simloop.recordings.files import RecordingFile, at, items, mapping, time_ns, word
from simloop.recordings.recording import Recording
from simloop.recordings.sessions import RecordedSession

_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
_OUTPUTS = tuple(f"{each}_output" for each in _CALLS)


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a rollout."""
    rollout = _Rollout(recording)
    for _, value in file.objects(recording):
        kind, payload = word(value, "type"), mapping(value, "payload")
        at_ns = time_ns(at(value, "timestamp"))
        if kind == "response_item":
            rollout.item(payload, at_ns)
        elif kind == "event_msg":
            rollout.event(payload, at_ns)
        elif kind == "token_usage_record":
            rollout.close(at(payload, "usage"))
        elif kind == "compacted":
            rollout.close()
            rollout.session.compacted(word(payload, "message"), at_ns)
        else:
            recording.leave_out_type("a line", kind)
    rollout.close()
    rollout.session.end()


class _Rollout:
    def __init__(self, recording: Recording) -> None:
        self.session = RecordedSession(recording)
        self._prompt = ""  # that has no reply yet
        self._parts: list[Any] = []  # of the reply that goes on
        self._calls: list[Any] = []
        self._at_ns: int | None = None

    def close(self, usage: Any = None) -> None:
        """Add the reply that the items make, if there is one."""
        said = assistant_of({"content": self._parts, "tool_calls": self._calls})
        if said.text or said.calls:
            self._prompt = ""
            self.session.reply(said, self._at_ns, usage=usage_in(usage))
            self._parts, self._calls = [], []

    def item(self, item: dict[str, Any], at_ns: int | None) -> None:
        kind, said = word(item, "type"), text_of(item.get("content"))
        call_id = word(item, "call_id")
        if kind == "reasoning":
            self._parts.append({"type": "reasoning", "text": text_of(items(item, "summary"))})
        elif kind == "message" and word(item, "role") == "assistant":
            self._parts.append(said)
            self._at_ns = at_ns
        elif kind == "message":
            self.session.note = said
            self.session.recording.leave_out("what the program has written, or an event says too")
        elif kind in _CALLS:
            name, given = word(item, "name") or kind.removesuffix("_call"), item.get(_CALLS[kind])
            given = {"input": given} if kind == "custom_tool_call" else given
            self._calls.append({"id": call_id, "name": name, "arguments": given})
            self._at_ns = at_ns
        elif kind in _OUTPUTS:
            self.close()
            given = item.get("output")
            text = text_of(mapping(given).get("content", given))
            failed = mapping(given).get("success") is False
            self.session.result(ToolMessage(call_id, text, failed), at_ns)
        else:
            self.session.recording.leave_out_type("an item", kind)

    def event(self, event: dict[str, Any], at_ns: int | None) -> None:
        if (kind := word(event, "type")) == "token_count":
            self.close(at(event, "info.last_token_usage"))
        elif kind == "user_message" or word(event, "item.type") == "UserMessage":
            said = word(event, "message") or text_of(at(event, "item.content"))
            self.close()
            if said != self._prompt:  # old versions have the first event, and new ones the second
                self.session.prompt(said, at_ns)
            self._prompt = said
        elif kind in ("stream_error", "error", "turn_aborted") or at(event, "error"):
            self.close()
            self._prompt = ""
            if kind == "turn_aborted":
                self.session.end()
            else:
                self.session.failure(_failure(mapping(event, "error") or event), at_ns)
        else:
            self.session.recording.leave_out_type("an event", kind)


def _failure(event: dict[str, Any]) -> dict[str, Any]:
    found = (at(each, "http_status_code") for each in mapping(event, "codex_error_info").values())
    body = json_value(word(event, "additional_details"))
    return failure_keys(next(filter(None, found), ""), word(event, "message"), body)
