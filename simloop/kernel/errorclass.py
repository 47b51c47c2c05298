"""What kind of failure it was: the taxonomy that policies decide by, instead of a status list.

Document 002 section 9 names the status list as a known risk. Not here: what to do about a class
(retry.py, the loops). The rule to keep: a class comes from a status or a whole code word, never
from a number or a word found somewhere in a sentence (bug C7: "15000 tokens" is not a 500).
"""

from enum import StrEnum

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
    UNKNOWN = "unknown"
    # Three replies that came through and are of no use:
    INTERRUPTED = "interrupted"  # the stream ended without a finish
    EMPTY_REPLY = "empty-reply"  # neither text nor calls
    MISSING_CALLS = "missing-calls"  # it says `tool-calls` and there are none


_BY_CODE = {
    "connection": ErrorClass.CONNECTION,
    "timeout": ErrorClass.TIMEOUT,
    "insufficient_quota": ErrorClass.QUOTA,
    "billing_error": ErrorClass.QUOTA,
    "context_length_exceeded": ErrorClass.OVERFLOW,
    "overloaded_error": ErrorClass.OVERLOADED,
    "rate_limit_error": ErrorClass.RATE_LIMIT,
    "rate_limit_exceeded": ErrorClass.RATE_LIMIT,
    "server_error": ErrorClass.SERVER,
    "api_error": ErrorClass.SERVER,
}

_BY_STATUS = {
    401: ErrorClass.AUTH,
    402: ErrorClass.QUOTA,
    403: ErrorClass.AUTH,
    408: ErrorClass.TIMEOUT,
    429: ErrorClass.RATE_LIMIT,
    500: ErrorClass.SERVER,
    502: ErrorClass.SERVER,
    503: ErrorClass.OVERLOADED,
    504: ErrorClass.TIMEOUT,
    529: ErrorClass.OVERLOADED,
}

# What only the code can tell, because the status is shared: a 429 for want of money, a 400 for
# want of room. Every other code yields to the status (bug C7: a 401 whose body says server_error).
_CODE_BEATS_STATUS = frozenset({ErrorClass.QUOTA, ErrorClass.OVERFLOW})


def classify(fault: Fault) -> ErrorClass:
    """The class of a failed call: from its code where only that can tell, else from its status."""
    coded = _BY_CODE.get(fault.code)
    if not isinstance(fault.status, int):
        return coded or ErrorClass.UNKNOWN
    if coded in _CODE_BEATS_STATUS and coded is not None:
        return coded
    known = _BY_STATUS.get(fault.status)
    if known is not None:
        return known
    return ErrorClass.BAD_REQUEST if 400 <= fault.status < 500 else ErrorClass.UNKNOWN  # noqa: PLR2004
