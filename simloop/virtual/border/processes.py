"""Scripted processes: Python's own `subprocess` and asyncio start and await them, on virtual time.

A launcher has the scripts (`Programs` of world/programs.py). Each process is a fiber, which holds
duplicates of the descriptors that a child would have. The stand-ins are in place only in runs that
script programs or standard input.
"""
# ruff: noqa: SLF001 - the seams of `Popen` are private

import errno
import functools
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from simloop.errors import SimloopError
from simloop.virtual.border import pipes, refusals
from simloop.virtual.border.answers import stand_in
from simloop.virtual.border.exchange import NameExchange
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.transports import absent
from simloop.virtual.real_world import is_exempt
from simloop.virtual.threads.scheduler import Fiber, ThreadEnded, parked, simulated, threads_of

FIRST_PID = 2**22 + 1
"""Above the largest number of Linux, so that a call that slips through hits no real process."""
_HARMLESS = frozenset(
    getattr(signal, name, None)
    for name in ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH", "SIGSTOP", "SIGTSTP")
)
"""The signals that do not end a process; a stopped one would never go on, so it does not stop."""
_STREAMS = {1: "stdout", 2: "stderr"}
# The originals. This exchange leaves the modules of simloop alone.
_close, _dup, _kill, _killpg, _getpgid, _write, _read = (
    os.close, os.dup, os.kill, os.killpg, os.getpgid, os.write, os.read,
)  # fmt: skip
_POPEN: Any = vars(subprocess.Popen)
_make_handles, _start_child, _communicate, _internal_poll = [
    _POPEN[name] for name in ("_get_handles", "_execute_child", "_communicate", "_internal_poll")
]
_RUN = subprocess.run.__code__
_USUAL = frozenset({None, "utf-8", "UTF-8", "utf8"})  # these are known, as others may not be

ProcessScript = Callable[[], Coroutine[Any, Any, int]]
"""Runs a process, by the methods of Process, and returns its exit status."""


class Signalled(Exception):  # noqa: N818 - it ends a script, and no code sees it
    """Ends a process by a signal, of that number."""


