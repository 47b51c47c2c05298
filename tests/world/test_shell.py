"""The shell over files: pipes, here-documents, and the commands that another part runs for it."""

import asyncio

import pytest

from simloop import simulate
from simloop.world.files import Files
from simloop.world.shell import Shell, Write

TREE = {"a": "one\ntwo\nthree\n", "b": "four\n"}


def ran(line: str, files: Files | None = None, **more: object) -> tuple[str, str, int]:
    """Run a line in a shell, and return its output, its errors and its exit status."""
    kept = {"stdout": "", "stderr": ""}

    async def write(stream: str, text: str) -> None:
        kept[stream] += text

    async def main() -> int:
        return await Shell(files or Files(TREE), **more).run(line, write)  # type: ignore[arg-type]

    code = simulate(main())
    return kept["stdout"], kept["stderr"], code


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("cat a | grep t | wc -l", ("2\n", "", 0)),
        ("cat a b | head -n 2", ("one\ntwo\n", "", 0)),
        ("cat a | tail -1", ("three\n", "", 0)),
        ("head -2 a; tail -n 1 a", ("one\ntwo\nthree\n", "", 0)),
        ("cat no || echo none", ("none\n", "cat: no: no such file or folder\n", 0)),
        ("cat a > c || echo none; cat c | wc -l", ("3\n", "", 0)),
        ("false && cat a | wc -l; echo after", ("after\n", "", 0)),
        ("cat no 2>&1 | wc -l", ("1\n", "", 0)),
        ("cat no 2>/dev/null || true", ("", "", 0)),
        ("cat no > log 2>&1; cat log", ("cat: no: no such file or folder\n", "", 0)),
        ("cat a > /dev/null", ("", "", 0)),
        ("cat <<'EOF' > c && cat c\n$x\n\ny\nEOF\n", ("$x\n\ny\n", "", 0)),
        ("cat <<EOF\nx\nEOF\necho y", ("x\ny\n", "", 0)),
        ("grep no <<EOF || echo none\nx\nEOF", ("none\n", "", 0)),
        ("cat a | grep", ("", "grep: an operand is missing\n", 2)),
        ("mkdir d && cd d && cp=1 pwd && echo x > y; cd ..; cat d/y", ("/d\nx\n", "", 0)),
        ("mkdir d; cat a > d/e; cd d; ls; echo *; cat /b; X=1", ("e\ne\nfour\n", "", 0)),
        ("cd no && pwd", ("", "sh: no: no such file or folder\n", 1)),
        ("cd a || pwd; cd; pwd", ("/\n/\n", "sh: a: is a file\n", 0)),
        ("false; echo $? \"x$?\" '$?' \\$?", ("1 x1 $? $?\n", "", 0)),
        ("export X=1 && cat < /dev/null | wc -l", ("0\n", "", 0)),
        ("head", ("", "head: an operand is missing\n", 2)),
    ],
)
def test_commands_are_piped_and_their_errors_sent(line: str, result: tuple[str, str, int]) -> None:
    assert ran(line) == result


def test_a_command_that_another_part_knows_is_run_by_it_with_its_input() -> None:
    async def start(words: list[str], text: str, write: Write) -> int | None:
        if words[0] != "rev":
            return None
        await asyncio.sleep(1)
        await write("stdout", f"{words[1:]}{text[::-1]}")
        await write("stderr", "slow\n")
        return 3

    assert ran("cat b | rev 'x y' | cat", start=start) == ("['x y']\nruof", "slow\n", 0)
    assert ran("rev > c || cat c", start=start) == ("[]", "slow\n", 0)
