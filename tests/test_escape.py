import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop.escape import escape, writable

ANY_TEXT = st.text(st.characters(codec=None))


@given(ANY_TEXT, st.integers(1, 200))
def test_what_comes_out_is_one_line_of_visible_characters(text: str, width: int) -> None:
    shown = escape(text, width)
    assert len(shown) <= width
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cs", "Zl", "Zp"}


@given(ANY_TEXT)
def test_what_comes_out_can_be_written_and_goes_through_again_unchanged(text: str) -> None:
    shown = escape(text, 500)
    assert shown.encode().decode() == shown
    assert escape(shown, 500) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m", "\\x9b31m"),
        ("evil\u202etxt", "evil\\u202etxt"),
        ("\ud800", "\\ud800"),
        ("\ufeffx", "\\ufeffx"),
        ("Grüße 你好 ✓", "Grüße 你好 ✓"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_a_long_text_is_cut_with_a_mark() -> None:
    assert escape("x" * 10_000_000, 5) == "xxxx…"


def test_a_text_of_just_the_width_is_not_cut() -> None:
    assert escape("12345", 5) == "12345"


@given(ANY_TEXT)
def test_any_text_becomes_writable(text: str) -> None:
    assert writable(text).encode().decode() == writable(text)


@given(st.text())
def test_writable_text_stays_as_it_is(text: str) -> None:
    assert writable(text) == text


def test_halves_that_belong_together_become_one_character() -> None:
    assert writable("\ud83d\ude00") == "\U0001f600"


def test_a_subclass_of_text_becomes_plain_text() -> None:
    class Accessor(str):
        __slots__ = ()

    assert [type(writable(Accessor(text))) for text in ("plain", "grün")] == [str, str]
