"""Each kind of entry is in the table, and the legend explains each sign of a timeline."""

from collections import defaultdict
from typing import get_args

from simloop.cursor.rows import Mark
from simloop.trace import entries
from simloop.trace.kinds import ENGINE_TRIGGERS, KINDS, Lane, legend, sign_of


def test_the_legend_has_each_sign_in_its_lane() -> None:
    signs = legend()
    for kind in KINDS.values():
        assert signs[kind.lane][kind.sign] == kind.meaning


def test_each_kind_of_entry_has_a_line_in_the_table() -> None:
    assert set(KINDS) == set(get_args(entries.AnyEntry))


def test_the_triggers_that_only_an_engine_leaves_are_told_apart() -> None:
    assert ENGINE_TRIGGERS == ("backoff", "compaction", "hook", "transition")


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
    lane, sign = sign_of(failed)
    assert lane is Lane.TOOLS
    assert legend()[lane][sign] == "failure"


def test_each_mark_of_a_row_has_words_for_a_legend() -> None:
    assert [mark for mark in Mark if not mark.words] == [Mark.PLAIN]
