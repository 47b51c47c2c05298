"""Many runs of one scenario, each with its own seed.

Not here: what one run does (simulation.py). The rule to keep: a run has the result and the trace
that `simloop.run` gives it, whatever ran before it and however that ended.
"""

import contextlib
from typing import Self, Unpack

from simloop.runs.options import RunOptions, check_scenario
from simloop.runs.plan import Plan
from simloop.runs.result import Result
from simloop.runs.simulation import Simulation
from simloop.scenario.schema import Scenario
from simloop.virtual.border.exchange import kept_border
from simloop.wire.clients.interception import kept_interception


class Runner:
    """Runs one scenario many times: what does not depend on the seed is made once.

        with Runner(scenario, tools=[look]) as runner:
            results = [runner.run(seed) for seed in range(1000)]

    The options are those of `simloop.run`. Later changes of the scenario and of the list of tools
    have no effect. A loop of the caller's own that is a class or a function makes a machine, or an
    agent, for each run.

    Inside `with`, the clocks and the randomness of Python stay exchanged from one run to the next,
    which saves time. Code between the runs gets the real ones, through stand-ins. The dummy keys
    of providers stay set as well if the loop is an agent. Without `with` each run exchanges all of
    them and puts them back.
    """

    def __init__(self, scenario: Scenario, **given: Unpack[RunOptions]) -> None:
        check_scenario(scenario)
        self._plan = Plan(scenario.model_copy(deep=True), given)
        self._kept = contextlib.ExitStack()

    def run(self, seed: int | None = None) -> Result:
        """Run the scenario with this seed, or that of the options. Raises the errors of `run`."""
        return Simulation(self._plan.fresh(), seed=seed).run()

    def __enter__(self) -> Self:
        self._kept.enter_context(kept_border())
        if self._plan.loop.machine is None:
            self._kept.enter_context(kept_interception())
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()
