"""The programs of a scenario, as people write them: a command line, and the answers to it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from simloop.errors import ScenarioError
from simloop.scenario import expect, fields
from simloop.scenario.fields import NO_TIME, Strict, differs, kept, no_items, wrong
from simloop.scenario.mistakes import FORM, LIST, PLAIN
from simloop.virtual.real_world import LISTS
from simloop.world import program_scripts
from simloop.world.faults import SiteFault, Stage
from simloop.world.program_scripts import FILES, ProgramAnswer, ProgramFunction

# The numbers of POSIX; `signal` would make an enum of them at each start of simloop.
SignalName = Literal[
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGKILL", "SIGSEGV", "SIGPIPE", "SIGTERM"
]  # fmt: skip
SIGNALS: dict[str, int] = dict(zip(get_args(SignalName), (1, 2, 3, 6, 9, 11, 13, 15), strict=True))
_REQUESTS = {"hang-up": 1, "interrupt": 2, "terminate": 15}
EndRequest = Literal["hang-up", "interrupt", "terminate"]


class ProgramPiece(Strict):
    """A part of a program's output."""

    after: fields.WrittenDuration = kept(NO_TIME)
    """Virtual time before it, after the part before."""
    stdout: str = ""
    """The text on its standard output."""
    stderr: str = ""
    """The text on its standard error."""


class Program(Strict):
    """One answer of a program: it waits, writes its output, and ends."""

    stdout: str = ""
    """The text on its standard output."""
    stderr: str = ""
    """The text on its standard error."""
    pieces: fields.Many[ProgramPiece] = Field(default_factory=kept(no_items))
    """The output in parts, each at its time."""
    endless: bool = False
    """The parts come again and again, until a signal ends it."""
    takes: fields.WrittenDuration = kept(NO_TIME)
    """Virtual time before its output."""
    exit: Annotated[int, Field(ge=0, le=255)] = 0
    """Its exit status."""
    signal: SignalName | None = None
    """It dies by this signal after its output."""
    hangs: bool = False
    """It does not end after its output, until a signal ends it."""
    ignores: EndRequest | list[EndRequest] = Field(default_factory=no_items)
    """The requests to end that it ignores; only SIGKILL ends it then."""
    stdin: fields.OneOrNone[expect.Contains] = kept(None)
    """Makes it a rule: use it if the standard input, read to its end, has this."""
    times: Annotated[int, Field(ge=1)] | Literal["always"] | None = None
    """How often it may be used: by default always, and in a list once if it is neither the last
    answer nor a rule."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        ends = [name for name in ("exit", "signal", "hangs", "endless") if differs(self, name)]
        if len(ends) > 1:
            raise wrong(ends[1], f"a program ends in one way, not in several: {', '.join(ends)}")
        if self.pieces and (self.stdout or self.stderr):
            raise wrong("pieces", "give the output either as a whole or in pieces")
        if self.endless and not self.pieces:
            raise wrong("endless", "there are no pieces that could come again")
        return self

    def answer(self, *, is_last: bool) -> ProgramAnswer:
        pieces = self.pieces or [ProgramPiece(stdout=self.stdout, stderr=self.stderr)]
        ignores = [self.ignores] if isinstance(self.ignores, str) else self.ignores
        times = self.times or (1 if not is_last and self.stdin is None else "always")
        return ProgramAnswer(
            pieces=tuple(part for piece in pieces for part in _parts(piece)), takes_ns=self.takes,
            exit=self.exit, signal=SIGNALS.get(self.signal or "", 0), hangs=self.hangs,
            endless=self.endless, ignores=frozenset(_REQUESTS[each] for each in ignores),
            contains=None if self.stdin is None else tuple(self.stdin.texts),
            times=None if times == "always" else times,
        )  # fmt: skip


def _parts(piece: ProgramPiece) -> list[program_scripts.OutputPiece]:
    texts = (("stdout", piece.stdout), ("stderr", piece.stderr))
    found = [(stream, text) for stream, text in texts if text] or [("stdout", "")]
    return [
        program_scripts.OutputPiece(piece.after if number == 0 else 0, stream, text)
        for number, (stream, text) in enumerate(found)
    ]


def _form(value: Any) -> str:
    return PLAIN if isinstance(value, str) else LIST if isinstance(value, list | tuple) else FORM


def _has_words(key: str) -> str:
    program_scripts.words_of(key)
    return key


_Answers = Annotated[
    Annotated[Literal["files"], Tag(PLAIN)]
    | Annotated[fields.Lax[Program], Tag(FORM)]
    | Annotated[fields.Lax[list[fields.Lax[Program]]], Tag(LIST)],
    Discriminator(_form),
]
GivenProgram = Program | Mapping[str, Any] | Literal["files"]
Scripted = fields.Written[
    dict[Annotated[str, AfterValidator(_has_words)], _Answers],
    Mapping[str, GivenProgram | Sequence[Program | Mapping[str, Any]]],
]


def check_programs(programs: Mapping[str, Any], *, has_files: bool) -> None:
    """Raise an error at the key of a program without an answer, or that cannot work on files."""
    for key, answers in programs.items():
        if not answers:
            raise wrong(f"programs.{key}", "give at least one answer")
        if answers != FILES:
            continue
        if program_scripts.words_of(key)[-1] not in LISTS.shells:
            message = f"only a shell works on files: {', '.join(sorted(LISTS.shells))}"
            raise wrong(f"programs.{key}", message)
        if not has_files:
            raise wrong(f"programs.{key}", "the scenario has no files: add `files`, if only {}")


ScriptedProgram = Program | ProgramFunction | Sequence[Program | ProgramFunction]


def check_given(programs: Mapping[str, Any]) -> None:
    """Raise ScenarioError for the answers of programs, given in Python, that are none."""
    for key, given in programs.items():
        try:
            program_scripts.words_of(key)
        except ValueError as error:
            raise ScenarioError(str(error), key=f"programs.{key}") from None
        each = given if isinstance(given, list | tuple) else [given]
        if not each or not all(isinstance(one, Program) or callable(one) for one in each):
            hint = 'give a function, Program(stdout="..."), or a list of them'
            raise ScenarioError("this is no answer of a program", key=f"programs.{key}", hint=hint)


def script_of(key: str, given: Any) -> program_scripts.ProgramScript:
    """Return the script of a command line for one run."""
    if given == FILES:
        return program_scripts.ProgramScript(key, None)
    each = given if isinstance(given, list | tuple) else [given]
    answers = [_answer(one, is_last=number == len(each)) for number, one in enumerate(each, 1)]
    return program_scripts.ProgramScript(key, answers)


def _answer(given: Program | ProgramFunction, *, is_last: bool) -> ProgramAnswer:
    if isinstance(given, Program):
        return given.answer(is_last=is_last)
    return ProgramAnswer(function=given, times=None if is_last else 1)


def with_fault(given: Any, fault: SiteFault, times: int) -> Any:
    """Return the answers of a program whose first calls fail, or whose answers come late."""
    if given == FILES:
        return given
    answers = given if isinstance(given, list) else [given]
    if fault.stage is Stage.LATE:
        return [each.model_copy(update={"takes": Program(**fault.keys).takes}) for each in answers]
    return [Program(times=times, **fault.keys), *answers]
