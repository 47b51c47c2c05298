"""The part of a run that does not depend on its seed, made once for any number of runs.

Not here: the run itself (simulation.py). The rule to keep: nothing in a plan changes during a run.
An object that keeps state (the model, the hooks of a script, the files, the faults of chance) is
made anew for each run, by the methods.
"""

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import cast

import msgspec
from pydantic_core import PydanticSerializationError

from simloop.engine.settings import EngineSettings
from simloop.errors import CannotExpress, ScenarioError
from simloop.runs.assembly import (
    Surroundings,
    features_of,
    hooks_of,
    python_code,
    script_of,
    scripted_tools,
    settings_of,
    surroundings_of,
)
from simloop.runs.chosen_loop import choose_loop, repetition
from simloop.runs.options import RunOptions, check_options, check_scenario
from simloop.runs.registry import reasons_against
from simloop.runs.scripted_tools import behaviours_of
from simloop.scenario.catalog import name_of
from simloop.scenario.schema import Scenario
from simloop.trace.codec import FORMAT, VERSION, digest
from simloop.trace.entries import Header
from simloop.virtual.seeds import Seeds
from simloop.world.fake_model import FakeModel, FunctionModel, Model
from simloop.world.files import Files
from simloop.world.own_tools import ToolBehaviour
from simloop.world.tools import toolbox


