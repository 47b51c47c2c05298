"""An HTTP status in the place of a reply, and the error bodies of providers.

Not here: the bodies that the wire formats write (wire/formats/error_bodies.py). The rule to
keep: code and message are read from a body as the SDKs of the providers read them.
"""

import json
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from simloop.messages import Fault, StreamError
from simloop.scenario.durations import WrittenDurationOrNone
from simloop.scenario.strict import Strict, kept
from simloop.world.faults import status_text


class Http(Strict):
    """An HTTP status that the provider sends instead of a reply."""

    status: Annotated[int, Field(ge=300, le=599)] = Field(description="The HTTP status.")
    code: str = Field(
        default="", description="The code in the error body, such as insufficient_quota."
    )
    message: str = Field(
        default="", description="The message; by default the body's, or the status."
    )
    body: str | dict[str, Any] | None = Field(
        default=None, description="The response body; code and message are read from it as SDKs do."
    )
    retry_after: WrittenDurationOrNone = Field(
        default=kept(None), description="Retry-After, sent in seconds."
    )
    headers: dict[str, str] = Field(default_factory=dict, description="More response headers.")

    def fault(self) -> Fault:
        """Return the fault that the loop sees."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.retry_after is not None:
            headers["retry-after"] = _seconds(self.retry_after)
        code, message, code_is_type = error_of(self.body)
        return Fault(
            self.message or message or status_text(self.status),
            status=self.status,
            code=self.code or code,
            headers=tuple(sorted(headers.items())),
            code_is_type=code_is_type and not self.code,
        )

    def failure(self) -> StreamError:
        """Return the failed call as a part; a body is sent to SDKs as the script has it."""
        body = self.body
        if isinstance(body, dict):  # its keys in their order: the script's body, not simloop's
            body = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return StreamError(self.fault(), body)


def _seconds(nanoseconds: int) -> str:
    """Return the exact seconds in the form of a header: 5, or 0.25."""
    return f"{Decimal(nanoseconds).scaleb(-9).normalize():f}"


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
