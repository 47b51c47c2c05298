import json
import os
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incases import in_cases

from simloop.errors import ScenarioError
from simloop.scenario import yaml
from simloop.scenario.catalog import Listed, bundled
from simloop.scenario.yaml import (
    MAX_NODES,
    Document,
    read_yaml,
    read_yaml_file,
)

SCENARIO = """\
# yaml-language-server: $schema=../schema.json
title: A rate limit
model:
  - say: hello
  - http: {status: 429, retry_after: 5s}
    note: |
      two
      lines
"""


def value_of(written: str) -> Any:
    return read_yaml(f"key: {written}\n", "a.yaml").data["key"]


def refusal_of(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        read_yaml(text, "a.yaml")
    return caught.value


def outcome_of(text: str) -> Document | ScenarioError:
    try:
        return read_yaml(text, "a.yaml")
    except ScenarioError as error:
        return error


@in_cases(
    [
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((number, int(number)) for number in ("0", "7", "+12", "-19", "010", "-0")),
        *(("0o17", 15), ("0x1F", 31), ("0" * 5000 + "1", 1)),
        *((str(2**64 - 1), 2**64 - 1), (str(-(2**63)), -(2**63))),
        *((number, float(number)) for number in ("1e3", "1.", ".5", "-1.5E-3", "+0.0", "12e03")),
        *((word, inf) for word in (".inf", ".Inf", "+.INF")),
        ("-.inf", -inf),
    ]
)
def test_a_plain_word_means_what_the_core_schema_of_yaml_1_2_says(written: str, value: Any) -> None:
    read = value_of(written)
    assert (read, type(read)) == (value, type(value))


@in_cases(
    [
        *("no", "yes", "on", "off", "y", "n", "tRUE", "nULL", "None", "=", "<<", "nan", "inf"),
        *("12:30:45", "22:22", "1_000", "2026-11-21", "2026-11-21T10:00:00Z", "120ms", "1.2.3"),
        *("0b11", "-0x1F", "0X1F", "0o8", "1e", ".", "+", "1e3.5", ".Nan", "\u0661"),
        *("a:b", "a#b", "http://x/y?z", "-x", "?x", ":x"),
    ]
)
def test_every_other_plain_word_is_text(written: str) -> None:
    assert value_of(written) == written


@in_cases(
    [
        *(("'true'", "true"), ('"12"', "12"), ('"~"', "~"), ("''", ""), ("'it''s'", "it's")),
        *((r'"\x1b[2J\0\u2028\x85\/"', "\x1b[2J\0\u2028\x85/"), ('"😀"', "😀")),
        *((r'"\ud83d\ude00 \U0001F600"', "😀 😀"), ('"a\n  b\n\n  c"', "a b\nc")),
        *(("|\n  12\n   x\n", "12\n x\n"), ("|+\n  a\n", "a\n\n"), (">-\n  a\n  b\n", "a b")),
        ("[a, 'b', {c: 1, d:}, e f: g]", ["a", "b", {"c": 1, "d": None}, {"e f": "g"}]),
        *(('{"a":1,"b":[ ]}', {"a": 1, "b": []}), ("\n- a\n-\n- - b", ["a", None, ["b"]])),
        *(("{'<<': 1, '1': 1, '': 2}", {"<<": 1, "1": 1, "": 2}), ("\n  ? a\n  : b", {"a": "b"})),
    ]
)
def test_quotes_blocks_and_collections_keep_their_content(written: str, value: Any) -> None:
    assert value_of(written) == value


@in_cases(
    [
        ("a:\n\tb: 1", 2, 1, "a tab stands where YAML wants spaces (replace it by spaces)"),
        ('a: 1\nb: "x\nc: 2', 2, 4, "this quoted text is never closed"),
        ("b: 'x\n---\n'", 1, 4, "this quoted text is never closed"),
        ("a: 1\nb: [1,\n  2,", 2, 4, "this bracket is never closed"),
        ("a: {b: [1, 2}", 1, 13, "'}' does not fit into the bracket of line 1"),
        ("a: [\n---\n]", 2, 1, "'---' does not fit into the bracket of line 1"),
        ("a:\n   b: 1\n  c: 2", 3, 3, "a key does not fit here (align it with the block of line 1"),
        (
            "a:\n  - b: 1\n  c: 2",
            3,
            3,
            "a key does not fit here (align it with the block of line 2",
        ),
        ('a: "x" y', 1, 8, "text does not fit here"),
        ("a: ?", 1, 4, "an unquoted ? cannot stand here"),
        ("a: - b", 1, 4, "a list item cannot start here"),
        ("a: b: c", 1, 5, "': ' cannot stand here"),
        ("a: 1\nloop\nb: 2", 2, 1, "no ':' follows this key"),
        ("a: @x", 1, 4, "a value cannot start with '@' (put the text in quotes)"),
        ("a: |x\n  y", 1, 5, "only + - 1 to 9 or a comment follows | or >"),
        (r'a: "\q"', 1, 6, "YAML has no such escape"),
        (r'a: "\U00110000"', 1, 7, "this number is out of range"),
        (r'a: "\UFFFFFFFF"', 1, 7, "this number is out of range"),
        ("a: [?]", 1, 6, "a.0: a key must be text, not empty"),
        ("a: {b: ?}", 1, 8, "an unquoted ? cannot stand here"),
        ("a: 1\n...\nb: 2", 3, 1, "text follows the end of the document"),
        ("%YAML x\n---\na: 1", 1, 7, "this % line is no directive"),
        ("%YAML 1." + "1" * 5000 + "\n---\na: 1", 1, 9, "this number is out of range"),
    ]
)
def test_a_syntax_error_is_one_line_with_its_place(
    text: str, line: int, column: int, says: str
) -> None:
    error = refusal_of(text)
    assert str(error).startswith(f"a.yaml:{line}:{column}: {says}")
    assert error.hint
    assert str(error).isprintable()


@in_cases(
    [
        ("a: *x", 1, 4, "a", "aliases are not read: *x"),
        ("a: *.py", 1, 4, "", "an unquoted * starts an alias, and aliases are not read"),
        ("a: &x 1", 1, 4, "a", "anchors are not read: &x"),
        ("a: [!x 1]", 1, 5, "a.0", "tags are not read"),
        ("a: !x!y 1", 1, 4, "", "an unquoted ! starts a tag, and tags are not read"),
        ("a: 1\nb: 2\na: 3", 3, 1, "", "the key 'a' stands on line 1 already"),
        ("a:\n  - {b: 1,\n 'b': 2}", 3, 2, "a.0", "the key 'b' stands on line 2 already"),
        ("a: {<<: {b: 1}}", 1, 5, "a", "merge keys (<<) are not read"),
        ("a: {true: x}", 1, 5, "a", "a key must be text, not true"),
        ("? \n: x", 1, 2, "", "a key must be text, not empty"),
        ("a: {[b]: 1}", 1, 5, "a", "a key must be text, not a list or a mapping"),
        ("a: 1\n---\nb: 2", 2, 1, "", "a second document starts here"),
        ("%YAML 1.1\n---\na: 1", 1, 1, "", "only YAML 1.2 is read"),
        ("", 1, 1, "", "the file is empty"),
        ("- a", 1, 1, "", "the file holds no mapping"),
        ("a: 18446744073709551616", 1, 4, "a", "this number is too large"),
        ("a: [0, " + "9" * 5000 + "]", 1, 8, "a.1", "this number is too large"),
        ("9" * 500 + ": x", 1, 1, "", "this number is too large"),
        ("a: 1e999", 1, 4, "a", "this number is too large"),
        (r'a: "x\ud800"', 1, 4, "a", "this text holds half of a surrogate pair"),
        (r'"\udc00": 1', 1, 1, "", "this text holds half of a surrogate pair"),
    ]
)
def test_what_yaml_allows_and_a_scenario_does_not_is_refused(
    text: str, line: int, column: int, key: str, says: str
) -> None:
    error = refusal_of(text)
    assert (error.line, error.column, error.key) == (line, column, key)
    assert error.message.startswith(says)
    assert error.hint


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        *(("a: 1\r\nb: \x1b[2J", 2, 4), ("\ufeffa: \x00", 1, 4), ("# \x07", 1, 3)),
        *(("a: x\x85b: y", 1, 5), ('a: "\u2028"', 1, 5), ("a: \ufeff1", 1, 4)),
        *(("a: \ud800", 1, 4), ("a: \x7f", 1, 4), ("a: \uffff", 1, 4)),
    ],
    ids=ascii,
)
def test_a_hidden_character_is_refused_at_its_place(text: str, line: int, column: int) -> None:
    error = refusal_of(text)
    assert (error.line, error.column) == (line, column)
    assert error.message.startswith("the hidden character U+")


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["[", "{a: ", "[\n", "- ", "? ", "- - ? "])
def test_hostile_nesting_is_refused_without_recursion(opening: str) -> None:
    assert refusal_of("a:\n  " + opening * 100_000).message.startswith(("this is nested", "a key "))


