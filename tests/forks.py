"""`python -m` as users run it, in forks of one process that has imported what each would import.

To import an SDK and simloop takes longer than most of what is run.
"""

import atexit
import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

_FORKING = """
import json, os, runpy, sys
import openai, pytest, simloop.fuzz.executor, simloop.check.trial
for line in sys.stdin:
    folder, out, err, module, arguments = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    for number, file in enumerate((os.devnull, out, err)):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)
    os.chdir(folder)
    sys.path[0], sys.argv[1:] = folder, arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    break
"""


class Done(NamedTuple):
    """A process that has ended: its exit code, and what it has printed."""

    code: int
    printed: str
    errors: str = ""


@functools.cache
def _forking(python: str) -> subprocess.Popen[str]:
    # The width of a terminal, and no settings of the pytest that may run this.
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    pipe = subprocess.PIPE
    command = [python, "-c", _FORKING]
    started = subprocess.Popen(command, cwd="/", env=kept, stdin=pipe, stdout=pipe, text=True)
    atexit.register(started.communicate)  # it ends when it hears no more
    return started


def done(python: str, folder: Path, *module: str, both: bool = False) -> Done:
    """Run a module in a folder. With `both`, errors are in the output, at their place."""
    forking = _forking(python)
    assert forking.stdout is not None
    with tempfile.TemporaryDirectory() as name:
        out = Path(name, "out")
        err = out if both else Path(name, "err")
        asked = [str(folder), str(out), str(err), module[0], module[1:]]
        print(json.dumps(asked), file=forking.stdin, flush=True)
        code = int(forking.stdout.readline())
        return Done(code, out.read_text("utf-8"), "" if both else err.read_text("utf-8"))
