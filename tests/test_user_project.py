"""Somebody's project passes, with simloop installed from its wheel."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

FILES = {
    "pyproject.toml": """\
[tool.pytest]
strict = true
testpaths = ["tests", "scenarios"]
filterwarnings = ["error"]
""",
    "scenarios/rate-limit.simloop.yaml": """\
title: A rate limit costs one error and one backoff
prompt: Say hello.
model:
  - http: {status: 429, retry_after: 5s}
  - say: Hello.
expect: {text: Hello., backoffs: [5s]}
""",
    "scenarios/read-file.simloop.yaml": """\
title: The file is read before the answer
prompt: What does README.md say?
tools:
  read_file: {parameters: {path: string}, returns: "# Hello", takes: 120ms}
model:
  - {say: Let me look., call: {read_file: {path: README.md}}}
  - say: It says Hello.
expect: {outcome: completed, text: It says Hello.}
""",
    "tests/test_conversation.py": """\
import simloop


def test_it_is_this_simloop():
    assert simloop.__file__.startswith(INSTALLED)


def test_the_file_is_read_before_the_answer(simloop_run):
    result = simloop_run("../scenarios/read-file.simloop.yaml", check=False)
    assert result.outcome == "completed"
    assert result.calls == [("read_file", {"path": "README.md"})]
    assert result.backoffs_s == []
    assert [len(request.messages) for request in result.requests] == [1, 3]
    result.expect(elapsed="120ms", text="It says Hello.", requests=2)
""",
}


@pytest.mark.slow
def test_it_passes(tmp_path: Path, installed: Path) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("INSTALLED", repr(str(installed))))
    # What is in the environment of this test is none of the project's business.
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    libraries = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    run = subprocess.run(
        [sys.executable, "-S", "-m", "pytest", "-v"],  # without `site` no editable install is seen
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": os.pathsep.join([str(installed), *libraries])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert [line.split()[:2] for line in lines if "PASSED" in line] == [
        ["tests/test_conversation.py::test_it_is_this_simloop", "PASSED"],
        ["tests/test_conversation.py::test_the_file_is_read_before_the_answer", "PASSED"],
        ["scenarios/rate-limit.simloop.yaml::rate-limit", "PASSED"],
        ["scenarios/read-file.simloop.yaml::read-file", "PASSED"],
    ]
    assert any(line.startswith("simloop: 3 runs, 5.240s of virtual time in 0.") for line in lines)
