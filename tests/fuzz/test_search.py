import itertools
import subprocess
import tempfile
from typing import Any, ClassVar

import pytest
import searching
from offering import native
from oracle.machines import limits_enforced

from simloop import Program, Reply, Route, Scenario, ScenarioError, UserMessage, World, note
from simloop.check.invariants.agents import agent_respects_its_limits
from simloop.check.trial import Failure
from simloop.fuzz.search import FoundFailures, Group, Search, _is_shown
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import ModelFailed, Signal
from simloop.loops.opencode import OpencodeLoop, OpencodeOptions
from simloop.loops.pi import PiLoop
from simloop.loops.reference import ReferenceLoop
from simloop.scenario.people import Then

RUNS = 200
BOUND = [agent_respects_its_limits, limits_enforced]


class CountsNoFailure(ReferenceLoop):
    """A loop that forgets to count its failures."""

    def advance(self, run: Run, signal: Signal) -> Transition:
        after, asked = super().advance(run, signal)
        if type(signal) is ModelFailed and signal.retryable and not hasattr(after.state, "outcome"):
            after = after.to(after.state)
            after = type(after)(after.state, run.error_count, *_counters(after))
        return after, asked


def _counters(run: Run) -> tuple[int, int]:
    return run.total_steps, run.compaction_attempts


class Retries:
    """An agent that tries again for ever."""

    limits = Limits(max_steps=3, max_error_count=2, max_compaction_attempts=0)

    async def __call__(self, prompt: str, world: World) -> str:
        while True:
            try:
                return (await world.model.reply([UserMessage(prompt)])).message.text
            except Exception:  # noqa: BLE001 - the fault under test
                continue


@pytest.mark.slow
def test_a_faulty_machine_is_found_by_the_name_of_the_invariant() -> None:
    search = Search(CountsNoFailure, seed=1)
    assert "every-attempt-counted" in {found.name for found in search.run(runs=RUNS)}


@pytest.mark.slow
def test_a_faulty_agent_is_found_by_the_name_of_the_invariant() -> None:
    names = {found.name for found in Search(Retries, seed=1, invariants=BOUND).run(runs=RUNS)}
    assert "agent-respects-its-limits" in names


@pytest.mark.slow
def test_nothing_is_found_in_the_reference_loop() -> None:
    search = Search("reference", seed=3, invariants=BOUND)
    assert [f"{each.name}: {each.failure.text}" for each in search.run(runs=RUNS)] == []
    assert search.runs == RUNS
    assert sum(map(bool, search.goals.counts.values())) > 20
    assert search.virtual_ns > 0


@pytest.mark.slow
def test_a_search_is_a_function_of_its_seed() -> None:
    def found(seed: int) -> tuple[list[tuple[str, int, str]], int]:
        search = Search(CountsNoFailure, seed=seed)
        failures = [(each.name, each.run, each.failure.text) for each in search.run(runs=50)]
        return failures, search.virtual_ns

    assert found(5) == found(5)
    assert found(5) != found(6)


@pytest.mark.slow
def test_a_search_goes_on_where_it_stopped() -> None:
    whole, parts = Search("reference", seed=2), Search("reference", seed=2)
    list(whole.run(runs=100))
    list(parts.run(runs=60))
    list(parts.run(runs=40))
    assert parts.goals.counts == whole.goals.counts
    assert parts.virtual_ns == whole.virtual_ns


def test_a_world_depends_on_the_seed_and_its_number_alone() -> None:
    one, other = Search("react", seed=2), Search("react", seed=2)
    list(one.run(runs=37))
    other.number = 14
    list(other.run(runs=2))
    assert [one.world(number) for number in (15, 16, 38)] == [
        other.world(number) for number in (15, 16, 38)
    ]
    assert one.world(15) != one.world(16)
    assert one.world(15) != Search("react", seed=3).world(15)


def test_an_unknown_loop_is_refused_before_anything_is_run() -> None:
    with pytest.raises(ScenarioError, match="there is no loop"):
        Search("referense")


@pytest.mark.slow
def test_a_machine_that_is_made_already_is_played_with_its_own_limits() -> None:
    search = Search(ReferenceLoop(Limits(max_steps=7)), seed=1, invariants=BOUND)
    assert list(search.run(runs=100)) == []
    assert search.world(1).limits.max_steps == 7


class Patient(ReferenceLoop):
    """The reference loop, which makes one step more than it may."""

    judge_as = "reference"

    def _exceeded(self, run: Run) -> Transition | None:
        return None if run.total_steps == self.limits.max_steps else super()._exceeded(run)


class Excused(Patient):
    deviations: ClassVar = {"differs-from-design": "it makes one step more"}


ENFORCED = OpencodeOptions(steps="enforce")


END = (
    "and the design ends as max-steps (max_steps) by "
    "EndRun(message='', text_first=False, keep=True)"
)


def unlike(loop: Any) -> list[tuple[int, str]]:
    found = [*Search(loop, seed=1, invariants=()).run(runs=2)]
    return [(each.run, each.failure.text) for each in found if each.name == "differs-from-design"]


