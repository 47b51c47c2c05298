import sys
from pathlib import Path
from signal import SIGINT, raise_signal

import pytest

from simloop.errors import ScenarioError
from simloop.runs.isolation import imported, isolated


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
