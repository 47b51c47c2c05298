import pytest

from simloop import (
    Http,
    Outcome,
    Reply,
    Scenario,
    ScenarioError,
    Simulation,
    parse_scenario,
    run,
)
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import Fault


class EverySecond(ExponentialBackoff):
    """Tries again after a second, whatever went wrong."""

    def retryable(self, error: ErrorClass) -> bool:
        return True

    def delay_ns(self, failures: int, fault: Fault | None, *, now_ns: int, draw: float) -> int:
        return 10**9


def test_a_retry_policy_of_ones_own_decides() -> None:
    scenario = Scenario(prompt="Hi", model=[Reply(http=Http(status=401)), Reply(say="Hello.")])
    result = run(scenario, retry=EverySecond())
    assert (result.outcome, result.backoffs_s) == (Outcome.COMPLETED, [1.0])


def test_a_token_estimate_of_ones_own_decides() -> None:
    scenario = Scenario(prompt="Hi", model=[Reply(say="Hello.")])
    (only,) = run(scenario, estimate_tokens=lambda text: 90).trace.rounds()
    assert only.tokens == 94


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tols", "did you mean `tools`?"), ("xyz", "there are seed, loop, tools, hooks")],
)
def test_an_argument_that_there_is_not_is_refused_with_the_nearest(name: str, hint: str) -> None:
    scenario = Scenario(prompt="Hi", model=[Reply(say="Hello.")])
    with pytest.raises(ScenarioError) as refused:
        run(scenario, **{name: []})  # type: ignore[arg-type]
    assert refused.value.message == f"there is no argument `{name}`"
    assert refused.value.hint.startswith(hint)


def test_a_trace_names_the_python_code_that_its_run_needed() -> None:
    def look() -> str:
        return "found"

    scenario = Scenario(prompt="Hi", model=[Reply(say="Hello.")])
    result = run(scenario, tools=[look], retry=EverySecond())
    assert result.trace.header.python == ("tool look", "retry")


def test_an_unknown_fault_site_is_refused_at_its_place() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario("prompt: x\nfaults: {sites: [model.slwo]}\n", "a.yaml")
    assert str(caught.value).startswith("a.yaml:2:17: faults.sites: no fault site `model.slwo`")


def test_a_simulation_runs_once() -> None:
    simulation = Simulation(Scenario(prompt="x", model=[Reply(say="y")]))
    simulation.run()
    with pytest.raises(ScenarioError, match="this simulation has been run"):
        simulation.run()
