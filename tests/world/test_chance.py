import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop import Compaction, Limits, Outcome, Reply, Scenario, ScenarioError, ScriptedTool, run
from simloop.errors import ScriptUnused
from simloop.messages import UserMessage
from simloop.runs.run import Simulation
from simloop.scenario.loader import parse_scenario
from simloop.trace.codec import encode
from simloop.trace.entries import Error, Finish, TextDelta, ToolResult
from simloop.virtual.seeds import Seeds
from simloop.world.chance import SITES, ChanceFaults, FaultSites
from simloop.world.model_port import ModelCallFailed
from simloop.world.world import World


def scenario(faults: ChanceFaults | None, seed: int = 0, **limits: int) -> Scenario:
    return Scenario(
        prompt="Look.",
        seed=seed,
        limits=Limits(max_error_count=50, **limits),
        compaction=Compaction(strategy="drop-oldest"),
        tools={"look": ScriptedTool(returns="found")},
        model=[*[Reply(say="I look.", call={"look": {}})] * 20, Reply(say="Done.")],
        faults=faults,
    )


def played(faults: ChanceFaults | None, seed: int = 0) -> Simulation:
    simulation = Simulation(scenario(faults, seed))
    with contextlib.suppress(ScriptUnused):
        simulation.run()
    assert simulation.trace.footer is not None
    return simulation


def always(site: str) -> ChanceFaults:
    return ChanceFaults(activate=1.0, fire=0.5, sites=[site])


def test_without_faults_nothing_happens() -> None:
    quiet = ChanceFaults(activate=0.0)
    assert played(quiet).trace.entries == played(None).trace.entries


@pytest.mark.parametrize("site", [site for site in SITES if site.startswith(("model", "tool"))])
def test_a_site_that_is_on_shows(site: str) -> None:
    assert played(always(site), seed=5).trace.entries != played(None).trace.entries


@pytest.mark.parametrize("site", [site for site in SITES if site.startswith(("model", "tool"))])
def test_one_seed_gives_one_run(site: str) -> None:
    assert encode(played(always(site), 5).trace) == encode(played(always(site), 5).trace)


def test_a_site_is_on_for_the_whole_run_or_not_at_all() -> None:
    def fired(seed: int) -> int:
        sites = FaultSites(ChanceFaults(activate=0.25, fire=1.0), Seeds(seed))
        return sum(sites.fires("model.slow") for _ in range(40))

    assert {fired(seed) for seed in range(50)} == {0, 40}


def test_a_site_draws_the_same_whatever_the_others_do() -> None:
    def draws(*sites: str) -> list[bool]:
        asked = FaultSites(ChanceFaults(activate=1.0, fire=0.5, sites=sites), Seeds(3))
        return [[asked.fires(site) for site in sites][-1] for _ in range(30)]

    assert draws("tool.slow") == draws("model.slow", "tool.slow")


def test_a_site_that_is_not_listed_never_fires() -> None:
    sites = FaultSites(ChanceFaults(activate=1.0, fire=1.0, sites=["tool.slow"]), Seeds(0))
    assert not sites.fires("model.slow")


def test_a_site_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(ScenarioError, match=r"no fault site `tool.slwo` \(there are model.rate-"):
        FaultSites(ChanceFaults(sites=["tool.slwo"]), Seeds(0))


@pytest.mark.parametrize("activate", ['"0.5"', "true", "1.5"])
def test_a_probability_is_a_number_from_0_to_1(activate: str) -> None:
    text = f"prompt: Go.\nmodel: [{{say: x}}]\nfaults: {{activate: {activate}}}"
    with pytest.raises(ScenarioError, match=r"3:20: faults\.activate: must be "):
        parse_scenario(text)


def test_a_call_that_fails_at_once_uses_up_no_reply() -> None:
    simulation = played(always("model.server-error"), seed=5)
    errors = [entry for entry in simulation.trace.entries if isinstance(entry, Error)]
    finishes = [entry for entry in simulation.trace.entries if isinstance(entry, Finish)]
    assert len(errors) > 3
    assert len(finishes) == 21
    assert [ended.outcome for ended in simulation.trace.ends] == [Outcome.COMPLETED]


def test_a_tool_that_fails_by_chance_is_an_error_result() -> None:
    entries = played(always("tool.raises"), seed=5).trace.entries
    failed = [entry.text for entry in entries if isinstance(entry, ToolResult) and entry.is_error]
    assert set(failed) == {"Error: the tool lost its connection"}


@given(seed=st.integers(0, 2**63 - 1), limit=st.integers(1, 5))
def test_whatever_happens_the_reference_loop_ends(seed: int, limit: int) -> None:
    faults = ChanceFaults(activate=0.5, fire=0.5)
    world = scenario(faults, seed).model_copy(update={"limits": Limits(max_error_count=limit)})
    simulation = Simulation(world)
    with contextlib.suppress(ScriptUnused):  # it may end early, with an outcome
        simulation.run()
    assert simulation.trace.footer is not None


@pytest.mark.parametrize("site", ["model.lost-mid-output", "model.error-part"])
def test_a_reply_that_is_lost_on_the_way_is_cut_and_said_again_whole(site: str) -> None:
    world = Scenario(
        prompt="Hi",
        limits=Limits(max_error_count=50),
        model=[Reply(say=["one ", "two ", "three ", "four ", "five ", "six"])],
        faults=ChanceFaults(activate=1.0, fire=0.8, sites=[site]),
    )
    simulation = Simulation(world)
    result = simulation.run()
    failed = next(e.seq for e in simulation.trace.entries if isinstance(e, Error))
    heard = [e for e in simulation.trace.entries[:failed] if isinstance(e, TextDelta)]
    assert 1 <= len(heard) <= 4
    assert result.text == "one two three four five six"


def test_replies_of_concurrent_calls_that_are_lost_are_each_said_again() -> None:
    async def asks_three_at_once(_: str, world: World) -> str:
        async def answer(number: int) -> str:
            while True:
                with contextlib.suppress(ModelCallFailed):
                    reply = await world.model.reply([UserMessage(str(number))])
                    return reply.message.text

        return " ".join(sorted(await asyncio.gather(*map(answer, range(3)))))

    concurrent = Scenario(
        prompt="Hi",
        model=[Reply(say=["a", "b"]), Reply(say=["c", "d"]), Reply(say=["e", "f"])],
        faults=ChanceFaults(activate=1.0, fire=0.7, sites=["model.lost-mid-output"]),
    )
    lost = []
    for seed in range(10):
        result = run(concurrent, loop=asks_three_at_once, seed=seed)
        assert result.text == "ab cd ef"
        lost.append(sum(isinstance(entry, Error) for entry in result.trace.entries))
    assert max(lost) >= 3
