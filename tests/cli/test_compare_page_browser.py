"""The page of `compare` in a headless Chromium: filters, keys, the panel of a run, hostile text."""

from pathlib import Path

import pytest
from browsing import CHROMIUM, NO_CHROMIUM, Browser, chromium
from commandline import Cli
from comparing import BROKEN_SERVER, FAILS, HOOKED, LOOKS

from simloop.cursor.opening import opened_run
from simloop.cursor.rows import words_of

__all__ = ["chromium"]  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)]
MARKUP = "</script><script>forged = 1</script><img src=x onerror='forged = 1'>"
SEEN = """[...document.querySelectorAll('tr[data-name]')]
    .filter((line) => line.checkVisibility()).map((line) => line.dataset.name)"""
ALL = ["one/a", "one/b", "two/c", "two/d"]


@pytest.fixture
def file(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in zip(ALL, (LOOKS, HOOKED, FAILS, BROKEN_SERVER), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        cli.write(name, text)
    return written(cli, tmp_path, "one", "two")


def written(cli: Cli, folder: Path, *names: str) -> Path:
    path = folder / "page.html"
    path.write_text(cli("compare", *names, "--format", "html").stdout, "utf-8")
    return path


def seen(chromium: Browser) -> list[str]:
    return [name.removesuffix(".simloop.yaml") for name in chromium.ask(SEEN)]


def test_it_opens_without_an_error_and_asks_for_no_address(chromium: Browser, file: Path) -> None:
    chromium.open(file)
    assert seen(chromium) == ALL
    assert chromium.told() == []


def test_a_search_by_key_finds_names_titles_and_words(chromium: Browser, file: Path) -> None:
    chromium.open(file)
    for wanted, expected in (
        ("two/", ["two/c", "two/d"]),
        ("server ERROR", ["two/d"]),
        ("cannot", ["one/b"]),
    ):
        chromium.press("/", *wanted)
        assert seen(chromium) == expected
        chromium.press("Escape")
        chromium.ask("search.value = ''")
    chromium.press("/", *"nothing has this")
    assert seen(chromium) == []
    assert chromium.ask("none.checkVisibility()")


def test_a_cell_opens_the_timeline_and_the_scenario_of_its_run(
    chromium: Browser, file: Path
) -> None:
    chromium.open(file)
    chromium.ask("document.querySelector('td a[href=\"#run=3.1\"]').click()")
    chromium.wait_for("run.open")
    assert chromium.ask("location.hash") == "#run=3.1"
    assert chromium.ask("document.getElementById('run-name').textContent").endswith(
        "d.simloop.yaml on pi"
    )
    words = "[...document.querySelectorAll('#run-lines .words')].map((one) => one.textContent)"
    recording = opened_run("two/d.simloop.yaml", loop="pi")
    assert chromium.ask(words) == [words_of(one) for one in recording.entries]
    assert (
        chromium.ask("document.getElementById('run-scenario').textContent")
        == BROKEN_SERVER.rstrip()
    )
    chromium.press("Escape")
    chromium.wait_for("!run.open")
    chromium.wait_for("document.activeElement.hash === '#run=3.1'")


def test_a_link_to_a_run_opens_its_panel_and_says_that_nothing_was_run(
    chromium: Browser, file: Path
) -> None:
    chromium.open(file, "#run=1.2")
    assert chromium.ask("run.open")
    assert "react has no hooks" in chromium.ask("document.getElementById('run-facts').innerText")
    assert chromium.ask("document.getElementById('run-lines').innerText") == "Nothing was run."
    chromium.open(file, "#run=99.99")
    assert not chromium.ask("run.open")
    assert chromium.told() == []


@pytest.mark.parametrize("width", [400, 1200])
def test_the_names_can_be_read_at_each_width(
    cli: Cli, chromium: Browser, file: Path, width: int
) -> None:
    long = "long-" * 20
    cli.write(f"two/{long}", LOOKS.replace("It looks", "x" * 300))
    page = written(cli, file.parent, "one", "two")
    for fragment in ("", "#run=4.0"):
        chromium.open(page, fragment, width=width)
        assert chromium.ask("document.documentElement.scrollWidth") <= width
    chromium.open(page, width=width)
    widths = "[...document.querySelectorAll('{}')].map((one) => one.getBoundingClientRect().{})"
    assert min(chromium.ask(widths.format(".ending", "width"))) > 40
    assert max(chromium.ask(widths.format(".ending", "height"))) < 30
    assert min(chromium.ask(widths.format("tbody th", "width"))) > 200
    assert max(chromium.ask(widths.format(".name, .ending", "right"))) <= width


def test_markup_in_a_scenario_is_shown_as_it_is_written(
    cli: Cli, chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = f'title: "{MARKUP}"\nprompt: "{MARKUP}"\nmodel: [{{say: "{MARKUP}\\e[2J"}}]\n'
    cli.write("<b>&", hostile)
    chromium.open(written(cli, tmp_path, "<b>&.simloop.yaml"), "#run=0.0")
    panel = chromium.ask("run.innerText")
    assert MARKUP in panel
    assert "\\x1b[2J" in panel
    assert chromium.ask("document.querySelectorAll('b, img, script').length") == 2
    assert chromium.ask("typeof forged") == "undefined"
    assert chromium.told() == []
