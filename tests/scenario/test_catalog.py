from pathlib import Path
from typing import Any, ClassVar

import pytest

from simloop import Expect, Scenario, ScenarioError, load_scenario, run
from simloop.messages import UserMessage
from simloop.scenario import catalog
from simloop.scenario.catalog import (
    bundled,
    bundled_folder,
    find,
    find_bundled,
    find_folder,
    name_of,
    stated,
)
from simloop.world.world import World


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


@pytest.mark.parametrize("name", ["mine.yaml", "folder/mine.yml", "mine.simloop.yaml"])
def test_a_path_is_taken_as_it_stands_even_if_there_is_no_such_file(
    checkout: Path, name: str
) -> None:
    write(checkout / "scenarios", "start/mine")
    assert find(name) == Path(name)


def test_all_is_the_whole_library_and_a_theme_with_a_slash_its_folder(checkout: Path) -> None:
    write(checkout / "scenarios", "retry/patience", "start/retry")
    assert find_folder("all") == bundled_folder()
    assert find_folder("retry/") == bundled_folder() / "retry"
    assert [find_folder(name) for name in ("retry", "../", "/", "nothing/")] == [None] * 4


def scenario_named(name: str) -> Scenario:
    return load_scenario(find_bundled(name))


def test_a_bundled_scenario_has_a_name_and_no_other_file_has_one(tmp_path: Path) -> None:
    assert name_of(scenario_named("retry/rate-limit").path) == "retry/rate-limit"
    assert name_of(tmp_path / "rate-limit.simloop.yaml") == ""
    assert name_of("") == ""


def test_expectations_are_found_by_the_name_of_the_scenario() -> None:
    expect = stated({"retry/rate-limit": {"text": "Bye."}}, scenario_named("retry/rate-limit"))
    assert expect == Expect(text="Bye.")
    assert stated({"retry/rate-limit": expect}, scenario_named("retry/rate-limit")) == expect
    assert stated({"retry/rate-limit": expect}, scenario_named("retry/auth")) is None
    assert stated({"retry/rate-limit": expect}, Scenario(prompt="x")) is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"retry/rate-limt": {}}, r"expect_on\.retry/rate-limt: .*did you mean `retry/rate-limit`"),
        ({7: {}}, "there is no bundled scenario `7`"),
        ({"retry/rate-limit": {"texts": ""}}, r"expect_on\.retry/rate-limit\.texts: unknown key"),
        (["retry/rate-limit"], "expect_on: expectations are a mapping, not list"),
    ],
    ids=["a name", "no text", "a key", "no mapping"],
)
def test_a_mistake_is_refused_with_its_place(given: Any, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        stated(given, scenario_named("retry/rate-limit"))


async def answers(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


class Answers:
    expect_on: ClassVar = {"finish-reasons/stop": {"text": "Bye."}}

    async def __call__(self, prompt: str, world: World) -> str:
        return await answers(prompt, world)


def test_a_loop_has_expectations_as_an_attribute() -> None:
    assert "expected 'Bye.'" in run(scenario_named("finish-reasons/stop"), loop=Answers).failures[0]
    assert (
        "expected 'Bye.'" in run(scenario_named("finish-reasons/stop"), loop=Answers()).failures[0]
    )
    assert run(scenario_named("finish-reasons/stop"), loop=answers).ok
