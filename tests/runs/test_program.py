"""Whole programs as agents: their surroundings, their output, their end, and their folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simloop import Reply, RunawayRun, Scenario, ScenarioError, Trigger, run
from simloop.check.trial import verify
from simloop.errors import CheckFailed, Deadlock
from simloop.fuzz.search import Search
from simloop.runs import program as programs
from simloop.runs.folders import placed_folder
from simloop.runs.result import Result
from simloop.runs.run import Simulation
from simloop.scenario.people import Line
from simloop.scenario.programs import Program
from simloop.trace import entries

SAID = Scenario(prompt="Go.", model=[Reply(say="Done.")])
SILENT = Scenario(prompt="Go.")

ASKS = """
import asyncio, sys
from simloop.messages import UserMessage
from simloop.virtual.threads.calls import run_blocking
from simloop.world.world import current_world

def ask(prompt):
    completion = run_blocking(current_world().model.reply([UserMessage(prompt)]))
    return completion.message.text

"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a program; return a function that runs it."""
    monkeypatch.chdir(tmp_path)

    def runs(
        text: str, scenario: Scenario = SILENT, command: str = "program.py {prompt}", **more: Any
    ) -> Result:
        (tmp_path / "program.py").write_text(text, "utf-8")
        return run(scenario, loop=f"$ {command}", **more)

    return runs


def printed(result: Result, stream: str = "stdout") -> str:
    return "".join(
        each.text
        for each in result.trace.entries
        if isinstance(each, entries.Output) and each.stream == stream
    )


def test_a_program_gets_the_prompt_and_its_output_is_the_text_of_the_run(program: Any) -> None:
    result = program(ASKS + "print('It says:', ask(sys.argv[1]))", SAID)
    assert (result.outcome, result.exit, result.text) == ("completed", 0, "It says: Done.")
    assert [request.messages[0].text for request in result.requests] == ["Go."]
    assert printed(result) == "It says: Done.\n"


def test_a_program_has_the_main_thread_with_signal_handlers_and_asyncio(program: Any) -> None:
    result = program("""
import asyncio, signal, threading
assert threading.current_thread() is threading.main_thread()
assert threading.enumerate() == [threading.main_thread()]
signal.signal(signal.SIGTERM, lambda *_: None)
async def main():
    await asyncio.sleep(5)
    return await asyncio.to_thread(lambda: "from a thread")
print(asyncio.run(main()))
""")
    assert result.text == "from a thread"
    assert result.elapsed_s == 5


def test_threads_and_exit_functions_end_a_program_in_virtual_time(program: Any) -> None:
    result = program("""
import atexit, threading, time
from concurrent.futures import ThreadPoolExecutor
def late(seconds, word):
    time.sleep(seconds)
    print(word, time.monotonic())
atexit.register(late, 3, "exit")
threading.Thread(target=late, args=(2, "thread")).start()
ThreadPoolExecutor(1).submit(late, 1, "pool")
threading.Thread(target=late, args=(900, "never"), daemon=True).start()
print("main")
""")
    assert result.text.splitlines() == ["main", "pool 1.0", "thread 2.0", "exit 5.0"]
    assert result.elapsed_s == 5


@pytest.mark.parametrize(
    ("code", "status", "stderr"),
    [
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no key')", 1, "no key\n"),
        ("raise KeyboardInterrupt", 130, ""),
        ("import atexit, os; atexit.register(print, 'exit'); os._exit(4)", 4, ""),
        ("import os, threading as t; t.Timer(1, os._exit, [4]).start(); t.Event().wait()", 4, ""),
    ],
)
def test_a_program_ends_with_the_status_that_python_gives_it(
    program: Any, code: str, status: int, stderr: str
) -> None:
    result = program(code)
    assert result.exit == status
    assert result.trace.ends[-1].exit == status
    assert printed(result, "stderr") == stderr
    assert result.outcome == ("failed" if status else "completed")
    assert result.message == (f"Error: exit status {status}" if status else "")


def test_an_exception_of_a_program_is_told_with_its_traceback(program: Any) -> None:
    result = program("def main():\n    raise ValueError('wrong')\nmain()")
    assert (result.exit, result.message) == (1, "Error: ValueError: wrong")
    assert printed(result, "stderr") == "ValueError: wrong\n"
    (raised,) = result.exceptions
    assert "    raise ValueError('wrong')" in raised.lines()


