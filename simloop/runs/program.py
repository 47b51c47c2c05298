"""Whole programs as agents: a Python console script, a module or a file, as users start them.

A program is loaded and called in the main thread of a fork, with arguments, an environment, a home
and a working folder of its own; the loop of its run is in another thread of that process. It begins
with the prompt and ends with an exit status.
"""

# ruff: noqa: SLF001 - `threading` and `atexit` keep in private names what Python does at its end
import atexit
import faulthandler
import logging
import os
import re
import runpy
import shlex
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from msgspec.structs import replace

from simloop.errors import CheckFailed, ScenarioError
from simloop.escape import MOST_RECORDED, recordable
from simloop.messages import Outcome
from simloop.runs.folders import PlacedFolder, placed_folder
from simloop.runs.isolation import isolated
from simloop.runs.prompt import OwnAgent
from simloop.scenario.designs import PROGRAM
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.border.output import NAMES, Output, captured, write_to
from simloop.virtual.threads.calls import MainThread
from simloop.virtual.threads.scheduler import ThreadEnded
from simloop.wire.api_keys import ADDED, FIXED, PASSED
from simloop.world.agent import Ending
from simloop.world.files import Files
from simloop.world.world import World

T = TypeVar("T")

LIMIT_S = 300.0

_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z_0-9]*=")
_OF_PROMPTS = "newest-user-message-sent", "further-prompts-reach-the-model"
_UNTOLD = "its command line has no {prompt}"
_INTERRUPTED = 130
_EXIT_CODES = 256
_FOLDERS = ("home", "tmp", "work")
_LIBRARIES = "libraries"


class WholeProgram(OwnAgent):
    """A command line: a console script, `python -m module` or a file, after any NAME=value.

    `{prompt}` in an argument stands for the prompt. An exit status that is not 0 is a failure.
    Raises ScenarioError if there is no such program.
    """

    imports_here = False
    """Whether this process imports the installed libraries of each run, for later forks of it."""

    def __init__(self, loop: str) -> None:
        super().__init__(self._answer)
        try:
            words = shlex.split(loop.removeprefix(PROGRAM))
        except ValueError as error:
            raise self._wrong(f"the command line `{loop}` cannot be read: {error}") from None
        self._assigned = {}
        while words and _ASSIGNMENT.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            self._assigned[name] = value
        if words and _PYTHON.fullmatch(words[0]):
            words.pop(0)
        if not words:
            raise self._wrong("a program needs a command line")
        self._folder = Path.cwd()
        self._call, self._words = self._found(words)
        self._main: MainThread | None = None
        self._status = 0
        is_told = any("{prompt}" in word for word in self._words)
        self.deviations = {} if is_told else dict.fromkeys(_OF_PROMPTS, _UNTOLD)
        """The invariants that the program does not keep, each with the reason."""

    def _wrong(self, message: str) -> ScenarioError:
        hint = "name a console script, `python -m module` or a file, such as `llm {prompt}`"
        return ScenarioError(message, key="loop", hint=hint)

    def _found(self, words: list[str]) -> tuple[Callable[[], Any], list[str]]:
        first, *rest = words
        if first == "-m" and rest:
            top, folders = rest[0].partition(".")[0], [str(self._folder), *sys.path]
            if top not in sys.builtin_module_names and not PathFinder.find_spec(top, folders):
                raise self._wrong(f"there is no module `{rest[0]}`")
            call = partial(runpy.run_module, rest[0], run_name="__main__", alter_sys=True)
            return partial(self._from_folder, str(self._folder), call), rest
        if first.endswith(".py"):
            file = self._folder / first
            if not file.is_file():
                raise self._wrong(f"there is no file `{first}`")
            call = partial(runpy.run_path, str(file), run_name="__main__")
            return partial(self._from_folder, str(file.parent), call), words
        if not (scripts := [*entry_points(group="console_scripts", name=first)]):
            raise self._wrong(f"there is no console script `{first}` in this Python environment")

        return lambda: scripts[0].load()(), words  # noqa: PLW0108 - loaded in its process

    @staticmethod
    def _from_folder(folder: str, call: Callable[[], Any]) -> None:
        sys.path.insert(0, folder)
        call()

    def play(self, make: Callable[[], T], *, files: Files, **broken_off: Any) -> T:
        """Call `make`, which makes a run of this program, in a fork: see `isolated`."""
        with placed_folder("simloop-program") as folder:
            for name in _FOLDERS:
                (folder.path / name).mkdir()
            try:
                around = partial(self._around, folder, files)
                played: T = isolated(make, limit_s=LIMIT_S, around=around, **broken_off)
            except CheckFailed as error:
                with suppress(OSError):  # what was written past the streams, as by code in C
                    end = (folder.path / "output").read_bytes()[-2_000:].decode(errors="replace")
                    error.others += tuple(end.splitlines()[-10:])
                raise
            if self.imports_here:
                self._import_libraries(folder)
            return played

    def _import_libraries(self, folder: PlacedFolder) -> None:
        """Import here what the run has imported, so that a run takes a tenth of the time.

        The search compares some runs with those of a process that has imported nothing.
        """
        kept = dict(os.environ)
        os.environ.clear()
        os.environ.update(_environment(folder.place, self._assigned))
        try:
            with captured(), suppress(FileNotFoundError):  # a run may be killed
                for name in (folder.path / _LIBRARIES).read_text("utf-8").split():
                    with suppress(Exception):  # a part of a library that only it imports
                        import_module(name)
        finally:
            os.environ.clear()
            os.environ.update(kept)

    def _around(self, folder: PlacedFolder, files: Files, call: Callable[[], NoReturn]) -> NoReturn:
        """Give the process, a new fork, the surroundings of the program, and serve its run."""
        folder.enter()
        self._place = folder.place
        _begin_process(folder.place, self._assigned)
        files.keep_in(Path.cwd())
        self._main = MainThread()
        self._main.serve(call)

    async def answer(self, prompt: str, world: World) -> Ending:
        ending = await super().answer(prompt, world)
        if (status := self._status) and ending.outcome is Outcome.COMPLETED:
            message = Outcome.FAILED.message(cause=f"exit status {status}")
            ending = replace(ending, outcome=Outcome.FAILED, message=message)
        return replace(ending, exit=status)

    async def _answer(self, prompt: str, world: World) -> str:
        if self._main is None:
            message = "a whole program runs in a process of its own"
            hint = "run it with simloop.run, or with the command line"
            raise ScenarioError(message, key="loop", hint=hint)
        loop = world.model.loop
        output = loop.output
        if not isinstance(output, _RecordedOutput):  # at the first prompt
            loop.output = output = _RecordedOutput(world.model.recorder, output)
        output.said = ""
        self._status = 1  # of a program that an exception ends
        try:
            self._status = await self._main.call(loop, partial(self._begin, prompt))
        finally:
            output.end()
        return output.said.removesuffix("\n")

    def _begin(self, prompt: str) -> int:
        sys.argv = [word.replace("{prompt}", prompt) for word in self._words]
        try:
            status = _status_of(self._call)
        except ThreadEnded:  # killed
            raise
        except BaseException:
            _end_as_python_does()
            raise
        _end_as_python_does()
        if self.imports_here:
            (self._place / _LIBRARIES).write_text("\n".join(_libraries()), "utf-8")
        return status


