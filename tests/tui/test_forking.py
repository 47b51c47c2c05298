"""Forks: a run is repeated with one change at the cursor, and stays as it was before it."""

from functools import cache
from pathlib import Path

import pytest

from simloop.check.trial import run_to_the_end
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.errors import ScenarioError
from simloop.messages import Outcome
from simloop.scenario.catalog import find
from simloop.scenario.loader import load_scenario, parse_scenario
from simloop.scenario.writing import scenario_text
from simloop.trace import entries
from simloop_tui.files import FileLine, command, line_in_file
from simloop_tui.runs import (
    Change,
    Fork,
    changes_at,
    comment_of,
    compared,
    edit_of_reply,
    fork,
    opened,
    reply_text,
    summary_of,
)

TWO_STEPS = """
title: It looks, then answers
prompt: What is in a?
tools: {look: {parameters: {path: string}, returns: A}}
model:
  - call: {look: {path: a}}
  - say: It is A.
"""
BY_RULE = """
prompt: What is in a?
tools: {look: {parameters: {path: string}, returns: A}}
model:
  - {when: {role: tool}, say: It is A.}
  - {call: {look: {path: a}}, times: 1}
"""
FAILING = """
prompt: What is in a?
tools: {look: {parameters: {path: string}, raises: no such file}}
hooks: [{at: before_tool_call, name: guard, raises: broken}]
model:
  - http: {status: 500}
  - call: {look: {path: a}}
  - say: I cannot.
"""


def recorded(text: str) -> RecordedRun:
    return RecordedRun.of_trace(run_to_the_end(parse_scenario(text)))


@cache
def bundled(name: str) -> RecordedRun:
    return RecordedRun.of_trace(run_to_the_end(load_scenario(find(name))))


def at(recording: RecordedRun, kind: type[entries.AnyEntry], nth: int = 0) -> Position:
    return Position(recording, recording.index.places[kind][nth])


def named(position: Position, words: str) -> Change:
    (found,) = [change for change in changes_at(position) if words in change.name]
    return found


def forked(position: Position, words: str) -> Fork:
    return fork(position, named(position, words))


