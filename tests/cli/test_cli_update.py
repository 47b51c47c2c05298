"""`simloop run --update`: the requests of a run in the file, and what differs before that."""

from pathlib import Path

import pytest
from commandline import Cli
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop.errors import ScenarioError
from simloop.scenario.catalog import find
from simloop.scenario.writing import with_sent
from simloop.scenario.yaml import read_yaml

FILE = """\
# mine
title: It looks.   # a title
system_prompt: Be brief.
prompt: Look.
tools: {look: {returns: a tree}}
model:
  - call: {look: {}}
  - say: A tree.
expect:
  # what comes out
  outcome: completed
  sent:
    - {system: Be brief., messages: [{user: Look.}]}
    # of old
    - adds: [{call: [{look: {}}]}, {tool: a house}]
  text: A tree.  # said
# the end
"""
SENT = [{"messages": [{"user": "Look."}]}]


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_lines_of_sent_are_exchanged_and_all_others_stay(cli: Cli) -> None:
    path = cli.write("a", FILE)
    shown = cli("run", path, "--update")
    assert shown.exit_code == 0, shown.output
    before, after = FILE.splitlines(), Path(path).read_text("utf-8").splitlines()
    assert after[:12] == before[:12]
    assert after[-2:] == before[-2:]
    assert "    - adds: [{call: [{look: {}}]}, {tool: a tree}]" in after
    assert "-    # of old" in shown.stderr, "the change is shown"
    assert cli("run", path).exit_code == 0
    assert "nothing to update" in cli("run", path, "--update").stderr


def test_a_file_without_sent_gets_one(cli: Cli) -> None:
    for number, text in enumerate((
        "prompt: Hi\nmodel: [{say: Yo}]\n",
        "prompt: Hi\nmodel: [{say: Yo}]\nexpect: {text: Yo}  # flow\n",
        "prompt: Hi\nexpect:\n    text: Yo\nmodel: [{say: Yo}]\n",
        "  prompt: Hi\n  model: [{say: Yo}]",
    )):  # fmt: skip
        path = cli.write(f"a{number}", text)
        assert cli("run", path, "--update").exit_code == 0
        data = read_yaml(Path(path).read_text("utf-8"), path).data
        assert data["expect"]["sent"] == [{"messages": [{"user": "Hi"}], "system": "", "tools": []}]


def test_the_requests_of_parties_are_updated_by_their_names(cli: Cli) -> None:
    text = FILE.partition("expect:")[0].replace("prompt: Be brief.", "prompt: Be kind.")
    text += "models: {kind: {when: {system: Be kind.}, replies: [{say: Hello.}]}}\n"
    path = cli.write("a", text.replace("model:\n  - call: {look: {}}\n  - say: A tree.\n", ""))
    assert cli("run", path, "--update").exit_code == 0
    assert [*read_yaml(Path(path).read_text("utf-8"), path).data["expect"]["sent"]] == ["kind"]


def test_a_run_without_an_outcome_changes_nothing(cli: Cli) -> None:
    text = FILE.replace("  - say: A tree.\n", "")
    path = cli.write("a", text)
    shown = cli("run", path, "--update")
    assert shown.exit_code == 1
    assert "not updated, because the run has no outcome" in shown.stderr
    assert Path(path).read_text("utf-8") == text


def test_a_bundled_scenario_is_not_changed(cli: Cli) -> None:
    before = find("retry/rate-limit").read_text("utf-8")
    assert cli("run", "retry/rate-limit", "--update").exit_code == 2
    assert find("retry/rate-limit").read_text("utf-8") == before


def test_a_long_text_is_shown_around_its_first_difference(cli: Cli) -> None:
    long = "It is warm in the morning and so on " * 20
    text = FILE.replace("a house", f"{long}and cold at night").replace(
        "returns: a tree", f"returns: '{long}and warm at noon'"
    )
    shown = cli("run", cli.write("a", text)).stdout
    assert "expect.sent.1.messages.2.tool:\n" in shown
    expected, got = (
        next(line for line in shown.splitlines() if line.strip().startswith(word))
        for word in ("expected ", "got ")
    )
    assert expected.endswith("and cold at night'")
    assert got.endswith("and warm at noon'")
    assert expected.index("and cold") == got.index("and warm"), "they stand below each other"
    assert "'..." in expected
    assert len(expected) < 150


def test_a_script_that_is_exhausted_names_the_nearest_request(cli: Cli) -> None:
    text = FILE.replace("  - say: A tree.\n", "")
    shown = cli("run", cli.write("a", text)).stderr
    assert (
        "request 2 is most like expect.sent.1, and differs: expect.sent.1.messages.2.tool" in shown
    )
    assert "expected 'a house', got 'a tree'" in shown
    same = cli("run", cli.write("b", text.replace("a house", "a tree"))).stderr
    assert "request 2 is most like expect.sent.1, and asks the same" in same


def test_a_file_that_no_line_can_change_is_refused() -> None:
    with pytest.raises(ScenarioError, match="cannot be changed in place"):
        with_sent("{prompt: Hi, expect: {text: Yo}}\n", SENT, "a.yaml")


KEYS = st.sampled_from(
    ["outcome: completed", "requests: 2", "text: |\n    A\n\n    # b", "calls:\n  - look: {}"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(KEYS, unique=True), st.booleans(), st.sampled_from(["", "\n", "# x\n", "  # y\n"]))
def test_nothing_but_sent_changes(keys: list[str], has_sent: bool, between: str) -> None:  # noqa: FBT001
    parts = [*keys, *(["sent:\n  - user\n  -\n    tools: []"] * has_sent)]
    inner = "".join(between + "".join(f"  {line}\n" for line in part.split("\n")) for part in parts)
    text = f"prompt: Hi\nexpect:{'' if parts else ' {}'}\n{inner}model: []\n"
    changed = with_sent(text, SENT, "a.yaml")
    before, after = read_yaml(text, "a").data, read_yaml(changed, "a").data
    assert after == {**before, "expect": {**before["expect"], "sent": SENT}}