class Process:
    """A scripted process. `status` is None while it runs, and then as `waitpid` returns it.

    Its words and its folder are those of each machine: `python`, and a relative folder.
    """

    def __init__(
        self, processes: "Processes", args: tuple[str, ...], cwd: str, pid: int, group: int
    ) -> None:
        self.args, self.cwd = args, cwd
        self.pid = pid
        self.group = group
        self.status: int | None = None
        self.ignores: frozenset[int] = frozenset()
        """The signals that have no effect on it."""
        self.at_end: list[Callable[[int], object]] = []
        """Called with its exit status, or with minus the number of the signal that ended it."""
        self.fiber: Fiber | None = None
        self.outputs: dict[int, list[bytes]] = {}
        """Its output by stream, where no pipe carries it; `unread` are the last bytes of it."""
        self.unread = 0
        self._descriptors: dict[int, int] = {}
        self._noted: set[int] = set()
        self._processes = processes
        self._pipes = processes.pipes

    def note_absent(self, words: Sequence[str]) -> None:
        name, fiber = words[0].rpartition("/")[2], self.fiber
        place = "" if fiber is None else fiber.place
        self._processes.loop.note_refused("program", name, shlex.join(words), place)

    @property
    def exit(self) -> int:
        """Return the exit status, or minus the number of the signal that ended it."""
        assert self.status is not None
        return os.waitstatus_to_exitcode(self.status)

    def take(self, *descriptors: int) -> None:
        """Duplicate the descriptors that become standard input, output and error; -1: inherited."""
        for number, given in enumerate(descriptors):
            if given < 0:
                continue
            is_noted = self._pipes.has(given)
            # The real output may be the report of a test runner: it belongs to `sys.stdout`.
            if is_noted or given >= len(descriptors):
                self._descriptors[number] = _dup(given)
                if is_noted:
                    self._noted.add(number)

    async def run(self, script: ProcessScript) -> None:
        try:
            self._finish((await script() & 0xFF) << 8)
        except Signalled as error:
            self._finish(error.args[0])
        except SimloopError as error:
            self._processes.loop.escapes.append(error)
            self._finish(signal.SIGKILL)

    def send(self, number: int) -> None:
        if self.status is not None or number in _HARMLESS or number == 0:
            return
        if number == signal.SIGKILL or number not in self.ignores:
            fiber = self.fiber
            self._finish(number)
            if fiber is not None and not fiber.is_done:
                fiber.end()

    def _finish(self, status: int) -> None:
        if self.status is not None:
            return
        self.status = status
        for each in self._descriptors.values():
            _close(each)
        self._descriptors.clear()
        self._pipes.changed()
        for tell in self.at_end:
            tell(self.exit)

    async def sleep(self, nanoseconds: int) -> None:
        if nanoseconds:
            await parked(self._processes.loop.now_ns + nanoseconds, "time.sleep")

    async def hang(self) -> None:
        while True:
            await parked(None, "a signal")

    def take_input(self) -> bytes:
        """Return what has come on its standard input, without waiting; of the agent's, nothing."""
        return pipes.read_now(self._pipes, self._descriptors[0]) if 0 in self._descriptors else b""

    async def read_input(self) -> bytes:
        found = bytearray()
        while piece := await self.read_more():
            found += piece
        return bytes(found)

    async def read_more(self) -> bytes:
        """Return what comes next on its standard input; nothing at its end."""
        if (descriptor := self._descriptors.get(0, -1)) < 0:
            return b""
        if 0 in self._noted:
            await self._until(functools.partial(pipes.is_ready, descriptor, pipes.READ))
        piece = _read(descriptor, 65_536)
        self._pipes.changed()
        return piece

    async def write(self, stream: int, data: bytes) -> None:
        """Write to standard output (1) or error (2). Raises Signalled if nobody reads it."""
        if stream in self.outputs:
            if self.unread >= pipes.PIPE_SIZE:
                await self._until(lambda: self.unread < pipes.PIPE_SIZE)
            self.outputs[stream].append(data)
            self.unread += len(data)
            self._pipes.changed()
            return
        if (descriptor := self._descriptors.get(stream, -1)) < 0:
            getattr(sys, _STREAMS[stream]).write(data.decode(errors="backslashreplace"))
            return
        rest, is_noted = memoryview(data), stream in self._noted
        while rest:
            if is_noted and not pipes.is_ready(descriptor, pipes.WRITE):
                await self._until(functools.partial(pipes.is_ready, descriptor, pipes.WRITE))
            try:
                rest = rest[_write(descriptor, rest[: pipes.PIPE_BUF]) :]
            except BrokenPipeError:
                raise Signalled(signal.SIGPIPE) from None
            if is_noted:
                self._pipes.changed()

    async def _until(self, look: Callable[[], object]) -> None:
        assert self.fiber is not None
        await self._pipes.await_for(self.fiber, look)

    async def call(self, function: Callable[[], Any], name: str) -> Any:
        """Return the result of code of the user's, which may block: a simulated thread runs it."""
        result: Future[Any] = Future()
        fiber = self.fiber
        assert fiber is not None

        def work() -> None:
            try:
                result.set_result(function())
            except BaseException as error:  # noqa: BLE001 - it is raised in the script
                result.set_exception(error)
            fiber.threads.wake(fiber)

        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        try:
            while not result.done():
                await parked(None, f"the function of {name}")
        finally:
            running = simulated(thread)
            if not (result.done() or running is None):
                running.threads.throw(running, ThreadEnded())
        return result.result()


