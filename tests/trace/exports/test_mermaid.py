"""The Mermaid diagram has the traffic of a run, and no text of it is a statement of Mermaid."""

import html
import re
from pathlib import Path

import pytest
from hostiletraces import traces
from hypothesis import given
from hypothesis import strategies as st
from recording import Recording

from simloop.escape import escape
from simloop.runs.run import run
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.codec import decode, encode, read_trace
from simloop.trace.exports.mermaid import mermaid
from simloop.trace.looptrace import LoopTrace

TRACES = Path(__file__).parents[3] / "scenarios" / "__snapshots__"
QUICKSTART = """\
sequenceDiagram
    title A run gets through a rate limit, two tool calls and a compaction to its answer
    actor user
    participant agent as reference
    participant model
    participant tools
    user->>agent: What does this project do, and where does it start?
    agent->>model: request 1, 1 message
    model--xagent: 429 Too Many Requests
    Note over agent: wait 5.000s after failure 1
    agent->>model: request 2 again, 1 message
    model-->>agent: (tool-calls) I will look around. [list_files {}]
    agent->>tools: list_files {}"""
STATEMENT = re.compile(
    r"sequenceDiagram|    (actor user|participant (model|tools)|(title|participant agent as) [^#;]+"
    r"|(user|agent|model|tools)(->>|-->>|--x|-x)(user|agent|model|tools): [^#;]+"
    r"|Note over agent: [^#;]+)"
)


def diagram(name: str) -> list[str]:
    return list(mermaid(read_trace(TRACES / f"{name}.trace.jsonl")))


def decoded(line: str) -> str:
    """A line as Mermaid shows it: its entities have a number sign in the place of `&#`."""
    return html.unescape(re.sub(r"#(\d+);", r"&#\1;", line))


def test_the_diagram_of_a_run_shows_its_failure_its_wait_its_retry_and_its_tools() -> None:
    lines = [decoded(line) for line in diagram("start.quickstart")]
    assert "\n".join(lines[:13]) == QUICKSTART
    assert "    Note over agent: compaction removes 1 message, 108 to 61 tokens" in lines
    assert lines[-1].startswith("    agent-->>user: (completed) It tests agent loops.")


@pytest.mark.parametrize("name", ["retry.stall", "finish-reasons.empty-replies"])
def test_a_request_after_a_wait_is_a_retry_also_if_nothing_failed_at_the_provider(
    name: str,
) -> None:
    assert any("request 2 again" in line for line in diagram(name))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("abort.in-tool", "    user-xagent: the user aborts the run"),
        ("loops.pi-both-queues", "    user->>agent: (steering) "),
        ("limits.errors", "    agent--xuser: (too-many-errors) "),
        ("hooks.block-tool", "    Note over agent: hook "),
    ],
)
def test_a_diagram_shows_what_ends_or_steers_a_run(name: str, line: str) -> None:
    assert line in "\n".join(map(decoded, diagram(name)))


def test_each_request_and_each_tool_of_each_recorded_run_has_an_arrow() -> None:
    for path in sorted(TRACES.glob("*.jsonl"))[::6]:
        trace = read_trace(path)
        lines = list(mermaid(trace))
        kinds = [type(entry).__name__ for entry in trace.entries]
        assert sum("agent->>model" in line for line in lines) == kinds.count("Request")
        assert sum("agent->>tools" in line for line in lines) == kinds.count("ToolStarted")


@given(st.text() | st.sampled_from(["end", "%%{init: {}}%%", "style: a;#", "classDef", "ﬂ°°35¶ß"]))
def test_any_text_stays_in_its_line_and_is_shown_as_it_is(text: str) -> None:
    trace = run(Scenario(prompt=f"x{text}", model=[Reply(say="Hello.")])).trace
    lines = list(mermaid(trace))
    assert len(lines) == 9
    for line in lines:
        bare = re.sub(r"#\d+;", "", line)
        assert STATEMENT.fullmatch(bare), line
        assert not set('<>&"`$%{}\\|ﬂ¶') & set(bare.replace("->>", "")), line
        assert "style" not in line
        assert "classDef" not in line
    (shown,) = [line for line in lines if "user->>" in line]
    assert decoded(shown) == f"    user->>agent: {escape(f'x{text}', 80)}".rstrip()


def test_a_hostile_trace_has_only_statements_of_the_diagram() -> None:
    for trace in traces():
        for line in mermaid(trace):
            assert STATEMENT.fullmatch(re.sub(r"#\d+;", ".", line)), line


def test_a_truncated_trace_has_a_note_that_it_has_no_end() -> None:
    trace = read_trace(TRACES / "start.quickstart.trace.jsonl")
    del trace.entries[10:]
    assert list(mermaid(trace))[-1] == "    Note over agent: the run has no end"


def test_notes_and_the_code_of_an_agent_stand_over_it() -> None:
    recording = (
        Recording()
        .prompt()
        .add(entries.Note, "looks around")
        .add(entries.Sleep, 2 * 10**9, "mine.py:3 in look")
        .add(entries.LoopBlocked, 10**9, "mine.py:4 in look")
        .add(entries.TaskCancelled, "worker", "mine.py:5 in look")
        .add(entries.LeftBehind, "task", "", "mine.py:6 in look")
        .ended()
    )
    trace = LoopTrace(run(Scenario(prompt="Hi", model=[Reply(say="x")])).trace.header)
    trace.entries += recording.entries
    lines = [decoded(line).strip() for line in mermaid(trace)]
    assert [line.partition(": ")[2] for line in lines if line.startswith("Note over")] == [
        "note looks around",
        "sleep 2.000s at mine.py:3 in look",
        "loop blocked for 1.000s at mine.py:4 in look",
        "cancelled task worker at mine.py:5 in look",
        "left behind task at mine.py:6 in look",
    ]
    assert decode(encode(trace)).entries == trace.entries
