"""The catalogue of faults: each failure of a model that simloop knows, stated once.

A fault is the keys of a reply in a script, so whatever plays a reply plays each of them. The lists
of statuses, codes, words, headers and bodies are those of the reports in `scenarios/BUGS.md` and of
the providers' documentation, as of November 2026.
"""

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from simloop.kernel.errorclass import ErrorClass

Keys = Mapping[str, Any]
"""The keys of a reply, or of a part of one, as a scenario file has them."""

FaultPlace = Literal["before-connect", "before-headers", "after-headers", "mid-output"]
"""Where a connection is lost, or where nothing more comes."""

FAILURES = ("http", "error", "lost", "stall", "unfinished", "raises")
REPLY_ENDS = ("finish", *FAILURES)
"""The keys of a reply that state its end; a reply has at most one of them."""
TOOL_ENDS = ("returns", "returns_chars", "raises", "cancels", "hangs")
"""The keys of a tool that state its end; a tool has at most one of them."""


class Stage(Enum):
    """The moment of a reply at which a fault shows."""

    INSTEAD = "instead of a reply"
    LATE = "before a reply, which comes late"
    AMID = "after the first parts of a reply"
    END = "at the end of a whole reply"


class ReplyFault(Struct, frozen=True, eq=False):
    """One fault of a model's reply.

    `error` is the class of the failed call, if the call fails. `weight` is for the search: 0 keeps
    the fault out of it, because the search makes it from several axes. `words` are for a menu that
    inserts the fault. `site` is the name under which the fault comes by chance, and acts by default
    unless `named_only`: a scenario that lists no sites draws the faults that it always drew.
    """

    name: str
    stage: Stage
    keys: Keys
    error: ErrorClass | None = None
    weight: int = 1
    words: str = ""
    site: str = ""
    named_only: bool = False

    @property
    def is_breach(self) -> bool:
        """Return whether only a provider that breaks its contract causes it."""
        is_odd = self.name.startswith("finish ") and self.name not in _REAL_FINISHES
        return is_odd or self.name in {"unfinished", "empty body", "raises"}

    @property
    def reply(self) -> dict[str, Any]:
        """Return the keys of a whole reply with this fault: one that comes says a few words."""
        said = {} if self.stage is Stage.INSTEAD else {"say": "This reply"}
        return {**said, **self.keys}


class SiteFault(Struct, frozen=True, eq=False):
    """One fault of a party besides the model, with its keys in a script; it comes by chance."""

    site: str
    stage: Stage
    keys: Keys


SERVICE_FAULTS = (
    SiteFault("service.slow", Stage.LATE, {"takes": "20s"}),
    SiteFault("service.503", Stage.INSTEAD, {"status": 503}),
    SiteFault("service.lost", Stage.INSTEAD, {"lost": "before-headers"}),
)
"""The faults of a service; one that is late may come with another."""

PROGRAM_FAULTS = (
    SiteFault("program.slow", Stage.LATE, {"takes": "20s"}),
    SiteFault("program.fails", Stage.INSTEAD, {"stderr": "failed by chance\n", "exit": 1}),
    SiteFault("program.killed", Stage.AMID, {"signal": "SIGKILL"}),
)
"""The faults of a program, which dies after half of its output if it is killed."""

_PHRASES = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden",
    404: "Not Found", 408: "Request Timeout", 413: "Content Too Large", 429: "Too Many Requests",
    500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable",
    504: "Gateway Timeout", 529: "Overloaded",
}  # fmt: skip


def status_text(status: int) -> str:
    """Return a status such as `404 Not Found`, the same in all versions of Python."""
    return f"{status} {_PHRASES.get(status, 'Error')}"


STATUSES: Mapping[int, ErrorClass] = {
    429: ErrorClass.RATE_LIMIT, 500: ErrorClass.SERVER, 529: ErrorClass.OVERLOADED,
    503: ErrorClass.OVERLOADED, 502: ErrorClass.SERVER, 504: ErrorClass.TIMEOUT,
    408: ErrorClass.TIMEOUT, 400: ErrorClass.BAD_REQUEST, 401: ErrorClass.AUTH,
    402: ErrorClass.QUOTA, 403: ErrorClass.AUTH, 404: ErrorClass.BAD_REQUEST,
    413: ErrorClass.BAD_REQUEST, 418: ErrorClass.BAD_REQUEST, 520: ErrorClass.CONNECTION,
}  # fmt: skip
"""The statuses of failed calls, with the class of a call that says nothing more."""

_CODES: Mapping[str, ErrorClass] = {
    "overloaded_error": ErrorClass.OVERLOADED, "rate_limit_error": ErrorClass.RATE_LIMIT,
    "context_length_exceeded": ErrorClass.OVERFLOW, "server_error": ErrorClass.SERVER,
    "": ErrorClass.UNKNOWN, "invalid_request_error": ErrorClass.UNKNOWN,
    "aborted": ErrorClass.ABORTED, "insufficient_quota": ErrorClass.QUOTA,
}  # fmt: skip
_FINISHES = (
    "stop", "tool_calls", "error", "weird_reason", "network_error", "",
    "end_turn", "max_tokens", "refusal", "malformed_function_call", "STOP", "unknown", "tool_use",
)  # fmt: skip

