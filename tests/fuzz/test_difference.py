from typing import Any

import pytest
from differing import Backwards, Lazy, Loud, Plain, Polite, Slow, written_anew
from incases import in_cases

from simloop import Scenario, ScenarioError, parse_scenario
from simloop.check.invariants.invariant import invariant
from simloop.check.invariants.subject import Subject
from simloop.fuzz.difference import COURSE, ENDS, REQUESTS, TIMES, TOOLS, difference, judged_against
from simloop.fuzz.replies import LAST
from simloop.fuzz.search import Search
from simloop.fuzz.shrink import shrink
from simloop.messages import StopCause
from simloop.scenario.catalog import bundled_names, find_bundled
from simloop.scenario.loader import load_scenario
from simloop.trace.entries import StopRequested

TWO_CALLS = parse_scenario("""
prompt: Look.
tools: {look: {returns: seen}, list: {returns: a b}}
model: [{say: I look., call: [{look: {}}, {list: {}}]}, {say: Done.}]
""")
LONG = parse_scenario("""
prompt: Look at all of it.
then: [And again.]
tools: {look: {returns: seen, takes: 5s}, list: {returns: a b}}
model:
  - {say: Well., call: {list: {}}, pace: {first_part: 2s}}
  - {say: I look., call: [{look: {}}, {list: {}}]}
  - say: Done.
  - say: Done again.
""")


def test_an_agent_that_is_written_anew_does_the_same() -> None:
    assert difference(LONG, Plain, written_anew) is None


@pytest.mark.slow
def test_it_does_the_same_in_generated_worlds() -> None:
    search = Search(Plain, against=written_anew, invariants=())
    assert [found.failure for found in search.run(runs=300)] == []


@pytest.mark.parametrize(
    ("other", "rule", "text"),
    [
        (Slow, TIMES, "request 1 after 0s, and the other after 1s"),
        (Backwards, TOOLS, "tool run 1 (look): look, and the other list"),
        (Lazy, COURSE, "tool run 2 (list), and the other request 2"),
    ],
)
def test_the_first_difference_is_named_with_its_place(other: Any, rule: str, text: str) -> None:
    found = difference(TWO_CALLS, Plain, other)
    assert found is not None
    assert (found.name, found.text) == (rule, text)
    assert found.sentence.startswith("In the same world, both loops ")


def test_requests_that_differ_are_shown_by_the_messages_that_do() -> None:
    found = difference(TWO_CALLS, Plain, Polite)
    assert found is not None
    assert found.name == REQUESTS
    assert found.text == (
        "request 1: UserMessage(text='Look.'), and the other UserMessage(text='Please: Look.')"
    )


def test_ends_that_differ_are_shown_by_their_text() -> None:
    found = difference(TWO_CALLS, Plain, Loud)
    assert found is not None
    assert (found.name, found.text) == (ENDS, "end 1: Done., and the other DONE.")


@in_cases(bundled_names()[::7])
def test_no_loop_differs_from_itself(name: str) -> None:
    scenario = load_scenario(find_bundled(name))
    assert difference(scenario, scenario.loop, scenario.loop) is None


def test_versions_differ_where_the_bundled_scenarios_say_so() -> None:
    scenario = load_scenario(find_bundled("abort/in-backoff"))
    found = difference(scenario, "opencode", "opencode@1.18.33")
    assert found is not None
    assert (found.name, found.text) == (COURSE, "request 2, and the other end 1")


def test_a_world_that_one_of_the_loops_cannot_have_is_the_authors_mistake() -> None:
    scenario = Scenario(prompt="Go.", system_prompt="Be kind.")
    with pytest.raises(ScenarioError, match="has its own system prompt"):
        difference(scenario, "reference", Plain)


@pytest.mark.slow
def test_a_search_finds_worlds_in_which_two_loops_differ_and_confirms_them() -> None:
    search = Search(Plain, against=Lazy, invariants=())
    failures = list(search.run(runs=200))
    assert COURSE in {found.name for found in failures}
    assert all(found.reproduced for found in failures)


def test_a_search_has_no_worlds_that_one_of_two_loops_cannot_play() -> None:
    stops: list[object] = []

    @invariant("The user stops no run.", "a test", sees=[StopRequested])
    def notes_stops(_: Subject, entry: StopRequested) -> str:
        stops.append(entry.cause)
        return ""

    search = Search("reference", against="react", invariants=[notes_stops])
    list(search.run(runs=150))
    assert StopCause.ABORT not in stops  # react cannot be stopped


def test_a_difference_is_shrunk_to_what_it_needs() -> None:
    found = shrink(LONG, {"loop": Plain}, judge=judged_against(Backwards), seconds=600)
    assert found is not None
    assert found.failure.name == TOOLS
    assert found.scenario.then == []
    assert found.scenario.model[1:] == [LAST]
    assert difference(found.scenario, Plain, Backwards) == found.failure
