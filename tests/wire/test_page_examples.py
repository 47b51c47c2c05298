"""The examples of the pages that need an SDK pass, or fail as the page says."""

import re
import sys
from pathlib import Path

import forks
import pytest
from regenerate import DOCS, GENERATED, README, files_of

pytestmark = pytest.mark.sdks

BOT = DOCS / "testing-a-bot.md"


@pytest.mark.parametrize(
    "page", [README, BOT, DOCS / "fuzz.md", DOCS / "recordings.md"], ids=lambda page: str(page.stem)
)
def test_the_reports_of_a_page_are_those_of_its_examples(page: Path) -> None:
    assert page.read_text("utf-8") == GENERATED[page](), "run: python tests/regenerate.py"


def done(folder: Path, *module: str) -> tuple[int, str]:
    """Run a module there, as its user would, and return its exit code and what it prints."""
    return forks.done(sys.executable, folder, *module, both=True)[:2]


@pytest.mark.parametrize("page", ["python", "pytest"])
def test_the_examples_of_services_pass(page: str) -> None:
    with files_of((DOCS / f"{page}.md").read_text("utf-8")) as folder:
        for file in sorted(folder.glob("*.py")):
            test = ("pytest", "-q", "-p", "no:cacheprovider", file.name)
            code, printed = done(folder, *(test if file.name.startswith("test_") else (file.stem,)))
            assert code == 0, printed


def test_the_bot_passes_all_tests_of_its_page_and_its_search_finds_something() -> None:
    text = BOT.read_text("utf-8")
    with files_of(text) as folder:
        options = ("-q", "-p", "no:cacheprovider", "--snapshot-update")
        code, printed = done(folder, "pytest", *options)
        assert code == 0, printed
        assert f"{text.count('async def test_')} passed" in printed
        (search,) = re.findall(r"^simloop fuzz .*$", text, re.MULTILINE)
        code, printed = done(folder, *search.split())
        assert code == 1, printed
        assert (folder / "failures" / "completed-after-a-complete-reply.simloop.yaml").is_file()


def test_the_shop_passes_its_scenario_and_its_tests() -> None:
    with files_of((DOCS / "shop.md").read_text("utf-8")) as folder:
        assert len((folder / "refund.simloop.yaml").read_text("utf-8").splitlines()) < 50
        code, printed = done(folder, "simloop", "check", "refund.simloop.yaml")
        assert (code, "1 passed" in printed) == (0, True), printed
        code, printed = done(folder, "pytest", "-q", "-p", "no:cacheprovider")
        assert (code, "8 passed" in printed) == (0, True), printed
