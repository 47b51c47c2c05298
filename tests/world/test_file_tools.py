"""The five tools of document 003, called as they are and in whole runs."""

from typing import Any

import pytest
from filetooling import TREE, call, shell, tool
from hypothesis import given
from hypothesis import strategies as st
from incases import in_cases
from toolcalling import answer, result_of, results

from simloop import Reply, Scenario, ToolResult, run
from simloop.world.file_tools import file_tools
from simloop.world.files import Files
from simloop.world.tools import wrong_arguments

NAMES = ["RunShellCommand", "ReadFile", "ReadFolder", "WriteFile", "EditFile"]

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


# ------------------------------------------------------------------------- the tools


def test_the_tools_are_those_of_the_document() -> None:
    assert list(file_tools(Files())) == NAMES


def test_only_the_shell_takes_time_and_it_has_the_timeout_of_the_document() -> None:
    tools = file_tools(Files())
    assert [name for name in NAMES if tools[name].function.is_async] == ["RunShellCommand"]
    timeouts = [tools[name].timeout_ms for name in NAMES]
    assert timeouts == [30_000, None, None, None, None]


@pytest.mark.parametrize("name", NAMES)
def test_each_tool_is_described_in_one_sentence(name: str) -> None:
    description = tool(name).spec.description
    assert description.endswith(".")
    assert "\n" not in description


@pytest.mark.parametrize(
    ("name", "needed"),
    [("RunShellCommand", ["command"]), ("ReadFile", ["path"]), ("ReadFolder", []),
     ("WriteFile", ["path", "content"]), ("EditFile", ["path", "old", "new"])],
)  # fmt: skip
def test_each_tool_takes_its_texts_and_nothing_else(name: str, needed: list[str]) -> None:
    right = dict.fromkeys(needed, "x")
    assert wrong_arguments(tool(name), right) == []
    assert wrong_arguments(tool(name), {**right, "mode": "r"}) == ["arguments: not known: mode"]
    for argument in needed:
        assert wrong_arguments(tool(name), {**right, argument: 1}) != []
        rest = {other: "x" for other in needed if other != argument}
        assert wrong_arguments(tool(name), rest) == [f"arguments: {argument} is missing"]


# ------------------------------------------------------------------------- files and folders


def test_a_file_is_read_whole() -> None:
    expected = ToolResult("# hi\n", details={"path": "README.md", "bytes": 5})
    assert call("ReadFile", Files(TREE), path="./README.md") == expected


def test_a_folder_is_read_as_its_names() -> None:
    details = {"path": "src", "names": ["chat.ts", "index.ts"]}
    expected = ToolResult("chat.ts\nindex.ts", details=details)
    assert call("ReadFolder", Files(TREE), path="src/") == expected


def test_without_a_path_the_root_is_read() -> None:
    assert call("ReadFolder", Files(TREE)).text == ".env\nREADME.md\nsrc/"


@given(texts)
def test_what_one_tool_writes_another_reads(content: str) -> None:
    files = Files()
    details = {"path": "a/b", "bytes": len(content.encode())}
    expected = ToolResult("wrote a/b", details=details)
    assert call("WriteFile", files, path="/a/b", content=content) == expected
    assert call("ReadFile", files, path="a/b").text == content


def test_an_edit_changes_the_file() -> None:
    files = Files(TREE)
    result = call("EditFile", files, path="README.md", old="hi", new="hello")
    assert result == ToolResult("edited README.md", details={"path": "README.md", "bytes": 8})
    assert files.read("README.md") == "# hello\n"


@given(st.text("one\n", max_size=3), texts)
def test_a_failed_edit_changes_nothing(old: str, new: str) -> None:
    files = Files(TREE)
    arguments = {"path": "src/chat.ts", "old": old, "new": new}
    message = result_of(tool("EditFile", files), arguments)
    assert message.is_error is (TREE["src/chat.ts"].count(old) != 1)
    assert not message.is_error or files.snapshot() == TREE


