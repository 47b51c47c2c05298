"""The programs that an agent starts, and the record of what passes through them.

A shell is always there: `sh -c "git status"` runs the script of `git status`.
"""

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from simloop.errors import ScenarioError, SimloopError
from simloop.escape import recordable, writable
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.border.processes import Process, ProcessScript, Signalled
from simloop.virtual.clock.loop import loop_here
from simloop.virtual.real_world import LISTS
from simloop.world import program_scripts
from simloop.world.chance import FaultSites
from simloop.world.faults import PROGRAM_FAULTS, SiteFault, Stage
from simloop.world.files import Files
from simloop.world.program_scripts import ProgramAnswer, ProgramCall, ProgramScript
from simloop.world.shell import MISUSED, UNKNOWN, Shell, Write, is_simple_command, is_whole, knows
from simloop.world.user_functions import UserError, describe, keep


class Programs(Struct, eq=False):
    """The port of the programs: it launches them, and records what passes through them."""

    scripts: list[ProgramScript]
    recorder: Recorder
    raised: list[UserError]
    files: Files | None = None
    sites: FaultSites | None = None
    play: Callable[[SiteFault], ProgramAnswer] = lambda _: ProgramAnswer()
    started: int = 0

    def has(self, name: str) -> bool:
        return name in LISTS.shells or any(each.names(name) for each in self.scripts)

    @property
    def has_files(self) -> bool:
        return any(each.is_shell for each in self.scripts)

    def launch(self, process: Process) -> ProcessScript | None:
        """Return the script of a process; None if it is absent."""
        args = process.args
        line = program_scripts.line_of_shell(args)
        script, words = self._script_for(args, line)
        if script is None and args[0].rpartition("/")[2] not in LISTS.shells:
            return None
        self.started += 1
        running = _Running(self, process, self.started)
        if script is not None and not script.is_shell:
            return partial(running.play, script, words)
        return partial(running.shell, line or "")

    def _script_for(
        self, args: Sequence[str], line: str | None
    ) -> tuple[ProgramScript | None, Sequence[str]]:
        """Return the script of a command line, and its words: those of the line of a shell."""
        found = self.find(args)
        if line is None or (found is not None and not found.is_shell and len(found.words) > 1):
            return found, args
        try:
            words, is_simple = shlex.split(line), is_simple_command(line)
        except ValueError:
            return found, args
        own = self.find(words, whole=not is_simple) if words else None
        return (found, args) if own is None or own.is_shell else (own, words)

    def find(self, args: Sequence[str], *, whole: bool = False) -> ProgramScript | None:
        """Return the script whose key has the most words that match; of equals, the first."""
        able = (each for each in self.scripts if each.is_shell or each.has_answer())
        found = (each for each in able if each.matches(args, whole=whole))
        return max(found, key=lambda script: len(script.words), default=None)


def _shown(text: str) -> str:
    """Return a text with the usual name of the folder of the run, which other runs may have."""
    loop = loop_here()
    own = "" if loop is None or loop.folder is None else str(loop.folder)
    usual = own.rstrip("0123456789").removesuffix("-")
    return recordable(text.replace(own, usual) if own else text)


