"""Requests over HTTP and their answers, as records: what VCR cassettes and HAR files hold.

The wire formats read both sides. A recorded order is one of completion, so a request belongs to the
conversation that it goes on, wherever it stands.
"""

import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from simloop import messages as values
from simloop.kernel.durations import LONGEST_NS, format_duration
from simloop.messages import AssistantMessage, FinishReason, Request, Usage, UserMessage, json_value
from simloop.recordings.failures import http_failure
from simloop.recordings.files import MS, LeftOut, items, mapping, word
from simloop.recordings.recording import ModelCall, Prompt, Record, Recording, ServiceCall, ToolRun
from simloop.scenario.conversation import SentMessages, arguments_of, written
from simloop.scenario.replies import error_of
from simloop.scenario.services import METHODS
from simloop.wire import formats
from simloop.wire.formats.lookups import lookup_of
from simloop.wire.formats.replies import WireFormat
from simloop.wire.formats.storage import Storage
from simloop.wire.formats.wire_format import WireRequest, WrongRequest
from simloop.world.http import Headers, HttpRequest
from simloop.world.services import check_address
from simloop.world.wire_options import WireOptions

_STATUSES, _FIRST_OF_NO_SUCCESS = range(200, 600), 300
_MOST_OF_A_BODY = 10_000
_LOST: Mapping[str, Any] = {"lost": "before-headers"}
_Told = tuple[Mapping[str, Any], AssistantMessage | None]
"""A reply as the keys of a reply of a script, and its message if it has not failed."""


class HttpExchange(Struct):
    """A request and its answer, whose body is decoded. `status` 0 is a connection that was lost."""

    request: HttpRequest
    status: int
    headers: Headers
    body: bytes
    began_ns: int | None = None
    wait_ns: int | None = None  # to the first byte, where the recording has it
    took_ns: int | None = None


