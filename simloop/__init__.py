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
    from simloop.kernel.machine import Machine
    from simloop.kernel.policies import Compaction, HookIsolation, ToolExecution
    from simloop.kernel.retry import ExponentialBackoff, RetryPolicy
    from simloop.messages import (
        Fault,
        Finish,
        FinishReason,
        Message,
        Outcome,
        Part,
        ReasoningDelta,
        Request,
        StreamError,
        TextDelta,
        ToolCall,
        ToolCallPart,
        ToolResult,
        Usage,
    )
    from simloop.scenario.agent import Agent
    from simloop.scenario.durations import duration
    from simloop.scenario.expect import Expect
    from simloop.scenario.fixtures import MakeFakeModel, SimloopRun, VirtualClock
    from simloop.scenario.history import PastMessage
    from simloop.scenario.loader import load_scenario, parse_scenario
    from simloop.scenario.mismatch import Mismatch
    from simloop.scenario.replies import Http, Pace, Reply, StreamFault, TokenUsage, When
    from simloop.scenario.result import Result
    from simloop.scenario.runoptions import RunOptions
    from simloop.scenario.schema import (
        Context,
        Queued,
        Scenario,
        ScriptedHook,
        ScriptedTool,
        Trigger,
    )
    from simloop.scenario.simulation import Simulation, arun, run
    from simloop.sim.hooks import (
        AfterLLMCall,
        AfterToolCall,
        BeforeLLMCall,
        BeforeToolCall,
        Callbacks,
        HookInput,
        Hooks,
    )
    from simloop.sim.model import FakeModel, Model
    from simloop.sim.simulate import simulate
    from simloop.sim.tools import Tool
    from simloop.sim.usererror import UserError
    from simloop.trace.codec import read_trace, write_trace
    from simloop.trace.looptrace import LoopTrace

__version__ = "0.1.0"

_HOME = {
    "AfterLLMCall": "simloop.sim.hooks",
    "AfterToolCall": "simloop.sim.hooks",
    "Agent": "simloop.scenario.agent",
    "BeforeLLMCall": "simloop.sim.hooks",
    "BeforeToolCall": "simloop.sim.hooks",
    "Callbacks": "simloop.sim.hooks",
    "CheckFailed": "simloop.errors",
    "Compaction": "simloop.kernel.policies",
    "Context": "simloop.scenario.schema",
    "Deadlock": "simloop.errors",
    "Expect": "simloop.scenario.expect",
    "ExpectationFailed": "simloop.errors",
    "ExponentialBackoff": "simloop.kernel.retry",
    "FakeModel": "simloop.sim.model",
    "Fault": "simloop.messages",
    "Finish": "simloop.messages",
    "FinishReason": "simloop.messages",
    "HookInput": "simloop.sim.hooks",
    "HookIsolation": "simloop.kernel.policies",
    "Hooks": "simloop.sim.hooks",
    "Http": "simloop.scenario.replies",
    "InternalError": "simloop.errors",
    "InvariantViolated": "simloop.errors",
    "Limits": "simloop.kernel.limits",
    "LoopTrace": "simloop.trace.looptrace",
    "Machine": "simloop.kernel.machine",
    "MakeFakeModel": "simloop.scenario.fixtures",
    "Message": "simloop.messages",
    "Mismatch": "simloop.scenario.mismatch",
    "Model": "simloop.sim.model",
    "Outcome": "simloop.messages",
    "Pace": "simloop.scenario.replies",
    "Part": "simloop.messages",
    "PastMessage": "simloop.scenario.history",
    "Queued": "simloop.scenario.schema",
    "ReasoningDelta": "simloop.messages",
    "Reply": "simloop.scenario.replies",
    "Request": "simloop.messages",
    "Result": "simloop.scenario.result",
    "RetryPolicy": "simloop.kernel.retry",
    "RunOptions": "simloop.scenario.runoptions",
    "RunawayRun": "simloop.errors",
    "Scenario": "simloop.scenario.schema",
    "ScenarioError": "simloop.errors",
    "ScriptExhausted": "simloop.errors",
    "ScriptUnused": "simloop.errors",
    "ScriptedHook": "simloop.scenario.schema",
    "ScriptedTool": "simloop.scenario.schema",
    "SimloopError": "simloop.errors",
    "SimloopRun": "simloop.scenario.fixtures",
    "Simulation": "simloop.scenario.simulation",
    "StreamError": "simloop.messages",
    "StreamFault": "simloop.scenario.replies",
    "TextDelta": "simloop.messages",
    "TokenUsage": "simloop.scenario.replies",
    "Tool": "simloop.sim.tools",
    "ToolCall": "simloop.messages",
    "ToolCallPart": "simloop.messages",
    "ToolExecution": "simloop.kernel.policies",
    "ToolResult": "simloop.messages",
    "Trigger": "simloop.scenario.schema",
    "Usage": "simloop.messages",
    "UserError": "simloop.sim.usererror",
    "VirtualClock": "simloop.scenario.fixtures",
    "When": "simloop.scenario.replies",
    "arun": "simloop.scenario.simulation",
    "duration": "simloop.scenario.durations",
    "load_scenario": "simloop.scenario.loader",
    "parse_scenario": "simloop.scenario.loader",
    "read_trace": "simloop.trace.codec",
    "run": "simloop.scenario.simulation",
    "simulate": "simloop.sim.simulate",
    "write_trace": "simloop.trace.codec",
}

__all__ = [
    "AfterLLMCall",
    "AfterToolCall",
    "Agent",
    "BeforeLLMCall",
    "BeforeToolCall",
    "Callbacks",
    "CheckFailed",
    "Compaction",
    "Context",
    "Deadlock",
    "Expect",
    "ExpectationFailed",
    "ExponentialBackoff",
    "FakeModel",
    "Fault",
    "Finish",
    "FinishReason",
    "HookInput",
    "HookIsolation",
    "Hooks",
    "Http",
    "InternalError",
    "InvariantViolated",
    "Limits",
    "LoopTrace",
    "Machine",
    "MakeFakeModel",
    "Message",
    "Mismatch",
    "Model",
    "Outcome",
    "Pace",
    "Part",
    "PastMessage",
    "Queued",
    "ReasoningDelta",
    "Reply",
    "Request",
    "Result",
    "RetryPolicy",
    "RunOptions",
    "RunawayRun",
    "Scenario",
    "ScenarioError",
    "ScriptExhausted",
    "ScriptUnused",
    "ScriptedHook",
    "ScriptedTool",
    "SimloopError",
    "SimloopRun",
    "Simulation",
    "StreamError",
    "StreamFault",
    "TextDelta",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolCallPart",
    "ToolExecution",
    "ToolResult",
    "Trigger",
    "Usage",
    "UserError",
    "VirtualClock",
    "When",
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
