"""Somebody's project, with simloop installed from its wheel: it passes, then a reply is edited."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

# Each test is a pytest of its own, with a wheel that is built for them.
pytestmark = pytest.mark.slow

CLAIM = '    result.expect(elapsed="120ms", text="It says Hello.", requests=2)'
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
    "tests/test_conversation.py": f"""\
import simloop


def test_it_is_this_simloop():
    assert simloop.__file__.startswith(INSTALLED)


def test_the_file_is_read_before_the_answer(simloop_run):
    result = simloop_run("../scenarios/read-file.simloop.yaml", check=False)
    assert result.outcome == "completed"
    assert result.calls == [("read_file", {{"path": "README.md"}})]
    assert result.backoffs_s == []
    assert [len(request.messages) for request in result.requests] == [1, 3]
{CLAIM}
""",
}


class Project:
    def __init__(self, folder: Path, installed: Path) -> None:
        self.folder = folder
        for name, text in FILES.items():
            self.write(name, text.replace("INSTALLED", repr(str(installed))))
        # What is in the environment of this test is none of the project's business.
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        libraries = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        self.environment = {**kept, "PYTHONPATH": os.pathsep.join([str(installed), *libraries])}

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def pytest(self, *flags: str) -> tuple[int, list[str]]:
        """Its exit code and its lines, of a Python that does not see this checkout."""
        run = subprocess.run(
            # Without `site` no editable install is seen.
            [sys.executable, "-S", "-m", "pytest", *flags],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.stderr == ""
        return run.returncode, run.stdout.splitlines()


@pytest.fixture
def project(tmp_path: Path, installed: Path) -> Project:
    return Project(tmp_path, installed)


def part(lines: list[str], title: str) -> list[str]:
    """What stands under the title `____ title ____`, up to the next one."""
    start = next(index for index, line in enumerate(lines) if line.strip("_") == f" {title} ")
    ends = (
        i
        for i, line in enumerate(lines)
        if i > start and line.startswith(("___", "===", "simloop: "))
    )
    return lines[start + 1 : next(ends)]


def test_it_passes(project: Project) -> None:
    code, lines = project.pytest("-v")
    assert code == 0
    assert [line.split()[:2] for line in lines if "PASSED" in line] == [
        ["tests/test_conversation.py::test_it_is_this_simloop", "PASSED"],
        ["tests/test_conversation.py::test_the_file_is_read_before_the_answer", "PASSED"],
        ["scenarios/rate-limit.simloop.yaml::rate-limit", "PASSED"],
        ["scenarios/read-file.simloop.yaml::read-file", "PASSED"],
    ]
    assert any(line.startswith("simloop: 3 runs, 5.240s of virtual time in 0.") for line in lines)


def test_an_edited_reply_fails_readably(project: Project) -> None:
    name = "scenarios/read-file.simloop.yaml"
    project.write(name, FILES[name].replace("- say: It says Hello.", "- say: It says Goodbye."))
    code, lines = project.pytest()
    assert code == 1
    finding = "expect.text: expected 'It says Hello.', got 'It says Goodbye.'"
    shown = part(lines, "read-file")
    assert [line.split()[:3] for line in shown[-4:-1] if "completed" in line] == [
        ["0.120s", "completed", "It"]
    ]
    assert (shown[0], shown[2], shown[-1]) == (
        finding,
        "the end of the run:",
        "reproduce: simloop run scenarios/read-file.simloop.yaml --seed 0",
    )
    test = part(lines, "test_the_file_is_read_before_the_answer")
    at = FILES["tests/test_conversation.py"].splitlines().index(CLAIM) + 1
    assert f">   {CLAIM}" in test
    assert f"E       simloop.errors.ExpectationFailed: {finding}" in test
    assert test[-3:] == [
        "E       reproduce: simloop run scenarios/read-file.simloop.yaml --seed 0",
        "",
        f"tests/test_conversation.py:{at}: ExpectationFailed",
    ]
    assert not [line for line in lines if "simloop/scenario" in line]
    assert "2 failed, 2 passed in" in lines[-1]