def from_base64(text: str) -> bytes:
    """Return what a text in base64 holds. Raises LeftOut."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise LeftOut("a body that is no base64") from None


def add_exchanges(
    recording: Recording, given: Iterable[Any], read: Callable[[Any], HttpExchange]
) -> None:
    """Add the records of exchanges: calls of a model with what they show, and other services.

    `read` makes an exchange of a given one, or raises LeftOut.
    """
    storage = Storage()
    made = [make(WireOptions(), storage) for make in formats.FORMATS]
    found: list[ModelCall | ServiceCall] = []
    for each in given:
        try:
            found.append(_record(read(each), made, storage))
        except LeftOut as left_out:
            recording.leave_out(str(left_out))
    recording.records += [each for each in found if isinstance(each, ServiceCall)]
    recording.records += unfolded([each for each in found if isinstance(each, ModelCall)])


def _record(
    exchange: HttpExchange, made: Sequence[WireFormat], storage: Storage
) -> ModelCall | ServiceCall:
    request = exchange.request
    try:
        parts = urlsplit(request.url)
        address = check_address(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")
    except ValueError:
        raise LeftOut("a request whose address is that of no service") from None
    if exchange.status and exchange.status not in _STATUSES:
        raise LeftOut("an answer with a status that HTTP does not have")
    form = next((one for one in made if one.answers(request)), None)
    try:
        if form is not None:
            return _model_call(form, exchange, storage)
    except WrongRequest as wrong:
        raise LeftOut(f"{request.method} {request.path}: {wrong}") from None
    if lookup_of(request) is not None:
        raise LeftOut("a request that simloop answers without a model")
    if (method := request.method.lower()) not in METHODS[:-1]:
        raise LeftOut(f"a request with the method {request.method[:20]}")
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    status = {"status": exchange.status} if exchange.status != 200 else {}  # noqa: PLR2004
    takes = {"takes": format_duration(exchange.took_ns)} if exchange.took_ns else {}
    answer = {**status, **_body(exchange), **takes} if exchange.status else _LOST
    return ServiceCall(address, {method: path, **answer, "times": 1})


def _model_call(form: WireFormat, exchange: HttpExchange, storage: Storage) -> ModelCall:
    read = form.read(exchange.request)
    if read.size_reply:
        raise LeftOut("a request for a count of tokens")
    request = Request(1, "main", read.system_prompt, read.messages, read.tools)
    keys, message = _reply(form, exchange, read, storage)
    began_ns, took_ns = exchange.began_ns, exchange.took_ns
    ended_ns = began_ns + took_ns if began_ns and took_ns else None
    paced = {**keys, **pace_of(0, exchange.wait_ns)}
    return ModelCall(paced, message, request, began_ns=began_ns, ended_ns=ended_ns)


def pace_of(began_ns: int | None, came_ns: int | None) -> dict[str, Any]:
    """Return when the first part of a reply came, as a key of it, if both times are known."""
    took_ns = 0 if began_ns is None or came_ns is None else came_ns - began_ns
    in_time = MS <= took_ns < LONGEST_NS
    return {"pace": {"first_part": format_duration(took_ns // MS * MS)}} if in_time else {}


def _reply(form: WireFormat, exchange: HttpExchange, read: WireRequest, storage: Storage) -> _Told:
    text, status = exchange.body.decode("utf-8", "replace"), exchange.status
    if status == 0:
        return _LOST, None
    if status >= _FIRST_OF_NO_SUCCESS:
        body = mapping(json_value(text)) or text[:_MOST_OF_A_BODY]
        return http_failure(status, exchange.headers[::-1], body=body), None
    if (whole := whole_reply(form, text)) is None:
        return {"http": {"status": status, "body": text[:_MOST_OF_A_BODY]}}, None
    told, turn = keys_of_reply(form, whole, status), getattr(read, "turn", None)
    if turn is not None and word(whole, "id"):
        output = [{**each, "id": word(each, "id")} for each in items(whole, "output") if each]
        storage.keep(turn, {**whole, "output": output})
    return told


def keys_of_reply(form: WireFormat, whole: Mapping[str, Any], status: int) -> _Told:
    """Return what a reply tells. Raises WrongRequest."""
    if not (failure := whole.get("error")):
        told = form.reply(whole)
        return reply_keys(*told), told.message
    code, message, _ = error_of({"error": failure})
    if not (begun := begun_keys(reply_keys(*form.reply(whole)))):
        return {"http": {"status": status, "body": {"error": failure}}}, None
    error = {"message": message or "the stream carries an error"}
    return begun | {"error": error | ({"code": code} if code else {})}, None


def whole_reply(form: WireFormat, text: str) -> Mapping[str, Any] | None:
    """Return the JSON of a reply, or what its events make, if it is one. Raises WrongRequest."""
    value = json_value(text)
    if isinstance(value, dict):
        return value
    if isinstance(value, list):  # Gemini streams a list where no events are asked for
        return form.joined(each for each in value if isinstance(each, dict))
    events = [*events_in(text)]
    return form.joined(events) if events else None


def events_in(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the object that each server-sent event is; `[DONE]` is none."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("data:"):
            lines.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and lines:
            if isinstance(event := json_value("\n".join(lines)), dict):
                yield event
            lines = []


def reply_keys(message: AssistantMessage, finish: str, usage: Usage | None) -> dict[str, Any]:
    """Return what a reply says as the keys of a reply of a script; without a finish it is cut."""
    calls = [{call.name: arguments_of(call.arguments)} for call in message.calls]
    keys: dict[str, Any] = {"think": message.reasoning, "say": message.text, "call": calls}
    keys["ids"] = [call.id for call in message.calls] if all(c.id for c in message.calls) else []
    if not finish:
        keys["unfinished"] = True
    elif FinishReason.read(finish) != usual_finish(message) or not (calls or message.text):
        keys["finish"] = finish
    if usage is not None and "unfinished" not in keys:
        keys["usage"] = {"input": usage.input_tokens, "output": usage.output_tokens}
    return {name: value for name, value in keys.items() if value}


def begun_keys(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a reply said before it failed."""
    return {name: keys[name] for name in ("think", "say", "call", "ids") if name in keys}