class Processes:
    """The processes of one run, by their numbers, until somebody has waited for them."""

    def __init__(self, loop: VirtualLoop, pipes: pipes.Pipes, launcher: Any) -> None:
        self.loop = loop
        self.pipes = pipes
        self.launcher = launcher
        self.children: dict[int, Process] = {}
        self._next_pid = FIRST_PID

    def start(
        self, words: Iterable[Any], *descriptors: int, cwd: str = "", group: int = -1
    ) -> Process | None:
        """Start a program in a group: -1: that of the agent, 0: its own. None if it is absent."""
        pid = self._next_pid
        group = os.getpgrp() if group < 0 else group or pid
        args = [os.fsdecode(each).replace(sys.executable, "python") for each in words]
        process = Process(self, tuple(args), cwd, pid, group)
        if (script := self.launcher.launch(process)) is None:
            return None
        self._next_pid += 1
        process.take(*descriptors)
        self.children[pid] = process
        name = f"program {process.args[0]}"
        process.fiber = threads_of(self.loop).start_fiber(name, process.run(script))
        return process

    def tell(self, pid: int, loop: Any, exited: Callable[[int], object]) -> None:
        """Call `exited` on an event loop with the exit status, when the process has ended."""
        process = self.children[pid]

        def tell(code: int) -> None:
            self.children.pop(pid, None)  # asyncio waits for its processes itself
            if not loop.is_closed():
                loop.call_soon_threadsafe(exited, code)

        if process.status is not None:
            tell(process.exit)
        else:
            process.at_end.append(tell)

    def unfinished(self) -> Iterator[tuple[str, str]]:
        """Yield the programs that have not ended, each with the place of its start."""
        for each in self.children.values():
            if each.status is None and each.fiber is not None:
                yield each.args[0], each.fiber.place

    def interrupt(self) -> None:
        """Send SIGINT to the group of the agent, as a terminal does at a Ctrl-C."""
        for each in [*self.children.values()]:
            if each.group == os.getpgrp():
                each.send(signal.SIGINT)

    def end(self) -> None:
        for each in self.children.values():
            each.at_end.clear()  # nothing more is told of the run
            each._finish(signal.SIGKILL)

    def wait(self, pid: int, options: int) -> Process | None:
        """Wait for a process, as `waitpid` does; None if none has ended with WNOHANG."""
        children, group = self.children.values(), -pid or os.getpgrp()  # 0: that of the agent

        def look() -> Process | None:
            found = [each for each in children if pid in {-1, each.pid} or each.group == group]
            if not found:
                raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))
            return next((each for each in found if each.status is not None), None)

        seconds = 0 if options & os.WNOHANG else None
        ended = self.pipes.wait_for(look, seconds, "the end of a process")
        if ended is not None and not options & getattr(os, "WNOWAIT", 0):
            del self.children[ended.pid]
        return ended


def run_with_processes(loop: VirtualLoop, launcher: Any) -> None:
    """Let `launcher` answer the processes that the run on a loop starts."""
    loop.processes = processes = Processes(loop, pipes.run_with_pipes(loop), launcher)
    _exchange.enter()
    loop.at_end += [processes.end, _exchange.leave]


def _get_handles(_: Processes, popen: Any, stdin: Any, stdout: Any, stderr: Any) -> Any:
    """Return the descriptors of a `Popen`, without pipes for what only `subprocess.run` reads."""
    files, pipe = {1: stdout, 2: stderr}, subprocess.PIPE
    outputs: dict[int, list[bytes]] = {n: [] for n, file in files.items() if file == pipe}
    is_of_run = type(popen) is subprocess.Popen and sys._getframe(3).f_code is _RUN
    if outputs and is_of_run and stdin != pipe and popen.encoding in _USUAL:
        if 1 in outputs and stderr == subprocess.STDOUT:
            outputs[2] = outputs[1]
        # As after a first `communicate`, so that the next one asks `_communicate`.
        popen._communication_started, popen._fileobj2output = True, outputs
        stdout, stderr = (None if n in outputs else file for n, file in files.items())
        if stdin is stdout is stderr is None:
            return (-1,) * 6
    return _make_handles(popen, stdin, stdout, stderr)


def _gather(processes: Processes, popen: Any, given: Any, end_s: Any, timeout: Any) -> Any:
    """Return the output for `communicate`, when the process has ended; see `_get_handles`."""
    if (process := processes.children.get(popen.pid)) is None or not process.outputs:
        return _communicate(popen, given, end_s, timeout)
    stdout, stderr = map(process.outputs.get, _STREAMS)
    stderr = None if stderr is stdout else stderr
    while process.status is None:
        if (seconds := popen._remaining_time(end_s)) is not None:
            seconds = math.ceil(seconds * 1e3) * 1e-3  # Python waits for whole milliseconds
        processes.pipes.wait_for(lambda: process.status is not None or process.unread, seconds)
        process.unread = 0
        processes.pipes.changed()
        popen._check_timeout(end_s, timeout, stdout, stderr)
    _poll_popen(processes, popen)
    found = [None if each is None else b"".join(each) for each in (stdout, stderr)]
    if not popen.text_mode:
        return found
    code = popen.encoding, popen.errors or "strict"
    return [each if each is None else popen._translate_newlines(each, *code) for each in found]


