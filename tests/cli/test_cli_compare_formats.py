import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from comparing import BROKEN_SERVER, COMPACTS, FAILS, HOOKED, HOSTILE, LOOKS, compare, compare_json
from hypothesis import given, settings
from hypothesis import strategies as st
from writing import write

from simloop.check.compare import Row
from simloop.cli import main
from simloop.cli.compare import matrix
from simloop.cli.compare_page import page
from simloop.cli.compare_text import Comparison

OUR_COLOUR = re.compile("^\x1b\\[3[12]m(.{6})\x1b\\[0m")
CONTROLS = {"\x1b", "\a", "\r", "\0", "\u202e", "\x9b"}


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TestJson:
    def test_has_a_row_for_each_loop(self) -> None:
        document = compare_json(write("a", FAILS), "--loop", "pi")
        assert document == {
            "format_version": 2,
            "status": "failed",
            "loops": ["pi"],
            "scenarios": [
                {
                    "name": "a.simloop.yaml",
                    "status": "failed",
                    "path": "a.simloop.yaml",
                    "title": "It looks",
                    "loop": "reference",
                    "rows": [
                        {
                            "loop": "pi",
                            "status": "failed",
                            "outcome": "completed",
                            "outcomes": ["completed"],
                            "error": None,
                            "cannot": None,
                            "model_calls": 2,
                            "summaries": 0,
                            "tool_runs": 1,
                            "elapsed_ns": 120_000_000,
                            "text": "Found.",
                            "failures": [
                                {
                                    "key": "expect.text",
                                    "expected": "Lost.",
                                    "got": "Found.",
                                    "seq": None,
                                    "message": "expect.text: expected 'Lost.', got 'Found.'",
                                }
                            ],
                            "errors": [],
                            "reproduce": "simloop run a.simloop.yaml --seed 0 --loop pi",
                        }
                    ],
                }
            ],
        }

    def test_is_null_where_nothing_is_known(self) -> None:
        document = compare_json(write("a", HOOKED), "gone", "--loop", "react")
        (hooked,), (gone,) = (scenario["rows"] for scenario in document["scenarios"])
        unknown = ("outcome", "model_calls", "summaries", "tool_runs", "elapsed_ns", "text")
        assert not any(row[key] is not None for row in (hooked, gone) for key in unknown)
        assert (hooked["cannot"], hooked["status"]) == ("react has no hooks", "cannot")
        assert (gone["cannot"], gone["status"], gone["error"]) == (None, "error", "ScenarioError")
        assert [error["type"] for error in gone["errors"]] == ["ScenarioError"]
        assert [document["scenarios"][1][key] for key in ("path", "title", "loop")] == [None] * 3

    def test_is_ascii_whatever_a_model_says(self) -> None:
        name = write("a", f"prompt: Hi\nmodel: [{{say: {HOSTILE}}}]\n")
        result = compare(name, "--format", "json")
        assert result.stdout.isascii()
        text = json.loads(result.stdout)["scenarios"][0]["rows"][0]["text"]
        assert text == '\x1b[2J\0\a\r\u202ex\x9b1m\ufffe<script>&"é'


