from pathlib import Path

import pytest

from simloop.errors import ScenarioError
from simloop.scenario import catalog
from simloop.scenario.catalog import bundled, bundled_folder, find, find_folder


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / f"{name}.simloop.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"title: The title of {name}\nprompt: x\n")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which the catalogue stands, with no scenarios yet."""
    monkeypatch.setattr(catalog, "__file__", str(tmp_path / "simloop" / "scenario" / "catalog.py"))
    return tmp_path


def test_scenarios_are_found_beside_the_package_in_a_checkout(checkout: Path) -> None:
    assert bundled_folder() == checkout / "scenarios"


def test_scenarios_are_found_inside_the_package_in_a_wheel(checkout: Path) -> None:
    write(checkout / "simloop" / "_scenarios", "start/quickstart")
    write(checkout / "scenarios", "start/other")
    assert [listed.name for listed in bundled()] == ["start/quickstart"]


def test_they_are_listed_by_name_with_title_and_loop(checkout: Path) -> None:
    write(checkout / "scenarios", "tools/b", "abort/z", "tools/a")
    listed = [(one.name, one.title, one.loop) for one in bundled()]
    assert listed == [
        (name, f"The title of {name}", "reference") for name in ("abort/z", "tools/a", "tools/b")
    ]


def test_without_scenarios_the_list_is_empty(checkout: Path) -> None:
    assert list(bundled()) == []
    assert checkout.is_dir()


def test_a_bundled_scenario_that_cannot_be_read_is_named(checkout: Path) -> None:
    write(checkout / "scenarios", "start/bad")
    bad = checkout / "scenarios" / "start" / "bad.simloop.yaml"
    bad.write_text("promt: x\n")
    with pytest.raises(ScenarioError) as caught:
        list(bundled())
    assert str(caught.value).startswith(f"{bad}:1:1: ")


@pytest.mark.parametrize("name", ["retry/rate-limit", "rate-limit"])
def test_a_name_may_leave_out_the_theme(checkout: Path, name: str) -> None:
    write(checkout / "scenarios", "retry/rate-limit", "tools/timeout")
    assert find(name) == checkout / "scenarios" / "retry" / "rate-limit.simloop.yaml"


def test_a_stem_of_several_themes_is_refused_with_all_of_them(checkout: Path) -> None:
    write(checkout / "scenarios", "hooks/timeout", "tools/timeout")
    with pytest.raises(ScenarioError, match="of several: hooks/timeout, tools/timeout"):
        find("timeout")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("quickstrat", "start/quickstart"), ("start/quikstart", "start/quickstart")],
)
def test_an_unknown_name_gets_the_nearest(checkout: Path, name: str, nearest: str) -> None:
    write(checkout / "scenarios", "start/quickstart", "tools/timeout")
    with pytest.raises(ScenarioError) as caught:
        find(name)
    assert caught.value.hint.startswith(f"did you mean `{nearest}`? ")


def test_a_name_like_no_other_gets_the_way_to_see_them_all(checkout: Path) -> None:
    write(checkout / "scenarios", "start/quickstart")
    with pytest.raises(ScenarioError) as caught:
        find("zzz")
    assert caught.value.hint == "see them with: simloop list"


@pytest.mark.parametrize("name", ["mine.yaml", "folder/mine.yml", "mine.simloop.yaml"])
def test_a_path_is_taken_as_it_stands_even_if_there_is_no_such_file(
    checkout: Path, name: str
) -> None:
    write(checkout / "scenarios", "start/mine")
    assert find(name) == Path(name)


def test_a_file_that_exists_goes_before_a_bundled_name(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(checkout / "scenarios", "start/mine")
    monkeypatch.chdir(checkout)
    (checkout / "mine").write_text("prompt: x\n")
    assert find("mine") == Path("mine")


def test_all_is_the_whole_library_and_a_theme_with_a_slash_its_folder(checkout: Path) -> None:
    write(checkout / "scenarios", "retry/patience", "start/retry")
    assert find_folder("all") == bundled_folder()
    assert find_folder("retry/") == bundled_folder() / "retry"
    assert [find_folder(name) for name in ("retry", "../", "/", "nothing/")] == [None] * 4


def test_a_theme_without_its_slash_is_told_what_may_be_meant(checkout: Path) -> None:
    write(checkout / "scenarios", "retry/auth", "retry/quota")
    with pytest.raises(ScenarioError) as caught:
        find("retry")
    assert caught.value.hint.startswith("did you mean `retry/`?")
