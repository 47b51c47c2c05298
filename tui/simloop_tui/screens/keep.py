"""A screen that has a run, with the actions that keep the run: as a file, a test or a command.

No file is replaced without a question. A text that is copied is shown too, because a terminal may
refuse the clipboard.
"""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from textual import work
from textual.app import SuspendNotSupported

from simloop.errors import ScenarioError
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
from simloop_tui.screens.dialogs import AskScreen, TextScreen
from simloop_tui.screens.keyed import KeyedScreen
from simloop_tui.session import Session


class KeepScreen(KeyedScreen):
    """A screen with a run that can be kept."""

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
