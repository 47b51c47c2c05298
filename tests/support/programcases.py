"""Code that starts programs, and what it comes to in Python with real programs.

Each case runs against the scripts of PROGRAMS in a simulation, and against REAL, small programs of
a shell that do the same. So a case says nothing of the times; `unit` is a short while in both.
"""

import asyncio
import os
import select
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simloop import Completed, Program
from simloop.scenario.programs import script_of
from simloop.trace.recorder import Recorder
from simloop.virtual.border.processes import run_with_processes
from simloop.virtual.simulate import running_loop
from simloop.world.programs import Programs

LARGE = "x" * 99 + "\n"

PROGRAMS: dict[str, Any] = {
    "hello": Program(stdout="hello\n", stderr="careful\n"),
    "fails": Program(stderr="fatal\n", exit=3),
    "upper": lambda _, stdin: stdin.upper(),
    "words": lambda args: " ".join(args[1:]) + "\n",
    "large": lambda _: LARGE * 3000,
    "count": lambda _, stdin: f"{len(stdin)}\n",
    "slow": Program(takes="1s", stdout="late\n"),
    "hangs": Program(stdout="begun\n", hangs=True),
    "stubborn": Program(stdout="begun\n", hangs=True, ignores="terminate"),
    "killed": Program(stdout="begun\n", signal="SIGKILL"),
    "ticks": Program(pieces=[{"stdout": f"{n}\n", "after": "1s"} for n in range(3)]),
    "endless": Program(pieces=[{"stdout": "y\n" * 2048}], endless=True),
    "exits": lambda args: Completed(exit=int(args[1])),
}
REAL = {
    "hello": "echo hello; echo careful >&2",
    "fails": "echo fatal >&2; exit 3",
    "upper": "exec tr a-z A-Z",
    "words": 'echo "$*"',
    "large": f"yes {LARGE.strip()} | head -n 3000",
    "count": "wc -c | tr -d ' '",
    "slow": "sleep 0.1; echo late",
    "hangs": "echo begun; exec sleep 9",
    "stubborn": "trap '' TERM; echo begun; exec sleep 9",
    "killed": "echo begun; kill -9 $$",
    "ticks": "for n in 0 1 2; do sleep 0.1; echo $n; done",
    "endless": "exec yes",
    "exits": "exit $1",
}