def _execute_child(processes: Processes, popen: Any, *given: Any) -> None:
    """Start the program of a `Popen`, without the search for a file and the pipe for its error."""
    # Python 3.11 to 3.14 have these in their places.
    args, executable, _, _, _, cwd, env, _, _, shell, *ends = given[:16]
    new_session, group = given[-2:]
    is_list = isinstance(args, list) or not isinstance(args, str | bytes | os.PathLike)
    words = [*args] if is_list else [args]
    if shell:
        words = [executable or "/bin/sh", "-c", *words]
    for pair in (env or {}).items():
        [*map(os.fsencode, pair)]  # it raises for what is no text
    if cwd is not None and not os.path.isdir(cwd):  # noqa: PTH112 - it may be bytes
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), cwd)
    folder, here = os.fsdecode(cwd or b""), os.getcwd()  # noqa: PTH109 - compared with strings
    if f"{folder}/".startswith(f"{here}/"):  # a trace names no machine
        folder = folder[len(here) + 1 :]
    stdin, _, _, stdout, _, stderr = ends
    group = 0 if new_session else group
    if (started := processes.start(words, stdin, stdout, stderr, cwd=folder, group=group)) is None:
        if is_exempt(sys._getframe(1)):  # a question about the machine
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(words[0]))
        raise absent(processes.loop, words)
    popen.pid, popen._child_created = started.pid, True
    popen._sigint_wait_secs = 0  # after a Ctrl-C: here, a child ends by it at once or not at all
    started.outputs = vars(popen).get("_fileobj2output", started.outputs)
    if max(ends) >= 0:
        popen._close_pipe_fds(*ends)


def _system(processes: Processes, command: Any) -> int:
    started = processes.start(["sh", "-c", command], -1, -1, -1)
    assert started is not None  # a shell is always there
    return _waitpid(processes, started.pid, 0)[1]


def _waitpid(processes: Processes, pid: int, options: int, /) -> tuple[int, int]:
    ended = processes.wait(pid, options)
    return (0, 0) if ended is None else (ended.pid, ended.status or 0)


def _kill_one(processes: Processes, pid: int, number: int, /) -> None:
    if (process := processes.children.get(pid)) is not None:
        process.send(number)
    elif pid in {0, -1, os.getpid()}:
        _kill(pid, number)  # refused
    elif pid < 0:
        _kill_group(processes, -pid, number)
    else:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def _kill_group(processes: Processes, group: int, number: int, /) -> None:
    if group in {0, os.getpgrp()}:
        _killpg(group, number)  # refused: the agent itself is in it
        return
    if not (members := [each for each in processes.children.values() if each.group == group]):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    for each in members:
        each.send(number)


def _group_of(processes: Processes, pid: int, /) -> int:
    process = processes.children.get(pid)
    return _getpgid(pid) if process is None else process.group


def _which(processes: Processes, cmd: Any, mode: int = 0, path: Any = None) -> Any:  # noqa: ARG001
    name = os.fsdecode(cmd)
    if not processes.launcher.has(name.rpartition("/")[2]):
        return None
    found = name if "/" in name else f"/usr/bin/{name}"
    return os.fsencode(found) if isinstance(cmd, bytes) else found


def _poll_popen(
    processes: Processes, popen: Any, _deadstate: int | None = None, *_: Any, **__: Any
) -> Any:
    """Return the exit status of a `Popen`, or None.

    Python keeps the real `waitpid` for this method, and calls it from finalizers too. A process of
    an earlier run may have the number of one of this run, so a finalizer never waits for it.
    """
    if popen.pid < FIRST_PID:
        return _internal_poll(popen, _deadstate)
    if popen.returncode is None and _deadstate is not None:
        popen.returncode = _deadstate
    elif popen.returncode is None and not popen._waitpid_lock.locked():
        try:
            pid, status = _waitpid(processes, popen.pid, os.WNOHANG)
            if pid == popen.pid:
                popen._handle_exitstatus(status)
        except ChildProcessError:  # as in Python: somebody else has waited for it
            popen.returncode = 0
    return popen.returncode


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    # In the place of a function that is not there in any run is its stand-in.
    refusals.FUNCTIONS.get(original, original): stand_in(original, answer, "processes")
    for original, answer in (
        (os.system, _system), (os.waitpid, _waitpid), (shutil.which, _which),
        (os.kill, _kill_one), (os.killpg, _kill_group), (os.getpgid, _group_of),
    )
}  # fmt: skip

METHODS: tuple[tuple[type, str, Any], ...] = tuple(
    (subprocess.Popen, original.__name__, stand_in(original, answer, "processes"))
    for original, answer in (
        (_make_handles, _get_handles), (_start_child, _execute_child),
        (_communicate, _gather), (_internal_poll, _poll_popen),
    )
)  # fmt: skip

_exchange = NameExchange(FUNCTIONS, METHODS, kept_by=pipes.KEPT_BY)
