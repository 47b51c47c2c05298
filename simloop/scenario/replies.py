"""The replies of the fake model, as people write them."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from itertools import zip_longest
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from simloop import messages
from simloop.kernel.policies import utf8_bytes_over_4
from simloop.scenario import fields
from simloop.scenario.conversation import calls_of
from simloop.scenario.expect import AnyText, GivenText, fits
from simloop.scenario.fields import NO_TIME, Strict, differs, kept, no_items, wrong
from simloop.scenario.mistakes import LIST, PLAIN
from simloop.world.fake_model import PartyScript, ScriptedFailure, ScriptEntry, TimedPart
from simloop.world.faults import REPLY_ENDS, FaultPlace, ReplyFault, status_text
from simloop.world.http import Headers

_UNREACHED: FaultPlace = "before-connect"
_FIRST_OF_NO_SUCCESS = 300


class Http(Strict):
    """An HTTP status that the provider sends instead of a reply."""

    status: Annotated[int, Field(ge=200, le=599)]
    """The HTTP status; one of success comes with a body that is no reply."""
    code: str = ""
    """The code in the error body, such as insufficient_quota."""
    message: str = ""
    """The message; by default the body's, or the status."""
    body: str | dict[str, Any] | None = None
    """The response body; code and message are read from it as SDKs do."""
    retry_after: fields.WrittenDurationOrNone = kept(None)
    """Retry-After, sent in seconds."""
    headers: dict[str, str] = Field(default_factory=dict)
    """More response headers."""

    @model_validator(mode="after")
    def _is_no_reply(self) -> Self:
        if self.status < _FIRST_OF_NO_SUCCESS and self.body is None:
            raise wrong("status", 'must be at least 300, or have a body that is no reply: body: ""')
        return self

    def fault(self) -> messages.Fault:
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.retry_after is not None:
            headers["retry-after"] = f"{Decimal(self.retry_after).scaleb(-9).normalize():f}"
        code, message, code_is_type = error_of(self.body)
        return messages.Fault(
            self.message or message or status_text(self.status), status=self.status,
            code=self.code or code, headers=tuple(sorted(headers.items())),
            code_is_type=code_is_type and not self.code,
        )  # fmt: skip

    def failure(self) -> messages.StreamError:
        """Return the failed call as a part; a body is sent to SDKs as the script has it."""
        body = self.body
        if isinstance(body, dict):  # its keys in their order: the script's body, not simloop's
            body = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return messages.StreamError(self.fault(), body)


def error_of(body: str | dict[str, Any] | None) -> tuple[str, str, bool]:
    """Return the code and the message of an error body, in each shape that providers send.

    The last element states whether the code stands in `type` or `status` and not in `code`.
    """
    try:
        parsed = json.loads(body) if isinstance(body, str) else body
    except (ValueError, RecursionError):
        return "", "", False  # a proxy's HTML page, or JSON that no reader can parse
    outer = parsed if isinstance(parsed, dict) else {}
    inner = outer.get("error", outer)
    if isinstance(inner, str):
        return _word(outer.get("code")), inner, False
    if not isinstance(inner, dict):
        return "", "", False
    code = inner.get("code")
    word = code if isinstance(code, str) else _word(inner.get("type") or inner.get("status"))
    message = _word(inner.get("message") or inner.get("detail"))
    return word, message, bool(word) and not isinstance(code, str)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


class StreamFault(Strict):
    """An error that the stream carries instead of further parts."""

    message: str
    """The error's message."""
    code: str = ""
    """The error's code, such as overloaded_error."""

    def fault(self) -> messages.Fault:
        """Return the failure. A word of the provider that simloop has too is marked as its word."""
        is_own = self.code in messages.NO_ANSWER
        return messages.Fault(self.message, code=self.code, code_is_type=is_own)


class TokenUsage(Strict):
    """The token counts that the provider reports."""

    input: int = Field(default=0, ge=0)
    """Input tokens."""
    output: int = Field(default=0, ge=0)
    """Output tokens."""


class Pace(Strict):
    """The pace at which parts arrive."""

    first_part: fields.WrittenDuration = kept(NO_TIME)
    """Time before the first part."""
    per_part: fields.WrittenDuration = kept(NO_TIME)
    """Time before each further part."""
    per_token: fields.WrittenDuration = kept(NO_TIME)
    """Time for each token of a text part, on top."""


