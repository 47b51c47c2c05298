"""What a scenario declares of an agent is judged, and is kept wherever the scenario is written."""

from typing import Any

import pytest
from builders import asks
from faultyruns import violations
from searching import plain

from simloop import ExponentialBackoff, Limits, Reply, Scenario, World, parse_scenario
from simloop.check.trial import Failure
from simloop.fuzz.shrink import shrink
from simloop.kernel.limits import DeclaredLimits
from simloop.messages import UserMessage
from simloop.runs.loop import loop_of
from simloop.scenario.loader import load_declared
from simloop.scenario.schema import Declared
from simloop.scenario.writing import scenario_text
from simloop.world.model_port import ModelCallFailed

STATED = """\
limits: {max_steps: 100, max_error_count: 3, max_wall_clock: 9m}
retry: {initial_delay: 4s}
tool_timeout: 20s
mutating: [pay, "https://orders.example"]
deviations: {answered-calls: no tool is run}
"""
LIMITS = DeclaredLimits(max_steps=100, max_error_count=3, max_wall_clock_ms=540_000)
DECLARED = Declared(
    limits=Limits(max_steps=100, max_error_count=3, max_wall_clock_ms=540_000),
    retry=ExponentialBackoff(initial_delay_ms=4_000),
    tool_timeout="20s",
    mutating=["pay", "https://orders.example"],
    deviations={"answered-calls": "no tool is run"},
)


def test_a_file_and_a_scenario_declare_alike(tmp_path: Any) -> None:
    (tmp_path / "intention.yaml").write_text(STATED)
    lines = "".join(f"  {line}\n" for line in STATED.splitlines())
    scenario = parse_scenario(f"prompt: Go.\ndeclares:\n{lines}")
    assert scenario.declares == DECLARED == load_declared(tmp_path / "intention.yaml")


def test_a_declared_limit_is_kept_in_a_file_also_if_it_is_the_usual_number() -> None:
    scenario = Scenario(prompt="Go.", declares=DECLARED)
    again = parse_scenario(scenario_text(scenario)).declares
    assert again == DECLARED
    assert again.limits is not None
    assert again.limits.declared == LIMITS
    empty = Scenario(prompt="Go.", declares=Declared(mutating=["pay"]))
    assert parse_scenario(scenario_text(empty)) == empty


class Own:
    """An agent with declarations of its own."""

    limits = Limits(max_steps=4)
    retry = ExponentialBackoff(initial_delay_ms=1)
    mutating = ("delete",)
    tool_timeout = 2.5
    deviations = {"accepted-requests": "ours"}  # noqa: RUF012

    async def __call__(self, prompt: str, world: World) -> str:
        return await asks(prompt, world)


def test_declarations_of_a_scenario_replace_attributes_and_join_the_deviations() -> None:
    loop = loop_of(Scenario(prompt="Go.", declares=DECLARED), {"loop": Own})
    assert loop.declared_limits == LIMITS
    assert loop.retry == DECLARED.retry
    assert loop.mutating == frozenset({"pay", "https://orders.example"})
    assert loop.tool_timeout_ns == 20 * 10**9
    assert loop.deviations == {"accepted-requests": "ours", "answered-calls": "no tool is run"}
    partly = Declared(deviations={"accepted-requests": "the scenario's"})
    loop = loop_of(Scenario(prompt="Go.", declares=partly), {"loop": Own})
    assert loop.declared_limits == DeclaredLimits(max_steps=4)
    assert loop.retry == Own.retry
    assert loop.mutating == frozenset({"delete"})
    assert loop.tool_timeout_ns == 2_500_000_000
    assert loop.deviations == {"accepted-requests": "the scenario's"}


def test_one_tool_that_changes_the_world_may_be_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Own, "mutating", "delete")
    assert loop_of(Scenario(prompt="Go."), {"loop": Own}).mutating == frozenset({"delete"})


@plain
async def hastens(prompt: str, world: World) -> str:
    """Ask at once again after two failures."""
    for _ in range(2):
        try:
            return await asks(prompt, world)
        except ModelCallFailed:
            continue
    return (await world.model.reply([UserMessage(prompt)])).message.text


FAILING = [Reply(http={"status": 500}, times=2), Reply(say="Done.", times="always")]
LIMITED = Declared(limits=Limits(max_error_count=2))
WAITING = Declared(retry=ExponentialBackoff(initial_delay_ms=1_000))


@pytest.mark.parametrize(
    ("declared", "violated"),
    [
        (None, set()),
        (LIMITED, {"agent-respects-its-limits"}),
        (WAITING, {"agent-backoff-matches-policy"}),
        (LIMITED.model_copy(update={"deviations": {"agent-respects-its-limits": "no"}}), set()),
    ],
)
def test_what_is_declared_is_judged(declared: Declared | None, violated: set[str]) -> None:
    scenario = Scenario(prompt="Go.", model=FAILING, declares=declared)
    assert set(violations(scenario, loop=hastens)) == violated


def test_a_smaller_scenario_declares_the_same() -> None:
    declared = LIMITED.model_copy(update={"mutating": ["unused"]})
    scenario = Scenario(
        prompt="Go.",
        seed=9,
        tools={"look": {"returns": "seen"}},
        model=[*FAILING[:1], Reply(say="Some words."), FAILING[1]],
        declares=declared,
    )
    found = shrink(scenario, {"loop": hastens}, seconds=600)
    assert found is not None
    assert isinstance(found.failure, Failure)
    assert found.failure.name == "agent-respects-its-limits"
    assert found.scenario.declares == declared
    assert (found.scenario.seed, found.scenario.tools) == (0, {})