@pytest.mark.slow
def test_keys_and_values_are_read_to_the_limit_and_no_further() -> None:
    most = MAX_NODES - 3  # the top, its key, and the list
    assert len(read_yaml("a: [" + "x," * most + "]", "a.yaml").data["a"]) == most
    error = refusal_of("a: [" + "x," * (most + 1) + "]")
    assert error.message == f"the file has more than {MAX_NODES:,} keys and values"


def test_places_count_lines_and_columns_from_one() -> None:
    document = read_yaml(SCENARIO, "a.yaml")
    values = {loc: at for (loc, is_key), at in document.places.items() if not is_key}
    assert values == {
        (): (2, 1),
        ("title",): (2, 8),
        ("model",): (4, 3),
        ("model", 0): (4, 5),
        ("model", 0, "say"): (4, 10),
        ("model", 1): (5, 5),
        ("model", 1, "http"): (5, 11),
        ("model", 1, "http", "status"): (5, 20),
        ("model", 1, "http", "retry_after"): (5, 38),
        ("model", 1, "note"): (6, 11),
    }
    assert document.places[("model", 1, "http", "status"), True] == (5, 12)
    assert document.places[("model", 1, "note"), True] == (6, 5)


@pytest.mark.parametrize(
    ("loc", "place", "key_place", "path"),
    [
        (("model", 1, "http", "status"), (5, 20), (5, 12), "model.1.http.status"),
        (("model", 1, "http", "http", "status"), (5, 20), (5, 12), "model.1.http.status"),
        (("model", 1, "Reply", "http", "status", "int"), (5, 20), (5, 12), "model.1.http.status"),
        (("model", 1, "http", "missing"), (5, 11), (5, 5), "model.1.http"),
        (("model", 7), (4, 3), (3, 1), "model"),
        (("prompt",), (2, 1), (2, 1), ""),
        ((), (2, 1), (2, 1), ""),
    ],
    ids=str,
)
def test_a_place_is_found_though_the_loc_holds_more_than_the_file(
    loc: tuple[str | int, ...], place: tuple[int, int], key_place: tuple[int, int], path: str
) -> None:
    document = read_yaml(SCENARIO, "a.yaml")
    assert document.locate(loc) == place
    assert document.locate(loc, key=True) == key_place
    assert document.key_path(loc) == path


