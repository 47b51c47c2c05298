"""Failed calls of a model, in the words of programs and tracers, as the keys of a reply."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from simloop.messages import json_value
from simloop.recordings.files import mapping
from simloop.scenario.replies import error_of

ABORTED: Mapping[str, Any] = {"error": {"message": "Request was aborted.", "code": "aborted"}}
"""The reply that ends a run which the user has stopped: a script has any number of them."""
_KEPT_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")
_STATUS = re.compile(r"(?i)(?:\A|API Error: |status.?code\W{1,3}|error code\W{1,3})([345]\d\d)\b")
_BODY = re.compile(r"\{.*\}", re.DOTALL)
_LOST = re.compile(r"(API Error: )?(Connection error|Unable to connect)|Reconnecting")
_NO_ANSWER = re.compile(r"(?i)connect|timed?.?out|reset|network|ENOTFOUND|EAI_AGAIN|OpenSocket")
_REFUSED = re.compile(r"refused|ENOTFOUND|EAI_AGAIN|OpenSocket", re.IGNORECASE)


def failure_keys(
    error: Any, message: str, body: Any = None, headers: Any = None, begun: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """Return the keys of a failed reply. `error` is a status, or the type of an error.

    Without one, the message may begin with the status, and have the body.
    """
    kind, written = str(error or ""), _BODY.search(message)
    found = _STATUS.search(kind) or _STATUS.search(message)
    whole = mapping(body or (written and json_value(written[0])))
    if found is not None and not begun:
        told = {"body": whole, "message": "" if whole else message}
        return http_failure(int(found[1]), mapping(headers).items(), **told)
    if _NO_ANSWER.search(kind) or _LOST.match(message):
        lost = "before-connect" if _REFUSED.search(f"{kind} {message}") else "before-headers"
        return {**begun, "lost": "mid-output" if begun else lost}
    code, words, _ = error_of(whole)
    code = code or (kind if re.fullmatch(r"[a-z][a-z_]{2,60}", kind) else "")
    named = {"code": code} if code else {}
    words = words or message or kind or "the recording does not say why it failed"
    return {**begun, "error": {"message": words, **named}}


def http_failure(status: int, headers: Iterable[tuple[str, Any]], **told: Any) -> dict[str, Any]:
    """Return the keys of a failure with a status, and with the headers that a retry needs."""
    given = {name.lower(): str(value) for name, value in headers}
    kept = {name: given[name] for name in _KEPT_HEADERS if given.get(name)}
    whole = {"status": status, "headers": kept, **told}
    return {"http": {name: value for name, value in whole.items() if value}}