# ------------------------------------------------------------------------- the shell: commands


@in_cases(
    [
        ("echo a  'b  c'", "a b  c\n"),
        ("echo -n", "-n\n"),
        ("cat README.md src/index.ts", "# hi\none\n"),
        ("ls", "README.md\nsrc/\n"),
        ("ls -a", ".env\nREADME.md\nsrc/\n"),
        ("ls -l src", "      14 chat.ts\n       4 index.ts\n"),
        ("ls -la", "       4 .env\n       5 README.md\n       - src/\n"),
        ("ls -l -a README.md", "       5 README.md\n"),
        ("ls src src/chat.ts", "src/chat.ts\n\nsrc:\nchat.ts\nindex.ts\n"),
        ("ls src .", "src:\nchat.ts\nindex.ts\n\n.:\nREADME.md\nsrc/\n"),
        ("wc -l README.md", "1 README.md\n"),
        ("wc -l src/*.ts", "3 src/chat.ts\n1 src/index.ts\n4 total\n"),
        ("mkdir -p a/b && mkdir a/c && ls a", "b/\nc/\n"),
        ("rm README.md && rm -r src && ls -a", ".env\n"),
        ("grep t src/chat.ts", "two\nthree\n"),
        ("grep -n one src/*", "src/chat.ts:1:one\nsrc/index.ts:1:one\n"),
        ("grep '' src/index.ts", "one\n"),
        ("echo a.c > a; echo abc >> a; grep -F a.c a; grep -nF a. a", "a.c\n1:a.c\n"),
        ("", ""),
        (" # nothing", ""),
    ]
)
def test_a_command_says_what_a_shell_would(command: str, text: str) -> None:
    assert shell(command) == ToolResult(text, details={"exit_code": 0})


@in_cases(
    [
        ("frob -x", "frob: command not found\n", 127),
        ("cat no README.md", "# hi\ncat: no: no such file or folder\n", 1),
        ("cat src", "cat: src: is a folder\n", 1),
        ("cat ../x", "cat: ../x: leads above the root\n", 1),
        ("ls no", "ls: no: no such file or folder\n", 1),
        ("ls -R", "ls: option -R is not known\n", 2),
        ("ls --all", "ls: option -- is not known\n", 2),
        ("rm -- README.md", "rm: option -- is not known\n", 2),
        ("ls src/*.py", "ls: src/*.py: no such file or folder\n", 1),
        ("ls ../*", "sh: ../*: leads above the root\n", 1),
        ("cat", "cat: an operand is missing\n", 2),
        ("wc README.md", "wc: only wc -l is known\n", 2),
        ("wc -l no README.md", "1 README.md\n1 total\nwc: no: no such file or folder\n", 1),
        ("ls src no", "src:\nchat.ts\nindex.ts\nls: no: no such file or folder\n", 1),
        ("grep zzz README.md", "", 1),
        ("grep hi no README.md", "README.md:# hi\ngrep: no: no such file or folder\n", 2),
        ("grep '^#' README.md", "grep: patterns are not known, only texts: use -F\n", 2),
        ("grep h. README.md", "grep: patterns are not known, only texts: use -F\n", 2),
        ("grep hi", "grep: an operand is missing\n", 2),
        ("mkdir src", "mkdir: src: is there already\n", 1),
        ("mkdir a/b", "mkdir: a/b: no such file or folder\n", 1),
        ("touch a/b", "touch: a/b: no such file or folder\n", 1),
        ("rm src", "rm: src: is a folder\n", 1),
        ("rm -r /", "rm: /: the root cannot be removed\n", 1),
        ("echo a > no/b", "sh: no/b: no such file or folder\n", 1),
        ("echo a > src", "sh: src: is a folder\n", 1),
        ("sleep", "sleep: takes a number of seconds\n", 2),
        ("sleep 1e9", "sleep: takes a number of seconds\n", 2),
        ("sleep inf", "sleep: takes a number of seconds\n", 2),
    ]
)
def test_a_command_that_fails_says_why_and_reports_its_exit_code(
    command: str, text: str, code: int
) -> None:
    expected = ToolResult(f"{text}exit code {code}", is_error=True, details={"exit_code": code})
    files = Files(TREE)
    assert shell(command, files) == expected
    assert files.snapshot() == TREE


