import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from commandline import Cli
from comparing import BROKEN_SERVER, COMPACTS, FAILS, HOOKED, HOSTILE, LOOKS
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop.check.compare import Row
from simloop.cli.compare import matrix
from simloop.cli.compare_page import page
from simloop.cli.compare_text import Comparison

OUR_COLOUR = re.compile("^\x1b\\[3[12]m(.{6})\x1b\\[0m")
CONTROLS = {"\x1b", "\a", "\r", "\0", "\u202e", "\x9b"}


class TestJson:
    def test_has_a_row_for_each_loop(self, cli: Cli) -> None:
        document = cli.json("compare", cli.write("a", FAILS), "--loop", "pi")
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

    def test_is_null_where_nothing_is_known(self, cli: Cli) -> None:
        document = cli.json("compare", cli.write("a", HOOKED), "gone", "--loop", "react")
        (hooked,), (gone,) = (scenario["rows"] for scenario in document["scenarios"])
        unknown = ("outcome", "model_calls", "summaries", "tool_runs", "elapsed_ns", "text")
        assert not any(row[key] is not None for row in (hooked, gone) for key in unknown)
        assert (hooked["cannot"], hooked["status"]) == ("react has no hooks", "cannot")
        assert (gone["cannot"], gone["status"], gone["error"]) == (None, "error", "ScenarioError")
        assert [error["type"] for error in gone["errors"]] == ["ScenarioError"]
        assert [document["scenarios"][1][key] for key in ("path", "title", "loop")] == [None] * 3

    def test_is_ascii_whatever_a_model_says(self, cli: Cli) -> None:
        name = cli.write("a", f"prompt: Hi\nmodel: [{{say: {HOSTILE}}}]\n")
        result = cli("compare", name, "--format", "json")
        assert result.stdout.isascii()
        text = json.loads(result.stdout)["scenarios"][0]["rows"][0]["text"]
        assert text == '\x1b[2J\0\a\r\u202ex\x9b1m\ufffe<script>&"é'


class Page(HTMLParser):
    """Reads a page, and complains of whatever is not closed in order."""

    VOID = ("meta", "input")

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


