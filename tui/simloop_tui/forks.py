"""Forks: a recorded run is repeated with one change at the cursor.

A fork is a scenario, so that it can be saved, tested and repeated as any other. The run before the
cursor must stay as it was, or the fork says at which entry it already differs.
"""

from typing import NamedTuple

from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.errors import ScenarioError
from simloop.scenario.loader import parse_scenario
from simloop.scenario.writing import content, scenario_text
from simloop.trace.diff import first_difference
from simloop_tui.changes import Change
from simloop_tui.comparison.side_by_side import SideBySide
from simloop_tui.runs import run_to_its_end
from simloop_tui.scripts import (
    Draft,
    check_repeatable,
    content_of,
    next_reply,
    request_of,
    scenario_of,
    unrolled,
)
from simloop_tui.session import Session


class Fork(NamedTuple):
    """The run of a changed scenario.

    `differs` is the first entry that differs from the run that was forked, or None if the change
    has no effect. `error` is the error that ended the run, such as a script that is too short now.
    """

    change: str
    place: int
    run: RecordedRun
    differs: int | None
    error: str

    @property
    def is_clean(self) -> bool:
        """Return whether both runs are equal before the cursor."""
        return self.differs is None or self.differs >= self.place


def reply_text(position: Position) -> str:
    """Return the next reply of the script as YAML, for an editor; a new reply if there is none."""
    script = unrolled(position.recording, content_of(position.recording))
    number = next_reply(position)
    reply = script[number] if number < len(script) else {"say": "Done."}
    text = scenario_text(scenario_of({"prompt": "-", "model": [reply]}))
    return text.partition("model:\n")[2]


def edit_of_reply(position: Position, text: str) -> Change:
    """Return the change that puts a reply, given as YAML, in the place of the next one.

    Raises ScenarioError, with the line in the text, if it is no list of replies.
    """
    replies = _replies(text)
    number = next_reply(position)

    def apply(tree: Draft) -> Draft:
        script = unrolled(position.recording, tree)
        return {**tree, "model": [*script[:number], *replies, *script[number + 1 :]]}

    words = f"the reply to request #{request_of(position, number)} is edited"
    return Change(words, apply)


def _replies(text: str) -> list[Draft]:
    try:
        tree = content(parse_scenario(_ABOVE + text, "reply"))
    except ScenarioError as error:
        for each in (error, *error.others):
            each.line = each.line and max(each.line - _ABOVE.count("\n"), 1)
        raise
    others = tree.keys() - {"prompt", "model"}
    if others:
        hint = "write replies alone, each as an indented item of a list"
        raise ScenarioError("this is no reply", path="reply", key=min(others), hint=hint)
    return list(tree.get("model", []))


_ABOVE = "prompt: '-'\nmodel:\n"
"""The lines that make a list of replies a scenario."""


def fork(position: Position, change: Change) -> Fork:
    """Run the changed scenario. Raises ScenarioError if it is no scenario for the loop."""
    recording = position.recording
    check_repeatable(recording, "fork")
    tree = change.apply(content_of(recording))
    scenario = scenario_of({**tree, "title": _title(recording, change)})
    run, error = run_to_its_end(scenario, recording.options)
    run.unmet = ()  # nobody has said how a changed run is to end
    return Fork(change.name, position.place, run, _first(recording, run), error)


def summary_of(made: Fork) -> str:
    """Return in words what is to know about a fork; empty if it went as expected."""
    found = []
    if made.differs is None:
        found.append("the change has no effect")
    elif not made.is_clean:
        found.append(f"the fork already differs at entry {made.differs}, before the cursor")
    if made.error:
        found.append(f"the fork did not end: {made.error}")
    return "; ".join(found)


def compared(position: Position, change: Change, source: str) -> SideBySide:
    """Run the changed scenario, and return the comparison of both branches.

    `source` is the name of the run that is forked. Raises ScenarioError as `fork` does.
    """
    made = fork(position, change)
    name = f"a fork of {source} at entry {made.place}"
    branch = Session(made.run, name, comment_of(made, source))
    return SideBySide(Session(position.recording, source), branch, summary_of(made))


def comment_of(made: Fork, source: str) -> str:
    """Return the comment of a fork's scenario file."""
    return f"A fork of {source} at entry {made.place}: {made.change}."


def _first(one: RecordedRun, other: RecordedRun) -> int | None:
    found = first_difference(one.trace, other.trace)
    if found is None:
        return None
    return len(one.entries) if found.seq is None else found.seq


def _title(recording: RecordedRun, change: Change) -> str:
    """Return the title of a fork; that of a fork of a fork has the changes of both."""
    title = recording.trace.header.title or "a run"
    if title.startswith(_FORK_OF) and title.endswith(")"):
        return f"{title[:-1]}; {change.name})"
    return f"{_FORK_OF}{title} ({change.name})"


_FORK_OF = "Fork of: "
