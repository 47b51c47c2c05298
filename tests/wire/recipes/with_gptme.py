"""The chat loop of gptme as a function. Its command is the loop of the scenarios in `gptme`."""

from pathlib import Path
from tempfile import TemporaryDirectory

from gptme import LogManager, Message, chat, get_prompt
from gptme.tools import init_tools

TOOLS = ["save", "complete"]
MODEL = "openai/gpt-4o"


def agent(question: str) -> str:
    with TemporaryDirectory() as name:
        folder = Path(name)
        prompt = get_prompt(
            init_tools(TOOLS), prompt="short", interactive=False, tool_format="tool", model=MODEL
        )
        chat(
            [Message("user", question)],
            prompt,
            folder / "log",
            folder,
            MODEL,
            no_confirm=True,
            interactive=False,
            tool_allowlist=TOOLS,
            tool_format="tool",
        )
        return LogManager.load(folder / "log", lock=False).log[-1].content
