"""Five tools that work on files in memory, those of the ReAct loop in docs/loops.md."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from simloop.messages import ToolResult
from simloop.world.files import ROOT, Files, normalise
from simloop.world.shell import MISUSED, Shell
from simloop.world.tools import Tool, object_schema, toolbox

SHELL_TIMEOUT_MS = 30_000
"""The figure in the description of that loop; its program waits for 10 s by default."""


def file_tools(files: Files, shell_timeout_ms: int = SHELL_TIMEOUT_MS) -> dict[str, Tool]:
    """Return the tools by name. They change `files`, so a repeated run needs fresh files.

    `shell_timeout_ms` is virtual time, after which a call of RunShellCommand is given up.
    """
    run = partial(_run_shell_command, files)
    does = "Run a command line: sleep, ls, cat, pwd, echo, wc, mkdir, touch, rm, grep; "
    does += "with &&, ;, > and >>."
    folder = "List the names in a folder (if none is given, the root), with a slash after folders."
    write = "Write a text file, and the folders above it; what was there is lost."
    edit = "Replace the one place in a file where the old text stands."
    tools = (
        _tool("RunShellCommand", run, does, "command", timeout_ms=shell_timeout_ms),
        _tool("ReadFile", partial(_read_file, files), "Read a text file.", "path"),
        _tool("ReadFolder", partial(_read_folder, files), folder, may=["path"]),
        _tool("WriteFile", partial(_write_file, files), write, "path", "content"),
        _tool("EditFile", partial(_edit_file, files), edit, "path", "old", "new"),
    )
    return toolbox(tools)


def _tool(
    name: str, function: Callable[..., Any], does: str, *needed: str,
    may: Iterable[str] = (), timeout_ms: int | None = None,
) -> Tool:  # fmt: skip
    schema = object_schema({name: {"type": "string"} for name in (*needed, *may)}, needed)
    return Tool(function, name=name, description=does, parameters=schema, timeout_ms=timeout_ms)


def _read_file(files: Files, path: str) -> ToolResult:
    return ToolResult(files.read(path), details=_facts(files, path))


def _read_folder(files: Files, path: str = ROOT) -> ToolResult:
    names = files.list_folder(path)
    return ToolResult("\n".join(names), details={"path": normalise(path), "names": names})


def _write_file(files: Files, path: str, content: str) -> ToolResult:
    files.write(path, content)
    return ToolResult(f"wrote {normalise(path)}", details=_facts(files, path))


def _edit_file(files: Files, path: str, old: str, new: str) -> ToolResult:
    files.edit(path, old, new)
    return ToolResult(f"edited {normalise(path)}", details=_facts(files, path))


def _facts(files: Files, path: str) -> dict[str, Any]:
    return {"path": normalise(path), "bytes": files.size(path)}


async def _run_shell_command(files: Files, command: str) -> ToolResult:
    said: list[str] = []

    async def write(_: str, text: str) -> None:
        said.append(text)

    try:
        code = await Shell(files).run(command, write)
    except ValueError as error:
        return _result(f"syntax error: {error}\n", MISUSED)
    return _result("".join(said), code)


def _result(said: str, code: int) -> ToolResult:
    if code:
        said += "\n" if said and not said.endswith("\n") else ""
        said += f"exit code {code}"
    return ToolResult(said, is_error=code != 0, details={"exit_code": code})
