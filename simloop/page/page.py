"""The page: a template, its style, its script and the data of one recorded run, in one file.

Not here: the data (tables.py). The rules to keep: the page loads nothing, its policy permits its
own script and style alone, by their digests, and the data is JSON that cannot end its element.
"""

import base64
import html
import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.views import FactView
from simloop.escape import escape
from simloop.messages import Outcome
from simloop.page.keys import KEYS, VIEW_KEYS
from simloop.page.tables import tables

_WIDEST = 200
_SCRIPTS = ("views.js", "page.js")
_HOLE = re.compile(r"\{\{(\w+)\}\}")
# What could end a script element or a line of JavaScript; the rest of the JSON is ASCII.
_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\x7f": "\\u007f"})


def page(recording: RecordedRun, name: str = "") -> str:
    """Return the whole page. `name` stands in its heading for a run without a title."""
    style, script = _file("page.css"), _script()
    header = recording.trace.header
    return _filled(
        _file("page.html"),
        {
            "policy": html.escape(policy(style, script)),
            "title": _text(header.title or name or "simloop"),
            "facts": _text(_facts(recording)),
            "outcome": _text(_outcome(recording)),
            "kind": "good" if _is_completed(recording) else "bad",
            "style": style,
            "panes": _panes(),
            "data": safe_json({**tables(recording), "keys": [each._asdict() for each in KEYS]}),
            "script": script,
        },
    )


def policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy that permits this style and this script, and no more."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def safe_json(document: Any) -> str:
    """Return JSON that a script element can hold: ASCII, without `<`, `>` and `&`."""
    return json.dumps(document, separators=(",", ":")).translate(_ESCAPED)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _script() -> str:
    """Return the files of the script as one function, so that its names are its own."""
    return "\n".join(['"use strict";', "(() => {", *map(_file, _SCRIPTS), "})();"])


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """Return the template with its parts; a part that looks like a hole stays as it is."""
    return _HOLE.sub(lambda hole: parts[hole[1]], template)


def _text(text: str) -> str:
    """Return text for HTML, in ASCII."""
    return html.escape(escape(text, _WIDEST)).encode("ascii", "xmlcharrefreplace").decode()


def _facts(recording: RecordedRun) -> str:
    header = recording.trace.header
    facts = [f"loop {header.loop}", f"seed {header.seed}", f"{len(recording.entries):,} entries"]
    if recording.trace.truncated:
        facts.append(f"the trace is truncated: {recording.trace.truncated}")
    return ", ".join(facts)


def _outcome(recording: RecordedRun) -> str:
    outcomes = recording.trace.outcomes
    return ", ".join(map(str, outcomes)) if outcomes else "not ended"


def _is_completed(recording: RecordedRun) -> bool:
    return set(recording.trace.outcomes) == {Outcome.COMPLETED}


def _panes() -> str:
    return "\n".join(_pane(name, key) for name, key in VIEW_KEYS.items())


def _pane(name: FactView, key: str) -> str:
    return (
        f'<section class="pane" id="pane-{name}" aria-labelledby="title-{name}">'
        f'<h2 id="title-{name}"><kbd>{key}</kbd> {name} <span class="changed"></span></h2>'
        f'<div class="rows" tabindex="0" role="group" aria-labelledby="title-{name}"></div>'
        "</section>"
    )
