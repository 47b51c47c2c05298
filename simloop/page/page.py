"""The page of one recorded run: the rows of the views, as text and never as markup.

The data, and the time to make it, grow about linearly with the trace: a row is stored once, a view
that does not change costs nothing, and messages that two requests share are not read again.
"""

import base64
import html
import json
import re
from collections.abc import Hashable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from simloop.cursor import views
from simloop.cursor.keys import HELP, MOVES, VIEW_KEYS, VIEWS, FactView, RunKey
from simloop.cursor.lines import EntryLine, answer_lines, entry_line, folds, gap_words, gaps
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.rows import FactRow, Mark
from simloop.escape import escape
from simloop.trace.kinds import Lane, clock, is_failure, kind_of, lanes_in, legend, sign_of

_WIDEST = 200
_HOLE = re.compile(r"\{\{(\w+)\}\}")
# What could end a script element or a line of JavaScript; the rest of the JSON is ASCII.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\x7f": "\\u007f"}

KEYS: tuple[RunKey, ...] = tuple(
    each._replace(keys=tuple(key for key in each.keys if not key.startswith("Ctrl-")))
    for each in (*MOVES, *VIEWS, HELP)
)


def page(recording: RecordedRun, name: str = "") -> str:
    """Return the whole page. `name` stands in its heading for a run without a title.

    It loads nothing, its policy permits its own script and style alone, by their digests, and the
    data is JSON that cannot end its element.
    """
    header, ending = recording.trace.header, recording.ending
    style = _file("page.css")
    facts = [f"loop {header.loop}", f"seed {header.seed}"]
    facts.append(f"entries 0 to {len(recording.entries) - 1}")
    facts += [recording.trace.no_end] if recording.trace.no_end else []
    # One function, so that its names are its own.
    functions = "".join(map(_file, ("views.js", "timeline.js", "page.js")))
    script = f'"use strict";\n(() => {{\n{functions}}})();\n'
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    parts = {
        "policy": html.escape(policy), "style": style, "script": script,
        "data": safe_json({**tables(recording), "keys": [each._asdict() for each in KEYS]}),
        "title": safe_text(header.title or name or "simloop"), "facts": safe_text(", ".join(facts)),
        "verb": "The run ends:" if recording.trace.outcomes else "The run",
        "outcome": safe_text(", ".join(filter(None, ending[:2]))),
        "kind": "good" if ending.is_good else "bad",
        "design": "agent" if recording.is_of_agent else "machine",
        "panes": "\n".join(_pane(name, key) for name, key in VIEW_KEYS.items()),
    }  # fmt: skip
    # A part that looks like a hole stays as it is.
    return _HOLE.sub(lambda hole: parts[hole[1]], _file("page.html"))


def safe_json(data: Any) -> str:
    """Return JSON that a script element can hold: ASCII, without `<`, `>` and `&`."""
    text = json.dumps(data, separators=(",", ":"))
    for character, escaped in _ESCAPED.items():  # `translate` takes ten times as long
        text = text.replace(character, escaped)
    return text


def safe_text(text: str) -> str:
    """Return text for HTML, in ASCII."""
    return html.escape(escape(text, _WIDEST)).encode("ascii", "xmlcharrefreplace").decode()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _pane(name: FactView, key: str) -> str:
    return (
        f'<section class="pane" id="pane-{name}" aria-labelledby="title-{name}">'
        f'<h2 id="title-{name}"><kbd>{key}</kbd> {name} <span class="changed"></span></h2>'
        f'<div class="rows" tabindex="0" role="group" aria-labelledby="title-{name}"></div>'
        "</section>"
    )


_MARKS = {mark: number for number, mark in enumerate(Mark)}

Splice = list[int]
"""A place in a list, a number of items to delete there, and the items to insert there."""


