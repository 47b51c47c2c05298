"""The library lists what can be opened, and judges the one item that is looked at."""

from pathlib import Path

import pytest

from simloop.check.trial import run_to_the_end
from simloop.scenario.catalog import bundled_names
from simloop.scenario.loader import parse_scenario
from simloop.trace import TRACES
from simloop.trace.codec import write_trace
from simloop_tui.library import found, items, seen

PASSES = "title: It answers\nprompt: Hi\nmodel: [{say: Hello.}]\n"
FAILS = f"{PASSES}expect: {{text: Bye.}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / TRACES).mkdir()
    write_trace(run_to_the_end(parse_scenario(PASSES)), tmp_path / TRACES / "a.trace.jsonl")
    (tmp_path / "good.simloop.yaml").write_text(PASSES, "utf-8")
    (tmp_path / "wrong.simloop.yaml").write_text(FAILS, "utf-8")
    (tmp_path / "broken.simloop.yaml").write_text("prompt: [", "utf-8")
    return tmp_path


def test_failed_traces_come_first_then_own_scenarios_then_the_bundled_ones(folder: Path) -> None:
    listed = items(folder)
    assert [item.named for item in listed[:4]] == [
        f"{TRACES}/a.trace.jsonl", "broken.simloop.yaml", "good.simloop.yaml", "wrong.simloop.yaml",
    ]  # fmt: skip
    assert [item.named for item in listed[4:]] == bundled_names()


def test_items_are_found_by_words_of_name_title_theme_and_loop(folder: Path) -> None:
    names = [item.named for item in found(items(folder), "backoff ABORT")]
    assert "abort/in-backoff" in names
    assert all("backoff" in name or "abort" in name for name in names)


@pytest.mark.parametrize(
    ("named", "verdict", "reason"),
    [
        ("good.simloop.yaml", "passed", ""),
        ("wrong.simloop.yaml", "failed", "text"),
        ("broken.simloop.yaml", "failed", "broken.simloop.yaml:1"),
        (f"{TRACES}/a.trace.jsonl", "failed test", "ended as completed"),
        ("start/quickstart", "passed", ""),
    ],
)
def test_an_item_has_a_verdict_with_its_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch, named: str, verdict: str, reason: str
) -> None:
    monkeypatch.chdir(folder)
    (item,) = [each for each in items(folder) if each.named == named]
    looked_at = seen(item)
    assert looked_at.verdict == verdict
    assert reason in looked_at.reason


def test_a_preview_is_the_beginning_of_the_timeline(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    good = next(item for item in items(folder) if item.named == "good.simloop.yaml")
    assert seen(good).preview[0] == "It answers"
