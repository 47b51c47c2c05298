"""`simloop bench hooks` for commands: what they took in sessions, and what they take here.

No test judges a real time: a limit of a nanosecond or of an hour decides on any machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import Cli
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop.bench.hook_processes import figures_of, measured
from simloop.errors import ScenarioError
from simloop.recordings.hook_times import hook_times

GUARD = ("PreToolUse", "python3 guard.py")


def called(number: int, took: Any, event: str = GUARD[0], command: str = GUARD[1]) -> Any:
    entry = {"type": "hook_success", "hookName": f"{event}:Bash", "hookEvent": event}
    return {
        "type": "attachment",
        "uuid": f"u{number}",
        "timestamp": f"2026-06-01T10:{number:02}:00.000Z",
        "attachment": {**entry, "command": command, "durationMs": took},
    }


SUMMARY = {
    "type": "system", "subtype": "stop_hook_summary", "timestamp": "2026-06-01T10:20:00Z",
    "hookInfos": [{"command": "say done", "durationMs": 700}, {"command": "silent"}],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def session(*lines: Any, name: str = "s.jsonl") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return path


def test_each_call_counts_once_and_lines_of_other_kinds_not_at_all() -> None:
    lines = [called(0, 2000), called(0, 2000), called(10, 1000.5), {"type": "user"}, 7, None]
    times, session_ns = hook_times([session(*lines, called(1, "3"), SUMMARY)])
    assert times == {GUARD: [2 * 10**9, 1_000_500_000], ("Stop", "say done"): [700 * 10**6]}
    assert session_ns == 20 * 60 * 10**9


def test_a_summary_counts_only_where_its_calls_have_no_lines_of_their_own() -> None:
    own = called(1, 650, "Stop", "say done")
    assert hook_times([session(own, SUMMARY)])[0] == {("Stop", "say done"): [650 * 10**6]}


def test_the_events_of_codex_are_read() -> None:
    run = {"id": "hook-1", "event_name": "pre_tool_use", "duration_ms": 18400, "source_path": "h"}
    line = {"type": "event_msg", "payload": {"type": "hook_completed", "run": run}}
    assert hook_times([session(line)])[0] == {("pre_tool_use", "h"): [18_400 * 10**6]}


def test_the_table_shows_calls_quantiles_total_and_the_share_of_the_session(cli: Cli) -> None:
    session(*(called(number, 100 * number) for number in range(21)))
    shown = cli("bench", "hooks", "--from", "s.jsonl")
    assert shown.exit_code == 0, shown.output
    heading, line = shown.stdout.splitlines()
    assert heading.split() == ["calls", "p50", "p95", "total", "share", "hook"]
    assert line.split(maxsplit=8) == [
        "21", "1.0", "s", "1.9", "s", "21", "s", "1.8%", "PreToolUse: python3 guard.py",
    ]  # fmt: skip


def test_files_and_folders_are_read_together(cli: Cli) -> None:
    session(called(0, 10), name="f/a.jsonl")
    session(called(0, 30), name="f/deep/b.jsonl")
    session(called(0, 50), name="c.jsonl")
    (row,) = cli.json("bench", "hooks", "--from", "f", "c.jsonl")["hooks"]
    assert (row["calls"], row["p50_ns"], row["total_ns"]) == (3, 30 * 10**6, 90 * 10**6)


def test_a_hook_above_the_limit_fails(cli: Cli) -> None:
    session(called(0, 2000), called(1, 2000))
    shown = cli("bench", "hooks", "--from", "s.jsonl", "--max", "1s")
    assert shown.exit_code == 1
    assert "FAILED  python3 guard.py at PreToolUse takes 2.0 s" in shown.stderr
    assert cli("bench", "hooks", "--from", "s.jsonl", "--max", "3s").exit_code == 0


def test_a_session_without_times_is_told(cli: Cli) -> None:
    session({"type": "user"})
    shown = cli("bench", "hooks", "--from", "s.jsonl")
    assert shown.exit_code == 2
    assert "s.jsonl: no hook of these sessions has a time" in shown.stderr


def test_a_command_gets_the_input_of_its_point_and_each_way_is_measured(cli: Cli) -> None:
    keep = f"{sys.executable} -S -c \"import sys; open('in{{}}', 'w').write(sys.stdin.read())\""
    shown = cli(
        "bench", "hooks", "--at", "after_tool_call", "--max", "1ns",
        "--command", keep.format(1), "--command", keep.format(2), "--format", "json",
    )  # fmt: skip
    assert shown.exit_code == 1, "no process takes a nanosecond"
    given = json.loads(Path("in1").read_text())
    assert given["hook_event_name"] == "PostToolUse"
    assert given["tool_response"] == "# Hello"
    ways = [row["point"] for row in json.loads(shown.stdout)["hooks"]]
    assert ways == ["PostToolUse, alone"] * 2 + ["PostToolUse, together"] * 2


def test_a_command_that_forbids_the_call_works_and_one_that_fails_is_told() -> None:
    (took_ns,) = measured(["exit 2"], "before_tool_call").values()
    assert len(took_ns) >= 5
    with pytest.raises(
        ScenarioError, match="`echo no >&2; exit 1` fails with the exit status 1: no"
    ):
        measured(["echo no >&2; exit 1"], "before_tool_call")


def test_a_quantile_is_a_call_that_was_made() -> None:
    (row,) = figures_of({("b", "a"): [5, 1, 4, 2, 3]})
    assert row == {"hook": "a", "point": "b", "calls": 5, "total_ns": 15, "p50_ns": 3, "p95_ns": 5}


@pytest.mark.parametrize(
    "wrong", [(), ("--command", "x", "--from", "s"), ("--from", "s", "--against", "m:a")]
)
def test_options_that_do_not_fit_are_refused(cli: Cli, wrong: tuple[str, ...]) -> None:
    assert cli("bench", "hooks", *wrong).exit_code == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["attachment", "hookEvent", "command", "durationMs", "hookInfos", "uuid",
                         "timestamp", "payload", "run", "event_name", "duration_ms"]),
        inner, max_size=5,
    ),
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(JSON, max_size=4), st.binary(max_size=8))
def test_any_file_gives_times_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any], end: bytes
) -> None:
    path = tmp_path_factory.mktemp("s") / "s.jsonl"
    path.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in lines) + end)
    try:
        times, session_ns = hook_times([path])
    except ScenarioError:
        return
    assert times
    assert session_ns >= 0
