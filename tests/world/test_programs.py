"""The port of the programs: which script answers, what the trace shows, the faults of chance."""

import io
import os
import select
import shutil
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from simloop import (
    Completed,
    Program,
    Result,
    RunawayRun,
    Runner,
    Scenario,
    ScenarioError,
    ScriptUnused,
    run,
)
from simloop.messages import Outcome
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.world.chance import ChanceFaults
from simloop.world.program_scripts import ProgramScript, command_line


def sh(*args: str, **options: Any) -> tuple[int, str, str]:
    done = subprocess.run(args, capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def played(code: Callable[[], Any], programs: Any = None, **scenario: Any) -> Result:
    """Run an agent that runs `code`, and returns what that returns as text."""

    def agent(prompt: str) -> str:
        return str(code())

    given = {key: each for key, each in (programs or {}).items() if callable(each)}
    stated = {key: each for key, each in (programs or {}).items() if key not in given}
    return run(Scenario(prompt="Go.", programs=stated, **scenario), loop=agent, programs=given)


def of(result: Result, kind: type[Any]) -> list[Any]:
    return [each for each in result.trace.entries if type(each) is kind]


# ------------------------------------------------------------------ which script


@pytest.mark.parametrize(
    ("key", "args", "fits"),
    [
        ("git", ["git", "status"], True),
        ("git status", ["git", "status", "--short"], True),
        ("git status", ["git"], False),
        ("git status", ["git", "stash"], False),
        ("git", ["/usr/bin/git", "log"], True),
        ("/usr/bin/git", ["/usr/bin/git"], True),
        ("/usr/bin/git", ["git"], False),
        ("git", ["gitk"], False),
        ("git *", ["git", "anything", "more"], True),
        ("git *", ["git"], False),
        ("python *.py", ["python", "src/a.py"], True),
        ("python *.py", ["python", "-m", "a.py"], False),
        ("git commit -m 'a b'", ["git", "commit", "-m", "a b"], True),
        ("git commit -m [x]", ["git", "commit", "-m", "x"], False),
    ],
)
def test_a_key_fits_the_command_lines_that_begin_with_its_words(
    key: str,
    args: list[str],
    fits: bool,  # noqa: FBT001 - both are tested
) -> None:
    assert ProgramScript(key, []).matches(args) is fits


def test_the_key_with_the_most_words_answers() -> None:
    programs = {"git": Program(stdout="any"), "git log": Program(stdout="log")}
    code = lambda: (sh("git", "log", "-1")[1], sh("git", "show")[1])  # noqa: E731
    assert played(code, programs).text == "('log', 'any')"


def test_the_interpreter_is_python_on_each_machine() -> None:
    def code() -> Any:
        line = f"{sys.executable} -m pytest | tail -1"
        return sh(sys.executable, "-m", "pytest")[1], sh("sh", "-c", line)[1]

    result = played(code, {"python -m pytest": Program(stdout="1 passed")})
    assert result.text == "('1 passed', '1 passed')"
    result.expect(programs=["python -m pytest", "python -m pytest | tail -1"])


def test_answers_come_in_order_and_the_last_one_again() -> None:
    answers = [{"exit": 1}, {"exit": 2, "times": 2}, {"exit": 3}]
    code = lambda: [sh("make")[0] for _ in range(5)]  # noqa: E731
    assert played(code, {"make": answers}).text == "[1, 2, 2, 3, 3]"


def test_an_answer_with_a_condition_is_a_rule_and_what_is_used_up_is_absent() -> None:
    answers = [{"stdin": {"contains": "x"}, "stdout": "an x"}, {"stdout": "none", "times": 1}]

    def code() -> Any:
        first = [sh("look", input=text)[1] for text in ("ax", "b", "x")]
        return first, sh("look", input="c")

    result = played(code, {"look": answers})
    assert result.text == (
        "(['an x', 'none', 'an x'], (1, '', 'look: no answer of the script fits this input\\n'))"
    )
    once = played(lambda: (sh("make"), sh("make")), {"make": Program(times=1)})
    assert once.outcome is Outcome.FAILED
    assert "FileNotFoundError" in once.message


def test_an_answer_that_is_not_used_fails_the_run() -> None:
    answers = [{"exit": 1}, {"exit": 2, "times": 2}, {}]
    with pytest.raises(ScriptUnused, match=r"programs\.make\.1"):
        played(lambda: [sh("make") for _ in range(2)], {"make": answers})
    played(lambda: [sh("make") for _ in range(3)], {"make": answers, "git": Program()})


def test_a_command_line_of_a_shell_is_answered_as_the_program_or_as_a_whole() -> None:
    programs = {"pytest": Program(stdout="1 passed\n"), "a | b": Program(stdout="whole\n")}

    def code() -> Any:
        return (
            sh("sh", "-c", "pytest -q"), sh("bash", "-lc", "a | b"),
            sh("sh", "-c", "pytest && nope; echo $x")[0], sh("sh", "-c", "pytest | wc -l"),
            sh("sh", "-c", "ls"), sh("sh", input="pytest\npytest -x\n"),
            sh("sh", "-c", "wc -l; head", input="1\n2\n")[1], sh("sh", "no.sh"),
        )  # fmt: skip

    result = played(code, programs)
    assert result.text == str((
        (0, "1 passed\n", ""), (0, "whole\n", ""), 2, (0, "1\n", ""),
        (127, "", "sh: 1: ls: not found\n"), (0, "1 passed\n1 passed\n", ""),
        "2\n", (2, "", "sh: 0: cannot open no.sh: no such file or folder\n"),
    ))  # fmt: skip
    assert [each.asked for each in of(result, entries.Refused)] == ["ls"]


def test_a_shell_over_the_files_changes_them() -> None:
    lines = ("cat a > b && make", "make > c", "touch c\nmake 2> /dev/null")
    code = lambda: ([os.system(line) for line in lines], sh("bash", "-c", "ls; cat b"))  # noqa: E731
    make = Program(exit=2, stdout="made")
    result = played(code, {"sh": "files", "make": make}, files={"a": "text\n"})
    assert result.text == "([512, 512, 512], (0, 'a\\nb\\nc\\ntext\\n', ''))"
    assert result.files == {"a": "text\n", "b": "text\n", "c": "made"}


def test_one_command_of_a_shell_is_that_program() -> None:
    programs = {
        "upper": lambda args, stdin: f"{args[1]} {stdin.upper()}",
        "die": Program(signal="SIGKILL"),
    }
    code = lambda: (sh("sh", "-c", "upper -x", input="a"), sh("sh", "-c", "die now")[0])  # noqa: E731
    assert played(code, programs).text == "((0, '-x A', ''), -9)"


def test_a_shell_that_goes_on_runs_each_line_as_it_comes() -> None:
    def code() -> Any:
        shell = subprocess.Popen(
            ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert shell.stdin is not None
        assert shell.stdout is not None
        said = []
        for line in ("make; echo done $?", "cd src", "pwd", "cat <<EOF > a\nx", "EOF", "cat a"):
            shell.stdin.write(f"{line}\n")
            if not line.startswith(("cd", "cat <<", "EOF")):
                said.append(shell.stdout.readline())
        shell.stdin.close()
        return said, shell.wait(), shell.stdout.read(), shell.stdout.close(), time.monotonic()

    result = played(code, {"sh": "files", "make": Program(exit=2, takes="3s")}, files={"src/b": ""})
    assert result.text == "(['done 2\\n', '/src\\n', 'x\\n'], 0, '', None, 3.0)"
    assert result.files == {"src/a": "x\n", "src/b": ""}


def test_a_program_that_nobody_scripted_is_absent_though_the_machine_has_it() -> None:
    def code() -> Any:
        with pytest.raises(FileNotFoundError):
            sh("ls")
        return shutil.which("ls"), shutil.which("git"), shutil.which("sh")

    result = played(code, {"git": Program()})
    assert result.text == "(None, '/usr/bin/git', '/usr/bin/sh')"
    assert [(each.what, each.asked) for each in of(result, entries.Refused)] == [("program", "ls")]


# ------------------------------------------------------------------ functions


def test_a_function_gets_the_words_and_the_input_and_may_wait() -> None:
    def wc(args: tuple[str, ...], stdin: str) -> Completed:
        time.sleep(2)
        return Completed(f"{len(stdin)} {args[1:]}\n", "slow\n", 4)

    def code() -> Any:
        return sh("wc", "-c", input="four"), time.monotonic()

    result = played(code, {"wc": wc})
    assert result.text == "((4, \"4 ('-c',)\\n\", 'slow\\n'), 2.0)"


def test_a_function_that_fails_is_a_program_that_fails_and_its_traceback_is_kept() -> None:
    def broken(args: tuple[str, ...]) -> str:
        raise KeyError(args[0])

    result = played(lambda: sh("tool"), {"tool": broken})
    assert result.text == "(1, '', \"KeyError: 'tool'\\n\")"
    assert [each.where for each in result.exceptions] == ["the program tool"]


def test_a_function_is_ended_with_its_process() -> None:
    ended = []

    def slow(args: tuple[str, ...]) -> None:
        try:
            time.sleep(60)
        finally:
            ended.append(time.monotonic())

    def code() -> Any:
        with pytest.raises(subprocess.TimeoutExpired):
            sh("slow", timeout=3)

    assert played(code, {"slow": slow}).outcome is Outcome.COMPLETED
    assert ended == [pytest.approx(3)]


def test_a_function_that_returns_no_text_is_named() -> None:
    with pytest.raises(ScenarioError, match="the function of tool returned no text"):
        played(lambda: sh("tool"), {"tool": lambda args: 5})


@pytest.mark.parametrize("given", [5, [], [5], "files"])
def test_what_is_no_answer_is_refused(given: Any) -> None:
    with pytest.raises(ScenarioError, match="no answer of a program") as caught:
        run(Scenario(prompt="Go."), loop=lambda prompt: "", programs={"git": given})
    assert caught.value.key == "programs.git"


# ------------------------------------------------------------------ the record


def test_the_trace_shows_each_program_its_input_its_output_and_its_end() -> None:
    programs = {
        "upper": lambda args, stdin: stdin.upper(),
        "log": Program(pieces=[{"after": "1s", "stdout": "a"}, {"after": "2s", "stderr": "b"}]),
        "killed": Program(signal="SIGSEGV", takes="1s"),
    }
    code = lambda: (sh("upper", input="in"), sh("log", cwd="/"), sh("killed")[0])  # noqa: E731
    result = played(code, programs)
    shown = [
        (type(each).__name__, each.at_ns // 10**9, *structs.astuple(each)[2:])
        for each in result.trace.entries
        if type(each).__name__.startswith("Program")
    ]  # fmt: skip
    assert shown == [
        ("ProgramStarted", 0, 1, ("upper",), ""),
        ("ProgramInput", 0, 1, "in"),
        ("ProgramOutput", 0, 1, "stdout", "IN"),
        ("ProgramEnded", 0, 1, 0),
        ("ProgramStarted", 0, 2, ("log",), "/"),
        ("ProgramOutput", 1, 2, "stdout", "a"),
        ("ProgramOutput", 3, 2, "stderr", "b"),
        ("ProgramEnded", 3, 2, 0),
        ("ProgramStarted", 3, 3, ("killed",), ""),
        ("ProgramEnded", 4, 3, -11),
    ]
    assert result.text.endswith(", -11)")


def test_a_program_that_goes_on_after_its_agent_is_left_behind() -> None:
    started: list[subprocess.Popen[bytes]] = []

    def code() -> None:
        started.append(subprocess.Popen(["server"], stdout=subprocess.DEVNULL))
        started.append(subprocess.Popen(["server", "2"], stdout=subprocess.DEVNULL))
        started[0].kill()

    result = played(code, {"server": Program(hangs=True)})
    left, *others = of(result, entries.LeftBehind)
    assert others == []
    assert (left.what, left.name) == ("program", "server")
    assert left.place.endswith(".code")
    for each in started:  # no warning of Python that it goes on
        each.returncode = 0


def test_what_programs_print_to_the_terminal_is_the_output_of_the_agent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = lambda: subprocess.run(["hello"], check=True).returncode  # noqa: E731
    assert played(code, {"hello": Program(stdout="out\n", stderr="err\n")}).text == "0"
    assert capsys.readouterr() == ("out\n", "err\n")


def test_the_command_lines_are_expected_in_order() -> None:
    code = lambda: (os.system("git log | head -1"), sh("make", "all", "x y"))  # noqa: E731
    result = played(code, {"git": Program(), "make": Program()})
    result.expect(programs=["git log | head -1", "make all 'x y'"])
    result.expect(programs=["git *", ...])
    with pytest.raises(AssertionError, match=r"expect\.programs: expected"):
        result.expect(programs=["make *", ...])


def test_a_command_line_is_that_of_the_shell() -> None:
    assert command_line(["/bin/sh", "-c", "a | b"]) == "a | b"
    assert command_line(["sh", "script.sh"]) == "sh script.sh"
    assert command_line(["git", "commit", "-m", "a b"]) == "git commit -m 'a b'"


# ------------------------------------------------------------------ hostile programs


@pytest.mark.slow
def test_50_megabytes_are_read_whole_and_bounded_in_the_trace() -> None:
    size = 50_000_000
    result = played(lambda: len(sh("huge")[1]), {"huge": lambda args: "x" * size})
    assert result.text == str(size)
    (output,) = of(result, entries.ProgramOutput)
    assert output.text == f"{'x' * 100_000}[... and {size - 100_000} more characters]"


@pytest.mark.slow
def test_50_megabytes_are_written_to_a_program() -> None:
    size = 50_000_000
    code = lambda: sh("count", input="x" * size)[1]  # noqa: E731
    result = played(code, {"count": lambda args, stdin: str(len(stdin))})
    assert result.text == str(size)
    (read,) = of(result, entries.ProgramInput)
    assert read.text.endswith(f"[... and {size - 100_000} more characters]")


def test_an_output_without_an_end_ends_the_run() -> None:
    programs = {"yes": Program(pieces=[{"stdout": "y" * 50_000}], endless=True)}
    with pytest.raises(RunawayRun, match="max_trace_chars=1000000"):
        played(lambda: sh("yes"), programs, max_trace_chars=1_000_000)


def test_an_output_at_the_deadline_does_not_keep_the_deadline_from_passing() -> None:
    def code() -> bytes:
        with pytest.raises(subprocess.TimeoutExpired) as raised:
            sh("yes", timeout=30)
        assert time.monotonic() == pytest.approx(30)
        return raised.value.output or b""

    each_second = Program(pieces=[{"after": "1s", "stdout": "y\n"}], endless=True)
    assert str(played(code, {"yes": each_second}).text).count("y") >= 29


def test_bytes_and_controls_arrive_as_they_are_and_are_written_as_text() -> None:
    raw = b"\x1b[2J\xff\x00\r\n"
    code = lambda: subprocess.run(["raw"], capture_output=True, check=True).stdout  # noqa: E731
    result = played(code, {"raw": lambda args: Completed(raw)})
    assert result.text == str(raw)
    assert [each.text for each in of(result, entries.ProgramOutput)] == ["\x1b[2J\\xff\x00\r\n"]


def test_a_program_that_never_ends_is_a_deadlock_that_names_it() -> None:
    with pytest.raises(Exception, match=r"program server: .*waits for a signal"):
        played(lambda: sh("server"), {"server": Program(hangs=True)})


# ------------------------------------------------------------------ chance


@pytest.mark.parametrize(
    ("site", "text"),
    [
        ("program.fails", "(1, '', 'failed by chance\\n')"),
        ("program.killed", "(-9, 'one', '')"),
        ("program.slow", "(0, 'onetwo', '')"),
    ],
)
def test_a_fault_of_chance_shows(site: str, text: str) -> None:
    faults = ChanceFaults(activate=1.0, fire=1.0, sites=[site])
    program = Program(pieces=[{"stdout": "one"}, {"stdout": "two"}])
    result = played(lambda: sh("tool"), {"tool": program}, faults=faults)
    assert (result.text, result.elapsed_s) == (text, 20.0 if site == "program.slow" else 0.0)


def held() -> list[Any]:
    """What stands in the places that are exchanged for programs alone."""
    files = [vars(io.FileIO)[name] for name in ("read", "readinto", "write", "close")]
    names = ("read", "write", "close", "pipe", "waitpid", "kill", "getpgid")
    return [*files, select.poll, select.select, *(getattr(os, name) for name in names)]


def test_the_originals_are_back_after_a_run_and_between_those_of_a_runner() -> None:
    before, inside = held(), []

    def agent(prompt: str) -> str:
        inside.append(held())
        return sh("git")[1]

    scenario = Scenario(prompt="Go.", programs={"git": Program(stdout="out")})
    with Runner(scenario, loop=agent) as runner:
        results = [runner.run(), runner.run(1), runner.run()]
        assert all(a is b for a, b in zip(before, held(), strict=True))
    assert [each.text for each in results] == ["out"] * 3
    assert encode(results[0].trace) == encode(results[2].trace)
    assert not any(a is b for a, b in zip(before, inside[0], strict=True))
    assert os.waitstatus_to_exitcode(os.system("exit 3")) == 3


def test_a_program_is_started_in_a_fork_too() -> None:
    scenario = Scenario(prompt="Go.", programs={"git": Program(stdout="out")})
    result = run(scenario, loop=lambda prompt: sh("git")[1], isolate=True)
    assert result.text == "out"


def test_a_call_that_fails_by_chance_uses_up_no_answer() -> None:
    for site in ("program.fails", "program.killed"):
        faults = ChanceFaults(activate=1.0, fire=0.5, sites=[site])
        answers = [{"stdout": f"{number}"} for number in range(20)]
        more = {"faults": faults, "expect": {"unused": {"max": 20}}}
        result = played(lambda: [sh("make") for _ in range(12)], {"make": answers}, **more)
        made = [out for code, out, _ in literal_eval(result.text) if code == 0]
        assert made == [str(number) for number in range(len(made))]
        assert 0 < len(made) < 12


def test_equal_runs_give_equal_bytes() -> None:
    faults = ChanceFaults(activate=1.0, fire=0.5)

    def code() -> Any:
        return [sh("tool") for _ in range(20)], os.system("tool; tool")

    def one() -> bytes:
        return encode(played(code, {"tool": Program(stdout="x", takes="1s")}, faults=faults).trace)

    assert one() == one()
