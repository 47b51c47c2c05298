"""Damaged sessions: each becomes a scenario or a ScenarioError, and nothing else."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from claudecode import Lines, with_a_sub_agent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sessions import FILES, read

from simloop.errors import ScenarioError
from simloop.recordings.scenarios import scenario_of
from simloop.scenario.writing import scenario_text


def _claude() -> str:
    main, sub = with_a_sub_agent()
    failing = Lines().user("Hi").failed({"status": 529, "error": {"type": "error"}})
    failing.reply("m7", "Hello.", stop="end_turn").add("system", subtype="compact_boundary")
    failing.user("They spoke.", isCompactSummary=True).gave_up("API Error: 500", apiErrorStatus=500)
    return main.text + sub.text + failing.text


SESSIONS = {
    "claude-code": _claude(),
    "codex": (FILES / "codex.jsonl").read_text(),
    "pi": (FILES / "pi.jsonl").read_text() + (FILES / "pi-lost.jsonl").read_text(),
    "opencode": (FILES / "opencode-run.jsonl").read_text(),
    "export": (FILES / "opencode-export.json").read_text(),
}
ODD: list[Any] = [
    None, True, -1, 0, 7.5, 1e300, 10**30, "", "x" * 50, "2026-99-99", [], [[]], [None, 3, "a"], {},
    {"text": 3}, {"type": "text"}, {"": {}}, "\ud800"[:0], "0001-01-01T00:00:00+14:00",
]  # fmt: skip


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return each place in a value of JSON, as its container and its key."""
    found, waiting = [], [value]
    while waiting:
        each = waiting.pop()
        inner = each.items() if isinstance(each, dict) else enumerate(each)
        for key, one in list(inner):
            found.append((each, key))
            if isinstance(one, dict | list):
                waiting.append(one)
    return found


def _with_odd_values(text: str, draw: Callable[..., Any]) -> str:
    whole = text.startswith("{\n")
    values = [json.loads(text)] if whole else [json.loads(line) for line in text.splitlines()]
    places = [place for value in values for place in _places(value)]
    for _ in range(draw(st.integers(1, 6))):
        container, key = draw(st.sampled_from(places))
        with contextlib.suppress(IndexError):
            container[key] = draw(st.sampled_from(ODD))
    return "\n".join(json.dumps(value) for value in values)


def _with_lines_moved(text: str, draw: Callable[..., Any]) -> str:
    kept = text.splitlines()
    for _ in range(draw(st.integers(1, 6))):
        line = kept.pop(draw(st.integers(0, len(kept) - 1)))
        if draw(st.booleans()):
            kept.insert(draw(st.integers(0, len(kept))), line)
    return "\n".join(kept)


def _with_bytes_changed(text: str, draw: Callable[..., Any]) -> bytes:
    data = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 8))):
        start = draw(st.integers(0, len(data) - 1))
        data[start : start + draw(st.integers(0, 20))] = draw(st.binary(max_size=6))
    return bytes(data)


DAMAGES = (_with_odd_values, _with_lines_moved, _with_bytes_changed)


@pytest.mark.parametrize("name", SESSIONS)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_session_is_a_scenario_or_an_error(name: str, data: st.DataObject) -> None:
    damaged = data.draw(st.sampled_from(DAMAGES))(SESSIONS[name], data.draw)
    with contextlib.suppress(ScenarioError):
        recording = read(damaged, {"export": "opencode"}.get(name, name))
        assert scenario_text(*scenario_of(recording))
