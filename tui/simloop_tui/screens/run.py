"""A screen that has a run, with the actions that keep the run, or change it at the cursor.

No file is replaced without a question. A text that is copied is shown too, because a terminal may
refuse the clipboard. A changed run is made in a thread: it has an event loop of its own, and keys
must work meanwhile.
"""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from textual import work
from textual.app import SuspendNotSupported
from textual.worker import get_current_worker

from simloop.cursor.position import Position
from simloop.errors import ScenarioError, SimloopError
from simloop_tui.comparison import SideBySide
from simloop_tui.files import (
    FileLine,
    command,
    command_of,
    line_in_file,
    name_for,
    pytest_of,
    save,
    text_of,
)
from simloop_tui.runs import Change, changes_at, compared, edit_of_reply, reply_text
from simloop_tui.screens.dialogs import (
    EDIT,
    AskScreen,
    EditScreen,
    ForkScreen,
    ShrinkScreen,
    TextScreen,
)
from simloop_tui.screens.keyed import KeyedScreen, Opened
from simloop_tui.session import Session


class RunScreen(KeyedScreen):
    """A screen with one run, or with two of which one is chosen."""

    @property
    def run_here(self) -> Session:
        """Return the session of the run that the actions are for."""
        raise NotImplementedError

    @property
    def named_here(self) -> str:
        """Return in words which run the actions are for."""
        return "the run"

    @work(thread=True, exclusive=True, group="keep")
    def _make(self, make: Callable[[Session], str], then: Callable[[Session, str], None]) -> None:
        """Make a text of the run, in a thread because it may run the scenario."""
        session = self.run_here
        try:
            text = make(session)
        except ScenarioError as error:
            self.app.call_from_thread(self.say, str(error))
        else:
            self.app.call_from_thread(then, session, text)

    def action_save(self) -> None:
        self._make(text_of, self._ask_name)

    def _ask_name(self, session: Session, text: str) -> None:
        question = AskScreen(f"Save {self.named_here} as the scenario file:", name_for(session))
        self.app.push_screen(question, partial(self._save, text))

    def _save(self, text: str, name: str | None) -> None:
        if name and self._saved(Path(name), text):
            return
        if name:
            question = AskScreen(f"{name} exists. Write yes to replace it:")
            self.app.push_screen(question, partial(self._replace, text, Path(name)))

    def _replace(self, text: str, path: Path, answer: str | None) -> None:
        if (answer or "").strip().lower() in {"y", "yes"}:
            self._saved(path, text, replace=True)
        else:
            self.say(f"{path} stays as it was")

    def _saved(self, path: Path, text: str, *, replace: bool = False) -> bool:
        """Save the file; return False if it exists."""
        try:
            if not save(path, text, replace=replace):
                return False
        except ScenarioError as error:
            self.say(str(error))
        else:
            self.say(f"saved; run it with: simloop run {path}, or: pytest {path}")
        return True

    def action_copy_test(self) -> None:
        self._make(pytest_of, self._copy)

    def action_copy_command(self) -> None:
        self._make(command_of, self._copy)

    def _copy(self, _: Session, text: str) -> None:
        self.app.copy_to_clipboard(text)
        self.app.push_screen(TextScreen(text))

    def action_edit_file(self) -> None:
        try:
            line = line_in_file(self.run_here.position)
            self._edit(line)
        except (ScenarioError, OSError) as error:
            self.say(str(error))

    def _edit(self, line: FileLine) -> None:
        argv = command(os.environ, line)
        try:
            with self.app.suspend():
                subprocess.run(argv, check=False)  # noqa: S603 - the user's own editor
        except SuspendNotSupported:
            self.say(f"this terminal cannot give way to an editor; the line is {line}")
        else:
            self.app.refresh()
            self.say(f"{line} was open in {argv[0]}; open the run again to see a change of it")

    # ------------------------------------------------------------------ changing the run

    def action_fork(self) -> None:
        position = self.run_here.position
        try:
            changes = changes_at(position)
        except ScenarioError as error:
            self.say(str(error))
        else:
            self.app.push_screen(ForkScreen(changes), partial(self._changed, position))

    def _changed(self, position: Position, change: Change | None) -> None:
        if change is EDIT:
            parse = partial(edit_of_reply, position)
            fork = partial(self._changed, position)
            self.app.push_screen(EditScreen(reply_text(position), parse), fork)
        elif change is not None:
            self._fork(position, change)

    def _fork(self, position: Position, change: Change) -> None:
        self.say(f"runs on: {change.name} ...")
        self._run_on(position, change, self.run_here.name)

    @work(thread=True, exclusive=True, group="fork")
    def _run_on(self, position: Position, change: Change, source: str) -> None:
        worker = get_current_worker()
        try:
            branches = compared(position, change, source)
        except SimloopError as error:
            self.app.call_from_thread(self.say, str(error))
        else:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._ran, branches)

    def _ran(self, branches: SideBySide) -> None:
        self.say("")
        self.post_message(Opened(branches))

    def action_shrink(self) -> None:
        self.app.push_screen(ShrinkScreen(self.run_here), self._shrunk)

    def _shrunk(self, answer: Session | str | None) -> None:
        if isinstance(answer, Session):
            self.post_message(Opened(answer))
        elif answer is not None:
            self.say(answer)
