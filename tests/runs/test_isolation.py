import sys
from pathlib import Path
from signal import SIGINT, raise_signal

import pytest

from simloop.errors import ScenarioError
from simloop.runs.isolation import imported, isolated, loaded


def ended_by(error: BaseException) -> str:
    with pytest.raises(ScenarioError) as raised, isolated("it is broken", "mend it"):
        raise error
    return str(raised.value)


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("x"), ValueError("x")],
    ids=repr,
)
def test_whatever_the_code_raises_is_an_error_of_its_author(error: BaseException) -> None:
    assert ended_by(error).startswith(f"loop: it is broken: {type(error).__name__}")
    assert ended_by(error).endswith("(mend it)")


def test_a_ctrl_c_of_the_user_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt), isolated("it is broken", "mend it"):
        raise_signal(SIGINT)


def test_the_object_is_found_at_the_end_of_its_path() -> None:
    assert imported("sys:exit") is sys.exit
    assert imported("pathlib:Path.cwd") == Path.cwd


def test_a_module_that_ends_the_program_can_be_imported_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaves_once.py").write_text("import sys\nsys.exit()\n")
    for _ in range(2):
        with pytest.raises(SystemExit):
            imported("leaves_once:x")
    assert "leaves_once" not in sys.modules


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    monkeypatch.syspath_prepend(folder)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


def failing(place: str) -> str:
    module = place.partition(".")[0]
    return f"importing `{module}` fails at {place}: correct that, or install what is missing"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("advised_good:agent", "did you mean `agents`? write it so"),
        ("advised_good:Support.runn", "did you mean `run`? write it so"),
        ("advised_good:nothing_like_it", "write it so"),
        ("advised_none:agent", "write it so"),
        ("advised_good.sub:agent", "write it so"),
        (":agent", "write it so"),
        ("advised_bad:agent", failing("advised_bad.py:2")),
        ("advised_deep:agent", failing("advised_deep.py:3")),
        ("advised_odd:agent", failing("advised_odd.py:2")),
        ("advised_attribute:agents", failing("advised_attribute.py:2")),
    ],
)
def test_the_advice_is_about_the_name_or_the_line_that_fails(
    name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(
        tmp_path,
        monkeypatch,
        advised_good="agents = 1\nclass Support:\n    def run(self): pass\n",
        advised_bad="\nimport no_such_package\n",
        advised_deep="import json\n\njson.loads('{')\n",
        advised_odd="x = 1\ny = (\n",
        advised_attribute="import json\njson.agent\n",
    )
    with pytest.raises(ScenarioError) as caught:
        loaded(name, "loop", "write it so")
    assert caught.value.message.startswith(f"the loop `{name}` cannot be loaded: ")
    assert caught.value.hint == hint
