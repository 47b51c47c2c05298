"""Expectations of the bundled scenarios that stand apart from them."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from simloop import Expect, Scenario, ScenarioError, load_scenario, run
from simloop.kernel.limits import Limits
from simloop.loops.react import ReactLoop
from simloop.messages import UserMessage
from simloop.scenario.catalog import find_bundled, load_expectations, name_of, stated
from simloop.scenario.expect import CountBounds, Span
from simloop.world.world import World

SAYS_BYE = {"start/quickstart": {"text": "Bye."}}


def bundled(name: str) -> Scenario:
    return load_scenario(find_bundled(name))


def test_a_bundled_scenario_has_a_name_and_no_other_file_has_one(tmp_path: Path) -> None:
    assert name_of(bundled("retry/rate-limit").path) == "retry/rate-limit"
    assert name_of(tmp_path / "rate-limit.simloop.yaml") == ""
    assert name_of("") == ""


def test_bounds_of_an_expectation_are_read_as_they_are_written() -> None:
    expect = Expect(requests={"min": 1, "max": 2}, elapsed={"max": "3s"})
    assert (expect.requests, expect.elapsed) == (CountBounds(min=1, max=2), Span(max="3s"))


def test_expectations_are_found_by_the_name_of_the_scenario() -> None:
    expect = stated({"retry/rate-limit": {"text": "Bye."}}, bundled("retry/rate-limit"))
    assert expect == Expect(text="Bye.")
    assert stated({"retry/rate-limit": expect}, bundled("retry/rate-limit")) == expect
    assert stated({"retry/rate-limit": expect}, bundled("retry/auth")) is None
    assert stated({"retry/rate-limit": expect}, Scenario(prompt="x")) is None


def test_a_file_gives_the_expectations_of_its_text(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text("retry/rate-limit: {text: Bye., elapsed: {min: 1s}}\n", "utf-8")
    loaded = load_expectations(path)
    assert loaded.path == str(path)
    expect = stated(loaded, bundled("retry/rate-limit"))
    assert expect == Expect(text="Bye.", elapsed={"min": "1s"})


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
        stated(given, bundled("retry/rate-limit"))


@pytest.mark.parametrize("text", ["- retry/auth\n", "7\n", "retry/auth: 7\n", "retry/auth:\n"])
def test_a_file_of_another_form_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(ScenarioError, match=r"e\.yaml:1:"):
        load_expectations(path)


async def answers(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


class Answers:
    expect_on: ClassVar = {"finish-reasons/stop": {"text": "Bye."}}

    async def __call__(self, prompt: str, world: World) -> str:
        return await answers(prompt, world)


def test_a_loop_has_expectations_as_an_attribute_which_those_of_the_call_replace() -> None:
    assert "expected 'Bye.'" in run(bundled("finish-reasons/stop"), loop=Answers).failures[0]
    assert "expected 'Bye.'" in run(bundled("finish-reasons/stop"), loop=Answers()).failures[0]
    given = {"finish-reasons/stop": {"outcome": "completed"}}
    assert run(bundled("finish-reasons/stop"), loop=Answers, expect_on=given).ok
    assert run(bundled("finish-reasons/stop"), loop=answers, expect_on=given).ok


def test_a_machine_has_them_too_in_every_form() -> None:
    class Mine(ReactLoop):
        name = "mine"
        expect_on: ClassVar = {"finish-reasons/stop": {"text": "Bye."}}

    def make(limits: Limits) -> Mine:
        return Mine(limits)

    for loop in (Mine, Mine(), make):
        assert "expected 'Bye.'" in run(bundled("finish-reasons/stop"), loop=loop).failures[0]
        given = {"finish-reasons/stop": {"outcome": "completed"}}
        assert run(bundled("finish-reasons/stop"), loop=loop, expect_on=given).ok


def test_a_wrong_attribute_is_refused() -> None:
    class Wrong(Answers):
        expect_on: ClassVar = {"nothing": {"text": "Bye."}}

    with pytest.raises(ScenarioError, match="no bundled scenario `nothing`"):
        run(Scenario(prompt="x"), loop=Wrong)
