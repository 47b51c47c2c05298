"""The classes of failures, by which policies decide instead of by a status list.

A class comes from a status or a whole code word, never from a number or a word in a sentence (bug
C7: "15000 tokens" is not a 500). Only an overflow is known by phrases, for want of anything better.
"""

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

from simloop.messages import Fault


class ErrorClass(StrEnum):
    """Why a model call, or a reply that cannot be used, failed."""

    RATE_LIMIT = "rate-limit"
    OVERLOADED = "overloaded"
    SERVER = "server"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    QUOTA = "quota"
    AUTH = "auth"
    OVERFLOW = "overflow"
    BAD_REQUEST = "bad-request"
    ABORTED = "aborted"  # by the user, or by the provider or its SDK without an abort
    UNKNOWN = "unknown"
    # Three replies that came through and are of no use:
    INTERRUPTED = "interrupted"  # the stream ended without a finish
    EMPTY_REPLY = "empty-reply"  # neither text nor calls
    MISSING_CALLS = "missing-calls"  # it says `tool-calls` and there are none


OK, _TOO_LARGE, _SERVER = 200, 413, 500

_OBSERVED: Any = json.loads(Path(__file__).with_name("errorclass.json").read_text("utf-8"))
"""The codes, the statuses and the phrases of providers, and of proxies before them."""
_BY_CODE = {code: ErrorClass(name) for name, own in _OBSERVED["codes"].items() for code in own}
_BY_STATUS = {code: ErrorClass(name) for name, own in _OBSERVED["statuses"].items() for code in own}

# What only the code can tell, because the status is shared: a 429 for want of money, a 400 for
# want of room, a 413 for too many tokens a minute. Every other code yields to the status (bug C7:
# a 401 whose body says server_error).
_CODE_BEATS_STATUS = frozenset({ErrorClass.QUOTA, ErrorClass.OVERFLOW})
_CODE_BEATS_413 = _CODE_BEATS_STATUS | {ErrorClass.RATE_LIMIT}

# Most providers say only in a sentence that the context is too long, each in its own words.
_OVERFLOW = re.compile("|".join(_OBSERVED["phrases of an overflow"]), re.IGNORECASE)
# Sentences about tokens that are no overflow: waiting helps, shortening does not (bug C5).
_THROTTLE = re.compile(r"^throttling|rate limit|too many requests|per minute", re.IGNORECASE)
_MAY_BE_OVERFLOW = frozenset({None, 200, 400, 413})


def classify(fault: Fault) -> ErrorClass:
    """Return the class of a failed call: by its code, the words of an overflow, or its status."""
    coded = _BY_CODE.get(fault.code)
    status = fault.status if isinstance(fault.status, int) else None
    beats = _CODE_BEATS_413 if status == _TOO_LARGE else _CODE_BEATS_STATUS
    if coded is not None and (status in (None, OK) or coded in beats):
        return coded
    if status in _MAY_BE_OVERFLOW:
        if _THROTTLE.search(fault.message):
            return ErrorClass.RATE_LIMIT
        if says_overflow(fault.message):
            return ErrorClass.OVERFLOW
    return class_of_status(status)


def says_overflow(message: str) -> bool:
    """Return whether the message has a provider's phrase for a context that is too long."""
    return not _THROTTLE.search(message) and _OVERFLOW.search(message) is not None


def class_of_status(status: int | None) -> ErrorClass:
    """Return the class of an HTTP status; one that no provider uses is `UNKNOWN`."""
    if status is None or status not in range(400, 600):
        return ErrorClass.UNKNOWN
    other = ErrorClass.BAD_REQUEST if status < _SERVER else ErrorClass.UNKNOWN
    return _BY_STATUS.get(status, other)