class When(Strict):
    """The condition of a rule; a request must satisfy every given key."""

    role: Literal["user", "assistant", "tool", "summary"] | None = None
    """The role of the newest message."""
    contains: str | None = None
    """Text that the newest message contains."""
    conversation: fields.Written[AnyText | None, GivenText | None] = kept(None)
    """The text of any of its messages; {contains: ...} for a part of one."""
    system: fields.Written[AnyText | None, GivenText | None] = kept(None)
    """The system prompt, exactly; {contains: ...} for a part of it."""
    tools: list[str] | None = None
    """Tools that it offers, perhaps among others; an empty list for a request without tools."""
    output: fields.Written[AnyText | None, GivenText | None] = kept(None)
    """The JSON Schema of the answer that it asks for, as JSON; {contains: ...} for a part of it."""

    def matches(self, request: messages.Request) -> bool:
        sent = request.messages
        newest = sent[-1] if sent else messages.UserMessage("")
        return (
            self.role in (None, type(newest).__struct_config__.tag)
            and (self.contains or "") in newest.text
            and fits(self.system, request.system_prompt)
            and (self.conversation is None or any(fits(self.conversation, m.text) for m in sent))
            and {each.name for each in request.tools}.issuperset(self.tools or ())
            and (self.tools != [] or not request.tools)
            and (self.output is None or fits(self.output, request.asked_for))
        )


class PartyCondition(When):
    """The requests that are for a party; each must satisfy every given key."""

    model: fields.Written[AnyText | None, GivenText | None] = kept(None)
    """The name of the model, exactly; {contains: ...} for a part of it."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers that it has over HTTP; other requests have none."""

    def is_met(self, request: messages.Request, model: str, headers: Headers) -> bool:
        wanted = {(name.lower(), value) for name, value in self.headers.items()}
        return wanted.issubset(headers) and fits(self.model, model) and self.matches(request)


