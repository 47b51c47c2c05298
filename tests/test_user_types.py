"""Somebody's project type-checks, with simloop installed from its wheel and no plugin.

Checking costs seconds, most of them for pydantic's own types, and no smaller program shows that a
stranger's checker agrees. Each checker runs once: on files and the examples of the pages, which
must pass, and on a file in which each line must be refused.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from regenerate import PROGRAMS

pytestmark = pytest.mark.slow

USER = Path(__file__).parent / "user"
EXAMPLES = {
    f"example_{number}.py": block
    for number, block in enumerate(
        re.findall(
            r"^```python\n(.*?)^```$",
            "\n".join(page.read_text("utf-8") for page in PROGRAMS),
            re.MULTILINE | re.DOTALL,
        )
    )
}
"""The examples of the README and of the pages that it leads to."""
FILES = {
    name: (USER / name).read_text("utf-8") for name in ("typical.py", "own_agents.py", "wrong.py")
} | EXAMPLES
REFUSED = [
    number
    for number, line in enumerate(FILES["wrong.py"].splitlines(), start=1)
    if line.endswith("# refused")
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, installed: Path) -> Path:
    """A folder with the files, and a fresh environment with the wheel in it.

    Its other libraries are those of the environment of this test, which holds no wheel.
    """
    folder = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    venv.create(folder / ".venv", with_pip=False)
    (site_packages,) = (folder / ".venv" / "lib").glob("python*/site-packages")
    shutil.copytree(installed, site_packages, dirs_exist_ok=True)
    libraries = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (site_packages / "others.pth").write_text("\n".join(libraries))
    return folder


def checker(name: str) -> str:
    """The path of a type checker in this environment."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"needs {name}, of the extra `lint`")
    return found


def findings(project: Path, *command: str) -> dict[str, list[int]]:
    """The lines with an error, by file."""
    run = subprocess.run(
        [*command, *FILES],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, set[int]] = {name: set() for name in FILES}
    for name, line in re.findall(r"(\w+\.py):(\d+):(?:\d+)?.* error", run.stdout):
        found[name].add(int(line))
    assert run.returncode == 1, run.stdout + run.stderr
    return {name: sorted(lines) for name, lines in found.items()}


def test_mypy_accepts_what_people_write_and_refuses_what_cannot_run(project: Path) -> None:
    python = str(project / ".venv/bin/python")
    options = ("--strict", "--config-file=", "--python-executable", python)
    found = findings(project, checker("mypy"), *options)
    assert found == {**{name: [] for name in FILES}, "wrong.py": REFUSED}


def test_pyright_accepts_what_people_write_and_refuses_what_cannot_run(project: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("pyright needs node")
    found = findings(project, checker("pyright"), "--pythonpath", str(project / ".venv/bin/python"))
    assert found == {**{name: [] for name in FILES}, "wrong.py": REFUSED}