@contextmanager
def real_programs() -> Iterator[None]:
    """Put the real programs in the place of others of their names, in the block."""
    before = os.environ["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        for name, body in REAL.items():
            file = Path(folder, name)
            file.write_text(f"#!/bin/sh\n{body}\n")
            file.chmod(0o755)
        os.environ["PATH"] = f"{folder}:{before}"
        try:
            yield
        finally:
            os.environ["PATH"] = before


def script_programs(programs: dict[str, Any] = PROGRAMS, **more: Any) -> Recorder:
    """Script programs in the simulation of the caller; return the recorder of what they do."""
    loop = running_loop()
    recorder = Recorder([], loop)
    scripts = [script_of(key, given) for key, given in programs.items()]
    run_with_processes(loop, Programs(scripts, recorder, [], **more))
    return recorder


def run(*args: Any, **options: Any) -> Any:
    """Run a program, and return its exit status, its output and its errors."""
    done = subprocess.run(args, capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


# ------------------------------------------------------------------ blocking code


def output_and_errors(_: float) -> Any:
    return run("hello"), run("fails"), run("words", "a b", "*")


def a_path_and_descriptors_that_stay_open(_: float) -> Any:
    return run(shutil.which("hello"), close_fds=False), run(
        shutil.which("exits"), "4", close_fds=False
    )


def what_is_no_text(_: float) -> Any:
    found = []
    for args, options in ((["hello", 5], {}), (["hello"], {"env": {"X": None}})):
        try:
            subprocess.run(args, check=False, **options)  # type: ignore[call-overload]
        except TypeError as error:
            found.append(str(error))
    return found


def merged_and_bytes(_: float) -> Any:
    merged = subprocess.run(
        ["hello"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return sorted(merged.stdout.splitlines()), merged.stderr


def an_input(_: float) -> Any:
    return run("upper", input="one\ntwo\n"), run("count", input=LARGE * 2000)


def large_output(_: float) -> Any:
    done = run("large")
    return done[0], len(done[1]), done[1] == LARGE * 3000


def an_error_of_check(_: float) -> Any:
    try:
        subprocess.check_output(["fails"], stderr=subprocess.PIPE)
    except subprocess.CalledProcessError as error:
        return error.returncode, error.cmd, error.output, error.stderr


def absent_programs(_: float) -> Any:
    found = []
    for name, cwd in (
        ("nothing-like-it", None),
        ("/no/such/program", None),
        ("hello", "/no/such/folder"),
    ):
        try:
            run(name, cwd=cwd)
        except FileNotFoundError as error:
            found.append((error.errno, error.strerror, error.filename))
    return found, run("sh", "-c", "nothing-like-it 2>/dev/null")[0]


def a_shell(_: float) -> Any:
    done = subprocess.run("fails || hello", shell=True, capture_output=True, check=False)
    return (
        done.returncode, done.stdout, done.stderr,
        subprocess.getoutput("hello 2>/dev/null | upper"), os.system("exits 7"),
        run("sh", "-c", "hello > /dev/null && exits 4"),
    )  # fmt: skip


def polls_and_waits(unit: float) -> Any:
    child = subprocess.Popen(["slow"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    before = child.poll()
    while child.poll() is None:
        time.sleep(unit / 4)
    return before, child.wait(), child.poll(), child.stdout.read(), child.stdout.close()


def a_timeout(unit: float) -> Any:
    found: list[Any] = []
    for options in ({}, {"stdout": subprocess.PIPE}):
        try:
            subprocess.run(["hangs"], timeout=unit, check=False, **options)  # type: ignore[call-overload]
        except subprocess.TimeoutExpired as error:
            found.append((error.cmd, error.stdout))
    child = subprocess.Popen(["hangs"], stdout=subprocess.PIPE)
    for _ in range(2):
        try:
            child.communicate(timeout=unit)
        except subprocess.TimeoutExpired as error:
            found.append(error.stdout)
    child.terminate()
    return found, child.communicate(), child.returncode


def output_that_only_run_reads(unit: float) -> Any:
    found: list[Any] = [run("hello", encoding="utf-16"), run("hello", errors="replace")]
    for limit in (0, -1, unit):
        try:
            run("hangs", timeout=limit)
        except subprocess.TimeoutExpired as error:
            found.append((error.timeout == limit, error.stdout if limit > 0 else b"", error.stderr))
    try:
        run("hello", encoding="nothing-like-it")
    except LookupError as error:
        found.append(str(error))
    merged = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "timeout": unit * 9}
    for options in ({"stderr": subprocess.PIPE}, merged, merged | {"text": True}):
        done = subprocess.run(["ticks"], check=True, **options)
        found.append((done.stdout, done.stderr))
    return found


def signals(unit: float) -> Any:
    child = subprocess.Popen(["stubborn"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    begun = child.stdout.readline()
    child.terminate()
    try:
        child.wait(timeout=unit)
    except subprocess.TimeoutExpired:
        child.kill()
    return begun, child.wait(), child.stdout.read(), child.stdout.close(), run("killed")


def a_group(_: float) -> Any:
    child = subprocess.Popen(["hangs"], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    is_own = os.getpgid(child.pid) == child.pid
    os.killpg(os.getpgid(child.pid), signal.SIGTERM)
    code = child.wait()
    child.stdout.close()
    try:
        os.killpg(child.pid, signal.SIGTERM)
    except ProcessLookupError as error:
        return is_own, code, error.errno


def waits_of_the_system(_: float) -> Any:
    first = subprocess.Popen(["exits", "5"])
    found = [os.waitpid(first.pid, 0)[1]]
    first.returncode = 5
    try:
        os.waitpid(first.pid, 0)
    except ChildProcessError as error:
        return found, error.errno


def lines_as_they_come(_: float) -> Any:
    with subprocess.Popen(["ticks"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        return [line.strip() for line in child.stdout], child.wait()


def a_pipeline(_: float) -> Any:
    first = subprocess.Popen(["large"], stdout=subprocess.PIPE)
    second = subprocess.Popen(["count"], stdin=first.stdout, stdout=subprocess.PIPE)
    assert first.stdout is not None
    first.stdout.close()
    return second.communicate(), first.wait(), second.returncode


def a_reader_that_goes_away(_: float) -> Any:
    with subprocess.Popen(["endless"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
    return line, child.returncode


def files_and_nothing(_: float) -> Any:
    with tempfile.TemporaryFile() as file:
        done = subprocess.run(["hello"], stdout=file, stderr=subprocess.DEVNULL, check=False)
        file.seek(0)
        read = file.read()
    with tempfile.TemporaryFile() as file:
        file.write(b"typed\n")
        file.seek(0)
        typed = subprocess.run(["upper"], stdin=file, stdout=subprocess.PIPE, check=False)
    return done.returncode, read, typed.stdout, run("upper", stdin=subprocess.DEVNULL)


def a_conversation(_: float) -> Any:
    child = subprocess.Popen(["count"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"four")
    child.stdin.write(b"five!")
    child.stdin.close()
    return child.stdout.read(), child.wait(), child.stdout.close()


def pipes_of_its_own(unit: float) -> Any:
    reader, writer = os.pipe()
    found: list[Any] = [select.select([reader], [writer], [], unit)[1] == [writer]]

    def write() -> None:
        time.sleep(unit)
        os.write(writer, b"x" * 200_000)
        os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    waiting: Any
    for waiting in (select.poll(), select.epoll()):
        waiting.register(reader, select.POLLIN)
        found.append([events for _, events in waiting.poll(unit * 3)])
    with os.fdopen(reader, "rb") as file:
        found += [len(file.read(5)), len(file.read())]
    thread.join()
    try:
        os.read(reader, 1)
    except OSError as error:
        return found, error.errno


def a_selector(unit: float) -> Any:
    child = subprocess.Popen(["ticks"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    found = []
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, "out")
        while True:
            ready = selector.select(unit * 9)
            data = os.read(child.stdout.fileno(), 99)
            found.append((ready[0][0].data, data))
            if not data:
                break
    child.stdout.close()
    return found, child.wait()


BLOCKING: dict[str, Callable[[float], Any]] = {
    case.__name__.replace("_", " "): case
    for case in (
        output_and_errors, a_path_and_descriptors_that_stay_open, what_is_no_text,
        merged_and_bytes, an_input, large_output, an_error_of_check,
        absent_programs, a_shell, polls_and_waits, a_timeout,
        output_that_only_run_reads, signals, a_group,
        waits_of_the_system, lines_as_they_come, a_pipeline, a_reader_that_goes_away,
        files_and_nothing, a_conversation, pipes_of_its_own, a_selector,
    )
}  # fmt: skip


# ------------------------------------------------------------------ asyncio

PIPE = asyncio.subprocess.PIPE


async def exec_and_shell(_: float) -> Any:
    first = await asyncio.create_subprocess_exec("hello", stdout=PIPE, stderr=PIPE)
    second = await asyncio.create_subprocess_shell("fails || hello 2>/dev/null", stdout=PIPE)
    return (await first.communicate(), first.returncode,
            await second.communicate(), second.returncode)  # fmt: skip


async def an_input_in_parts(_: float) -> Any:
    child = await asyncio.create_subprocess_exec("upper", stdin=PIPE, stdout=PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    for part in (b"one", b"two" * 50_000):
        child.stdin.write(part)
        await child.stdin.drain()
    child.stdin.close()
    read = await child.stdout.read()
    return read[:6], len(read), await child.wait()


async def lines_and_other_tasks(unit: float) -> Any:
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(unit / 4)
            ticks.append(1)

    ticking = asyncio.create_task(tick())
    child = await asyncio.create_subprocess_exec("ticks", stdout=PIPE)
    assert child.stdout is not None
    lines = [line async for line in child.stdout]
    ticking.cancel()
    return lines, await child.wait(), len(ticks) > 2


async def a_timeout_and_a_kill(unit: float) -> Any:
    child = await asyncio.create_subprocess_exec("hangs", stdout=PIPE)
    assert child.stdout is not None
    line = await child.stdout.readline()
    try:
        await asyncio.wait_for(child.wait(), unit)
    except TimeoutError:
        child.kill()
    return line, await child.wait(), await child.stdout.read()


async def requests_that_are_ignored(unit: float) -> Any:
    child = await asyncio.create_subprocess_exec("stubborn", stdout=PIPE)
    assert child.stdout is not None
    await child.stdout.readline()
    child.terminate()
    await asyncio.sleep(unit / 2)
    before = child.returncode
    child.send_signal(signal.SIGINT)
    return before, await child.wait()


async def pipes_of_a_loop(unit: float) -> Any:
    loop = asyncio.get_running_loop()
    reader, writer = os.pipe()
    stream = asyncio.StreamReader()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reader, "rb", 0)
    )
    transport, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(writer, "wb", 0))
    loop.call_later(unit, transport.write, b"one\n" + b"x" * 150_000)
    line = await stream.readline()
    transport.close()
    return line, len(await stream.read())


async def a_reader_of_a_loop(unit: float) -> Any:
    loop = asyncio.get_running_loop()
    reader, writer = os.pipe()
    found: asyncio.Queue[bytes] = asyncio.Queue()
    loop.add_reader(reader, lambda: found.put_nowait(os.read(reader, 2)))
    loop.call_later(unit, os.write, writer, b"abcd")
    read = [await found.get(), await found.get()]
    removed = loop.remove_reader(reader), loop.remove_reader(reader)
    os.close(reader)
    os.close(writer)
    return read, removed


async def absent_in_a_task(_: float) -> Any:
    try:
        await asyncio.create_subprocess_exec("nothing-like-it")
    except FileNotFoundError as error:
        return error.errno, error.filename


async def several_at_once(_: float) -> Any:
    async def one(number: int) -> Any:
        child = await asyncio.create_subprocess_exec("words", str(number), stdout=PIPE)
        return (await child.communicate())[0]

    return await asyncio.gather(*(one(number) for number in range(5)))


ASYNC: dict[str, Callable[[float], Awaitable[Any]]] = {
    case.__name__.replace("_", " "): case
    for case in (
        exec_and_shell, an_input_in_parts, lines_and_other_tasks, a_timeout_and_a_kill,
        requests_that_are_ignored, absent_in_a_task, several_at_once, pipes_of_a_loop,
        a_reader_of_a_loop,
    )
}  # fmt: skip
