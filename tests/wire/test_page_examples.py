"""The examples of the pages that need an SDK pass, or fail as the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from regenerate import PAGES, README, readme_text

pytestmark = pytest.mark.sdks

FILES = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_FILES = [page for page in PAGES if page != README and FILES.search(page.read_text("utf-8"))]


def test_the_readme_has_the_report_and_the_finding_of_its_agent() -> None:
    assert README.read_text("utf-8") == readme_text(), "run: python tests/regenerate.py"


@pytest.mark.parametrize("page", WITH_FILES, ids=lambda page: str(page.stem))
def test_the_files_of_a_page_pass_in_one_folder(page: Path, tmp_path: Path) -> None:
    for name, block in FILES.findall(page.read_text("utf-8")):
        (tmp_path / name).write_text(block, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