_REAL_FINISHES = frozenset({"finish length", "finish content_filter"})

_USUAL: Final = 4


def _http(name: str, keys: Keys, error: ErrorClass, weight: int = 0, **more: Any) -> ReplyFault:
    return ReplyFault(name, Stage.INSTEAD, {"http": keys}, error, weight, **more)


def _status(status: int, weight: int = 1, **more: Any) -> ReplyFault:
    return _http(f"http {status}", {"status": status}, STATUSES[status], weight, **more)


def _lost(place: FaultPlace, **more: Any) -> ReplyFault:
    stage = Stage.AMID if place == "mid-output" else Stage.INSTEAD
    name = f"lost {place.replace('-', ' ')}"
    return ReplyFault(name, stage, {"lost": place}, ErrorClass.CONNECTION, **more)


def _stalled(place: FaultPlace, **more: Any) -> ReplyFault:
    stage = Stage.AMID if place == "mid-output" else Stage.INSTEAD
    return ReplyFault(f"stalled {place.replace('-', ' ')}", stage, {"stall": place}, **more)


def _code(code: str, message: str = "", **more: Any) -> ReplyFault:
    keys = {"error": {"message": message or f"failed: {code}", "code": code}}
    name = f"error part {code or 'without code'}"
    return ReplyFault(name, Stage.AMID, keys, _CODES[code], **more)


def _finish(word: str, **more: Any) -> ReplyFault:
    return ReplyFault(f"finish {word or 'empty'}", Stage.END, {"finish": word}, **more)


_OVERFLOW = {"status": 400, "message": "400 prompt is too long", "code": "context_length_exceeded"}
# Those that come by chance are asked in this order, on which each recorded run with them depends.
_CHOSEN = (
    _status(429, _USUAL, words="a rate limit (429)", site="model.rate-limit"),
    _http("http 429 with a wait", {"status": 429, "retry_after": "7s"}, ErrorClass.RATE_LIMIT,
          words="a rate limit with Retry-After", site="model.rate-limit-with-wait"),
    _status(500, _USUAL, words="a server error (500)", site="model.server-error"),
    _status(529, words="an overloaded provider (529)", site="model.overloaded"),
    _lost("before-headers", words="a lost connection", site="model.lost-before-headers"),
    _http("overflow", _OVERFLOW, ErrorClass.OVERFLOW,
          words="a context overflow (400)", site="model.overflow"),
    ReplyFault("slow", Stage.LATE, {"pace": {"first_part": "20s"}}, weight=0, site="model.slow"),
    _stalled("before-headers", site="model.stall"),
    _lost("before-connect", words="a refused connection", site="model.refused", named_only=True),
    _stalled("before-connect", words="a connection that is not made", site="model.unreachable",
             named_only=True),
    _lost("after-headers"),
    _stalled("after-headers", words="a reply that stalls"),
    _lost("mid-output", weight=_USUAL, words="a connection lost amid a reply",
          site="model.lost-mid-output"),
    _code("overloaded_error", "Overloaded", site="model.error-part"),
    _stalled("mid-output"),
    _http("empty body", {"status": 200, "body": ""}, ErrorClass.UNKNOWN, weight=1,
          words="an empty body with status 200", site="model.empty-body", named_only=True),
    ReplyFault("empty", Stage.INSTEAD, {"finish": "stop"}, weight=0, words="an empty reply"),
    _finish("length", weight=_USUAL, words="a reply cut by its length"),
    ReplyFault("unfinished", Stage.END, {"unfinished": True}, weight=_USUAL,
               words="a stream without an end", site="model.unfinished"),
    _finish("content_filter", words="a content filter"),
    ReplyFault("raises", Stage.INSTEAD, {"raises": "the client is broken"}),
)  # fmt: skip
_NAMES = frozenset(fault.name for fault in _CHOSEN)
_LISTED = (*map(_status, STATUSES), *map(_code, _CODES), *map(_finish, _FINISHES))
FAULTS = (*_CHOSEN, *(fault for fault in _LISTED if fault.name not in _NAMES))

_DATA = json.loads(Path(__file__).with_name("faults.json").read_text("utf-8"))
WAITS: Sequence[Keys] = _DATA["waits"]
"""The keys of `http` by which a failed call requests a wait; a simulation begins with 2026."""


class Body(NamedTuple):
    """The body of a failed call, as keys of `http`, and the statuses that come with it."""

    keys: Keys
    statuses: Sequence[int]


BODIES = tuple(
    Body(each["keys"], tuple(each.get("statuses", STATUSES))) for each in _DATA["bodies"]
)
"""The bodies of a failed call: overflows in the words of providers, and similar words."""
