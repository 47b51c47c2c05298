"""A conversation in the form that document 003 keeps it: roles user, model and tool, with parts.

Not here: the loop of that document (loops/react.py). The rule to keep: it is a view; nothing that
it says decides anything.
"""

from collections.abc import Mapping
from typing import Any

from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage
from simloop.trace.exports.pi_events import params_of


def history(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Return the conversation in the document's form: roles user, model and tool, with parts.

    Text and call of a reply are two parts, as in the real program; the document has them in one.
    The results of a reply are parts of one entry, as there.
    The document stores the value that a tool returned as the response; here it is the text that the
    model reads, under `output` or `error`. A part is `text`, `functionCall` (id, name, args) or
    `functionResponse` (id, name, response).
    """
    names = {
        call.id: call.name
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }
    entries: list[dict[str, Any]] = []
    for message in messages:
        entry = _entry(message, names)
        if entries and entry["role"] == entries[-1]["role"] == "tool":
            entries[-1]["parts"] += entry["parts"]
        else:
            entries.append(entry)
    return entries


def _entry(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    match message:
        case AssistantMessage(text=text, calls=calls):
            said: list[dict[str, Any]] = [{"text": text}] if text or not calls else []
            return {"role": "model", "parts": said + [_function_call(call) for call in calls]}
        case ToolMessage(call_id=call_id, text=text, is_error=is_error):
            key = "error" if is_error else "output"
            answered = {"id": call_id, "name": names.get(call_id, ""), "response": {key: text}}
            return {"role": "tool", "parts": [{"functionResponse": answered}]}
        case _:
            return {"role": "user", "parts": [{"text": message.text}]}


def _function_call(call: ToolCall) -> dict[str, Any]:
    arguments = params_of(call.arguments)
    return {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}
