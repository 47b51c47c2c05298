"""A public class name has one meaning, in whichever module it is read."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent
PACKAGES = TOP / "simloop", TOP / "tui"


def type_names(source: str) -> set[str]:
    """The public classes and type aliases of a module, but not the entries of a trace.

    An entry records a thing under the thing's own name. A branch for type checkers may define a
    name again.
    """
    defined = (name for node in ast.walk(ast.parse(source)) for name in _defined(node))
    return {name for name in defined if name[0].isupper() and not name.isupper()}


def _defined(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name, bases=bases):
            if not any(isinstance(base, ast.Name) and base.id == "Entry" for base in bases):
                yield name
        case ast.Assign(targets=[ast.Name(id=name)], col_offset=0):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
            yield name


def shared_names(sources: Mapping[str, str]) -> dict[str, list[str]]:
    modules = defaultdict(list)
    for module, source in sources.items():
        for name in type_names(source):
            modules[name].append(module)
    return {name: found for name, found in modules.items() if len(found) > 1}


def test_a_name_that_two_modules_define_is_found() -> None:
    sources = {
        "a": "class Row: ...\nclass _Cell: ...\nLIMIT = 1\nWord = str | None\nclass Call: ...",
        "b": "if X:\n    class Row: ...\nclass _Cell: ...\nLIMIT = 2\nclass Call(Entry): ...",
        "c": "Word: TypeAlias = str",
    }
    assert shared_names(sources) == {"Row": ["a", "b"], "Word": ["a", "c"]}


@pytest.mark.slow
def test_no_public_type_name_occurs_twice() -> None:
    sources = {
        str(path): path.read_text("utf-8") for folder in PACKAGES for path in folder.rglob("*.py")
    }
    assert {Path(path).name for path in sources} >= {"messages.py", "session.py"}
    assert shared_names(sources) == {}
