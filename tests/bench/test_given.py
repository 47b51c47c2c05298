"""A user names hooks; each is for the points that the user states, or that its code fits."""

from pathlib import Path

import pytest

from simloop.bench.given import given_hooks
from simloop.engine.hooks import POINTS
from simloop.errors import ScenarioError

MODULE = """
from simloop import AfterToolCall, BeforeToolCall, Hooks

def plain(given): ...
def annotated(given: BeforeToolCall): ...
def quoted(given: "BeforeToolCall | AfterToolCall") -> None: ...
def unknown(given: "NotThere"): ...
def odd(given: int): ...
class Object:
    async def __call__(self, given: AfterToolCall): ...
    def method(self, given: AfterToolCall): ...
an_object = Object()
method = an_object.method
hooks = Hooks(after_tool_call=[plain], before_llm_call=[plain, print])
none = Hooks()
number = 7
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "given_hooks_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("name", "points", "is_stated"),
    [
        ("plain", POINTS, False),
        ("unknown", POINTS, False),
        ("annotated", ("before_tool_call",), True),
        ("quoted", ("before_tool_call", "after_tool_call"), True),
        ("an_object", ("after_tool_call",), True),
        ("method", ("after_tool_call",), True),
    ],
)
def test_a_function_is_for_the_points_of_its_annotation(
    name: str, points: tuple[str, ...], *, is_stated: bool
) -> None:
    found = list(given_hooks(f"given_hooks_module:{name}"))
    assert tuple(each.point for each in found) == points
    assert {each.is_stated for each in found} == {is_stated}
    assert {each.function.name for each in found} == {f"given_hooks_module:{name}"}


def test_hooks_are_for_their_own_points() -> None:
    found = [(each.point, each.function.name) for each in given_hooks("given_hooks_module:hooks")]
    assert found == [
        ("before_llm_call", "plain"),
        ("before_llm_call", "print"),
        ("after_tool_call", "plain"),
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:x", "cannot be loaded: ModuleNotFoundError"),
        ("given_hooks_module:x", "cannot be loaded: AttributeError"),
        ("given_hooks_module", "does not name a hook"),
        ("given_hooks_module:number", "is no hook, but int"),
        ("given_hooks_module:none", "is no hook, but empty Hooks"),
        ("given_hooks_module:odd", "is the input of no point"),
    ],
)
def test_a_name_without_a_hook_is_refused_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as caught:
        list(given_hooks(name))
    assert caught.value.key == "hook"
    assert caught.value.hint
