"""The expectations for the end of a run; reading refuses one that can never hold."""

import re
from collections.abc import Collection, Mapping, Sequence
from types import EllipsisType
from typing import Annotated, Any, Literal, Self, TypeAlias, TypedDict, TypeVar

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from simloop.kernel.durations import format_duration
from simloop.messages import Outcome
from simloop.scenario import fields
from simloop.scenario.conversation import SentRequest
from simloop.scenario.fields import Lax, Strict, Written, differs, kept, wrong
from simloop.scenario.mistakes import FORM, NAMES, PLAIN

REST = "..."
"""The mark for any number of further items in a list, or of messages in a list of roles."""

T = TypeVar("T")
OutcomeName: TypeAlias = Literal[
    "completed", "max-steps", "context-limit", "content-filtered", "model-error", "failed",
    "too-many-errors", "aborted", "timed-out", "blocked",
]  # fmt: skip


def _form(value: Any) -> str:
    return FORM if isinstance(value, dict | Strict) else PLAIN


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: REST if each is ... else each for name, each in value.items()}
    return REST if value is ... else value


Plain = Annotated[T, Tag(PLAIN)]
Form = Annotated[T, Tag(FORM)]
Either = Annotated[T, Discriminator(_form)]
"""A value with two forms; an error reports only the form that the author used."""

_Dots = Annotated[T, BeforeValidator(_spelled)]
_IS_REST = Discriminator(lambda value: FORM if value == REST else PLAIN)
_RestOf = _Dots[Annotated[Plain[T] | Form[Literal["..."]], _IS_REST]]
_Words = Lax[list[_Dots[str]]]
_Sent = Lax[list[_Dots[Either[Plain[str] | Form[Lax[SentRequest]]]]]]
_HAS_NAMES = Discriminator(lambda value: NAMES if isinstance(value, dict) else PLAIN)
_SentOfAny = Annotated[Plain[_Sent] | Annotated[dict[str, _Sent], Tag(NAMES)], _HAS_NAMES]
_Items: TypeAlias = Sequence[str | EllipsisType]
_GivenItems: TypeAlias = Sequence[str | EllipsisType | Mapping[str, Any]]
_GivenOutcomes: TypeAlias = Sequence[Outcome | OutcomeName | EllipsisType]
_GivenSent: TypeAlias = Sequence[str | EllipsisType | SentRequest | Mapping[str, Any]]


def _asked(item: Any) -> Any:
    names = [item] if isinstance(item, str) else [*item]
    if item != REST and not (len(names) == 1 and _REQUEST.fullmatch(names[0])):
        raise ValueError("must be a method with a path or a URL, such as GET /orders/7")
    return item


_REQUEST = re.compile(r"[A-Za-z]+ (/|https?://)\S*")
_Asked = _Dots[Annotated[Either[Plain[str] | Form[dict[str, Any]]], AfterValidator(_asked)]]


class _Bounds(Strict):
    """Inclusive bounds, of which at least one is given."""

    @model_validator(mode="after")
    def _can_hold(self) -> Self:
        own: Any = self
        least, most = own.min, own.max
        if least is None and most is None:
            raise wrong("", "give min, max or both")
        if least is not None and most is not None and least > most:
            raise wrong("min", "min is more than max, so nothing can ever fit")
        return self

    def __str__(self) -> str:
        bounds = (("at least", "min"), ("at most", "max"))
        given = ((word, getattr(self, name)) for word, name in bounds)
        shown = format_duration if isinstance(self, Span) else str
        return " and ".join(f"{word} {shown(each)}" for word, each in given if each is not None)


class CountBounds(_Bounds):
    """A number of occurrences within inclusive bounds."""

    min: int | None = Field(default=None, ge=0)
    """At least so often."""
    max: int | None = Field(default=None, ge=0)
    """At most so often."""


class Span(_Bounds):
    """A length of time within inclusive bounds."""

    min: Written[fields.Duration | None, str | None] = kept(None)
    """At least so long."""
    max: Written[fields.Duration | None, str | None] = kept(None)
    """At most so long."""


class Contains(Strict):
    """A text that contains the given texts."""

    contains: str | list[str]
    """A text that it contains; a list: all of them."""

    @property
    def texts(self) -> list[str]:
        return [self.contains] if isinstance(self.contains, str) else self.contains

    def fits(self, text: str) -> bool:
        return all(each in text for each in self.texts)

    def __str__(self) -> str:
        return f"a text with {' and '.join(map(repr, self.texts))}"


