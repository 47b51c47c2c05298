"""A small tree of files, and the tools of document 003 on it."""

from typing import Any

import pytest

from simloop import Tool, ToolResult
from simloop.world.file_tools import file_tools
from simloop.world.files import Files

TREE = {
    "README.md": "# hi\n",
    "src/chat.ts": "one\ntwo\nthree\n",
    "src/index.ts": "one\n",
    ".env": "KEY\n",
}


def tool(name: str, files: Files | None = None) -> Tool:
    return file_tools(files or Files(TREE))[name]


def call(name: str, files: Files, **arguments: Any) -> ToolResult:
    result = tool(name, files).function.function(**arguments)
    assert isinstance(result, ToolResult)
    return result


def shell(command: str, files: Files | None = None) -> ToolResult:
    """What the shell gives for a command that takes no time: it must not even let others run."""
    coroutine = tool("RunShellCommand", files).function.function(command=command)
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    result = ended.value.value
    assert isinstance(result, ToolResult)
    return result
