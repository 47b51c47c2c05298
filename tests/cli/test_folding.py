"""Folded lines: none is wider than the terminal, and nothing but spaces is lost."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from simloop.cli.terminal import cells, folded, padded

LINES = st.text(
    st.sampled_from("ab  日本\u0301é-/\\'\"") | st.characters(exclude_categories=("Cs", "Cc")),
    max_size=300,
)


@given(LINES, st.integers(20, 120))
def test_no_piece_is_wider_than_the_terminal(line: str, columns: int) -> None:
    assert all(cells(piece) <= columns for piece in folded(line, columns))


@given(LINES.map(lambda line: f"ok  name  {line}"), st.integers(20, 120))
def test_nothing_but_spaces_is_lost(line: str, columns: int) -> None:
    pieces = "".join(folded(line, columns))
    assert "".join(pieces.split()) == "".join(line.split())


def test_a_wide_character_takes_two_cells_and_a_combining_one_none() -> None:
    assert cells("日本") == 4
    assert cells("e\u0301") == 1


def test_a_sequence_for_colour_takes_no_cell() -> None:
    assert cells("\x1b[32mok\x1b[0m") == 2


def test_a_short_line_stays_as_it_is() -> None:
    assert list(folded("  two  columns", 20)) == ["  two  columns"]


def test_pieces_stand_below_the_last_column_of_the_left_half() -> None:
    assert list(folded("ok  retry/limit  completed in 5 s and then some", 40)) == [
        "ok  retry/limit  completed in 5 s and",
        "                 then some",
    ]


@given(st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=200))
def test_a_folded_command_can_be_copied_into_a_shell(path: str) -> None:
    line = f"reproduce: simloop run {shlex.quote(path)} --seed 7"
    pieces = "\n".join(folded(line, 40))
    assert pieces.replace("\\\n", "") == line


def test_padding_counts_cells() -> None:
    assert padded("日本", 6) == "日本  "