words = st.text(max_size=40)
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(words, inner, max_size=5),
    max_leaves=20,
)
trees = st.dictionaries(words, values, max_size=5)


@given(tree=trees, indent=st.sampled_from([None, 1, 4]), compact=st.booleans())
def test_json_reads_as_json_and_every_place_points_at_its_part(
    tree: dict[str, Any], indent: int | None, *, compact: bool
) -> None:
    separators = (",", ":") if compact else None
    text = json.dumps(tree, indent=indent, separators=separators)
    document = read_yaml(text, "a.yaml")
    assert repr(document.data) == repr(tree)
    lines = text.split("\n")
    for (loc, is_key), (line, column) in document.places.items():
        if is_key:
            assert lines[line - 1].startswith(json.dumps(loc[-1]), column - 1)
            continue
        value: Any = tree
        for part in loc:
            value = value[part]
        start = json.dumps(value)[: 1 if isinstance(value, dict | list) else None]
        assert lines[line - 1].startswith(start, column - 1)


indicators = st.sampled_from([*"-?:,[]{}#&*!|>'\"%@`~= \n\r\t\\", "a: ", "\n  "])
words_of_yaml = st.sampled_from(["- ", "---\n", "\n...\n", "%YAML 1.", "\\U0011", "<<", "1", "é"])


