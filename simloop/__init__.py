"""Deterministic simulation testing for LLM agent loops.

    from simloop import Reply, Scenario, run

    result = run(Scenario(prompt="Hello?", model=[Reply(say="Hello.")]))
    assert result.text == "Hello."

This module is the public interface; nothing else re-exports.
"""

from simloop.errors import (
    CheckFailed,
    Deadlock,
    ExpectationFailed,
    InternalError,
    RunawayRun,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
    SimloopError,
)
from simloop.kernel.limits import Limits
from simloop.kernel.policies import Compaction, HookIsolation, ToolExecution
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import FinishReason, Outcome, ToolResult
from simloop.scenario.loader import load_scenario, parse_scenario
from simloop.scenario.replies import Http, Reply
from simloop.scenario.result import Result
from simloop.scenario.schema import Expect, Scenario, ScriptedHook, ScriptedTool
from simloop.scenario.simulation import Simulation, arun, run
from simloop.sim.hooks import Callbacks, Hooks
from simloop.sim.simulate import simulate
from simloop.sim.tools import Tool
from simloop.trace.codec import read_trace, write_trace

__all__ = [
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
    "load_scenario",
    "parse_scenario",
    "read_trace",
    "run",
    "simulate",
    "write_trace",
]
