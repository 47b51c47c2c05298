import msgspec

from simloop import Queued, Reply, Scenario, Trigger
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.trace.entries import AnyEntry

FIRST = Scenario(
    prompt="Go.",
    model=[Reply(say="Done.")],
    tools={"look": {"returns": "seen"}},
    retry={"initial_delay": "5s", "jitter": 0.5},
)
OTHER = FIRST.model_copy(
    update={
        "prompt": "Go on.",
        "then": ["And on."],
        "model": [Reply(http={"status": 500}), Reply(call={"look": {}}, times="always")],
        "queue": [Queued(after="tool-result", say="Listen.")],
        "abort": Trigger(after="tool-started", nth=3),
        "seed": 5,
    }
)


def record(plan: Plan) -> list[AnyEntry]:
    prepared = Simulation(plan)
    prepared.on_clock(prepared.converse())
    return prepared.trace.entries


def test_a_plan_plays_another_script_as_a_plan_of_that_script_does() -> None:
    plan = Plan(FIRST, {})
    assert record(plan.playing(OTHER)) == record(Plan(OTHER, {}))
    assert record(plan) == record(Plan(FIRST, {})), "the plan itself has not changed"


def test_the_header_of_another_script_claims_no_scenario() -> None:
    header = Plan(FIRST, {}).playing(OTHER).header(5)
    assert (bytes(header.scenario), header.scenario_digest) == (b"null", "")
    assert isinstance(header.scenario, msgspec.Raw)


def test_the_command_of_another_script_is_its_own() -> None:
    plan = Plan(FIRST.model_copy().read_from("first.yaml"), {})
    plan.command(1)
    assert "first.yaml" not in plan.playing(OTHER.model_copy()).command(1)
