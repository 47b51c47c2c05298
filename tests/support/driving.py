"""A run with a short script, and the replies that such scripts are made of."""

from typing import Any

from pacing import MS

from simloop import ExponentialBackoff, Reply, Result, Scenario
from simloop.runs.simulation import Simulation

S = 1_000 * MS
LOOK = Reply(say="I look.", call={"look": {}})
DONE = Reply(say="Done.")
HANGS = Reply(stall="before-headers")
JITTERY = ExponentialBackoff(jitter=0.5)


def look() -> str:
    return "seen"


def play(*replies: Reply, **options: Any) -> Result:
    """A run with a script that need not be used up."""
    script = iter(replies)
    scenario = Scenario(prompt="Go.", **options)
    return Simulation(scenario, model=lambda _: next(script), tools=[look]).run()