class Plan:
    """A scenario with the caller's options, checked and ready to run with any seed.

    `source` is the scenario as it was given; `loop.scenario` has the options of the loop, too, and
    `content` is that in JSON.
    `python` names the Python code that the runs need besides the scenario. The lists and mappings
    of the scenario must not change while the plan is in use.
    """

    def __init__(self, scenario: Scenario, given: RunOptions) -> None:
        check_scenario(scenario)
        check_options(given)
        self.source = scenario
        try:
            self.loop = choose_loop(scenario, given)
            self._check_features(scenario, given)
        except ScenarioError as error:
            error.path = scenario.path or None
            raise
        self._tools = toolbox(given.get("tools", ()))
        self.given = cast("RunOptions", {**given, "tools": self._tools})
        self.python = (
            *python_code(given, self._tools),
            *(("loop",) if self.loop.is_own else ()),
        )
        scenario = self.loop.scenario
        _check_models(scenario, given)
        self._script = script_of(scenario)
        self._scripted = scripted_tools(scenario)
        self._has_hooks = bool(scenario.hooks)
        self._hooks = hooks_of(scenario, given)
        self._settings = settings_of(scenario, given, self.loop.design.policies)
        self.content = content_of(scenario)
        self._digest = digest(self.content)

    def by_itself(self) -> Scenario:
        """Return the scenario that states the loop, its options, the seed and the expectations."""
        loop = self.loop
        seed = self.given.get("seed")
        named = {"loop": loop.name, "judge_as": loop.judge_as} if loop.has_name else {}
        given = {"seed": seed} if seed is not None else {}
        return loop.scenario.model_copy(
            update={**named, **given, "expect": loop.expected, "expect_on": {}}
        )

    @property
    def has_file(self) -> bool:
        """Return whether a file can state the whole plan, so that another process can run it."""
        return self.loop.has_name and not [name for name in self.python if name != "loop"]

    def playing(self, scenario: Scenario) -> "Plan":
        """Return this plan for a scenario with another script, or other actions of the user.

        `scenario` differs from that of the plan in nothing but `prompt`, `then`, `model`,
        `summaries`, `abort`, `queue` and `seed`. That costs no validation and no JSON, so the
        header of such a run has no content of its scenario: a search makes thousands of runs, and
        nobody reads their headers.
        """
        other = copy.copy(self)
        other.__dict__.pop("_command", None)
        other.source = scenario
        other.loop = self.loop._replace(scenario=scenario)
        other._script = script_of(scenario)  # noqa: SLF001 - of the same class
        other.content, other._digest = b"null", ""  # noqa: SLF001
        return other

    def fresh(self) -> "Plan":
        """Return this plan, or an equal one if its loop is a machine of the caller's own.

        Such a machine may keep something from one run for the next.
        """
        is_kept = self.loop.is_own and self.loop.design.keeps_state
        return Plan(self.source, self.given) if is_kept else self

    def model(self) -> Model:
        """Return the model of one run."""
        given = self.given.get("model")
        if given is None:
            return FakeModel(*self._script)
        return given if hasattr(given, "stream") else FunctionModel(given)

    def files(self) -> Files | None:
        """Return the files in the memory of one run."""
        scenario = self.loop.scenario
        return None if scenario.files is None else Files(scenario.files)

    def surroundings(self, model: Model, seeds: Seeds, files: Files | None) -> Surroundings:
        """Return the model and the tools of one run. Raises ScenarioError."""
        return surroundings_of(
            self.loop.scenario, {**self._scripted, **self._tools}, model, seeds, files
        )

    def settings(self, seeds: Seeds, around: Surroundings) -> EngineSettings:
        """Return the settings of the engine for one run."""
        hooks = hooks_of(self.loop.scenario, self.given) if self._has_hooks else self._hooks
        return self._settings(seeds=seeds, faulty=around.faulty, hooks=hooks)

    def header(self, seed: int) -> Header:
        """Return the first line of the trace of one run."""
        loop = self.loop
        return Header(
            format=FORMAT,
            version=VERSION,
            title=loop.scenario.title,
            loop=loop.name,
            seed=seed,
            scenario_digest=self._digest,
            scenario=msgspec.Raw(self.content),
            limits=dict(loop.limits),
            python=self.python,
            judge_as=loop.judge_as,
        )

    @cached_property
    def behaviours(self) -> Mapping[str, ToolBehaviour]:
        """Return the behaviour of the tools that an agent's own code calls."""
        return behaviours_of(self.loop.scenario.tools)

    @cached_property
    def _command(self) -> tuple[str, str]:
        return repetition(self.source, self.given, "run", "simloop.run")

    def command(self, seed: int) -> str:
        """Return the command or the call that repeats one run."""
        before, after = self._command
        return f"{before}{seed}{after}"

    def _check_features(self, scenario: Scenario, given: RunOptions) -> None:
        unsupported = self.loop.design.unsupported
        if not unsupported:
            return
        reasons = reasons_against(unsupported, features_of(scenario, given))
        if reasons:
            if self.loop.is_own and name_of(scenario.path):
                hint = f"one that every loop can run: simloop run {_SIMPLE} --loop {self.loop.name}"
                raise CannotExpress(self.loop.name, reasons, hint)
            raise CannotExpress(self.loop.name, reasons)


_SIMPLE = "finish-reasons/stop"
"""A bundled scenario that asks a loop for nothing but an answer."""


def _check_models(scenario: Scenario, given: RunOptions) -> None:
    if given.get("model") is not None and (scenario.model or scenario.summaries):
        raise ScenarioError(
            "there are two models: a script in the scenario, and `model`",
            key="model",
            hint="leave one of them out",
        )


def header_with(header: Header, scenario: Scenario) -> Header:
    """Return the header of a trace with another scenario."""
    content = content_of(scenario)
    given = {"scenario": msgspec.Raw(content), "scenario_digest": digest(content)}
    return msgspec.structs.replace(header, **given)


def content_of(scenario: Scenario) -> bytes:
    """Return the scenario as the header of a trace has it, in JSON without defaults.

    Raises ScenarioError for a text that is no Unicode, which only Python code can give.
    """
    try:
        return scenario.model_dump_json(exclude_defaults=True, by_alias=True).encode()
    except PydanticSerializationError:
        from simloop.scenario.writing import half_of_a_pair  # noqa: PLC0415 - in case of need

        raise half_of_a_pair() from None
