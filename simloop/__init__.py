"""Deterministic simulation testing for LLM agent loops.

    from simloop import Reply, Scenario, run

    result = run(Scenario(prompt="Hello?", model=[Reply(say="Hello.")]))
    assert result.text == "Hello."

This module is the public interface, and nothing else re-exports. A name is imported when it is
first used: `import simloop` costs next to nothing, so a pytest plugin or a `--version` can.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simloop.errors import (
        CheckFailed,
        Deadlock,
        ExpectationFailed,
        InternalError,
        InvariantViolated,
        RunawayRun,
        ScenarioError,
        ScriptExhausted,
        ScriptUnused,
        SimloopError,
    )
    from simloop.kernel.limits import Limits
    from simloop.kernel.policies import (
        Compaction,
        HookIsolation,
        ToolExecution,
    )
    from simloop.kernel.retry import ExponentialBackoff
    from simloop.messages import (
        FinishReason,
        Outcome,
        ToolResult,
    )
    from simloop.scenario.agent import Agent
    from simloop.scenario.durations import duration
    from simloop.scenario.expect import Expect
    from simloop.scenario.loader import (
        load_scenario,
        parse_scenario,
    )
    from simloop.scenario.replies import Http, Reply
    from simloop.scenario.result import Result
    from simloop.scenario.schema import Scenario, ScriptedHook, ScriptedTool
    from simloop.scenario.simulation import Simulation, arun, run
    from simloop.sim.hooks import Callbacks, Hooks
    from simloop.sim.simulate import simulate
    from simloop.sim.tools import Tool
    from simloop.trace.codec import read_trace, write_trace

__version__ = "0.1.0"

_HOME = {
    "duration": "simloop.scenario.durations",
    "Agent": "simloop.scenario.agent",
    "Callbacks": "simloop.sim.hooks",
    "CheckFailed": "simloop.errors",
    "Compaction": "simloop.kernel.policies",
    "Deadlock": "simloop.errors",
    "Expect": "simloop.scenario.expect",
    "ExpectationFailed": "simloop.errors",
    "ExponentialBackoff": "simloop.kernel.retry",
    "FinishReason": "simloop.messages",
    "HookIsolation": "simloop.kernel.policies",
    "Hooks": "simloop.sim.hooks",
    "Http": "simloop.scenario.replies",
    "InternalError": "simloop.errors",
    "InvariantViolated": "simloop.errors",
    "Limits": "simloop.kernel.limits",
    "Outcome": "simloop.messages",
    "Reply": "simloop.scenario.replies",
    "Result": "simloop.scenario.result",
    "RunawayRun": "simloop.errors",
    "Scenario": "simloop.scenario.schema",
    "ScenarioError": "simloop.errors",
    "ScriptExhausted": "simloop.errors",
    "ScriptUnused": "simloop.errors",
    "ScriptedHook": "simloop.scenario.schema",
    "ScriptedTool": "simloop.scenario.schema",
    "SimloopError": "simloop.errors",
    "Simulation": "simloop.scenario.simulation",
    "Tool": "simloop.sim.tools",
    "ToolExecution": "simloop.kernel.policies",
    "ToolResult": "simloop.messages",
    "arun": "simloop.scenario.simulation",
    "load_scenario": "simloop.scenario.loader",
    "parse_scenario": "simloop.scenario.loader",
    "read_trace": "simloop.trace.codec",
    "run": "simloop.scenario.simulation",
    "simulate": "simloop.sim.simulate",
    "write_trace": "simloop.trace.codec",
}

__all__ = [
    "Agent",
    "Callbacks",
    "CheckFailed",
    "Compaction",
    "Deadlock",
    "Expect",
    "ExpectationFailed",
    "ExponentialBackoff",
    "FinishReason",
    "HookIsolation",
    "Hooks",
    "Http",
    "InternalError",
    "InvariantViolated",
    "Limits",
    "Outcome",
    "Reply",
    "Result",
    "RunawayRun",
    "Scenario",
    "ScenarioError",
    "ScriptExhausted",
    "ScriptUnused",
    "ScriptedHook",
    "ScriptedTool",
    "SimloopError",
    "Simulation",
    "Tool",
    "ToolExecution",
    "ToolResult",
    "arun",
    "duration",
    "load_scenario",
    "parse_scenario",
    "read_trace",
    "run",
    "simulate",
    "write_trace",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'simloop' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