def fits(wanted: str | Contains | None, text: str) -> bool:
    """Return whether `text` is as wanted; None stands for any text."""
    return wanted.fits(text) if isinstance(wanted, Contains) else wanted in (None, text)


def _form_of_counts(value: Any) -> str:
    is_of_parties = isinstance(value, dict) and not {"min", "max"}.issuperset(value)
    return NAMES if is_of_parties else _form(value)


_Number = Plain[Annotated[int, Field(ge=0)]] | Form[Lax[CountBounds]]
_Times = Either[_Number]
_NO_BOUND = Field(json_schema_extra={"propertyNames": {"not": {"enum": ["min", "max"]}}})
_Named = Annotated[dict[str, _Times], _NO_BOUND, Tag(NAMES)]
_Counts = Annotated[_Number | _Named, Discriminator(_form_of_counts)]
_Some = Either[Plain[Annotated[int, Field(ge=1)]] | Form[Lax[CountBounds]]]
_Lasting = Either[Plain[fields.Duration] | Form[Lax[Span]]]
AnyText = Either[Plain[str] | Form[Lax[Contains]]]
_GivenTimes: TypeAlias = int | CountBounds | Mapping[str, int]
_GivenCounts: TypeAlias = _GivenTimes | Mapping[str, int | CountBounds | Mapping[str, int]]
GivenText: TypeAlias = str | Contains | Mapping[str, str | list[str]]


class ExpectedCounters(Strict):
    """The counters at the end of the run; a check compares only the given ones."""

    error_count: Written[_Times | None, _GivenTimes | None] = kept(None)
    """Failed or useless model calls, as the loop counts them: reference in the run, opencode in a
    step, pi and react not at all."""
    total_steps: Written[_Times | None, _GivenTimes | None] = kept(None)
    """Steps of all replies together."""
    compaction_attempts: Written[_Times | None, _GivenTimes | None] = kept(None)
    """Compactions tried."""