def outcomes(made: Fork) -> list[Outcome]:
    return list(made.run.trace.outcomes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["quickstart", "chance/storm", "parallel", "compaction/twice", "loops/react-files"]
)
def test_a_change_leaves_the_run_before_the_cursor_as_it_was(name: str) -> None:
    try:
        recording = bundled(name)
    except ScenarioError:
        pytest.skip("renamed")
    last = len(recording.entries) - 1
    for place in sorted({0, last // 3, last // 2}):
        position = Position(recording, place)
        for change in changes_at(position):
            if "chance" not in change.name:
                assert fork(position, change).is_clean, (place, change.name)


def test_a_fault_comes_before_the_next_reply() -> None:
    position = at(recorded(TWO_STEPS), entries.ToolResult)
    made = forked(position, "rate limit (429) for request #2")
    assert outcomes(made) == [Outcome.COMPLETED]
    assert [e.fault.status for e in made.run.entries if isinstance(e, entries.Error)] == [429]
    assert made.differs is not None
    assert made.differs > position.place


def test_the_reply_to_a_request_at_the_cursor_is_the_next_one() -> None:
    recording = recorded(TWO_STEPS)
    assert "for request #1" in changes_at(at(recording, entries.Request))[0].name
    assert "for request #2" in changes_at(at(recording, entries.ToolCall))[0].name


def test_an_abort_ends_the_run_after_the_entry_at_the_cursor() -> None:
    made = forked(at(recorded(TWO_STEPS), entries.ToolStarted), "aborts here")
    assert outcomes(made) == [Outcome.ABORTED]
    assert made.is_clean


def test_a_loop_that_cannot_be_stopped_is_offered_no_abort() -> None:
    position = Position(bundled("loops/react-files"), 4)
    assert not [change for change in changes_at(position) if "aborts" in change.name]


def test_a_reply_comes_later() -> None:
    made = forked(at(recorded(TWO_STEPS), entries.ToolResult), "request #2 comes 60 s later")
    assert made.run.trace.elapsed_ns >= 60 * 10**9


def test_the_next_reply_can_be_edited_as_text() -> None:
    position = at(recorded(TWO_STEPS), entries.ToolResult)
    assert "It is A." in reply_text(position)
    text = reply_text(position).replace("It is A.", "It is B.")
    made = fork(position, edit_of_reply(position, text))
    assert made.run.trace.ends[-1].text == "It is B."


def test_an_unchanged_reply_changes_nothing() -> None:
    position = at(recorded(TWO_STEPS), entries.ToolResult)
    assert fork(position, edit_of_reply(position, reply_text(position))).differs is None


def test_a_reply_that_is_none_is_refused_with_its_place() -> None:
    position = at(recorded(TWO_STEPS), entries.ToolResult)
    with pytest.raises(ScenarioError, match=r"reply:2:5: .*sey"):
        edit_of_reply(position, "  - say: fine\n  - sey: typo\n")


def test_a_text_with_more_than_replies_is_refused() -> None:
    position = at(recorded(TWO_STEPS), entries.ToolResult)
    with pytest.raises(ScenarioError, match="seed: this is no reply"):
        edit_of_reply(position, "  - say: fine\nseed: 7\n")


def test_a_reply_that_a_rule_chose_can_be_changed_too() -> None:
    position = at(recorded(BY_RULE), entries.ToolResult)
    assert "It is A." in reply_text(position)
    made = forked(position, "server error (500) for request #2")
    assert made.is_clean
    assert outcomes(made) == [Outcome.COMPLETED]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (entries.Error, "request #1 does not fail"),
        (entries.ToolResult, "the tool look does not fail"),
        (entries.Hook, "the hook guard is left out"),
    ],
)
def test_the_fault_at_the_cursor_can_be_switched_off(
    kind: type[entries.AnyEntry], words: str
) -> None:
    recording = recorded(FAILING)
    position = at(recording, kind)
    made = forked(position, words)
    assert made.differs is not None
    assert made.differs >= position.place - 1  # a call is only noted as begun if it has a hook
    failures = [e for e in made.run.entries if type(e) is kind]
    assert not [e for e in failures if getattr(e, "is_error", True) and "ok" not in repr(e)]


def test_the_change_that_switches_the_fault_off_is_the_first() -> None:
    recording = recorded(FAILING)
    first, *others = changes_at(at(recording, entries.Error))
    assert (first.name, first.mends) == ("request #1 does not fail", True)
    assert not any(each.mends for each in others)


def test_a_change_names_the_request_as_the_timeline_does_where_summaries_are_counted() -> None:
    recording = bundled("compaction/twice")
    summary = next(n for n, each in recording.requests.items() if each.purpose != "main")
    place = recording.index.places[entries.Request][summary - 1]
    names = [each.name for each in changes_at(Position(recording, place))]
    assert f"a rate limit (429) for request #{summary + 1}" in names


def test_the_title_of_a_fork_names_the_run_and_all_its_changes() -> None:
    position = at(recorded(TWO_STEPS), entries.ToolResult)
    once = forked(position, "server error (500)")
    title = "Fork of: It looks, then answers (a server error (500) for request #2"
    assert once.run.trace.header.title == f"{title})"
    again = forked(at(once.run, entries.Error), "does not fail")
    assert again.run.trace.header.title == f"{title}; request #2 does not fail)"


def test_an_abort_can_be_switched_off() -> None:
    recording = bundled("abort/mid-stream")
    made = forked(at(recording, entries.StopRequested), "does not abort")
    assert made.run.trace.outcomes != recording.trace.outcomes


def test_a_fork_is_a_scenario_that_repeats_it() -> None:
    position = at(recorded(TWO_STEPS), entries.ToolResult)
    made = forked(position, "rate limit (429)")
    assert made.run.scenario is not None
    text = scenario_text(made.run.scenario, comment_of(made, "a.simloop.yaml"))
    assert "# A fork of a.simloop.yaml at entry" in text
    assert run_to_the_end(parse_scenario(text)).entries == made.run.entries