def usual_finish(message: AssistantMessage) -> str:
    """Return the finish reason of a reply whose recording has none."""
    return FinishReason.TOOL_CALLS if message.calls else FinishReason.STOP


def _body(exchange: HttpExchange) -> dict[str, Any]:
    if not exchange.body:
        return {}
    text = exchange.body.decode("utf-8", "replace")
    kind = dict(exchange.headers[::-1]).get("content-type", "")  # the first of several
    if (value := json_value(text) if "json" in kind else None) is not None:
        return {"json": value}
    return {"text": text} | ({"headers": {"content-type": kind}} if kind else {})


class _Conversation(Struct):
    """Requests that go on from each other, and the reply to the last one as the next one has it."""

    name: str
    sent: SentMessages = field(default_factory=SentMessages)
    reply: dict[str, Any] = {}  # of a failed call

    def added(self, request: Request) -> list[dict[str, Any]] | None:
        """Return what a request adds, if it goes on from the last one, or asks the same again."""
        # Some tracers leave out the text of a reply that has calls.
        added, without = self.sent.added(request.messages), {"call": self.reply.get("call")}
        return None if added and self.reply and added[0] not in (self.reply, without) else added


def unfolded(calls: Sequence[ModelCall]) -> Iterator[Record]:
    """Yield calls with the prompts and results of tools that their requests show, before them."""
    begun = defaultdict[tuple[str, str], list[_Conversation]](list)
    newest: dict[tuple[str, bytes], _Conversation] = {}  # of each agent
    names: dict[tuple[str, str], str] = {}
    for call in calls:
        request = call.request
        assert request is not None
        begin = request.system_prompt, request.messages[0].text
        pairs = ((one, one.added(request)) for one in reversed(begun[begin]))
        found, added = next((pair for pair in pairs if pair[1] is not None), (None, None))
        if found is None:
            agent = request.system_prompt, msgspec.json.encode(request.tools)
            is_shortened = any(isinstance(each, AssistantMessage) for each in request.messages)
            found = newest.get(agent) if is_shortened else None
            if found is None:  # of the agent that has begun so: no rule can tell two apart
                name = names.setdefault(begin, f"agent-{len(names) + 1}" if names else "")
                found = newest[agent] = _Conversation(name)
            begun[begin].append(found)
        yield from _shown(found, call, request, added)
        found.sent.take(request.messages, added)
        found.reply = {} if call.message is None else written(call.message)
        call.party = found.name
        yield call


def _shown(
    known: _Conversation, call: ModelCall, request: Request, added: list[dict[str, Any]] | None
) -> Iterator[Record]:
    sent = len(request.messages)
    is_first, shared = not known.sent.keys, sent
    if is_first:  # what comes before its last prompt is history
        said = [at for at, one in enumerate(request.messages) if isinstance(one, UserMessage)]
        shared = said[-1] if said else sent
    elif added:
        shared -= len(added) - bool(known.reply)
    is_over = not is_first and (known.reply or known.sent.keys[-1]).keys() == {"assistant"}
    if shared == sent and is_over and added != []:
        shared -= isinstance(request.messages[-1], UserMessage)  # shortened between two runs
    for place, message in enumerate(request.messages[shared:], shared):
        if isinstance(message, AssistantMessage) and is_first:  # whose request was not recorded
            keys = reply_keys(message, usual_finish(message), None)
            asked = msgspec.structs.replace(request, messages=request.messages[:place])
            yield ModelCall(keys, message, asked, known.name)
        elif isinstance(message, values.ToolMessage):
            yield ToolRun(message.call_id, message.text, message.is_error, party=known.name)
        elif isinstance(message, UserMessage):
            yield Prompt(message.text, known.name, call.began_ns)
