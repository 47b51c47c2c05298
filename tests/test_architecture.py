"""The pages for users: the modules, packages and entries that they name exist."""

import re
import typing
from pathlib import Path

from simloop.trace.entries import AnyEntry, Boundary

PACKAGE = Path(__file__).resolve().parent.parent / "simloop"
DOCS = PACKAGE.parent / "docs"
TEXT = (DOCS / "architecture.md").read_text("utf-8")


def kinds(union: object) -> set[str]:
    return {str(kind.__struct_config__.tag) for kind in typing.get_args(union)}


def named_between(start: str, end: str) -> set[str]:
    """The words in backticks of a passage that are spelled as kinds of entries are."""
    passage = TEXT.partition(start)[2].partition(end)[0]
    assert passage, f"the page has no `{start}`"
    return set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", passage))


def test_each_module_that_a_page_names_exists() -> None:
    text = "".join(page.read_text("utf-8") for page in DOCS.glob("*.md"))
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    roots = (PACKAGE, PACKAGE.parent)
    assert len(named) > 20
    assert [
        name for name in sorted(named) if not any((root / name).is_file() for root in roots)
    ] == []


def test_its_table_has_each_package_and_each_module_at_the_top() -> None:
    rows = TEXT.partition("| package | contents |")[2].partition("\n\n")[0].splitlines()
    listed = {
        name
        for row in rows
        for name in re.findall(r"`([^`]+)`", row.split("|")[1:2][0] if row else "")
    }
    packages = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    assert listed == packages | modules


def test_it_lists_the_entries_of_the_boundary_and_those_of_the_engine() -> None:
    boundary = kinds(Boundary)
    assert named_between("trace of every loop:", "A part has") == boundary
    engine = kinds(AnyEntry) - boundary
    assert named_between("It adds engine entries", "An agent of your own") == engine