def data_in(text: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    data: dict[str, Any] = json.loads(found)
    return data


class TestThePage:
    @pytest.fixture
    def text(self, cli: Cli) -> str:
        files = [
            cli.write("a", LOOKS),
            cli.write("b", HOOKED),
            cli.write("c", FAILS),
            cli.write("d", COMPACTS),
        ]
        return cli("compare", *files, cli.write("e", BROKEN_SERVER), "--format", "html").stdout

    def test_is_well_formed_with_a_line_for_each_scenario_and_a_link_for_each_run(
        self, text: str
    ) -> None:
        page = Page(text)
        assert page.all("html") == [{"lang": "en"}]
        assert len(page.all("table")) == len(page.all("caption")) == 1
        assert [one["data-name"] for one in page.all("tr") if "data-name" in one] == [
            f"{name}.simloop.yaml" for name in "abcde"
        ]
        links = [one["href"] for one in page.all("a")]
        assert links[: 5 * 4] == [f"#run={line}.{loop}" for line in range(5) for loop in range(4)]
        assert {one["scope"] for one in page.all("th")} == {"row", "col", "rowgroup"}
        assert sum(one["scope"] == "col" for one in page.all("th")) == 5

    def test_has_the_style_of_its_verdict_in_each_cell_and_a_word_for_it(self, text: str) -> None:
        cells = re.findall(r'<td class="([a-z ]+)"[^>]*>(.*?)</td>', text)
        assert len(cells) == 5 * 4
        for style, cell in cells:
            said = re.sub("<[^>]*>", "", cell)
            assert (style == "cannot") == ("cannot run" in said)
            assert (style == "wrong") == ("! not as expected" in said)
            assert style != "differs" or "~ differs" in said
        assert {style for style, _ in cells} == {"ok", "differs", "cannot", "wrong"}
        assert ["* own" in cell for _, cell in cells[:4]] == [True, False, False, False]
        assert [("~ differs" in cell) for _, cell in cells[16:]] == [False, True, True, True]

    def test_a_run_that_fails_as_expected_looks_as_expected(self, cli: Cli) -> None:
        text = cli(
            "compare", cli.write("e", BROKEN_SERVER), "--loop", "pi", "--format", "html"
        ).stdout
        shown = re.findall(r'<td class="([a-z ]+)".*class="ending">([a-z]+)<', text)
        assert shown == [("ok", "failed")]

    def test_tells_in_each_cell_what_it_has_no_room_for(self, text: str) -> None:
        titles = [one["title"] for one in Page(text).all("a") if "title" in one]
        assert len(titles) == 5 * 4
        assert titles[0] == "tool runs: 1; time: 120ms; text: Found."
        assert titles[6] == "react has no hooks"
        assert (titles[8] or "").endswith("expect.text: expected 'Lost.', got 'Found.'")

    def test_gives_the_count_first_and_the_notes_below_the_table(self, text: str) -> None:
        page = Page(text)
        assert page.text_in("p")[0].startswith("5 scenarios: ")
        reasons = [line for line in page.text_in("li") if line.startswith("react cannot")]
        assert reasons == [
            "react cannot express 1 scenario: react has no hooks",
            "react cannot express 1 scenario: react never shortens its history",
        ]
        assert page.text_in("li")[0] == ": expect.text: expected 'Lost.', got 'Found.'"
        assert text.index("</table>") < text.index("<h2>Not as expected</h2>")
        assert text.index("</table>") < text.index("<h2>Marks</h2>")

    def test_has_the_run_and_the_scenario_of_each_cell(self, cli: Cli, text: str) -> None:
        data = data_in(text)
        assert data["loops"] == ["reference", "pi", "react", "opencode"]
        assert data["scenarios"][0]["source"] == LOOKS.rstrip()
        runs = [data["runs"][number : number + 4] for number in range(0, 5 * 4, 4)]
        assert [bool(run) for run in runs[1]] == [True, True, False, True]  # react has no hooks
        said = [data["words"][each] for each in runs[0][0]["text"]]
        assert said[0] == "prompt Hi"
        row = data["scenarios"][2]["rows"][1]
        assert row["reproduce"] == "simloop run c.simloop.yaml --seed 0 --loop pi"
        assert row["step"] == "simloop step c.simloop.yaml --loop pi"
        seeded = cli("compare", "a.simloop.yaml", "--seed", "7", "--format", "html").stdout
        step = data_in(seeded)["scenarios"][0]["rows"][0]["step"]
        assert step == "simloop step a.simloop.yaml --loop reference --seed 7"
        options = ("--loop", "opencode", "--option", "max_retries=2", "--format", "html")
        (scenario,) = data_in(cli("compare", "a.simloop.yaml", *options).stdout)["scenarios"]
        step = "simloop step a.simloop.yaml --loop opencode --option max_retries=2"
        assert scenario["rows"][0]["step"] == step

    def test_needs_no_network_and_no_script_but_its_own(self, text: str) -> None:
        page = Page(text)
        assert not {tag for tag, _ in page.tags} & {"link", "img", "iframe", "base"}
        assert len(page.all("script")) == 2
        assert not any({"src", "style", "onclick"} & set(one) for _, one in page.tags)
        assert not re.search(r"https?://|url\(|@import", text)
        (policy,) = [one["content"] for one in page.all("meta") if "http-equiv" in one]
        assert (policy or "").startswith("default-src 'none'; style-src 'sha256-")
        assert "color-scheme: light dark" in text

    def test_is_ascii_and_escaped_whatever_a_model_a_title_or_a_name_says(self, cli: Cli) -> None:
        says = f"title: {HOSTILE}\nprompt: Hi\nmodel: [{{say: {HOSTILE}}}]\n"
        files = [cli.write("<b>&\"'\x1b\x01é", f"{says}expect: {{text: x}}\n"), "no<i>\x1bsuch"]
        text = cli("compare", *files, "--format", "html").stdout
        assert text.isascii()
        page = Page(text)
        assert not {tag for tag, _ in page.tags} & {"b", "i"}
        assert len(page.all("script")) == 2
        assert not set("".join(said for _, said in page.texts)) & CONTROLS
        assert not set(str(data_in(text))) & CONTROLS
        assert "<b>&\"'\\x1b\\x01é" in page.text_in("span")
        # The reference to U+FFFE, which is no character, is what Python's reader leaves out.
        assert '\\x1b[2J\\x00\\x07\\r\\u202ex\\x9b1m<script>&"é' in page.text_in("span")
        assert any("<script>" in (one.get("title") or "") for one in page.all("a"))

    def test_shows_a_file_that_cannot_be_read_escaped_and_cuts_a_long_one(self, cli: Cli) -> None:
        raw = cli.write("a", "\x1b[2J\u202e{\n" + "# x\n" * 500)
        lines = data_in(cli("compare", raw, "--format", "html").stdout)["scenarios"][0][
            "source"
        ].split("\n")
        assert lines[0] == "\\x1b[2J\\u202e{"
        assert lines[399:] == ["# x", "... 101 lines left out"]


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
    ours = {tag for tag, _ in Page(page([], [])).tags}
    ours |= {"option", "table", "tbody", "tr", "th", "td", "a", "small", "span", "h2", "ul", "li"}
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
    def test_to_a_file_is_what_stdout_would_show(self, cli: Cli, output_format: str) -> None:
        arguments = (cli.write("a", LOOKS), cli.write("b", HOOKED), "--format", output_format)
        shown = cli("compare", *arguments)
        written = cli("compare", *arguments, "--output", "page")
        assert (written.exit_code, written.stdout) == (0, "")
        assert written.stderr == "written: page\n"
        assert Path("page").read_text("utf-8") == shown.stdout

    def test_to_a_file_has_no_colour(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        coloured: dict[str, Any] = {"env": {"NO_COLOR": None}, "color": True}
        name = cli.write("a", LOOKS)
        assert "\x1b[32m" in cli("compare", name, **coloured).stdout
        cli("compare", name, "-o", "table", **coloured)
        assert "\x1b" not in Path("table").read_text("utf-8")

    def test_that_cannot_be_written_is_an_error(self, cli: Cli) -> None:
        result = cli("compare", cli.write("a", LOOKS), "-o", "no/such/page")
        assert result.exit_code == 2
        assert result.stderr.startswith("no/such/page: cannot be written: ")

    def test_never_overwrites_a_scenario(self, cli: Cli) -> None:
        result = cli(
            "compare", cli.write("b", LOOKS), cli.write("a", LOOKS), "-o", "./a.simloop.yaml"
        )
        assert result.exit_code == 2
        assert "would overwrite a scenario" in result.stderr
        assert Path("a.simloop.yaml").read_text("utf-8") == LOOKS

    def test_prints_no_control_character(self, cli: Cli) -> None:
        text = f"title: {HOSTILE}\nprompt: Hi\nmodel: [{{say: {HOSTILE}}}]\nexpect: {{text: x}}\n"
        name = cli.write("a\x1b[2J\a", text)
        for arguments in ([name], [name, "no\x1b[2J\asuch"]):
            assert not set(cli("compare", *arguments).output) & CONTROLS
