"""The one gate between text from models, tools or files and a terminal.

Such text is hostile: escape sequences that rewrite the screen, direction overrides, lone
surrogates that cannot be written, lines of 10 MB. The rule to keep: whatever is printed that we
did not write ourselves goes through here.
"""

import re

# C0 and C1 controls, DEL, zero-width and direction marks, line separators, surrogates, BOM.
_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def untrusted(text: str, width: int = 100) -> str:
    """`text` on one line, at most `width` characters, with everything invisible spelled out."""
    cut = text[: width + 1]
    shown = _HOSTILE.sub(_spell, cut)
    if len(shown) <= width and len(cut) == len(text):
        return shown
    return shown[: width - 1] + "…"


def _spell(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - one byte


def writable(text: str) -> str:
    """`text` with lone surrogates replaced: JSON can carry them in, UTF-8 cannot carry them out."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