class Page(HTMLParser):
    """Reads a page, and complains of whatever is not closed in order."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data.strip()))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def text_in(self, tag: str) -> list[str]:
        return [text for inside, text in self.texts if inside == tag]


class TestThePage:
    @pytest.fixture
    def text(self) -> str:
        files = [write("a", LOOKS), write("b", HOOKED), write("c", FAILS), write("d", COMPACTS)]
        return compare(*files, write("e", BROKEN_SERVER), "--format", "html").stdout

    def test_is_well_formed_with_a_matrix_and_the_rows_of_each_scenario(self, text: str) -> None:
        page = Page(text)
        assert page.all("html") == [{"lang": "en"}]
        assert len(page.all("table")) == len(page.all("caption")) == 6
        assert len(page.all("details")) == 5
        assert [one["id"] for one in page.all("table")[1:]] == [f"s{n}" for n in range(1, 6)]
        assert [one["href"] for one in page.all("a")] == [f"#s{n}" for n in range(1, 6)]
        assert {one["scope"] for one in page.all("th")} == {"row", "col"}
        rows, columns = 1 + 5 + 5 * (1 + 4), 5 + 5 * 7
        assert len(page.all("tr")) == rows
        assert sum(one["scope"] == "col" for one in page.all("th")) == columns

    def test_marks_by_character_as_well_as_by_style(self, text: str) -> None:
        marked = re.findall(r'<td class="([a-z ]+)"[^>]*>(.*?)</td>', text)
        marks = {"own": "*", "differs": "~", "wrong": "!"}
        for classes, cell in marked:
            shown = re.sub("<[^>]*>", "", cell)
            assert [marks[one] for one in classes.split() if one != "cannot"] == [
                one for one in shown if one in marks.values()
            ]
            assert ("cannot" in classes) == (shown == "cannot")
        assert {one for classes, _ in marked for one in classes.split()} == {*marks, "cannot"}

    def test_tells_in_each_cell_what_it_has_no_room_for(self, text: str) -> None:
        titles = [one["title"] for one in Page(text).all("td") if "title" in one]
        assert len(titles) == 5 * 4
        assert titles[0] == "tool runs: 1; time: 120ms; text: Found."
        assert titles[6] == "react has no hooks"
        assert (titles[8] or "").endswith("expect.text: expected 'Lost.', got 'Found.'")

    def test_gives_the_reasons_and_the_count(self, text: str) -> None:
        page = Page(text)
        assert page.text_in("p")[0].startswith("5 scenarios: ")
        reasons = [line for line in page.text_in("li") if line.startswith("react cannot")]
        assert reasons == [
            "react cannot express 1 scenario: react has no hooks",
            "react cannot express 1 scenario: react never shortens its history",
        ]

    def test_needs_no_network_and_no_script(self, text: str) -> None:
        page = Page(text)
        assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "base"}
        assert not any({"src", "style", "onclick"} & set(one) for _, one in page.tags)
        assert "http" not in text
        assert "url(" not in text
        assert "color-scheme: light dark" in text

    def test_is_ascii_and_escaped_whatever_a_model_a_title_or_a_name_says(self) -> None:
        says = f"title: {HOSTILE}\nprompt: Hi\nmodel: [{{say: {HOSTILE}}}]\n"
        files = [write("<b>&\"'\x1b\x01é", f"{says}expect: {{text: x}}\n"), "no<i>\x1bsuch"]
        text = compare(*files, "--format", "html").stdout
        assert text.isascii()
        page = Page(text)
        assert not {tag for tag, _ in page.tags} & {"script", "b", "i"}
        found = "".join(said for _, said in page.texts)
        assert not set(found) & CONTROLS
        assert "<b>&\"'\\x1b\\x01é.simloop.yaml" in found
        # The reference to U+FFFE, which is no character, is what Python's reader leaves out.
        assert '\\x1b[2J\\x00\\x07\\r\\u202ex\\x9b1m<script>&"é' in found
        assert any("<script>" in (one.get("title") or "") for one in page.all("td"))

    def test_of_a_single_scenario_is_open(self) -> None:
        one = Page(compare(write("a", LOOKS), "--format", "html").stdout)
        assert one.all("details") == [{"open": None}]


ROWS = st.builds(
    Row,
    loop=st.text(min_size=1),
    cannot=st.text(),
    outcome=st.sampled_from(["", "completed"]),
    model_calls=st.none() | st.integers(0, 10**9),
    elapsed_ns=st.none() | st.integers(0, 10**18),
    text=st.text(),
    failures=st.lists(st.text(), max_size=2).map(tuple),
    exit_code=st.integers(0, 3),
)
COMPARISONS = st.builds(
    Comparison,
    name=st.text(),
    path=st.none(),
    title=st.none() | st.text(),
    loop=st.none() | st.text(),
    rows=st.lists(ROWS, min_size=2, max_size=2).map(tuple),
)


@settings(derandomize=True)
@given(st.lists(COMPARISONS, min_size=1, max_size=3), st.lists(st.text(), min_size=2, max_size=2))
def test_whatever_texts_there_are_a_page_is_ascii_and_has_no_tags_but_ours(
    comparisons: list[Comparison], loops: list[str]
) -> None:
    text = page(comparisons, loops)
    ours = {
        *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "ul", "li"),
        *("table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary"),
        *("a", "abbr", "code"),
    }
    assert text.isascii()
    assert {tag for tag, _ in Page(text).tags} <= ours


@settings(derandomize=True)
@given(st.lists(COMPARISONS, min_size=1, max_size=3), st.lists(st.text(), min_size=2, max_size=2))
def test_whatever_texts_there_are_each_line_of_the_text_is_one_line(
    comparisons: list[Comparison], loops: list[str]
) -> None:
    lines = [*matrix(comparisons, loops), *(line for one in comparisons for line in one.table())]
    for line in lines:
        shown = OUR_COLOUR.sub(r"\1", line)
        assert shown.splitlines() in ([shown], [])
        assert not set(shown) & CONTROLS


class TestOutput:
    @pytest.mark.parametrize("output_format", ["text", "json", "html"])
    def test_to_a_file_is_what_stdout_would_show(self, output_format: str) -> None:
        arguments = (write("a", LOOKS), write("b", HOOKED), "--format", output_format)
        shown = compare(*arguments)
        written = compare(*arguments, "--output", "page")
        assert (written.exit_code, written.stdout) == (0, "")
        assert written.stderr == "written: page\n"
        assert Path("page").read_text("utf-8") == shown.stdout

    def test_to_a_file_has_no_colour(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        runner = CliRunner(env={"NO_COLOR": None})
        name = write("a", LOOKS)
        assert "\x1b[32m" in runner.invoke(main, ["compare", name], color=True).stdout
        runner.invoke(main, ["compare", name, "-o", "table"], color=True)
        assert "\x1b" not in Path("table").read_text("utf-8")

    def test_is_written_whole_or_not_at_all_and_leaves_nothing_beside_it(self) -> None:
        name = write("a", LOOKS)
        Path("page").write_text("old", "utf-8")
        assert compare(name, "-o", "page").exit_code == 0
        assert "old" not in Path("page").read_text("utf-8")
        assert sorted(os.listdir()) == ["a.simloop.yaml", "page"]  # noqa: PTH208 - names only

    def test_that_cannot_be_written_is_an_error(self) -> None:
        result = compare(write("a", LOOKS), "-o", "no/such/page")
        assert result.exit_code == 2
        assert result.stderr.startswith("no/such/page: cannot be written: ")

    def test_never_overwrites_a_scenario(self) -> None:
        result = compare(write("b", LOOKS), write("a", LOOKS), "-o", "./a.simloop.yaml")
        assert result.exit_code == 2
        assert "would overwrite a scenario" in result.stderr
        assert Path("a.simloop.yaml").read_text("utf-8") == LOOKS

    def test_prints_no_control_character(self) -> None:
        text = f"title: {HOSTILE}\nprompt: Hi\nmodel: [{{say: {HOSTILE}}}]\nexpect: {{text: x}}\n"
        name = write("a\x1b[2J\a", text)
        for arguments in ([name], [name, "no\x1b[2J\asuch"]):
            assert not set(compare(*arguments).output) & CONTROLS
