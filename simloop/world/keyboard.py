"""The keyboard of the user: the lines that the user types on standard input, and their record."""

from itertools import count

from simloop.escape import recordable, writable
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.border.pipes import run_with_pipes
from simloop.virtual.border.standard_input import StandardInput
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.progress import runaway
from simloop.virtual.threads.scheduler import Fiber, parked, threads_of
from simloop.world.tools_port import CURRENT_CALL
from simloop.world.user_port import TypedLine

MOST_LINES = 10_000


class Keyboard:
    """Types the first line that answers a question, or a whole `text`, and ends the input."""

    def __init__(
        self, lines: list[TypedLine], recorder: Recorder, loop: VirtualLoop,
        *, text: str | None = None, is_of_process: bool = False,
    ) -> None:  # fmt: skip
        self._lines = lines  # more may be added
        self.is_over = False
        """Whether a question came that no line answers."""
        self._recorder = recorder
        self._loop = loop
        given = StandardInput(run_with_pipes(loop), is_terminal=text is None, who=CURRENT_CALL.get)
        loop.standard_input = self._input = given
        if is_of_process:
            given.be_descriptor_0()
        loop.at_end.append(given.close)
        course = self._type_lines() if text is None else self._pour(writable(text))
        self._fiber: Fiber = threads_of(loop).start_fiber("the user", course)

    async def _type_lines(self) -> None:
        for typed in count():
            await self._input.asked(self._fiber)
            line = next((each for each in self._lines if each.fits(self._input.screen)), None)
            if line is not None and typed == MOST_LINES:
                asked = f"the program has asked its user {MOST_LINES} times"
                self._recorder.keep(runaway(asked, "let it stop, or type a line fewer times"))
            if line is None or typed == MOST_LINES:
                self.is_over = True
                self._record(TypedLine("", ""), ends=True)
                self._input.end()
                return
            if line.after_ns:
                await parked(self._loop.now_ns + line.after_ns, "the user to answer")
            line.typed += 1
            self._record(line)
            await self._input.type(self._fiber, f"{line.text}\n")

    async def _pour(self, text: str) -> None:
        self._record(TypedLine(text, ""))
        await self._input.type(self._fiber, text)
        self._input.end()

    def _record(self, line: TypedLine, *, ends: bool = False) -> None:
        given, text = self._input, recordable(line.text)
        rows = [row.strip() for row in given.screen.splitlines()]
        prompt = writable(next(filter(None, reversed(rows)), ""))
        asker = given.asker(line.contains)
        self._recorder.record(entries.Input, text, prompt, ends, asker, given.reader)