@pytest.mark.parametrize("loop", [Patient, Patient(Limits(max_steps=2))])
def test_a_machine_that_decides_otherwise_than_its_design_is_found_in_the_first_run(
    loop: Any,
) -> None:
    ((run, text),) = unlike(loop)
    assert run == 1
    assert text.startswith("after began")
    assert text.endswith(END)


@pytest.mark.parametrize(
    "loop",
    [
        Excused,
        ReferenceLoop,
        "reference",
        PiLoop(),
        ReferenceLoop(Limits(max_steps=500)),  # too many runs to compare all of them
        OpencodeLoop(Limits(), ENFORCED),
    ],
)
def test_a_machine_that_is_like_its_design_or_excused_is_not_found(loop: Any) -> None:
    assert unlike(loop) == []


def test_a_machine_of_other_options_differs_from_the_version_that_it_names() -> None:
    class Named(OpencodeLoop):
        judge_as = "opencode@1.18.34"

    ((_, text),) = unlike(Named(Limits(max_steps=2)))
    assert "and the design " in text
    assert unlike(Named) == [], "it is made with the options of the version"


SMALL = Scenario(prompt="Go.", model=[Reply(say="Done.")])
LARGE = Scenario(prompt="Go.", model=[Reply(say="No."), Reply(say="Done.")])


def test_the_shape_of_a_text_has_no_numbers_and_no_names() -> None:
    def group(text: str) -> Group:
        return Group.of("rule", text)

    one = group("the tool of call 'call-1' started 2 times after 1.5 s")
    assert one == group("the tool of call 'call-77' started 31 times after 12 s")
    one = group("request 5 does not hold the user's message 'And then?'")
    assert one == group("request 4 does not hold the user's message 'Message 2.'")
    assert one != group("the tool of call 'call-1' never started")


def test_a_rule_on_a_conversation_has_a_group_for_each_way_to_break_it() -> None:
    def group(name: str, text: str) -> Group:
        return Group.of(name, text)

    refused = "POST /v1/messages is answered with status 400: "
    for name, one, same, other in (
        ("replies-with-calls-kept", "request 3 has other calls than those of the reply",
         "request 12 has other calls than", "request 3 lacks the reply to the one before it"),
        ("accepted-requests", f"{refused}messages.1: `tool_use` ids were found without",
         f"{refused}messages.30: `tool_use` ids were found without",
         f"{refused}messages.2.content.1: unexpected `tool_use_id` found"),
        ("no-mistake-in-the-code", "KeyError: 'a' after a reply", "KeyError: 'b'", "TypeError: a"),
    ):  # fmt: skip
        assert group(name, one) == group(name, same) != group(name, other)


def test_failures_of_one_rule_and_one_shape_are_one_finding_with_the_first_scenario() -> None:
    failures = FoundFailures()
    first = failures.add(Failure("rule", "request 7 is wrong", ""), LARGE, 3)
    assert first is not None
    assert failures.add(Failure("rule", "request 9 is wrong", ""), SMALL, 4) is None
    (found,) = failures
    assert found.run == 3
    assert list(failures.counts.values()) == [2]
    assert found.scenario is LARGE
    assert found.failure.text == "request 7 is wrong"


def test_a_failure_of_a_known_group_is_counted_and_is_no_finding() -> None:
    failures = FoundFailures([Group.of("rule", "request 1 is wrong")])
    assert failures.add(Failure("rule", "request 7 is wrong", ""), SMALL, 3) is None
    assert failures.add(Failure("other", "request 7 is wrong", ""), SMALL, 4) is not None
    assert failures.counts == {
        ("rule", "request 0 is wrong"): 1,
        ("other", "request 0 is wrong"): 1,
    }
    assert len([*failures]) == 1


def test_another_rule_or_another_shape_is_another_finding() -> None:
    failures = FoundFailures()
    for name, text in (("a", "x 1"), ("b", "x 1"), ("a", "y 1")):
        assert failures.add(Failure(name, text, ""), SMALL, 1) is not None
    assert len([*failures]) == 3


@pytest.mark.slow
def test_runs_in_processes_of_their_own_keep_nothing() -> None:
    searching._seen.clear()
    found = list(Search("searching:remembers", isolate=True).run(runs=9))
    assert [each.run for each in found if len(each.scenario.then) < 2] == []


def test_what_an_agent_keeps_for_the_next_user_becomes_a_world_of_two_users() -> None:
    searching._seen.clear()
    search = Search("searching:shares", seed=1)
    found = {each.name: each for each in search.run(runs=2)}["adjacent-results"]
    (then,) = found.scenario.then
    assert found.reproduced
    assert then == Then(say=found.scenario.prompt, restart=True)
    alone = found.scenario.model_copy(update={"then": []})
    assert search.alone(alone, "adjacent-results") is None


