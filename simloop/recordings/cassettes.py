"""A run of simloop as a VCR cassette: its calls of the model as Chat Completions, and services."""

import json
from contextlib import suppress
from typing import Any

import msgspec
import yaml

from simloop import messages
from simloop.errors import ScenarioError
from simloop.recordings.exports import records_of
from simloop.recordings.recording import ModelCall
from simloop.scenario.replies import Http, Reply
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.looptrace import LoopTrace
from simloop.trace.otel import definition
from simloop.wire.formats.openai_chat import OpenAIChat
from simloop.wire.formats.replies import EVENTS, JSON
from simloop.wire.formats.storage import Storage
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireRequest
from simloop.world.wire_options import WireOptions

_URL = "https://api.openai.com/v1/chat/completions"
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_STAMP = Stamp(1, 0)
_Answer = tuple[int, dict[str, str], str]


def cassette(trace: LoopTrace) -> str:
    """Return the cassette of a trace, as vcrpy writes it; what has no answer is counted in it."""
    form, failures = OpenAIChat(WireOptions(unstated_usage="none"), Storage()), _failures(trace)
    interactions, asked = list[dict[str, Any]](), dict[int, entries.ServiceRequest]()
    for record in records_of(trace):
        if isinstance(record, ModelCall) and "lost" not in record.reply:
            sent = json.dumps(_body(record), ensure_ascii=False)
            interactions.append(_interaction("POST", _URL, sent, _answer(form, record, failures)))
    for entry in trace.entries:
        if isinstance(entry, entries.ServiceRequest):
            asked[entry.number] = entry
        elif isinstance(entry, entries.ServiceReply) and entry.status:
            to, kind = asked[entry.request], messages.json_value(entry.body)
            headers = {"content-type": "text/plain" if kind is None else JSON}
            came = entry.status, headers, entry.body
            interactions.append(_interaction(to.method, f"{to.service}{to.path}", to.body, came))
    calls = sum(isinstance(each, entries.Request) for each in trace.entries)
    left_out = calls + len(asked) - len(interactions)
    whole = {"interactions": interactions, "version": 1}
    text = yaml.dump(whole, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=100)
    return f"# Left out: {left_out} requests without an answer.\n{text}" if left_out > 0 else text


def _failures(trace: LoopTrace) -> dict[tuple[Any, str], Http]:
    with suppress(msgspec.DecodeError, ScenarioError):
        scenario = Scenario.model_validate(msgspec.json.decode(trace.header.scenario))
        parties = [scenario.model, *(each.replies for each in scenario.models.values())]
        failed = [one.http for replies in parties for one in replies if one.http is not None]
        return {(each.fault().status, each.fault().message): each for each in failed}
    return {}


def _answer(form: OpenAIChat, call: ModelCall, failures: dict[tuple[Any, str], Http]) -> _Answer:
    streams, reply, events = "error" in call.reply, dict(call.reply), list[WireEvent]()
    if told := reply.get("http"):
        reply["http"] = failures.get((told["status"], told.get("message", "")), told)
    encoder = form.encoder(WireRequest("scripted", "", (), (), streams=streams), _STAMP)
    for _, part in Reply(**reply).play(1):
        if isinstance(part, messages.StreamError) and not streams:
            failed = form.error(part, _STAMP)
            return failed.status, dict(failed.headers), (failed.body.data or b"").decode()
        if part is not None and not isinstance(part, Exception | messages.WireState):
            events += encoder.feed(part)
    body = b"".join(form.framed(events)) if streams else encoder.whole()
    return 200, {"content-type": EVENTS if streams else JSON}, body.decode()


def _body(call: ModelCall) -> dict[str, Any]:
    request = call.request
    assert request is not None
    system = [{"role": "system", "content": request.system_prompt}] if request.system_prompt else []
    tools = [{"type": "function", "function": definition(each)} for each in request.tools]
    said = [*system, *map(_message, request.messages)]
    body = {"model": "scripted", "messages": said, "stream": "error" in call.reply, "tools": tools}
    return {name: value for name, value in body.items() if value}


def _message(message: messages.Message) -> dict[str, Any]:
    match message:
        case messages.ToolMessage(call_id, text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case messages.AssistantMessage(text, calls):
            made = [(one.id, {"name": one.name, "arguments": one.arguments}) for one in calls]
            told = [{"id": name, "type": "function", "function": call} for name, call in made]
            more = {"tool_calls": told} if told else {}
            return {"role": "assistant", "content": text or (None if told else ""), **more}
        case _:
            return {"role": "user", "content": message.text}


def _interaction(method: str, url: str, sent: str, answer: _Answer) -> dict[str, Any]:
    status, headers, body = answer
    given, kind = {name: [value] for name, value in headers.items()}, {"content-type": [JSON]}
    asked = {"body": sent or None, "headers": kind, "method": method, "uri": url}
    told = {"body": {"string": body}, "headers": given, "status": {"code": status, "message": ""}}
    return {"request": asked, "response": told}
