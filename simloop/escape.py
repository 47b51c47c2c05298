"""Escaping: the one step that text from models, tools and files passes before it is shown.

Such text is hostile: escape sequences that rewrite the screen, newlines that forge a verdict,
direction overrides, lone surrogates, lines of 10 MB. An error does so in its `__str__`.
"""

import re

WIDEST = 2_000
"""The maximum number of characters of a line that holds a path and a message."""

# C0 and C1 controls, DEL, zero-width and direction marks, line separators, surrogates, BOM.
_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
MOST_RECORDED = 100_000
"""The characters of one input or output of an agent that a trace keeps."""


def escape(text: str, width: int = WIDEST) -> str:
    """Return `text` on one line of at most `width` characters, with invisible ones spelled out."""
    if len(text) <= width and text.isascii() and text.isprintable():
        return text  # most texts: the expression below takes five times as long
    cut = text[: width + 1]
    shown = _HOSTILE.sub(spelled, cut)
    return shown if len(shown) <= width and len(cut) == len(text) else shown[: width - 1] + "…"


def escape_lines(text: str) -> str:
    """Return `text` with each of its lines escaped. Its newlines must be simloop's own."""
    return "\n".join(map(escape, text.split("\n")))


def spelled(match: re.Match[str]) -> str:
    """Return the character that was found, spelled out."""
    code = ord(match.group())
    return _SHORT.get(match.group()) or (f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}")  # noqa: PLR2004 - one byte


def writable(text: str) -> str:
    """Return `text` as a plain str with lone surrogates replaced, which UTF-8 cannot carry."""
    if text.isascii():
        # A subclass, such as the texts of a framework, is nothing that a trace can hold.
        return text if type(text) is str else str.__str__(text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def recordable(text: str) -> str:
    """Return an input or output as a trace keeps it: writable, and of a long one the beginning."""
    text = writable(text)
    more = len(text) - MOST_RECORDED
    return text if more <= 0 else f"{text[:MOST_RECORDED]}[... and {more} more characters]"