@pytest.mark.slow
def test_a_program_has_an_environment_and_folders_of_its_own(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("OPENAI_API_KEY", "real")
    code = """
import os, pathlib, tempfile
print(sorted(os.environ.keys() & {"SECRET", "PATH", "MODE"}), os.environ["OPENAI_API_KEY"])
print(os.environ["MODE"], pathlib.Path.home(), os.getcwd(), tempfile.gettempdir())
print(list(pathlib.Path.home().iterdir()), list(pathlib.Path.cwd().iterdir()))
(pathlib.Path.home() / "history").write_text("used")
"""
    first, second = (program(code, command="MODE=fast program.py") for _ in range(2))
    assert first.text.splitlines()[0] == "['MODE', 'PATH'] simulated"
    assert first.text.splitlines()[1].startswith("fast /tmp/simloop-program")
    assert first.text.splitlines()[2] == "[] []"
    assert first.trace.entries == second.trace.entries


def test_the_files_of_the_scenario_are_in_the_working_folder(program: Any) -> None:
    scenario = SILENT.model_copy(update={"files": {"src/a.py": "x = 1\n", ".env": "A=1"}})
    code = """
import os, pathlib
pathlib.Path("src/a.py").write_text("x = 2\\n")
pathlib.Path("b.txt").write_text(pathlib.Path(".env").read_text())
pathlib.Path(".cache").write_text("hidden")
pathlib.Path("c.bin").write_bytes(b"\\xff")
os.chdir("/")
"""
    assert program(code, scenario).files == {"src/a.py": "x = 2\n", ".env": "A=1", "b.txt": "A=1"}


def test_the_files_of_a_program_are_expected_where_the_scenario_gives_none(program: Any) -> None:
    result = program("open('a.txt', 'w').write('A')")
    assert result.expect(files={"a.txt": "A"}).ok


@pytest.mark.slow
def test_a_shell_of_the_scenario_works_on_the_files_of_the_program(program: Any) -> None:
    programs: Any = {"sh": "files", "git status": Program(stdout="clean")}
    files = {"a.txt": "A\n", "src/b.py": "b = 1\n"}
    scenario = Scenario(prompt="Go.", files=files, programs=programs)
    code = """
import os, pathlib, subprocess
def sh(line, **more):
    done = subprocess.run(line, shell=True, capture_output=True, text=True, **more)
    return done.stdout + done.stderr
pathlib.Path("c.txt").write_text("C\\n")
print(sh("cat c.txt; echo new > d.txt; rm a.txt; mkdir e; cat nothing"), end="")
print(sorted(os.listdir()), pathlib.Path("d.txt").read_text(), end="")
print(sh(f"cat {os.getcwd()}/src/b.py"), sh("ls", cwd="src"), end="")
print(subprocess.run(["git", "status"], capture_output=True, text=True).stdout)
"""
    result = program(code, scenario)
    assert result.text.splitlines() == [
        "C", "cat: nothing: no such file or folder", "['c.txt', 'd.txt', 'e', 'src'] new", "b = 1",
        " b.py", "clean",
    ]  # fmt: skip
    assert result.files == {"c.txt": "C\n", "d.txt": "new\n", "src/b.py": "b = 1\n"}


def test_output_is_recorded_by_lines_and_as_it_is_flushed(program: Any) -> None:
    result = program("""
import sys, time
print("one", end=" ")
print("line")
for word in "a", "b":
    print(word, end="", flush=True)
    time.sleep(1)
sys.stdout.buffer.write(b"bytes\\n")
sys.stderr.writelines(["x", "y"])
print(sys.stdout.fileno(), sys.stdout.isatty(), sys.stdin.read() == "")
""")
    texts = [each.text for each in result.trace.entries if isinstance(each, entries.Output)]
    assert texts == ["one line\n", "a", "b", "bytes\n", "1 False True\n", "xy"]


def test_a_flood_of_output_is_cut(program: Any) -> None:
    result = program("print('x' * 1_000_000)\nfor _ in range(25): print('y' * 10_000, end='')")
    texts = [each.text for each in result.trace.entries if isinstance(each, entries.Output)]
    assert texts[0] == "x" * 100_000 + "[... and 900001 more characters]"
    assert [len(text) for text in texts[1:]] == [100_000, 100_000, 50_000]
    assert len(result.text) == 100_000


def test_a_user_stops_a_program_as_with_ctrl_c(program: Any) -> None:
    scenario = SILENT.model_copy(update={"abort": Trigger(at="3s")})
    code = """
import time
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("stopped at", time.monotonic())
    raise
"""
    result = program(code, scenario)
    assert (result.outcome, result.exit) == ("aborted", 130)
    assert printed(result) == "stopped at 3.0\n"


HANDLERS = {
    "a handler": (5, "handler 3.0\nslept 3.125\n", """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: print("handler", time.monotonic()))
time.sleep(3.125)
print("slept", time.monotonic())
sys.exit(5)
"""),
    "asyncio.run": (130, "cleaned 3.125\n", """
import asyncio, time
async def main():
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.125)
        print("cleaned", time.monotonic())
asyncio.run(main())
"""),
    "a handler of the event loop": (7, "stopped 3.0\n", """
import asyncio, signal, sys, time
async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    await stop.wait()
    print("stopped", time.monotonic())
    return 7
sys.exit(asyncio.run(main()))
"""),
}  # fmt: skip


@pytest.mark.parametrize("how", HANDLERS)
def test_a_program_handles_ctrl_c_as_it_says(program: Any, how: str) -> None:
    status, said, code = HANDLERS[how]
    result = program(code, SILENT.model_copy(update={"abort": Trigger(at="3s")}))
    assert (result.outcome, result.exit, printed(result)) == ("aborted", status, said)


@pytest.mark.parametrize(
    ("more", "ends"),
    [("", "stopped 3.0, child -2"), (", start_new_session=True", "stopped 3.0, child -9")],
)
def test_ctrl_c_ends_the_children_of_a_program_too(program: Any, more: str, ends: str) -> None:
    code = f"""
import subprocess, sys, time
child = subprocess.Popen(["git", "log"]{more})
try:
    child.wait()
except KeyboardInterrupt:
    child.kill()
    print(f"stopped {{time.monotonic():.1f}}, child {{child.wait()}}")
    sys.exit(130)
"""
    log = {"git log": Program(takes="60s")}
    scenario = SILENT.model_copy(update={"abort": Trigger(at="3s"), "programs": log})
    result = program(code, scenario)
    assert (result.outcome, result.exit, printed(result)) == ("aborted", 130, f"{ends}\n")


def test_a_program_that_swallows_ctrl_c_is_ended_all_the_same(program: Any) -> None:
    scenario = SILENT.model_copy(update={"abort": Trigger(at="3s")})
    code = """
import time
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("no")
"""
    assert program(code, scenario).outcome == "aborted"


def test_a_program_that_waits_for_ever_is_a_deadlock(program: Any) -> None:
    with pytest.raises(Deadlock, match=r"thread MainThread: program\.py:3 in <module>"):
        program("\nimport threading\nthreading.Event().wait()")


def test_a_process_that_breaks_is_told_with_its_last_words(program: Any) -> None:
    code = "import ctypes, os\nos.write(2, b'fatal: no memory\\n')\nctypes.string_at(0)"
    with pytest.raises(CheckFailed, match=r"killed by SIGSEGV(.|\n)*fatal: no memory"):
        program(code)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["the limit", "ctrl-c"])
