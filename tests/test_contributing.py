"""The pages for contributors name what there is."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parent.parent
SUPPORT = sorted(path.name for path in (TOP / "tests" / "support").glob("*.py"))
NAMED = re.compile(r"`((?:simloop|tui|tests|scenarios)/[\w./-]+)`")


def test_the_hosted_tests_run_on_each_python_that_the_package_names() -> None:
    workflow = yaml.safe_load((TOP / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    named = [one.rpartition(" :: ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    assert workflow["jobs"]["tests"]["strategy"]["matrix"]["python"] == named
    assert {"run": ".ci/run"} in workflow["jobs"]["gate"]["steps"]


def test_the_page_of_the_tests_has_a_line_for_each_support_module() -> None:
    text = (TOP / "tests" / "README.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+\.py)` \|", text, re.MULTILINE) == SUPPORT


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "tests/README.md"])
def test_a_page_names_files_that_there_are(page: str) -> None:
    named = NAMED.findall((TOP / page).read_text("utf-8"))
    assert [name for name in named if not (TOP / name).exists()] == []
    assert named