class Numbered(dict[Any, int]):
    """Numbers for things in the order in which they are first seen."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = number = len(self)
        return number


def tables(recording: RecordedRun) -> dict[str, Any]:
    """Return the data of the page, made of lists, numbers and text that JSON has."""
    rows, words, lanes = Numbered(), Numbered(), lanes_in(recording.entries)
    shown = [
        MessagesViewRows(name, rows) if name in views.MESSAGES_VIEWS else ViewRows(name, rows)
        for name in FactView
    ]
    changes: dict[str, list[list[Any]]] = {name: [] for name in FactView}
    for place in range(len(recording.entries)):
        position = Position(recording, place)  # which all views share: each fact is found once
        for view in shown:
            if made := view.change(position):
                changes[view.name].append([place, *made])
    texts = folds(recording).values()
    return {
        "start": recording.first_place,
        "entries": columns(recording, range(len(recording.entries)), words),
        "gaps": [[place, gap_words(recording, place)] for place in gaps(recording.entries)],
        "answers": [[place, [_columns_of(each, words) for each in answer_lines(recording, place)]]
                    for place in recording.index.answers],
        "texts": [[text, words[entry_line(recording, text).words]] for text in texts],
        "landmarks": {str(name): found for name, found in recording.index.landmarks.items()},
        "changes": {str(name): found for name, found in recording.index.changes.items()},
        "lanes": [str(lane) for lane in lanes],
        "legend": {lane: signs for lane, signs in legend().items() if lane in lanes},
        "marks": [[mark.value, mark.name.lower(), mark.words] for mark in Mark],
        "views": changes,
        "rows": [[_MARKS[mark], label, text, *(() if goes_to is None else (goes_to,))]
                 for mark, label, text, goes_to in rows],
        "words": list(words),
    }  # fmt: skip


def columns(recording: RecordedRun, places: Sequence[int], words: Numbered) -> dict[str, list[int]]:
    """Return the lines of entries as columns: `words` numbers the texts of each column."""
    record = [recording.entries[place] for place in places]
    lanes = {lane: number for number, lane in enumerate(lanes_in(recording.entries))}
    return {
        "time": [words[clock(entry.at_ns)] for entry in record],
        "lane": [lanes[sign_of(entry)[0]] for entry in record],
        "sign": [words[sign_of(entry)[1]] for entry in record],
        "kind": [words[kind_of(entry)] for entry in record],
        "text": [words[recording.words_at(place)] for place in places],
        "failed": [place for place, entry in enumerate(record) if is_failure(entry)],
    }


def _columns_of(line: EntryLine, words: Numbered) -> list[int]:
    return [list(Lane).index(line.lane), words[line.sign], words[line.words], int(line.is_failure)]


class ViewRows:
    """The rows of a view, as numbers."""

    def __init__(self, name: FactView, numbers: Numbered) -> None:
        self.name = name
        self._numbers = numbers
        self._shown: list[int] = []
        self._source: Hashable = object()

    def change(self, position: Position) -> list[Splice]:
        if (source := views.source_of(self.name, position)) == self._source:
            return []
        self._source = source
        return self._changes(position)

    def _changes(self, position: Position) -> list[Splice]:
        return self._replace(0, len(self._shown), views.view(self.name, position))

    def _replace(self, start: int, end: int, rows: Iterable[FactRow]) -> list[Splice]:
        before, now = self._shown[start:end], [self._numbers[each] for each in rows]
        if now == before:
            return []
        self._shown[start:end] = now
        first, left = 0, min(len(before), len(now))
        while first < left and before[first] == now[first]:
            first += 1
        last, left = 0, left - first
        while last < left and before[-1 - last] == now[-1 - last]:
            last += 1
        return [[start + first, len(before) - first - last, *now[first : len(now) - last]]]


class MessagesViewRows(ViewRows):
    """The rows of a view that ends with messages; each list of starts ends with the total."""

    def __init__(self, name: FactView, numbers: Numbered) -> None:
        super().__init__(name, numbers)
        self._known = views.MessagesView((), (), (), 0, 0)
        self._heading = 0
        self._folds, self._messages = [0], [0]

    def _changes(self, position: Position) -> list[Splice]:
        now, before = views.messages_view(self.name, position), self._known
        self._known = now
        is_empty = not (now.folds or now.messages)  # one row says so
        heading = views.view(self.name, position) if is_empty else now.heading
        found = self._replace(0, self._heading, heading)
        self._heading = len(heading)
        # The next request shows the messages that the newest compaction removed.
        kept = max(len(before.folds) - 1, 0)
        folds = (tuple(views.fold_rows(position, place)) for place in now.folds[kept:])
        found += self._replace_parts(self._folds, kept, self._heading, folds)
        # A message that was new has another mark now.
        kept = min(now.shared, before.new, now.new)
        messages = (
            tuple(views.message_rows(each, Mark.ADDED if number >= now.new else Mark.PLAIN))
            for number, each in enumerate(now.messages[kept:], kept)
        )
        start = self._heading + self._folds[-1]
        return found + self._replace_parts(self._messages, kept, start, messages)

    def _replace_parts(
        self, starts: list[int], kept: int, start: int, parts: Iterable[tuple[FactRow, ...]]
    ) -> list[Splice]:
        first, end = start + starts[kept], start + starts[-1]
        del starts[kept + 1 :]
        rows: list[FactRow] = []
        for part in parts:
            rows += part
            starts.append(first - start + len(rows))
        return self._replace(first, end, rows)
