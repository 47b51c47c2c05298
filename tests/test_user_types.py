"""Somebody's project type-checks, with simloop installed from its wheel and no plugin.

Checking costs seconds, and no smaller program shows that a stranger's checker agrees. The checker
runs once: on files and the examples of the pages, which must pass, and on a file in which each line
must be refused. Of mypy, the check of this repository shows the same: an error of that file that is
no error any more is an unused `type: ignore`.
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

pytestmark = pytest.mark.programs

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
IGNORED = re.compile(r"  # type: ignore\[.*\]$", re.MULTILINE)
WRONG = (USER / "wrong.py").read_text("utf-8")
REFUSED = [
    number for number, line in enumerate(WRONG.splitlines(), start=1) if IGNORED.search(line)
]
FILES = {
    **{name: (USER / name).read_text("utf-8") for name in ("typical.py", "own_agents.py")},
    "wrong.py": IGNORED.sub("", WRONG),
    **EXAMPLES,
}


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


def findings(project: Path) -> dict[str, list[int]]:
    """The lines in which pyright finds an error, by file."""
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent))
    if pyright is None or shutil.which("node") is None:
        pytest.skip("needs pyright, of the extra `lint`, and node")
    command = [pyright, "--pythonpath", str(project / ".venv/bin/python"), *FILES]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    found: dict[str, set[int]] = {name: set() for name in FILES}
    for name, line in re.findall(r"(\w+\.py):(\d+):(?:\d+)?.* error", run.stdout):
        found[name].add(int(line))
    assert run.returncode == 1, run.stdout + run.stderr
    return {name: sorted(lines) for name, lines in found.items()}


def test_pyright_accepts_what_people_write_and_refuses_what_cannot_run(project: Path) -> None:
    assert findings(project) == {**{name: [] for name in FILES}, "wrong.py": REFUSED}
