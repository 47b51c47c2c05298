"""The phrases of HTTP statuses, as a fault has them whose message the script does not give.

The standard library's were rejected: they differ between versions of Python. The rule to keep: they
are part of traces, so they do not change.
"""

_PHRASES = {
    400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden",
    404: "Not Found", 408: "Request Timeout", 413: "Content Too Large", 429: "Too Many Requests",
    500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable",
    504: "Gateway Timeout", 529: "Overloaded",
}  # fmt: skip


def status_text(status: int) -> str:
    """Return a status with its phrase, such as `404 Not Found`."""
    return f"{status} {_PHRASES.get(status, 'Error')}"