def test_a_program_that_is_broken_off_leaves_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code = f"{ASKS}print(ask('Go.'), flush=True)\nwhile True:\n    pass"
    Path("program.py").write_text(code, "utf-8")
    simulation = Simulation(SAID, loop="$ program.py")
    if by == "the limit":
        monkeypatch.setattr(programs, "LIMIT_S", 1.0)
        with pytest.raises(RunawayRun, match="had not ended after 1 s of real time"):
            simulation.run()
    else:
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        with pytest.raises(KeyboardInterrupt):
            simulation.run()
        signal.signal(signal.SIGALRM, before)
    kinds = [type(entry) for entry in simulation.trace.entries]
    assert kinds[-1] is entries.Output
    assert entries.Request in kinds
    assert simulation.output.text("stdout") == "Done.\n"


def test_each_prompt_starts_the_program_again_in_the_same_folder(program: Any) -> None:
    scenario = SILENT.model_copy(update={"then": ["Again."]})
    code = """
import pathlib, sys
past = pathlib.Path("past")
past.write_text(past.read_text() + sys.argv[1] if past.exists() else sys.argv[1])
print(past.read_text())
"""
    result = program(code, scenario)
    assert [end.text for end in result.trace.ends] == ["Go.", "Go.Again."]
    assert printed(result) == "Go.\nGo.Again.\n"


@pytest.mark.slow
def test_a_program_whose_input_is_used_up_asks_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "try:\n    print(ask(input('> ')))\nexcept EOFError:\n    print()\n"
    (tmp_path / "program.py").write_text(ASKS + text, "utf-8")
    asked = {"input": [Line(say="Go.")], "then": ["a", "b", "c"]}
    verdict = verify(SAID.model_copy(update=asked), loop="$ program.py")
    assert (verdict.exit_code, len(verdict.result.requests if verdict.result else ())) == (0, 1)


def test_a_user_types_on_the_standard_input_of_a_program(program: Any) -> None:
    scenario = SILENT.model_copy(update={"input": [Line(after="1m", say="Bob")]})
    code = """
import sys, time
print(sys.stdin.fileno(), sys.stdin.isatty(), sys.stdin is sys.__stdin__)
print("Hello", input("Name? "), time.monotonic())
try:
    input("And? ")
except EOFError:
    print("the end")
"""
    result = program(code, scenario, command="program.py")
    assert result.text.splitlines() == ["0 True True", "Name? Hello Bob 60.0", "And? the end"]
    assert result.elapsed_s == 60


