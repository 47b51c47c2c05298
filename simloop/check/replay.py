"""Running a recorded run again, which reads no file and imports nothing that a trace names."""

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace
from pydantic import ValidationError

from simloop.check.trial import run_to_the_end
from simloop.errors import ScenarioError
from simloop.runs.fixtures import OF_A_TEST
from simloop.runs.loop import is_own
from simloop.runs.options import RunOptions
from simloop.scenario.schema import Scenario
from simloop.trace.entries import Header
from simloop.trace.looptrace import LoopTrace

_SETTINGS = ("loop", "seed", "python", "scenario_digest")


class Setting(NamedTuple):
    """A setting that differed before two runs began, so that the runs may differ too."""

    name: str
    one: str  # `none` stands for a missing limit
    other: str


def recorded_scenario(trace: LoopTrace) -> Scenario:
    """Return the scenario of a trace. Raises ScenarioError, also if its run needed Python code."""
    if code := ", ".join(name for name in trace.header.python if name != "loop"):
        message = f"this run needed Python code that a trace does not hold: {code}"
        hint = "run it again from Python, and compare with: simloop diff"
        raise ScenarioError(message, hint=hint)
    try:
        return Scenario.model_validate_json(bytes(trace.header.scenario))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        wrong = f"the scenario in the header, line 1, cannot be read: {first['msg']}"
        raise ScenarioError(wrong, key=place) from error


def needs_loop(trace: LoopTrace) -> bool:
    """Return whether a run is only repeated with its loop, which does not come with simloop."""
    header = trace.header
    return OF_A_TEST not in header.python and (is_own(header.loop) or "loop" in header.python)


def recorded_run(trace: LoopTrace, loop: str | None = None) -> tuple[Scenario, RunOptions]:
    """Return the scenario of a trace, and the options with which it runs as it was recorded.

    `loop` replaces the loop of the trace. It is required if that is not one of simloop's: a trace
    may come from a stranger, whose code would run. Raises ScenarioError if it is missing, and as
    `recorded_scenario`.
    """
    recorded = trace.header.loop
    if OF_A_TEST in trace.header.python:
        raise ScenarioError(
            f"this run was of the test `{recorded}`, whose fixtures a trace does not hold",
            hint=f"run the test again with --simloop-seed {trace.header.seed} --simloop-trace=on, "
            "and compare with: simloop diff",
        )
    if loop is None and needs_loop(trace):
        is_name = is_own(recorded) and "<locals>" not in recorded
        named = f"if you trust it, add: --loop {shlex.quote(recorded)}"
        raise ScenarioError(
            f"this run was of the loop `{recorded}`, which does not come with simloop; a trace may "
            "come from a stranger, so no module is imported that only the trace names",
            hint=named if is_name else "give it by name: --loop module:attribute",
        )
    chosen = loop or recorded
    judge_as = trace.header.judge_as if is_own(chosen) else ""
    options: RunOptions = {"seed": trace.header.seed, "loop": chosen, "judge_as": judge_as}
    return recorded_scenario(trace), options


def rerun(trace: LoopTrace, loop: str | None = None) -> LoopTrace:
    """Run the recorded scenario again, as far as `trace` goes. Raises as `recorded_run`."""
    scenario, options = recorded_run(trace, loop)
    return as_far_as(trace, run_to_the_end(scenario, **options))


def as_far_as(cut: LoopTrace, trace: LoopTrace) -> LoopTrace:
    """Return `trace`, but no longer than `cut` if that has no end."""
    if cut.footer is not None:
        return trace
    return replace(trace, entries=trace.entries[: len(cut.entries)], footer=None)


def different_settings(one: Header, other: Header) -> Iterator[Setting]:
    """Yield the settings that differed before two runs: loop, seed, limits, scenario."""
    found = {name: (getattr(one, name), getattr(other, name)) for name in _SETTINGS}
    for name in (*one.limits, *other.limits):
        found[f"limits.{name}"] = one.limits.get(name), other.limits.get(name)
    for name, both in found.items():
        if both[0] != both[1]:
            yield Setting(name, *("none" if each is None else str(each) for each in both))
