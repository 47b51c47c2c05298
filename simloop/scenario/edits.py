"""A change of one key in the text of a scenario file: all other lines and comments stay."""

from contextlib import suppress
from typing import Any

from simloop.errors import ScenarioError
from simloop.scenario.writing import entry_lines
from simloop.scenario.yaml import Document, Loc, read_yaml


def with_sent(text: str, sent: Any, path: str) -> str:
    """Return the text of a scenario with another `expect.sent`.

    Raises ScenarioError for a text that is written in a way that no line can be exchanged.
    """
    document, lines = read_yaml(text, path), text.removesuffix("\n").split("\n")
    expect = document.data.get("expect") or {}
    whole = _block(document, lines, ("expect",))
    inner = _block(document, lines, ("expect", next(iter(expect), "")))
    if found := _block(document, lines, ("expect", "sent")):
        first, last, indent = found
        lines[first:last] = entry_lines("sent", sent, indent)
    elif whole and inner:
        lines[whole[1] : whole[1]] = entry_lines("sent", sent, inner[2])
    else:
        margin = document.locate((next(iter(document.data)),), key=True)[1] - 1
        first, last, indent = whole or (len(lines), len(lines), margin)
        lines[first:last] = entry_lines("expect", {**expect, "sent": sent}, indent)
    new = "\n".join(lines) + "\n"
    wanted = {**document.data, "expect": {**expect, "sent": sent}}
    with suppress(ScenarioError):
        if read_yaml(new, path).data == wanted:
            return new
    hint = "write `expect:` and `sent:` on lines of their own"
    raise ScenarioError("expect.sent cannot be changed in place", path=path, hint=hint)


def _block(document: Document, lines: list[str], loc: Loc) -> tuple[int, int, int] | None:
    """Return the first line of a key, the line after its value, and the indent; None if inline."""
    if (loc, True) not in document.places:
        return None
    line, column = document.locate(loc, key=True)
    first, indent = line - 1, column - 1
    if lines[first][:indent].strip():
        return None
    last = first + 1
    for number, each in enumerate(lines[first + 1 :], first + 1):
        words = each.lstrip(" ")
        depth = len(each) - len(words)
        if words.strip() and (depth > indent or words[0] != "#"):
            if depth < indent or (depth == indent and words[:2] not in ("-", "- ")):
                break
            last = number + 1  # a deeper line with a # may be one of a text
    return first, last, indent
