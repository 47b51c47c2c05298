"""The parts of every page: the policy, the JSON in it, the text in it, and the filled template.

A page loads nothing, its policy permits its own script and style alone, by their digests, and the
data is JSON that cannot end its element.
"""

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from simloop.escape import escape

_WIDEST = 200
_HOLE = re.compile(r"\{\{(\w+)\}\}")
# What could end a script element or a line of JavaScript; the rest of the JSON is ASCII.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\x7f": "\\u007f"}


def document(name: str, data: Any, parts: Mapping[str, str], scripts: Sequence[str] = ()) -> str:
    """Return the page of NAME.html, with NAME.css and NAME.js after parts.css, parts.js, `scripts`.

    All pages have the frame of frame.html. The styles are joined, and the scripts are joined as one
    function, so that their names are its own.
    """
    style = _files("parts.css", f"{name}.css")
    functions = _files("parts.js", *scripts, f"{name}.js")
    script = f'"use strict";\n(() => {{\n{functions}}})();\n'
    own = {
        "policy": html.escape(policy(style, script)),
        "style": style,
        "script": script,
        "data": safe_json(data),
        "body": _filled(_files(f"{name}.html"), parts),
    }
    return _filled(_files("frame.html"), {**parts, **own})


def policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy that permits this style and this script, and no more."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def safe_json(data: Any) -> str:
    """Return JSON that a script element can hold: ASCII, without `<`, `>` and `&`."""
    text = json.dumps(data, separators=(",", ":"))
    for character, escaped in _ESCAPED.items():  # `translate` takes ten times as long
        text = text.replace(character, escaped)
    return text


def safe_text(text: str, width: int = _WIDEST) -> str:
    """Return text for HTML, in ASCII."""
    return html.escape(escape(text, width)).encode("ascii", "xmlcharrefreplace").decode()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def _files(*names: str) -> str:
    return "".join(Path(__file__).with_name(name).read_text("utf-8") for name in names)


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """Return the template with its parts; a part that looks like a hole stays as it is."""
    return _HOLE.sub(lambda hole: parts[hole[1]], template)