class Expect(Strict):
    """The expectations for the end of the run; a check compares only the given ones.

    Without outcome, outcomes, exit and error, every prompt must complete.
    """

    outcome: Written[Lax[Outcome] | None, Outcome | OutcomeName | None] = kept(None)
    """How the run ends."""
    outcomes: Written[Lax[list[_RestOf[Lax[Outcome]]]] | None, _GivenOutcomes | None] = kept(None)
    """How the run of each prompt ends, in order."""
    error: Literal["ScriptExhausted", "RunawayRun", "Deadlock"] | None = None
    """The run has no outcome: this error ends it."""
    unused: Written[_Some | None, _GivenTimes | None] = kept(None)
    """The number of replies, aborts, queued messages and lines that the run does not use, exactly,
    or {max: 2}; without this key, 0."""
    limit: str | None = None
    """The limit that ended the run; empty for none."""
    text: Written[AnyText | None, GivenText | None] = kept(None)
    """The last text of the model, exactly; {contains: ...} for a part of it."""
    message: Written[AnyText | None, GivenText | None] = kept(None)
    """The last message to the user, exactly; {contains: ...} for a part of it."""
    exit: Annotated[int, Field(ge=0, le=255)] | None = None
    """The exit status of a loop that is a whole program."""
    elapsed: Written[_Lasting | None, str | Span | Mapping[str, str] | None] = kept(None)
    """Virtual time of all prompts together, exactly; or {min: 1s, max: 15s}."""
    counters: Written[Lax[ExpectedCounters], ExpectedCounters | Mapping[str, _GivenTimes]] = (
        fields.defaults_of(ExpectedCounters)
    )
    """The counters at the end."""
    requests: Written[_Counts | None, _GivenCounts | None] = kept(None)
    """How many requests the model got, exactly; or {min: 2, max: 4}; or those of parties of
    `models`, by name: {reviewer: 2}."""
    tools_run: Written[_Words | None, _Items | None] = kept(None)
    """Names of the tools run, in order; ... for any number of others."""
    calls: Written[Lax[list[_RestOf[dict[str, Any]]]] | None, _GivenItems | None] = kept(None)
    """The tools run, in order, with the arguments that they got: {read: {path: a}}, or {read: ...}
    with any arguments; ... for any number of other calls."""
    backoffs: Written[Lax[list[_RestOf[fields.Duration]]] | None, _Items | None] = kept(None)
    """The waits before retries, in order; ... for any number of others."""
    hooks: Written[_Words | None, _Items | None] = kept(None)
    """The hooks that ran: point, name, and ok, blocked, failed or timed-out; ... for any number of
    others."""
    services: Written[Lax[list[_Asked]] | None, _GivenItems | None] = kept(None)
    """The requests to services, in order: GET /orders/7, or with the whole URL, or {POST /tickets:
    body} with the body as text or JSON; ... for any number of others. A path without a query stands
    for any query."""
    messages: str | None = None
    """The roles of the messages at the end; ... for any number of messages."""
    sent: Written[_SentOfAny | None, _GivenSent | Mapping[str, _GivenSent] | None] = kept(None)
    """The requests as sent: for each the roles of its messages, or what it has: {system: Be brief.,
    adds: [{tool: sunny}]}. ... stands for any number of requests, and among the roles for any
    number of messages. Or those to parties of `models`, by name; "" names the rest."""
    programs: Written[_Words | None, _Items | None] = kept(None)
    """The command lines of the programs started, in order, where * stands for any characters; ...
    for any number of others."""
    asked: Written[_Words | None, _Items | None] = kept(None)
    """The questions that `input` answers, in order, and one that only the end of the input answers:
    the last line that was written before; ... for any number of others."""
    refused: Written[_Words | None, _Items | None] = kept(None)
    """What the world refuses, in order, without what `offline` and `absent` name: host or program,
    and what was asked; ... for any number of others."""
    files: dict[str, str] | None = None
    """The files at the end, all of them, by path."""
    violates: dict[str, str] | None = None
    """The invariants that this loop is known to violate in this scenario, each with the reason; by
    default there may be none. `simloop invariants` lists the names."""

    @model_validator(mode="after")
    def _sent_has_a_start(self) -> Self:
        for key, requests in self.sent_by_key().items():
            known = False
            for place, each in enumerate(requests):
                if (adds := isinstance(each, SentRequest) and each.adds is not None) and not known:
                    words = "the request before it states no messages: write messages"
                    raise wrong(f"{key}.{place}.adds", words)
                known = adds or (isinstance(each, SentRequest) and each.messages is not None)
        return self

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.error is not None:
            for field in _AT_AN_OUTCOME:
                if differs(self, field):
                    raise wrong(field, f"a run that ends in {self.error} has no outcome to judge")
        return self

    def unknown_party(self, parties: Collection[str]) -> tuple[str, str] | None:
        """Return a key that counts the requests of none of the parties, and what is wrong."""
        for key in ("requests", "sent"):
            named = getattr(self, key)
            for name in sorted({*named} - {*parties, ""} if isinstance(named, dict) else ()):
                known = f": it has {', '.join(parties)}" if parties else ""
                return f"{key}.{name}", f"there is no `{name}` in models{known}"
        return None

    def sent_by_key(self) -> dict[str, Sequence[str | SentRequest]]:
        """Return the lists of requests as sent, by their places: `sent` is that of all parties."""
        if isinstance(self.sent, dict):
            return {f"sent.{name}": each for name, each in self.sent.items()}
        return {} if self.sent is None else {"sent": self.sent}

    @property
    def properties(self) -> "Expect":
        """Return what holds in any course of the run: upper bounds, and the known violations.

        All else is that of one course: what is said, sent and run, how often, and the end.
        """
        bounds = _most(dict(self.counters))
        found = {
            "violates": self.violates, "elapsed": _most(self.elapsed),
            "requests": _most(self.requests), "counters": bounds and ExpectedCounters(**bounds),
        }  # fmt: skip
        return Expect(**{name: each for name, each in found.items() if each is not None})

    @property
    def says_how_it_ends(self) -> bool:
        """Return whether it names an outcome or outcomes, an exit status, or an error instead."""
        return any(e is not None for e in (self.outcome, self.outcomes, self.exit, self.error))


def _most(bounds: Any) -> Any:
    if isinstance(bounds, dict):
        return {name: most for name, each in bounds.items() if (most := _most(each))} or None
    has_most = isinstance(bounds, CountBounds | Span) and bounds.max is not None
    return bounds.model_copy(update={"min": None}) if has_most else None


class ExpectedTraffic(TypedDict, total=False):
    """The expectations of Expect that do not need an outcome: those of an agent's traffic."""

    requests: _GivenCounts
    elapsed: str | Span | Mapping[str, str]
    calls: _GivenItems
    tools_run: _Items
    sent: _GivenSent | Mapping[str, _GivenSent]
    refused: _Items
    programs: _Items
    asked: _Items
    services: _GivenItems
    violates: dict[str, str]


_AT_AN_OUTCOME = (
    "outcome", "outcomes", "unused", "limit", "text", "message", "exit", "elapsed", "counters",
    "messages", "files",
)  # fmt: skip
