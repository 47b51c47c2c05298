import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop.check.compare import Row
from simloop.cli import main
from simloop.cli.compare import matrix
from simloop.cli.comparepage import page
from simloop.cli.comparison import Comparison
from simloop.errors import InternalError
from simloop.scenario.loops import DESIGNS
from simloop.scenario.simulation import Simulation

LOOKS = """\
title: It looks
prompt: Hi
tools: {look: {returns: found, takes: 120ms}}
model: [{say: Let me look., call: {look: {}}}, {say: Found.}]
expect: {outcome: completed, text: Found.}
"""
FAILS = LOOKS.replace("text: Found.", "text: Lost.")
BROKEN_SERVER = """\
title: A server error
prompt: Hi
model: [{http: {status: 500}}, {say: Hello.}]
expect: {outcome: completed, text: Hello.}
expect_on:
  pi: {outcome: failed, unused: 1}
  react: {outcome: failed, unused: 1}
"""
HOOKED = "title: Hooked\nprompt: Hi\nhooks: [{at: before_llm_call}]\nmodel: [{say: Hello.}]\n"
COMPACTS = """\
prompt: Hi
compaction: {window: 1000, keep_turns: 1}
tools: {dump: {returns_chars: 1500}}
model: [{call: {dump: {}}, times: 2}, {say: The same.}]
summaries: [{say: Nothing but x.}]
"""
EXHAUSTED = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}]\n"
HOSTILE = '"\\e[2J\\0\\a\\r\\u202Ex\\x9b1m\\uFFFE<script>&\\"é"'
OWN_LOOP = """\
from simloop.loops.react import ReactLoop

class Hookless(ReactLoop):
    lacks = {**ReactLoop.lacks, next(iter(ReactLoop.lacks)): "\\x1b[31mnone <here>"}
"""
OUR_COLOUR = re.compile("^\x1b\\[3[12]m(.{6})\x1b\\[0m")
CONTROLS = {"\x1b", "\a", "\r", "\0", "\u202e", "\x9b"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> str:
    path = Path(f"{name}.simloop.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return str(path)


def compare(*arguments: str) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["compare", *arguments])


def compare_json(*arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(compare(*arguments, "--format", "json").stdout)
    return document


class TestASingleScenario:
    def test_is_a_table_with_a_row_for_each_loop(self) -> None:
        result = compare(write("a", LOOKS))
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.splitlines() == [
            "a.simloop.yaml  It looks",
            "            loop       outcome    model calls  tool runs  time   text",
            "ok      *   reference  completed  2            1          120ms  Found.",
            "ok          pi         completed  2            1          120ms  Found.",
            "ok          react      completed  2            1          120ms  Found.",
            "ok          opencode   completed  2            1          120ms  Found.",
            "*    the scenario's own loop",
        ]

    def test_marks_what_differs_and_says_what_the_marks_mean(self) -> None:
        lines = compare(write("a", BROKEN_SERVER)).stdout.splitlines()
        assert [line[8:10] for line in lines[2:6]] == ["* ", "~ ", "~ ", "~ "]
        assert [line.split()[2:4] for line in lines[2:5]] == [
            ["reference", "completed"],
            ["pi", "failed"],
            ["react", "failed"],
        ]
        assert lines[-1].startswith("~    not as on that loop")

    def test_says_below_a_row_what_is_not_as_expected_and_how_to_see_it(self) -> None:
        result = compare(write("a b", FAILS), "--loop", "pi", "--loop", "react", "--seed", "3")
        assert result.exit_code == 1
        lines = result.stdout.splitlines()
        assert [line.split()[:3] for line in (lines[2], lines[5])] == [
            ["FAILED", "!", "pi"],
            ["FAILED", "!", "react"],
        ]
        assert lines[3:5] == [
            "        expect.text: expected 'Lost.', got 'Found.'",
            "        reproduce: simloop run 'a b.simloop.yaml' --seed 3 --loop pi",
        ]
        assert lines[-1] == "!    not as expected of this loop"

    def test_says_below_a_row_why_a_loop_cannot_express_it(self) -> None:
        result = compare(write("a", HOOKED))
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith("cannot"))
        assert lines[at].split() == ["cannot", "react", "cannot", "-", "-", "-", "-"]
        assert lines[at + 1] == "        document 003 has no hooks"

    def test_counts_summaries_apart(self) -> None:
        result = compare(write("a", COMPACTS), "--loop", "reference")
        assert result.stdout.splitlines()[2].split()[4] == "3+1"
        assert result.stdout.endswith("2+1  two model calls, and one for a summary\n")

    def test_keeps_to_the_width_whatever_a_model_says(self) -> None:
        text = f"title: {'t' * 500}\nprompt: Hi\nmodel: [{{say: '{'long ' * 900}'}}]\n"
        result = compare(write("a", f"{text}expect: {{text: x}}\n"))
        lines = [line for line in result.stdout.splitlines() if "reproduce" not in line]
        assert max(map(len, lines[1:])) == 120
        assert lines[2].endswith("…")

    def test_that_cannot_be_read_is_one_line_on_stderr_and_one_on_stdout(self) -> None:
        result = compare(write("a", "modell: []"))
        assert (result.exit_code, result.stdout) == (2, "ERROR   a.simloop.yaml  not run\n")
        assert result.stderr.startswith("a.simloop.yaml:1:1: modell: unknown key")
        assert result.stderr.count("\n") == 1


class TestSeveralScenarios:
    def test_are_a_matrix_with_a_count_a_legend_and_the_reasons(self) -> None:
        files = [write("a", LOOKS), write("bb", HOOKED), write("c", FAILS), write("d", HOOKED)]
        result = compare(*files, "--loop", "reference", "--loop", "react")
        assert (result.exit_code, result.stderr) == (1, "")
        assert result.stdout.splitlines() == [
            "scenario            reference       react",
            "a.simloop.yaml   *  completed 2     completed 2",
            "bb.simloop.yaml  *  completed 1     cannot",
            "c.simloop.yaml   *! completed 2   ! completed 2",
            "d.simloop.yaml   *  completed 1     cannot",
            "",
            "4 scenarios: 4 as expected, 2 not as expected, 2 cannot be expressed",
            "*    the scenario's own loop",
            "!    not as expected of this loop",
            "react cannot express 2 scenarios: document 003 has no hooks",
        ]

    def test_count_and_mark_what_differs_from_their_own_loop(self) -> None:
        own = f"loop: pi\n{BROKEN_SERVER}"
        result = compare(write("a", own), write("b", LOOKS), "--loop", "reference", "--loop", "pi")
        lines = result.stdout.splitlines()
        assert lines[1] == "a.simloop.yaml  ~  completed 2  *  failed 1"
        assert lines[4] == "2 scenarios: 4 as expected, 1 not as on their own loop"

    def test_have_no_mark_where_their_own_loop_is_not_run(self) -> None:
        result = compare(write("a", BROKEN_SERVER), write("b", LOOKS), "--loop", "pi")
        assert "~" not in result.stdout
        assert "*" not in result.stdout

    def test_give_the_reasons_once_each_with_how_often(self) -> None:
        aborted = f"abort: {{at: 1s}}\n{HOOKED}"
        result = compare(write("a", HOOKED), write("b", aborted), "--loop", "react")
        assert sorted(result.stdout.splitlines()[-2:]) == [
            "react cannot express 1 scenario: document 003 has no way to stop a run",
            "react cannot express 2 scenarios: document 003 has no hooks",
        ]

    def test_with_an_error_name_it_in_the_place_of_the_outcome(self) -> None:
        result = compare(write("a", EXHAUSTED), write("b", LOOKS), "--loop", "pi")
        assert " ! ScriptExhausted 2\n" in result.stdout
        assert (result.exit_code, result.stderr) == (2, "")

    def test_run_to_the_last_whatever_the_first_ones_do(self) -> None:
        result = compare(write("a", "modell: ["), "no-such-name", write("c", LOOKS))
        assert result.exit_code == 2
        lines = result.stdout.splitlines()
        assert lines[1].split() == ["a.simloop.yaml", *["ScenarioError"] * 4]
        assert lines[3].split().count("completed") == 4
        assert lines[5] == "3 scenarios: 4 as expected, 2 not run"
        assert [line.split(":")[0] for line in result.stderr.splitlines()] == [
            "a.simloop.yaml",
            "there is no scenario `no-such-name` (see them with",
        ]

    def test_keep_to_the_width_by_cutting_long_names_in_front(self) -> None:
        files = [write(f"{'deep/' * 20}{end}", LOOKS) for end in "ab"]
        lines = compare(*files).stdout.splitlines()
        assert max(map(len, lines)) <= 120
        assert [line.split()[0][-19:] for line in lines[1:3]] == [
            "deep/a.simloop.yaml",
            "deep/b.simloop.yaml",
        ]
        assert lines[1].startswith("…")

    def test_are_read_though_they_name_no_loop(self) -> None:
        result = compare(write("a", f"loop: ''\n{LOOKS}"), "--loop", "pi")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.splitlines()[2].split()[:3] == ["ok", "pi", "completed"]


class TestLoops:
    def test_are_all_by_default_and_when_all_are_asked_for(self) -> None:
        name = write("a", LOOKS)
        assert compare_json(name)["loops"] == list(DESIGNS)
        assert compare_json(name, "--loop", "all")["loops"] == list(DESIGNS)

    def test_are_run_once_each_in_the_order_that_is_asked_for(self) -> None:
        names = ("pi", "opencode@1.2.27", "pi", "react")
        arguments = [argument for name in names for argument in ("--loop", name)]
        document = compare_json(write("a", LOOKS), *arguments)
        assert document["loops"] == ["pi", "opencode@1.2.27", "react"]
        assert [row["loop"] for row in document["scenarios"][0]["rows"]] == document["loops"]

    def test_may_be_ones_own(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "own_loop.py").write_text(OWN_LOOP, "utf-8")
        monkeypatch.syspath_prepend(folder)
        result = compare(write("a", HOOKED), write("b", LOOKS), "--loop", "own_loop:Hookless")
        assert "   own_loop:Hookless" in result.stdout.splitlines()[0]
        assert "\x1b" not in result.stdout
        assert "express 1 scenario: \\x1b[31mnone <here>" in result.stdout

    def test_that_are_not_there_are_one_error_and_nothing_is_run(self) -> None:
        result = compare(write("a", LOOKS), write("b", LOOKS), "--loop", "pi", "--loop", "opncode")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(
            "loop: there is no loop `opncode` (did you mean `opencode`?"
        )


class TestJson:
    def test_has_a_row_for_each_loop(self) -> None:
        document = compare_json(write("a", FAILS), "--loop", "pi")
        assert document == {
            "format_version": 1,
            "loops": ["pi"],
            "scenarios": [
                {
                    "name": "a.simloop.yaml",
                    "path": "a.simloop.yaml",
                    "title": "It looks",
                    "loop": "reference",
                    "rows": [
                        {
                            "loop": "pi",
                            "outcome": "completed",
                            "error": None,
                            "cannot": None,
                            "model_calls": 2,
                            "summaries": 0,
                            "tool_runs": 1,
                            "elapsed_ns": 120_000_000,
                            "text": "Found.",
                            "ok": False,
                            "failures": ["expect.text: expected 'Lost.', got 'Found.'"],
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
        assert (hooked["cannot"], hooked["ok"]) == ("document 003 has no hooks", None)
        assert (gone["cannot"], gone["ok"], gone["error"]) == (None, False, "ScenarioError")
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
        assert titles[6] == "document 003 has no hooks"
        assert (titles[8] or "").endswith("expect.text: expected 'Lost.', got 'Found.'")

    def test_gives_the_reasons_and_the_count(self, text: str) -> None:
        page = Page(text)
        assert page.text_in("p")[0].startswith("5 scenarios: ")
        reasons = [line for line in page.text_in("li") if line.startswith("react cannot")]
        assert reasons == [
            "react cannot express 1 scenario: document 003 has no hooks",
            "react cannot express 1 scenario: document 003 never shortens the history",
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


@settings(deadline=None, derandomize=True, max_examples=50)
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


@settings(deadline=None, derandomize=True, max_examples=50)
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


class TestExitCodes:
    @pytest.mark.parametrize("output_format", ["text", "json", "html"])
    @pytest.mark.parametrize(
        ("texts", "code"),
        [((LOOKS, HOOKED), 0), ((LOOKS, FAILS), 1), ((FAILS, "x"), 2), ((HOOKED,), 0)],
        ids=["as-expected", "failed", "failed-and-unreadable", "cannot"],
    )
    def test_are_the_worst_of_all(
        self, texts: tuple[str, ...], code: int, output_format: str
    ) -> None:
        files = [write(f"s{number}", text) for number, text in enumerate(texts)]
        assert compare(*files, "--format", output_format).exit_code == code

    def test_say_1_if_one_loop_is_not_as_expected(self) -> None:
        text = BROKEN_SERVER.replace("react: {outcome: failed", "react: {outcome: aborted")
        result = compare(write("a", text))
        words = [line.split()[0] for line in result.stdout.splitlines()[2:] if line[0] != " "]
        assert (result.exit_code, words[:4]) == (1, ["ok", "ok", "FAILED", "ok"])

    def test_say_2_without_a_scenario(self) -> None:
        assert compare().exit_code == 2

    def test_say_3_where_simloop_is_wrong_and_compare_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = Simulation.run

        def break_down(self: Simulation) -> Any:
            if self.scenario.path == "a.simloop.yaml":
                raise InternalError("broken")
            return run(self)

        monkeypatch.setattr(Simulation, "run", break_down)
        result = compare(write("a", LOOKS), write("b", LOOKS), "--loop", "pi")
        assert result.exit_code == 3
        assert " ! InternalError 0\n" in result.stdout
        assert "   completed 2\n" in result.stdout
        assert "please report it" in result.stderr


def test_the_whole_library_fills_every_cell_and_gives_the_same_bytes_twice() -> None:
    listed = json.loads(CliRunner().invoke(main, ["list", "--format", "json"]).stdout)
    names = [one["name"] for one in listed]
    first = compare(*names, "--format", "json").stdout
    document = json.loads(first)
    assert [scenario["name"] for scenario in document["scenarios"]] == names
    for scenario in document["scenarios"]:
        assert [row["loop"] for row in scenario["rows"]] == list(DESIGNS)
        for row in scenario["rows"]:
            assert row["outcome"] or row["error"] or row["cannot"]
            assert (row["ok"] is None) == bool(row["cannot"])
    assert compare(*names, "--format", "json").stdout == first
