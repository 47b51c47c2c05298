"""The page of one recorded run: its heading, its panes, its keys and its data.

The page computes no fact: it shows the rows of the views.
"""

from simloop.cursor.keys import HELP, MOVES, VIEW_KEYS, VIEWS, FactView, RunKey
from simloop.cursor.recorded_run import RecordedRun
from simloop.page.document import document, safe_text
from simloop.page.tables import tables


def _of_browser(each: RunKey) -> RunKey:
    """Return a key without those that browsers keep for themselves."""
    return each._replace(keys=tuple(key for key in each.keys if not key.startswith("Ctrl-")))


KEYS: tuple[RunKey, ...] = tuple(map(_of_browser, (*MOVES, *VIEWS, HELP)))
"""The keys of the page: those of the terminal."""


def page(recording: RecordedRun, name: str = "") -> str:
    """Return the whole page. `name` stands in its heading for a run without a title."""
    header, ending = recording.trace.header, recording.ending
    return document(
        "page",
        {**tables(recording), "keys": [each._asdict() for each in KEYS]},
        {
            "title": safe_text(header.title or name or "simloop"),
            "facts": safe_text(_facts(recording)),
            "verb": "The run ends:" if recording.trace.outcomes else "The run",
            "outcome": safe_text(", ".join(filter(None, ending[:2]))),
            "kind": "good" if ending.is_good else "bad",
            "design": "agent" if recording.is_of_agent else "machine",
            "panes": _panes(),
        },
        scripts=("views.js", "timeline.js"),
    )


def _facts(recording: RecordedRun) -> str:
    header = recording.trace.header
    last = len(recording.entries) - 1
    facts = [f"loop {header.loop}", f"seed {header.seed}", f"entries 0 to {last}"]
    if recording.trace.no_end:
        facts.append(recording.trace.no_end)
    return ", ".join(facts)


def _panes() -> str:
    return "\n".join(_pane(name, key) for name, key in VIEW_KEYS.items())


def _pane(name: FactView, key: str) -> str:
    shown = f"<kbd>{key}</kbd> {name}" if key else str(name)
    return (
        f'<section class="pane" id="pane-{name}" aria-labelledby="title-{name}">'
        f'<h2 id="title-{name}">{shown} <span class="changed"></span></h2>'
        f'<div class="rows" tabindex="0" role="group" aria-labelledby="title-{name}"></div>'
        "</section>"
    )