def test_a_run_that_needs_python_code_cannot_be_forked() -> None:
    recording = bundled("quickstart")
    stranger = RecordedRun(trace=recording.trace, unknown="this run was of the loop `x:y`")
    with pytest.raises(ScenarioError, match="cannot be repeated: this run was of the loop `x:y`"):
        changes_at(Position(stranger, 0))


def test_a_fork_says_that_it_had_no_effect_or_differs_too_early_or_did_not_end() -> None:
    position = at(recorded(TWO_STEPS), entries.ToolResult)
    edit = edit_of_reply(position, reply_text(position))
    assert summary_of(fork(position, edit)) == "the change has no effect"
    made = forked(position, "rate limit (429)")
    assert summary_of(made) == ""
    early = made._replace(differs=2)
    assert summary_of(early) == "the fork already differs at entry 2, before the cursor"
    endless = fork(position, edit_of_reply(position, "  - call: {look: {path: b}}\n"))
    assert summary_of(endless).startswith("the fork did not end: ")


def test_both_branches_are_compared_at_their_first_different_effect() -> None:
    position = at(recorded(TWO_STEPS), entries.ToolResult)
    both = compared(position, named(position, "rate limit (429)"), "a.simloop.yaml")
    assert both.left.name == "a.simloop.yaml"
    assert both.right.comment.startswith("A fork of a.simloop.yaml at entry")
    assert both.place == both.differences[0] > position.place


TEXT = """\
title: All kinds of entries
prompt: What is in a?
then: [And in b?]
hooks:
  - at: after_llm_call
  - {at: before_tool_call, name: guard}
tools:
  look: {parameters: {path: string}, returns: A}
  feel: {raises: it hurts}
model:
  - {when: {role: tool}, say: It is A.}
  - call: {look: {path: a}}
  - http: {status: 500}
  - call: {feel: {}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "all.simloop.yaml"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "nth", "line"),
    [
        (entries.Prompt, 0, 2), (entries.Prompt, 1, 3),
        (entries.Hook, 0, 6), (entries.Hook, 1, 5),
        (entries.ToolStarted, 0, 8), (entries.ToolResult, 0, 8), (entries.ToolResult, 1, 9),
        (entries.Request, 0, 12), (entries.Request, 1, 11), (entries.TextDelta, 0, 11),
        (entries.Error, 0, 13), (entries.Backoff, 0, 13), (entries.Request, 3, 14),
    ],
)  # fmt: skip
def test_an_entry_is_found_in_its_file(
    path: Path, kind: type[entries.AnyEntry], nth: int, line: int
) -> None:
    recording = opened(str(path)).recording
    position = Position(recording, recording.index.places[kind][nth])
    assert line_in_file(position) == FileLine(path, line)


def test_before_any_request_it_is_the_prompt(path: Path) -> None:
    recording = opened(str(path)).recording
    assert line_in_file(Position(recording, 1)).line == 2


def test_a_run_without_a_file_says_so(path: Path) -> None:
    position = Position(opened(str(path)).recording, 3)
    branch = fork(position, edit_of_reply(position, "  - say: x\n")).run
    with pytest.raises(ScenarioError, match="save it first: O"):
        line_in_file(Position(branch, 0))


@pytest.mark.parametrize(
    ("environ", "argv"),
    [
        ({}, ["vi", "+7", "a.yaml"]),
        ({"EDITOR": "nano"}, ["nano", "+7", "a.yaml"]),
        ({"EDITOR": "nano", "VISUAL": "emacs -nw"}, ["emacs", "-nw", "+7", "a.yaml"]),
        ({"EDITOR": "/usr/bin/code -n"}, ["/usr/bin/code", "-n", "--wait", "--goto", "a.yaml:7"]),
    ],
)
def test_the_editor_is_that_of_the_environment(environ: dict[str, str], argv: list[str]) -> None:
    assert command(environ, FileLine(Path("a.yaml"), 7)) == argv
