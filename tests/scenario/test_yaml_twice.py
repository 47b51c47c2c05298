"""libyaml and PyYAML read the same file alike, wherever the fast reader trusts itself."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incases import in_cases

from simloop.errors import ScenarioError
from simloop.scenario import yaml
from simloop.scenario.catalog import Listed, bundled
from simloop.scenario.yaml import Document, read_yaml

PIECES = st.sampled_from(
    ["a", "b: ", "- ", "\n", "  ", "{", "}", "[", "]", ", ", ": ", "#", "'", '"', "x y", "0x1", "~",
     "a?\n", "? ", "null", "{a: b}", "[1, 2]", "''", "say: Let me look.\n", "- x: 1\n", "k: v\n",
     "a@1", "@", "a?", "b? c", "a?: ", "`a`", "a`b", "a: >-\n  b c\n", ">-\n", ">-", "\n  ", "\n\n"]
)  # fmt: skip


def slowly(text: str, path: str) -> Document:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "_C_LOADER", None)
        return read_yaml(text, path)


def outcome(read: Callable[[str, str], Document], text: str) -> object:
    """The content with the places of keys and values, or what is wrong."""
    try:
        document = read(text, "a.yaml")
    except ScenarioError as refusal:
        return str(refusal)
    return document.data, document.positions, document.key_positions


@pytest.mark.slow
@in_cases(bundled(), lambda listed: listed.name)
def test_a_bundled_scenario_is_read_alike(listed: Listed) -> None:
    text = Path(listed.path).read_text("utf-8")
    assert outcome(read_yaml, text) == outcome(slowly, text)


@given(st.lists(PIECES, max_size=14).map("".join))
def test_any_text_is_read_alike_or_refused_alike(text: str) -> None:
    assert outcome(read_yaml, text) == outcome(slowly, text)


def test_most_bundled_scenarios_are_read_fast() -> None:
    texts = [listed.path.read_text("utf-8") for listed in bundled()]
    fast = [text for text in texts if yaml._read_fast(text, "a.yaml") is not None]
    assert len(fast) > 0.95 * len(texts)
