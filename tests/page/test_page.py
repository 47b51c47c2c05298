"""The page is one file that loads nothing and has no text as markup, with the terminal's keys."""

import base64
import html
import json
import re
from dataclasses import replace
from hashlib import sha256

import pytest
from msgspec import structs

from simloop.cursor.keys import MOVES, VIEW_KEYS, FactView
from simloop.cursor.recorded_run import RecordedRun
from simloop.page.page import KEYS, page, safe_json
from simloop.runs.run import Simulation
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop_tui.keys import ACTIONS

MARKUP = '</script><script>forged = 1</script><img src=x onerror="forged = 1">\u2028{{data}}'


def recorded(text: str = "Hello.", title: str = "") -> RecordedRun:
    simulation = Simulation(Scenario(title=title, prompt=text, model=[Reply(say=text)]))
    simulation.run()
    return RecordedRun.of_run(simulation, simulation.trace, {})


def test_markup_in_a_run_is_in_the_page_as_text_alone() -> None:
    shown = page(recorded(MARKUP, title=MARKUP), MARKUP)
    assert shown.isascii()
    assert "<img" not in shown
    assert shown.count("<script") == shown.count("</script>") == 2
    assert html.escape("</script><script>forged = 1") in shown


def test_the_policy_permits_the_style_and_the_script_of_the_page_and_nothing_else() -> None:
    shown = page(recorded())
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', shown)
    rules = dict(rule.split(" ", 1) for rule in html.unescape(policy).split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", shown, re.DOTALL)
        digest = base64.b64encode(sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_the_page_names_no_address() -> None:
    shown = page(recorded())
    assert re.findall(r"https?:|//[a-z]|url\(|@import|\bsrc=|\bhref=", shown) == []


def test_the_heading_has_the_title_or_the_name_and_the_outcome() -> None:
    assert "<title>A greeting</title>" in page(recorded(title="A greeting"), "a.jsonl")
    assert "<title>a.jsonl</title>" in page(recorded(), "a.jsonl")
    assert 'The run ends: <strong class="good">completed</strong>' in page(recorded())


def test_the_heading_of_a_run_without_an_end_says_so() -> None:
    whole = recorded()
    trace = structs.replace(whole.trace, entries=whole.trace.entries[:-1], footer=None)
    cut = page(replace(whole, trace=trace))
    assert 'The run <strong class="bad">did not end</strong>' in cut


@pytest.mark.parametrize("text", [MARKUP, "\ud800 \U0001f600 <!--", "]]>\u2029&amp;"])
def test_json_in_a_page_comes_back_and_cannot_end_its_element(text: str) -> None:
    shown = safe_json({"text": text})
    assert json.loads(shown) == {"text": text}
    assert shown.isascii()
    assert not set("<>&") & set(shown)


def test_no_key_has_two_actions() -> None:
    keys = [key for each in KEYS for key in each.keys]
    assert len(keys) == len(set(keys))


def test_each_view_has_a_key() -> None:
    assert set(VIEW_KEYS) == set(FactView)


def test_the_page_and_the_terminal_have_the_same_keys_words_and_actions() -> None:
    in_terminal = {
        (key, action.words, action.does)
        for action in ACTIONS
        for key in action.shown_keys.split(" or ")
    }
    on_page = {(key, each.words, each.does) for each in KEYS for key in each.keys}
    assert len(on_page) > len(MOVES)
    assert on_page <= in_terminal


def test_no_key_of_the_page_is_one_that_the_browser_keeps() -> None:
    assert [key for each in KEYS for key in each.keys if key.startswith("Ctrl-")] == []