@given(st.lists(indicators | words_of_yaml, max_size=30).map("".join) | st.text(max_size=200))
def test_any_text_reads_or_is_refused_at_a_place_in_one_printable_line(text: str) -> None:
    outcome = outcome_of(text)
    if isinstance(outcome, ScenarioError):
        assert str(outcome).isprintable()
        assert outcome.line is not None
        assert outcome.column is not None
        assert outcome.hint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[and the date?]", ["and the date?"]),
        ("{think: Should I? No.}", {"think": "Should I? No."}),
        ("[what? , or ?b, ?c]", ["what?", "or ?b", "?c"]),
        ("[a? b: c]", [{"a? b": "c"}]),
        ("{what? is: 1, ?x: 2}", {"what? is": 1, "?x": 2}),
        ("[http://a/b?c=d, 'no?']", ["http://a/b?c=d", "no?"]),
        ("[what,\n  is it?\n  ]", ["what", "is it?"]),
    ],
)
def test_a_question_mark_in_a_flow_collection_is_text(text: str, value: object) -> None:
    assert read_yaml(f"a: {text}", "a.yaml").data == {"a": value}


def file_refusal_of(path: Path) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        read_yaml_file(path)
    assert caught.value.path == str(path)
    return caught.value


def test_a_file_is_read_as_its_text_would_be(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SCENARIO.replace("\n", "\r\n").encode())
    document = read_yaml_file(path)
    assert document.path == str(path)
    assert document.data == read_yaml(SCENARIO, "a.yaml").data
    assert document.places == read_yaml(SCENARIO, "a.yaml").places


def test_bytes_that_are_not_utf_8_are_refused_at_their_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: \xc3\xa9\xe9\n")
    error = file_refusal_of(path)
    assert error.message == "byte 0xe9 at offset 14 is not UTF-8"
    assert (error.line, error.column) == (2, 5)
    path.write_bytes("a: 1".encode("utf-16"))
    assert file_refusal_of(path).hint == "save the file as UTF-8 text"


def test_a_path_that_is_no_readable_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    pipe, circle = tmp_path / "pipe", tmp_path / "circle"
    os.mkfifo(pipe)
    circle.symlink_to(circle)
    assert file_refusal_of(tmp_path).message == "this is no regular file"
    assert file_refusal_of(pipe).message == "this is no regular file"
    for path in (tmp_path / "missing", circle, tmp_path / "a\0b", tmp_path / ("x" * 5000)):
        error = file_refusal_of(path)
        assert error.message.startswith("cannot be read: ")
        assert error.hint.startswith("check the name")


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
    return document.data, document.places


@pytest.mark.slow
@in_cases(bundled(), lambda listed: listed.name)
def test_a_bundled_scenario_is_read_alike(listed: Listed) -> None:
    text = Path(listed.path).read_text("utf-8")
    assert outcome(read_yaml, text) == outcome(slowly, text)


@given(st.lists(PIECES, max_size=14).map("".join))
def test_any_text_is_read_alike_or_refused_alike(text: str) -> None:
    assert outcome(read_yaml, text) == outcome(slowly, text)
