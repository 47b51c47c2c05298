"""What the shell of document 003 makes of a line: joining, redirecting, quoting, refusing."""

import shlex

import pytest
from filetooling import TREE, shell
from hypothesis import given
from hypothesis import strategies as st
from incases import in_cases

from simloop import ToolResult
from simloop.world.files import Files
from simloop.world.tools import canonical_json

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
words = st.sampled_from(
    ["ls", "cat", "rm", "-r", "grep", "wc", "-l", "echo", "touch", "mkdir", "-p", "a", "src/*", "*",
     "src", "no", "&&", ";", ">", ">>", "|", "'", '"', "\\", "[", "$x", "`", "#", "2>", "\n", "..",
     "\ud800", "\0", "é"]
)  # fmt: skip
commands = st.text(max_size=15) | st.lists(words, max_size=8).map(" ".join)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo a && echo b", "a\nb\n"),
        ("echo a;echo b;", "a\nb\n"),
        ("echo a\n\n  echo b # c\n", "a\nb\n"),
        ("echo a &&\n echo b", "a\nb\n"),
        ("echo a \\\n b", "a b\n"),
        ("frob && echo a ; pwd", "frob: command not found\n/\n"),
        ("frob; pwd", "frob: command not found\n/\n"),
    ],
)
def test_commands_are_joined(command: str, text: str) -> None:
    assert shell(command).text == text


def test_after_a_failure_nothing_joined_to_it_is_done() -> None:
    files = Files(TREE)
    text = shell("cat no && rm README.md && rm .env", files).text
    assert text == "cat: no: no such file or folder\nexit code 1"
    assert files.snapshot() == TREE


def test_output_is_sent_to_a_file_or_to_its_end() -> None:
    files = Files()
    assert shell("echo a > 'x y' && echo b>>'x y'; echo c >> z", files).text == ""
    assert files.snapshot() == {"x y": "a\nb\n", "z": "c\n"}
    assert shell("echo d > z && cat z", files).text == "d\n"


def test_a_command_is_not_run_if_its_output_cannot_be_sent() -> None:
    files = Files(TREE)
    for command in ("rm README.md > no/log", "rm README.md >> src"):
        assert shell(command, files).is_error
    assert files.snapshot() == TREE


def test_a_command_sees_the_file_that_its_output_goes_to() -> None:
    files = Files({"a": "one\n"})
    shell("ls > list; cat a > a; cat a list", files)
    assert files.snapshot() == {"a": "", "list": "a\nlist\n"}


def test_what_went_wrong_is_said_and_not_sent_to_the_file() -> None:
    files = Files(TREE)
    assert shell("cat README.md no > out", files).text.startswith("cat: no: no such file")
    assert files.read("out") == "# hi\n"


@in_cases(
    [
        ("cat 'a", "a quote or a backslash has no end"),
        ('echo "a', "a quote or a backslash has no end"),
        ("echo a\\", "a quote or a backslash has no end"),
        ("ls | wc -l", "this shell has no |"),
        ("ls || pwd", "this shell has no ||"),
        ("ls &", "this shell has no &"),
        ("(ls)", "this shell has no ("),
        ("cat < a", "this shell has no <"),
        ("ls 2>/dev/null", "this shell has no 2>"),
        ("ls;;ls", "this shell has no ;;"),
        ("echo $HOME", "this shell has no $HOME"),
        ('echo "a $(ls)"', "this shell has no $("),
        ('echo "\\$x"', "this shell has no $x"),
        ("echo `ls`", "this shell has no `"),
        ("if ls no\nthen\nrm README.md\nfi", "this shell has no if"),
        ("while ls no; do\nrm README.md\ndone", "this shell has no while"),
        ("cd src; rm README.md", "this shell has no cd"),
        ("ls && exit; rm README.md", "this shell has no exit"),
        ("&& ls", "&& has nothing before it"),
        ("ls ; && ls", "&& has nothing before it"),
        ("ls &&", "&& has nothing after it"),
        ("echo a >", "> and >> stand between a command and one path"),
        ("echo > a b", "> and >> stand between a command and one path"),
        ("> a", "> and >> stand between a command and one path"),
        ("ls \0", "a command cannot hold NUL, nor more than 131072 characters"),
    ]
)
def test_what_the_shell_does_not_know_is_refused_before_anything_is_done(
    command: str, why: str
) -> None:
    files = Files(TREE)
    text = f"syntax error: {why}\nexit code 2"
    expected = ToolResult(text, is_error=True, details={"exit_code": 2})
    assert shell(command, files) == expected
    if not command.startswith("&&"):
        assert shell(f"rm README.md; {command}", files) == expected
    assert files.snapshot() == TREE


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo 'a && b' \"c > d\" e\\;f", "a && b c > d e;f\n"),
        ("echo '$HOME' '`' \\$x 5$", "$HOME ` $x 5$\n"),
        ("echo '*' \"*\" \\* a#b", "* * * a#b\n"),
        ("echo *", "README.md src\n"),
        ("echo 's'* '*'*", "src **\n"),
        ("echo no*", "no*\n"),
        ("echo 'a\n\nb'", "a\n\nb\n"),
        ("echo ''", "\n"),
    ],
)
def test_quotes_take_their_meaning_from_special_characters(command: str, text: str) -> None:
    assert shell(command).text == text


@given(texts)
def test_a_quoted_text_is_one_word_as_it_stands(text: str) -> None:
    assert shell(f"echo {shlex.quote(text)}").text == f"{text}\n"


@given(texts, texts)
def test_a_quoted_path_names_its_file_and_no_other(path: str, text: str) -> None:
    files = Files({"a": "", "b": ""})
    try:
        files.write(f"f/{path}", text)
    except OSError:
        return
    assert shell(f"cat {shlex.quote(f'f/{path}')}", files).text == text


def test_a_command_that_is_too_long_is_refused() -> None:
    assert "nor more than 131072 characters" in shell("a" * 131_073).text


@given(commands)
def test_no_command_raises_and_the_same_one_gives_the_same(command: str) -> None:
    first, second = Files(TREE), Files(TREE)
    result = shell(command, first)
    assert result == shell(command, second)
    assert first.snapshot() == second.snapshot()
    assert result.is_error is (result.details != {"exit_code": 0})
    canonical_json(result.details)


@pytest.mark.parametrize("command", ["cat a a a", "cat a; cat a; cat a", "cat a a a > b"])
def test_a_command_line_that_says_too_much_fails(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simloop.world.file_tools._MOST", 10)
    result = shell(command, Files({"a": "fours"}))
    assert result.is_error
    assert result.text.endswith("the output is too long\nexit code 1")
    assert len(result.text) < 50