class _Running:
    def __init__(self, port: Programs, process: Process, number: int) -> None:
        self._port = port
        self._process = process
        self._number = number
        self._recorder = recorder = port.recorder
        process.at_end.append(partial(recorder.record, entries.ProgramEnded, number))
        args, cwd = tuple(map(_shown, process.args)), writable(_shown(process.cwd))
        at = len(recorder.entries), recorder.clock.now_ns
        recorder.put(entries.ProgramStarted(*at, number, args, cwd), sum(map(len, (*args, cwd))))

    async def _write(self, stream: str, text: str | bytes) -> None:
        if not text:
            return
        data = text.encode(errors="replace") if isinstance(text, str) else text
        shown = text if isinstance(text, str) else text.decode(errors="backslashreplace")
        self._recorder.record(entries.ProgramOutput, self._number, stream, recordable(shown))
        await self._process.write(2 if stream == "stderr" else 1, data)

    def _note_input(self, data: bytes) -> str:
        if text := data.decode(errors="backslashreplace"):
            self._recorder.record(entries.ProgramInput, self._number, recordable(text))
        return text

    async def play(self, script: ProgramScript, args: Sequence[str]) -> int:
        data = await self._process.read_input() if script.reads else self._process.take_input()
        call = ProgramCall(tuple(args), self._note_input(data))
        code = await self.answer(script, call, self._write)
        self._note_input(self._process.take_input())
        return code

    async def answer(self, script: ProgramScript, call: ProgramCall, write: Write) -> int:
        """Play an answer, and return the exit status. Raises Signalled."""
        script.calls.append(call)
        port = self._port
        drawn = None if port.sites is None else port.sites.drawn(PROGRAM_FAULTS)
        if drawn and Stage.LATE in drawn:
            await self._process.sleep(port.play(drawn[Stage.LATE]).takes_ns)
        if drawn and Stage.INSTEAD in drawn:  # another call gets the answer of the script
            return await self._whole(port.play(drawn[Stage.INSTEAD]), call, write)
        cut = drawn.get(Stage.AMID) if drawn else None
        if (answer := script.take(call.stdin, uses_up=cut is None)) is None:
            await write("stderr", f"{call.args[0]}: no answer of the script fits this input\n")
            return 1
        if cut is not None:
            await self._pieces(answer, write, is_cut=True)
            raise Signalled(port.play(cut).signal)
        return await self._whole(answer, call, write)

    async def _whole(self, answer: ProgramAnswer, call: ProgramCall, write: Write) -> int:
        process = self._process
        process.ignores = answer.ignores
        if answer.function is not None:
            name, takes_input = call.args[0], program_scripts.takes_input(answer.function)
            given = (call.args, call.stdin) if takes_input else (call.args,)
            try:
                made = await process.call(partial(answer.function, *given), name)
            except SimloopError as error:
                self._recorder.keep(error)
                raise
            except Exception as error:  # noqa: BLE001 - it is the user's code
                keep(self._port.raised, f"the program {name}", error)
                await write("stderr", f"{describe(error)}\n")
                return 1
            end = program_scripts.Completed
            done: Any = made if isinstance(made, end) else end(made or "")
            if not all(isinstance(each, str | bytes) for each in (done.stdout, done.stderr)):
                hint = "return a Completed, a text, or None"
                raise ScenarioError(f"the function of {name} returned no text", hint=hint)
            for stream, output in (("stdout", done.stdout), ("stderr", done.stderr)):
                await write(stream, output)
            if done.exit < 0:
                raise Signalled(-done.exit)
            return int(done.exit)
        await self._pieces(answer, write, is_cut=False)
        if answer.hangs:
            await process.hang()
        if answer.signal:
            raise Signalled(answer.signal)
        return answer.exit

    async def _pieces(self, answer: ProgramAnswer, write: Write, *, is_cut: bool) -> None:
        process = self._process
        await process.sleep(answer.takes_ns)
        count = len(answer.pieces) // 2 if is_cut else len(answer.pieces)
        while True:
            for piece in answer.pieces[:count]:
                await process.sleep(piece.after_ns)
                await write(piece.stream, piece.text)  # type: ignore[arg-type]
            if is_cut or not answer.endless:
                return

    async def shell(self, line: str) -> int:
        """Run the command line of a shell, or that of its file or its input if it is empty."""
        process, args = self._process, self._process.args
        files, folder = self._port.files or Files(), process.cwd
        text = ""
        try:
            files = files.at(folder) if files.is_folder(folder) else files
            if line:
                text = self._note_input(process.take_input())
            elif args[1:] and args[1][:1] != "-":
                line = files.read(args[1])
        except OSError as error:
            await self._write("stderr", f"sh: 0: cannot open {error}\n")
            return MISUSED

        async def sleep(seconds: float) -> None:
            await process.sleep(round(seconds * 1e9))

        shell = Shell(files, sleep, self._command)
        return await (self._run(shell, line, text or None) if line else self._session(shell))

    async def _run(self, shell: Shell, line: str, text: str | None = None) -> int:
        try:
            return await shell.run(line, self._write, text)
        except ValueError as error:
            await self._write("stderr", f"sh: 1: {error}\n")
            return MISUSED

    async def _session(self, shell: Shell) -> int:
        waiting, status = "", 0
        while True:
            piece = self._note_input(await self._process.read_more())
            waiting += piece
            lines, _, rest = waiting.rpartition("\n") if piece else (waiting, "", "")
            if lines.strip() and (not piece or is_whole(lines)):
                status, waiting = await self._run(shell, lines), rest
            if not piece:
                return status

    async def _command(self, words: list[str], text: str, write: Write) -> int | None:
        """Run a scripted program as a command of the shell; None if the shell has to know it."""
        if (script := self._port.find(words)) is not None and not script.is_shell:
            try:
                return await self.answer(script, ProgramCall(tuple(words), text), write)
            except Signalled as error:
                return 128 + int(error.args[0])
        if knows(words[0]) and (self._port.has_files or words[0] in _WITHOUT_FILES):
            return None
        self._process.note_absent(words)
        await write("stderr", f"sh: 1: {words[0]}: not found\n")
        return UNKNOWN


_WITHOUT_FILES = frozenset({"echo", "sleep", "true", "false", "pwd", "head", "tail", "wc", "grep"})
