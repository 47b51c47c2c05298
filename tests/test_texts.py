"""Texts that users see cite nothing that does not ship."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from incases import in_cases

import simloop
from simloop.cli import VERBS, main
from simloop.kernel.limits import Limits
from simloop.runs.loop import machine_for
from simloop.scenario.catalog import bundled_folder
from simloop.scenario.designs import names

PACKAGE = Path(simloop.__file__).parent
DOCS = PACKAGE.parent / "docs"
MODULES = sorted(PACKAGE.rglob("*.py"))
# Documents, invariants and rows of a catalogue that only developers have.
CITES = re.compile(r"\b[Dd]ocuments? 0\d\d|\b00\d section|\bI\d{1,2}\b|\bbugs? [A-F]\d")
# Notes and commits that only developers of simloop had. A docstring may name a document, because
# docs/loops.md says what the documents are; nothing says what these are.
COMMIT = r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7}\b"
NOTES = re.compile(rf"documented-loops|\bwire\.md|\bI\d{{1,2}}\b|{COMMIT}")
WITH_BODY = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(source: str) -> Iterator[str]:
    """The text constants of a module that are not docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    bodies = [node.body for node in nodes if isinstance(node, WITH_BODY)]
    docstrings = {id(s.value) for body in bodies for s in body if isinstance(s, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


@pytest.mark.slow
@in_cases(MODULES)
def test_no_message_cites_what_does_not_ship(path: Path) -> None:
    assert [text for text in texts(path.read_text("utf-8")) if CITES.search(text)] == []


@pytest.mark.slow
def test_no_page_and_no_source_cites_a_note_that_does_not_ship() -> None:
    files = sorted([*MODULES, *DOCS.glob("*.md"), *bundled_folder().rglob("*.*")])
    assert [path for path in files if NOTES.search(path.read_text("utf-8"))] == []


def test_no_file_of_the_scenarios_cites_what_does_not_ship() -> None:
    """`simloop cat` prints the scenarios."""
    files = [path for path in bundled_folder().rglob("*.*") if not path.name.endswith(".jsonl")]
    assert [path.name for path in files if CITES.search(path.read_text("utf-8"))] == []


@in_cases(VERBS)
def test_no_help_cites_what_does_not_ship(verb: str) -> None:
    assert CITES.findall(CliRunner().invoke(main, [verb, "--help"]).stdout) == []


@pytest.mark.parametrize("loop", names())
def test_a_loop_says_in_its_own_name_what_it_lacks(loop: str) -> None:
    design = loop.partition("@")[0]
    for reason in machine_for(loop, Limits()).unsupported.values():
        assert reason.startswith(design)
