"""A failing run is shrunk to one that fails in the same way."""

from pathlib import Path

import pytest

from simloop.check.trial import Until, verify
from simloop.errors import ScenarioError
from simloop_tui.files import save, text_of
from simloop_tui.runs import opened, shrunk
from simloop_tui.session import Session

FAILS = """\
title: It says good bye
prompt: Hello, and a few more words that do not matter
tools: {look: {parameters: {path: string}, returns: A long text that does not matter}}
model:
  - call: {look: {path: a}}
  - http: {status: 500}
  - call: {look: {path: b}}
  - say: Hello.
expect: {text: Bye.}
"""


@pytest.fixture
def failing(tmp_path: Path) -> Session:
    path = tmp_path / "fails.simloop.yaml"
    path.write_text(FAILS, "utf-8")
    return opened(str(path))


def test_the_smallest_run_fails_as_the_given_one(failing: Session, tmp_path: Path) -> None:
    said: list[str] = []
    smallest = shrunk(failing, said.append, lambda: False)
    assert said
    assert all("replies" in words for words in said)
    scenario = smallest.recording.scenario
    assert scenario is not None
    assert len(scenario.model) == 1
    path = tmp_path / "small.simloop.yaml"
    save(path, text_of(smallest))
    assert f"# Shrunk from {failing.name}." in path.read_text("utf-8")
    verdict = verify(path, Until.END)
    assert ["text" in failure for failure in verdict.failures] == [True]
    assert verdict.trace is not None
    assert verdict.trace.entries == smallest.recording.entries


def test_a_reduction_that_is_stopped_returns_the_smallest_run_so_far(failing: Session) -> None:
    said: list[str] = []
    smallest = shrunk(failing, said.append, lambda: len(said) == 1)
    assert "it may not be minimal: the reduction was interrupted" in smallest.said
    assert len(said) == 1


def test_a_run_that_does_not_fail_is_refused() -> None:
    with pytest.raises(ScenarioError, match="does not fail"):
        shrunk(opened("quickstart"), print, lambda: False)