class _RecordedOutput(Output):
    """The output of a whole program, in the trace by lines, or as often as it is flushed."""

    has_files = True

    def __init__(self, recorder: Recorder, kept: Output) -> None:
        super().__init__()
        self._recorder = recorder
        self._kept = kept
        self._waiting: dict[str, list[str]] = {name: [] for name in NAMES}
        self._chars = dict.fromkeys(NAMES, 0)
        self.said = ""

    def write(self, name: str, text: str) -> None:
        self._kept.write(name, text)
        lines, newline, rest = text.rpartition("\n")
        if newline:
            self._waiting[name].append(lines + newline)
            self.flush(name)
        if self._chars[name] + len(rest) > MOST_RECORDED:
            self.flush(name)
        self._waiting[name].append(rest)
        self._chars[name] += len(rest)

    def flush(self, name: str) -> None:
        text = "".join(self._waiting[name])
        self._waiting[name].clear()
        self._chars[name] = 0
        if text and name == "stdout":
            self.said += text[: MOST_RECORDED - len(self.said)]
        if text:
            self._recorder.record(entries.Output, name, recordable(text))

    def end(self) -> None:
        for name in NAMES:
            self.flush(name)


def _status_of(call: Callable[[], Any]) -> int:
    """Return the exit status with which Python ends after a call, and tell on stderr why."""
    try:
        code = call()
    except ThreadEnded:
        raise
    except SystemExit as error:
        code = error.code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BaseException as error:
        if sys.excepthook is sys.__excepthook__:  # its traceback has paths of this machine
            sys.stderr.write("".join(traceback.format_exception_only(error)))
        else:
            sys.excepthook(type(error), error, error.__traceback__)
        raise
    if code is None or isinstance(code, int):
        return int(code or 0) % _EXIT_CODES
    sys.stderr.write(f"{code}\n")
    return 1


def _end_as_python_does() -> None:
    python: Any = threading
    for call in reversed(python._threading_atexits):  # as `threading._shutdown`
        call()
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()


def _libraries() -> list[str]:
    """Return the names of the modules from installed packages and from Python, in their order."""
    folders = [each for each in sys.path if Path(each).name in {"site-packages", "dist-packages"}]
    roots = *folders, str(Path(os.__file__).parent)
    specs = {name: vars(module).get("__spec__") for name, module in [*sys.modules.items()]}
    origins = {name: getattr(spec, "origin", None) or "" for name, spec in specs.items()}
    own = f"{__name__.partition('.')[0]}."
    return [name for name, at in origins.items() if at.startswith(roots) or name.startswith(own)]


def _environment(folder: Path, assigned: Mapping[str, str]) -> dict[str, str]:
    home = {name: str(folder / name) for name in _FOLDERS}
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    own = {"HOME": home["home"], "TMPDIR": home["tmp"], "PWD": home["work"]}
    return {**ADDED, **FIXED, **passed, **own, **assigned}


def _begin_process(folder: Path, assigned: Mapping[str, str]) -> None:
    os.setsid()  # a Ctrl-C is for the parent, and there is no terminal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.disable()  # it would write to the streams of the parent
    atexit._clear()  # of the parent, which calls its own
    atexit.register(logging.shutdown)
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    sys.path[:] = [str(Path(path).absolute()) for path in sys.path]
    environment = _environment(folder, assigned)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    os.chdir(environment["PWD"])
    with (folder / "output").open("wb") as output, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    write_to(*(open(each, "w", encoding="utf-8", closefd=False, buffering=1) for each in (1, 2)))  # noqa: SIM115
