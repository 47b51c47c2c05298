"""The signs of a timeline, and the legend that explains each of them."""

from collections import defaultdict
from typing import get_args

from simloop.cursor import lanes
from simloop.cursor.lanes import Lane, legend
from simloop.cursor.rows import Mark
from simloop.trace import entries


def test_the_legend_has_each_sign_in_its_lane() -> None:
    signs = legend()
    for sign in lanes._SIGNS.values():
        assert signs[sign.lane][sign.sign] == sign.meaning


def test_each_kind_of_entry_has_a_sign() -> None:
    assert set(lanes._SIGNS) == set(get_args(entries.AnyEntry))


def test_a_sign_has_one_meaning_in_all_lanes_and_in_the_panes() -> None:
    meanings = defaultdict(set)
    for signs in legend().values():
        for sign, meaning in signs.items():
            meanings[sign].add(meaning)
    assert all(len(found) == 1 for found in meanings.values())
    shared = {str(mark): mark.words for mark in Mark if mark in meanings and mark != ">"}
    assert set(shared) == {"*", "%", "!"}
    for sign, words in shared.items():
        (meaning,) = meanings[sign]
        assert meaning in words


def test_a_tool_that_failed_is_in_the_legend_of_the_tools() -> None:
    failed = entries.ToolResult(seq=0, at_ns=0, call_id="1", name="read", text="", is_error=True)
    lane, sign, meaning = lanes.sign_of(failed)
    assert lane is Lane.TOOLS
    assert legend()[lane][sign] == meaning == "failure"


def test_each_mark_of_a_row_has_words_for_a_legend() -> None:
    assert [mark for mark in Mark if not mark.words] == [Mark.PLAIN]
