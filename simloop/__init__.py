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
        CheckFailed as CheckFailed,
    )
    from simloop.errors import (
        Deadlock as Deadlock,
    )
    from simloop.errors import (
        ExpectationFailed as ExpectationFailed,
    )
    from simloop.errors import (
        InternalError as InternalError,
    )
    from simloop.errors import (
        RunawayRun as RunawayRun,
    )
    from simloop.errors import (
        ScenarioError as ScenarioError,
    )
    from simloop.errors import (
        ScriptExhausted as ScriptExhausted,
    )
    from simloop.errors import (
        ScriptUnused as ScriptUnused,
    )
    from simloop.errors import (
        SimloopError as SimloopError,
    )
    from simloop.kernel.limits import Limits as Limits
    from simloop.kernel.policies import (
        Compaction as Compaction,
    )
    from simloop.kernel.policies import (
        HookIsolation as HookIsolation,
    )
    from simloop.kernel.policies import (
        ToolExecution as ToolExecution,
    )
    from simloop.kernel.retry import ExponentialBackoff as ExponentialBackoff
    from simloop.messages import (
        FinishReason as FinishReason,
    )
    from simloop.messages import (
        Outcome as Outcome,
    )
    from simloop.messages import (
        ToolResult as ToolResult,
    )
    from simloop.scenario.loader import (
        load_scenario as load_scenario,
    )
    from simloop.scenario.loader import (
        parse_scenario as parse_scenario,
    )
    from simloop.scenario.replies import Http as Http
    from simloop.scenario.replies import Reply as Reply
    from simloop.scenario.result import Result as Result
    from simloop.scenario.schema import (
        Expect as Expect,
    )
    from simloop.scenario.schema import (
        Scenario as Scenario,
    )
    from simloop.scenario.schema import (
        ScriptedHook as ScriptedHook,
    )
    from simloop.scenario.schema import (
        ScriptedTool as ScriptedTool,
    )
    from simloop.scenario.simulation import Simulation as Simulation
    from simloop.scenario.simulation import arun as arun
    from simloop.scenario.simulation import run as run
    from simloop.sim.hooks import Callbacks as Callbacks
    from simloop.sim.hooks import Hooks as Hooks
    from simloop.sim.simulate import simulate as simulate
    from simloop.sim.tools import Tool as Tool
    from simloop.trace.codec import read_trace as read_trace
    from simloop.trace.codec import write_trace as write_trace

_MODULES = {
    "simloop.errors": "CheckFailed Deadlock ExpectationFailed InternalError RunawayRun ScenarioError ScriptExhausted ScriptUnused SimloopError",
    "simloop.kernel.limits": "Limits",
    "simloop.kernel.policies": "Compaction HookIsolation ToolExecution",
    "simloop.kernel.retry": "ExponentialBackoff",
    "simloop.messages": "FinishReason Outcome ToolResult",
    "simloop.scenario.loader": "load_scenario parse_scenario",
    "simloop.scenario.replies": "Http Reply",
    "simloop.scenario.result": "Result",
    "simloop.scenario.schema": "Expect Scenario ScriptedHook ScriptedTool",
    "simloop.scenario.simulation": "Simulation arun run",
    "simloop.sim.hooks": "Callbacks Hooks",
    "simloop.sim.simulate": "simulate",
    "simloop.sim.tools": "Tool",
    "simloop.trace.codec": "read_trace write_trace",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'simloop' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
