"""The coder of aider as a function. Its command is the loop of the scenarios in `aider`."""

import os
from tempfile import TemporaryDirectory

from aider.coders import Coder
from aider.io import InputOutput
from aider.models import Model


def agent(question: str) -> str:
    with TemporaryDirectory() as folder:
        coder = Coder.create(
            main_model=Model("gpt-4o"),
            io=InputOutput(yes=True, chat_history_file=os.devnull, input_history_file=os.devnull),
            fnames=[f"{folder}/greeting.py"],
            use_git=False,
        )
        return str(coder.run(with_message=question))