@pytest.mark.slow
def test_a_program_that_is_not_told_the_prompt_need_not_send_it(program: Any) -> None:
    program(ASKS + "print(ask('other'))", SAID)
    assert verify(SAID, loop="$ program.py").errors == []
    (error,) = verify(SAID, loop="$ program.py {prompt}").errors
    assert "newest-user-message-sent" in str(error)


@pytest.mark.slow
def test_a_module_and_a_console_script_are_programs(program: Any) -> None:
    code = "import sys\nprint(__name__, sys.argv[1:])"
    assert program(code, command="python -m program 'a b'").text == "__main__ ['a b']"
    assert program("", command="simloop --version").text.startswith("simloop ")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-script", "there is no console script `no-such-script`"),
        ("python -m no_such_module", "there is no module `no_such_module`"),
        ("none.py", "there is no file `none.py`"),
        ("A=1", "a program needs a command line"),
        ("say 'it", "cannot be read: No closing quotation"),
    ],
)
def test_a_program_that_there_is_not_is_an_error_before_the_run(
    program: Any, command: str, message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        program("", command=command)


def test_a_program_takes_no_options(program: Any) -> None:
    with pytest.raises(ScenarioError, match="takes no options"):
        program("", loop_options={"fast": True})


@pytest.mark.slow
def test_two_runs_of_a_program_are_equal(program: Any) -> None:
    code = ASKS + "import random, uuid\nprint(random.random(), uuid.uuid4(), ask('Go.'))"
    program(code, SAID)
    verdict = verify(SAID, loop="$ program.py")
    assert verdict.deterministic
    assert verdict.errors == []


@pytest.mark.slow
def test_runs_of_a_program_are_equal_under_two_hash_seeds(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{ASKS}print(ask(sys.argv[1]), list({{'a', 'b'}}) and 1)")
    (tmp_path / "a.simloop.yaml").write_text("prompt: Go.\nmodel: [{say: Done.}]\n")
    command = ["-m", "simloop", "run", "a.simloop.yaml", "--trace", "t.jsonl", "--program"]
    traces = []
    for seed in "12":
        done = subprocess.run(
            [sys.executable, *command, "program.py {prompt}"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        traces.append((tmp_path / "t.jsonl").read_bytes())
    assert traces[0] == traces[1]


def test_an_expected_exit_status_is_compared(program: Any) -> None:
    result = program("import sys; sys.exit(2)")
    assert result.expect(exit=2).exit == 2
    with pytest.raises(Exception, match=r"expect\.exit: expected 0, got 2"):
        result.expect(exit=0)
    with pytest.raises(Exception, match="only a whole program has an exit status"):
        run(SAID).expect(exit=0)


def test_a_search_imports_the_libraries_of_a_program_once(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs.WholeProgram, "imports_here", False)
    monkeypatch.delitem(sys.modules, "tabnanny", raising=False)
    (tmp_path / "own.py").write_text("", "utf-8")
    text = """
import os, sys
there = [name in sys.modules for name in ("tabnanny", "own")]
import own, tabnanny
print(there, os.environ["HOME"])
"""
    before = dict(os.environ)
    cold = program(text).text
    assert "[False, False]" in cold
    assert program(text).text == cold
    try:
        Search("$ program.py")
        assert program(text).text == cold.replace("[False,", "[True,")
    finally:
        sys.modules.pop("tabnanny", None)
    assert dict(os.environ) == before


def test_the_process_of_this_test_is_as_before(program: Any) -> None:
    before = (Path.cwd(), sys.argv[:], dict(os.environ), signal.getsignal(signal.SIGTERM))
    program("import os, signal\nos.chdir('/')\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)")
    assert before == (Path.cwd(), sys.argv, dict(os.environ), signal.getsignal(signal.SIGTERM))


@pytest.mark.slow
def test_programs_that_run_at_once_are_at_the_same_place(program: Any, tmp_path: Path) -> None:
    code = "import os, pathlib\nprint(os.getcwd(), pathlib.Path('a').write_text('x'))"
    alone = program(code)
    with placed_folder("simloop-program") as other:
        (other.path / "work").mkdir()
        beside = program(code)
        assert list((other.path / "work").iterdir()) == []
    if other.path != other.place:  # where the system lets a process have a view of its own
        assert beside.trace.entries == alone.trace.entries
        assert alone.text == "/tmp/simloop-program/work 1"
    assert not other.path.exists()