def test_what_a_later_world_leaves_counts_if_the_first_request_shows_it() -> None:
    for loop, runs in ("searching:owes", [2]), ("searching:lags", []):
        searching._seen.clear()
        assert [each.run for each in Search(loop).left(1, 5)] == runs


def test_what_a_loop_keeps_is_told_once_whoever_sees_it() -> None:
    class Differing:
        def answer(self) -> Any:
            return 100, searching.WORLD

    for known, names in ((), ["ReplayDiverged"]), (("ReplayDiverged",), []):
        search = Search("searching:asks")
        search.twin = Differing()  # type: ignore[assignment]
        for name in known:
            search.failures.add(Failure.named(name, "two runs differ"), searching.WORLD, 1)
        assert [each.name for each in search.answer_elsewhere()] == names


def test_an_object_that_keeps_something_is_searched_though_it_cannot_restart() -> None:
    searching._seen.clear()
    search = Search("searching:shares_made", seed=1)
    found = {each.name: each for each in search.run(runs=2)}["adjacent-results"]
    assert not found.reproduced


def test_what_several_users_use_up_is_found_with_so_many() -> None:
    searching._seen.clear()
    (found,) = Search("searching:tires").run(runs=1)
    assert (found.name, found.reproduced) == ("ReplayDiverged", True)
    assert len(found.scenario.then) == 4


def test_what_a_further_prompt_takes_back_is_found_without_it() -> None:
    searching._seen.clear()
    replies = [Reply(say="Here."), Reply(say="Thanks.")]
    course = Scenario(prompt="Lend it.", then=["Give it back."], model=replies)
    (found,) = Search("searching:lends", scenarios=[course]).run(runs=1)
    assert (found.name, found.reproduced) == ("ReplayDiverged", True)
    assert found.scenario.then == []


TEMPORARY = tempfile.gettempdir()


@pytest.mark.parametrize(
    ("name", "finds"),
    [(f"{TEMPORARY}/{{}}/a", 0), ("/home/{}", 1), (f"{TEMPORARY}/a/{{}}", 1)],
)
def test_a_temporary_name_in_a_trace_may_be_taken_by_a_run_at_the_same_time(
    name: str, finds: int
) -> None:
    numbers = itertools.count()

    async def agent(prompt: str, world: World) -> str:
        name_now = name.format(next(numbers))
        note(name_now)
        return (await world.model.reply([UserMessage(f"{prompt} {name_now}")])).message.text

    found = [each.name for each in Search(agent, scenarios=[Scenario(prompt="Go.")]).run(runs=20)]
    assert found.count("ReplayDiverged") == finds


DIFFERS = "two runs differ\nthe first difference is in entry 2, {}:\n  - first run   {}\n{}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (DIFFERS.format("kind", "note POST /v1/embeddings", "  + second run  request #1"), False),
        (DIFFERS.format("kind", "request #2: 3 messages", "  + second run  failed"), True),
        (DIFFERS.format("request.added", "request #1: 1 message", ""), True),
        (DIFFERS.format("request #1, the system prompt, line 3", "none", ""), True),
        (DIFFERS.format("ended.text", "Yes.", ""), True),
        (DIFFERS.format("sleep.duration", "3s", ""), False),
        (DIFFERS.format("kind", "note", "the model is told something else in request #2"), True),
    ],
)
def test_what_an_agent_keeps_counts_if_the_model_or_the_user_can_see_it(
    text: str, *, shown: bool
) -> None:
    assert _is_shown(Failure.named("ReplayDiverged", text)) is shown
    assert not _is_shown(Failure.named("finishes", text))


def test_a_search_counts_the_tools_services_and_programs_that_its_runs_reach() -> None:
    async def agent(prompt: str, world: World) -> str:
        subprocess.run(["git", "log"], capture_output=True, check=False)  # noqa: ASYNC221
        return await native(prompt, world)

    base = Scenario(
        prompt="Go.",
        services={"https://orders.example": [Route(get="/orders", json=[])]},
        programs={"git log": Program(stdout="a"), "deploy *": Program(), "*": Program()},
    )
    search = Search(agent, scenarios=[base], seed=1)
    list(search.run(runs=3))
    reached = {name: count > 0 for name, count in search.calls.items()}
    assert reached == {
        "find": True, "cancel": True, "https://orders.example": False, "program git": True,
        "program deploy": False,
    }  # fmt: skip


def test_a_search_makes_a_run_however_short_its_time_is() -> None:
    """Else a search with a small budget could spend it all on a busy machine, and show nothing."""
    search = Search("react", seed=1)
    assert [*search.run(seconds=0.0)] == []
    assert search.runs == 1


def test_runs_that_fail_below_a_limit_by_other_errors_are_other_failures() -> None:
    """One of them may be meant, and must not hide the other."""
    texts = [f"the run fails (Error: {kind}: 7) after {n} steps and 0 errors, and so on"
             for kind, n in (("DeskError", 1), ("DeskError", 2), ("CutOff", 1))]  # fmt: skip
    groups = [Group.of("agent-uses-its-limits", text) for text in texts]
    assert groups[0] == groups[1] != groups[2]
