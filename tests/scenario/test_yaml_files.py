"""A scenario file is read as its text would be, or refused with a reason."""

import os
from pathlib import Path

import pytest
from test_yaml import SCENARIO

from simloop.errors import ScenarioError
from simloop.scenario.yaml import (
    MAX_BYTES,
    read_yaml,
    read_yaml_file,
)


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
    assert document.positions == read_yaml(SCENARIO, "a.yaml").positions


def test_bytes_that_are_not_utf_8_are_refused_at_their_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: \xc3\xa9\xe9\n")
    error = file_refusal_of(path)
    assert error.message == "byte 0xe9 at offset 14 is not UTF-8"
    assert (error.line, error.column) == (2, 5)
    path.write_bytes("a: 1".encode("utf-16"))
    assert file_refusal_of(path).hint == "save the file as UTF-8 text"


def test_a_file_over_the_limit_is_refused_though_the_limit_cuts_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: " + "é".encode() * MAX_BYTES)
    assert file_refusal_of(path).message == "the file is over 1,000,000 bytes"


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