class Reply(Strict):
    """The model's response to one request: text, calls or a failure."""

    # A slot, and no cached property: what is in `__dict__` is validated again as a field.
    # Parts are values, so a reply that is played again, or in another run, shares them.
    __slots__ = ("_played",)

    say: Annotated[
        Annotated[fields.Text, Tag(PLAIN)] | Annotated[list[fields.Text], Tag(LIST)],
        Discriminator(lambda value: LIST if isinstance(value, list) else PLAIN),
    ] = ""
    """Text, streamed by word; a list: by item. {repeat: "some words ", chars: 33000} is a long
    one."""
    think: str | list[str] = ""
    """Reasoning, streamed in the same way."""
    call: dict[str, Any] | list[dict[str, Any]] = Field(default_factory=dict)
    """Tool calls: name and arguments. A text is sent as the arguments as it stands."""
    ids: list[str] = Field(default_factory=no_items)
    """Ids of the calls; by default call-1, call-2 and so on."""
    fragments: int = Field(default=0, ge=0, le=100)
    """Stream the arguments of each call in so many pieces first."""
    interleave: bool = False
    """Let the pieces of several calls come in turn; those of calls with one id do not."""
    half_call: dict[str, str] = Field(default_factory=dict)
    """A call that breaks off: name and the text that came."""
    finish: str | None = None
    """The finish reason, any word; by default stop, or tool-calls with calls."""
    usage: fields.OneOrNone[TokenUsage] = kept(None)
    """Token counts that the provider reports."""
    steps: int = Field(default=1, ge=0, le=10_000)
    """Steps that the provider reports."""
    pace: fields.One[Pace] = fields.defaults_of(Pace)
    """How fast the parts come."""
    http: fields.OneOrNone[Http] = kept(None)
    """Answer with an HTTP status instead."""
    error: fields.OneOrNone[StreamFault] = kept(None)
    """End with an error part."""
    lost: FaultPlace | None = None
    """The connection is lost there."""
    stall: FaultPlace | None = None
    """Nothing comes from there on."""
    unfinished: bool = False
    """The stream ends without a finish reason. Without streaming, the reply is whole, and its
    finish reason is null."""
    raises: str | None = None
    """The model's code raises an exception with this message."""
    times: Annotated[int, Field(ge=1)] | Literal["always"] | None = None
    """How often it may be used: by default once, a rule always."""
    when: fields.OneOrNone[When] = kept(None)
    """Makes it a rule: use it for such requests."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        ends = [name for name in REPLY_ENDS if getattr(self, name) not in (None, False)]
        parts = bool(self.say or self.think or self.call or self.half_call)
        if len(ends) > 1:
            raise wrong(ends[1], f"a reply ends in one way, not in several: {', '.join(ends)}")
        if not ends and not parts:
            raise wrong("", "a reply says, calls or fails; for an empty one write finish: stop")
        if self.http is not None and parts:
            raise wrong("http", "an HTTP status comes instead of a reply: split it in two entries")
        if self.finish == messages.FinishReason.INTERRUPTED:
            raise wrong("finish", "no provider says interrupted: write unfinished: true instead")
        for name in ("steps", "usage"):
            if differs(self, name) and ends not in ([], ["finish"]):
                raise wrong(name, f"only a reply that finishes reports {name}")
        needs = "some output before it: add say, think or call"
        fields.check_place(self.lost, self.stall, "output" if parts else "", needs)
        calls = len(calls_of(self.call))
        if self.ids and len(self.ids) != calls:
            raise wrong("ids", f"{len(self.ids)} ids for {calls} call{'s' * (calls != 1)}")
        return self

    def entry(self, position: str) -> ScriptEntry:
        times = self.times or (1 if self.when is None else "always")
        matches = None if self.when is None else self.when.matches
        return ScriptEntry(self.play, position, None if times == "always" else times, matches)

    def play(self, first_call: int) -> Sequence[TimedPart]:
        """Return the timed parts; calls without an id are numbered from `call-<first_call>`."""
        number = first_call if self.call or self.half_call else 1
        played: tuple[int, list[TimedPart]] | None = getattr(self, "_played", None)
        if played is None or played[0] != number:
            played = number, list(self._timed(number))
            object.__setattr__(self, "_played", played)
        return played[1]

    def _timed(self, first_call: int) -> Iterator[TimedPart]:
        pace = self.pace
        delay_ns: int = pace.first_part
        if _UNREACHED in (self.lost, self.stall):
            yield 0, messages.Unreachable()
        for part in self._parts(first_call):
            if pace.per_token and isinstance(part, messages.TextDelta):
                delay_ns += pace.per_token * utf8_bytes_over_4(part.text)
            if "after-headers" in (self.lost, self.stall):
                yield delay_ns, messages.HeadersSent()
                delay_ns = 0
            yield delay_ns, part
            delay_ns = pace.per_part

    def _parts(self, first_call: int) -> Iterator[messages.Part | Exception | None]:
        yield from (messages.ReasoningDelta(text) for text in _pieces(self.think))
        yield from (messages.TextDelta(text) for text in _pieces(self.say))
        given = calls_of(self.call)
        ids = self.ids or [f"call-{first_call + n}" for n in range(len(given))]
        calls = [messages.ToolCall(one, *call) for one, call in zip(ids, given, strict=True)]
        pieces = [_split(call.arguments, self.fragments) for call in calls]
        if self.interleave and len({*ids}) == len(ids):
            for turn in zip_longest(*pieces):
                for call, piece in zip(calls, turn, strict=True):
                    if piece is not None:
                        yield messages.ToolCallDelta(call.id, call.name, piece)
            yield from map(messages.ToolCallPart, calls)
        else:
            for call, own in zip(calls, pieces, strict=True):
                yield from (messages.ToolCallDelta(call.id, call.name, piece) for piece in own)
                yield messages.ToolCallPart(call)
        for name, text in self.half_call.items():
            yield messages.ToolCallDelta(f"call-{first_call + len(calls)}", name, text)
        yield from self._end()

    def _end(self) -> Iterator[messages.Part | Exception | None]:
        if self.http is not None:
            yield self.http.failure()
        elif self.error is not None:
            yield messages.StreamError(self.error.fault())
        elif self.lost is not None:
            how = "refused" if self.lost == _UNREACHED else f"lost {self.lost.replace('-', ' ')}"
            yield messages.StreamError(messages.Fault(f"connection {how}", code="connection"))
        elif self.stall is not None:
            yield None
        elif self.raises is not None:
            yield ScriptedFailure(self.raises)
        elif not self.unfinished:
            raw = ("tool-calls" if self.call else "stop") if self.finish is None else self.finish
            told = self.usage
            usage = None if told is None else messages.Usage(told.input, told.output)
            yield messages.Finish(messages.FinishReason.read(raw), raw, usage, self.steps)


class Party(Strict):
    """The replies of the model to one agent of a program: one of several."""

    when: fields.One[PartyCondition]
    """Which requests are for it: those that have all of this."""
    replies: fields.Many[Reply] = Field(default_factory=kept(no_items))
    """Its replies, in order or by rule."""

    @model_validator(mode="after")
    def _has_a_condition(self) -> Self:
        if not any(differs(self.when, key) for key in PartyCondition.model_fields):
            raise wrong("when", "say which requests are for it, such as {system: {contains: ...}}")
        return self

    def script(self, name: str) -> PartyScript:
        return PartyScript(self.when.is_met, entries_of(self.replies, f"models.{name}.replies"))


def entries_of(replies: Iterable[Reply], key: str, first: int = 0) -> list[ScriptEntry]:
    """Return the replies of a key as entries of a script; the first has that number."""
    return [reply.entry(f"{key}.{number}") for number, reply in enumerate(replies, first)]


@cache
def reply_of_fault(fault: ReplyFault) -> Reply:
    """Return a whole reply with a fault of the catalogue."""
    return Reply(**fault.reply)


def parts_of_fault(fault: ReplyFault) -> Sequence[TimedPart]:
    """Return the parts of such a reply."""
    return reply_of_fault(fault).play(1)


def _pieces(text: str | list[str]) -> list[str]:
    """Return a list's items, or a text's words, each with the space before it, like tokens."""
    return text if isinstance(text, list) else _TOKEN.findall(text)


_TOKEN = re.compile(r".[^ ]*", re.DOTALL)


def _split(text: str, pieces: int) -> list[str]:
    if not pieces:
        return []
    size = max(1, -(-len(text) // pieces))
    return [text[start : start + size] for start in range(0, len(text), size)]