def test_the_exit_code_stands_on_a_line_of_its_own() -> None:
    files = Files({"a": "no end of line"})
    assert (
        shell("cat a && frob", files).text == "no end of linefrob: command not found\nexit code 127"
    )
    assert shell("cat a; grep x a", files).text == "no end of line\nexit code 1"


def test_a_file_without_an_end_of_line_has_one_line_less_and_none_is_lost() -> None:
    files = Files({"a": "one\ntwo"})
    assert shell("wc -l a", files).text == "1 a\n"
    assert shell("grep -n two a", files).text == "2:two\n"


def test_touching_makes_an_empty_file_and_changes_no_other() -> None:
    files = Files(TREE)
    assert shell("touch new README.md src", files).text == ""
    assert files.snapshot() == {**TREE, "new": ""}


# ------------------------------------------------------------------------- in a run


def test_sleeping_takes_virtual_time() -> None:
    reply = Reply(call={"RunShellCommand": {"command": "sleep 29.5 && echo up"}})
    result = answer(reply, tool("RunShellCommand"))
    assert ([message.text for message in results(result)], result.elapsed_s) == (["up\n"], 29.5)


def test_a_command_of_more_than_thirty_seconds_is_cut_off_and_what_it_did_stays() -> None:
    files = Files()
    reply = Reply(call={"RunShellCommand": {"command": "touch a; sleep 31; touch b"}})
    result = answer(reply, tool("RunShellCommand", files))
    assert [message.text for message in results(result)] == ["Error: timed out after 30000 ms"]
    assert (result.elapsed_s, files.snapshot()) == (30, {"a": ""})


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("ReadFile", {"path": "no"}, "Error: no: no such file or folder"),
        ("ReadFile", {"path": ""}, "Error: '': the path is empty"),
        ("ReadFile", {"path": "a\0"}, "Error: a\\x00: a path cannot hold NUL"),
        ("ReadFile", {"path": "/../etc/passwd"}, "Error: /../etc/passwd: leads above the root"),
        ("ReadFolder", {"path": "README.md"}, "Error: README.md: is a file"),
        ("WriteFile", {"path": "src", "content": ""}, "Error: src: is a folder"),
        ("EditFile", {"path": "README.md", "old": "x", "new": ""},
         "Error: README.md: the old text is not in it"),
    ],
)  # fmt: skip
def test_what_a_tool_cannot_do_is_an_error_result(
    name: str, arguments: dict[str, str], text: str
) -> None:
    message = result_of(tool(name), arguments)
    assert (message.text, message.is_error) == (text, True)


def test_a_whole_run_works_on_one_set_of_files() -> None:
    calls: list[dict[str, Any]] = [
        {"RunShellCommand": {"command": "ls -la && wc -l src/*.ts"}},
        {"ReadFolder": {}},
        {"EditFile": {"path": "src/index.ts", "old": "one", "new": "1"}},
        {"WriteFile": {"path": "docs/notes.md", "content": "3 lines"}},
        {"ReadFile": {"path": "docs/notes.md"}},
    ]
    model = [*(Reply(call=one) for one in calls), Reply(say="4 lines.")]
    files = Files(TREE)
    result = run(Scenario(prompt="Count.", model=model), tools=file_tools(files))
    told = [message.text.splitlines()[-1] for message in results(result)]
    assert told == ["4 total", "src/", "edited src/index.ts", "wrote docs/notes.md", "3 lines"]
    assert files.snapshot() == {**TREE, "src/index.ts": "1\n", "docs/notes.md": "3 lines"}
    assert (result.text, result.elapsed_ns) == ("4 lines.", 0)
