"""Deterministic simulation testing for LLM agent loops.

    from simloop import Reply, Scenario, run

    result = run(Scenario(prompt="Hello?", model=[Reply(say="Hello.")]))
    assert result.text == "Hello."

This module is the public interface, and nothing else re-exports. Names load
lazily, so the pytest plugin and `--version` start fast. This module imports no other when it
loads, because it loads before the command can handle a Ctrl-C.
"""

TYPE_CHECKING = False  # a type checker takes it for true; `typing` takes 8 ms to import
if TYPE_CHECKING:
    from simloop.engine.hooks import (
        AfterLLMCall,
        AfterToolCall,
        BeforeLLMCall,
        BeforeToolCall,
        Callbacks,
        HookInput,
        Hooks,
    )
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
    from simloop.kernel.errorclass import ErrorClass
    from simloop.kernel.limits import Limits
    from simloop.kernel.machine import Machine
    from simloop.kernel.policies import Compaction, HookIsolation, ToolExecution
    from simloop.kernel.retry import ExponentialBackoff, RetryPolicy
    from simloop.messages import (
        AssistantMessage,
        Fault,
        Finish,
        FinishReason,
        Message,
        Outcome,
        Part,
        ReasoningDelta,
        Request,
        StreamError,
        SummaryMessage,
        TextDelta,
        ToolCall,
        ToolCallDelta,
        ToolCallPart,
        ToolMessage,
        ToolResult,
        ToolSpec,
        Usage,
        UserMessage,
    )
    from simloop.runs.conversation import Agent
    from simloop.runs.fixtures import MakeFakeModel, SimloopRun, VirtualClock
    from simloop.runs.mismatch import Mismatch
    from simloop.runs.options import RunOptions
    from simloop.runs.result import Result
    from simloop.runs.simulation import Simulation, arun, run
    from simloop.scenario.durations import duration
    from simloop.scenario.expect import Expect
    from simloop.scenario.history import PastMessage
    from simloop.scenario.loader import load_scenario, parse_scenario
    from simloop.scenario.replies import Http, Pace, Reply, StreamFault, TokenUsage, When
    from simloop.scenario.schema import (
        Context,
        Queued,
        Scenario,
        ScriptedHook,
        ScriptedTool,
        Trigger,
    )
    from simloop.trace.codec import read_trace, write_trace
    from simloop.trace.exports.event import Event
    from simloop.trace.looptrace import LoopTrace
    from simloop.virtual.simulate import simulate
    from simloop.world.fake_model import FakeModel, Model
    from simloop.world.tools import Tool
    from simloop.world.user_errors import UserError

__version__ = "0.1.0"

_HOME = {
    "AfterLLMCall": "simloop.engine.hooks",
    "AfterToolCall": "simloop.engine.hooks",
    "Agent": "simloop.runs.conversation",
    "AssistantMessage": "simloop.messages",
    "BeforeLLMCall": "simloop.engine.hooks",
    "BeforeToolCall": "simloop.engine.hooks",
    "Callbacks": "simloop.engine.hooks",
    "CheckFailed": "simloop.errors",
    "Compaction": "simloop.kernel.policies",
    "Context": "simloop.scenario.schema",
    "Deadlock": "simloop.errors",
    "ErrorClass": "simloop.kernel.errorclass",
    "Event": "simloop.trace.exports.event",
    "Expect": "simloop.scenario.expect",
    "ExpectationFailed": "simloop.errors",
    "ExponentialBackoff": "simloop.kernel.retry",
    "FakeModel": "simloop.world.fake_model",
    "Fault": "simloop.messages",
    "Finish": "simloop.messages",
    "FinishReason": "simloop.messages",
    "HookInput": "simloop.engine.hooks",
    "HookIsolation": "simloop.kernel.policies",
    "Hooks": "simloop.engine.hooks",
    "Http": "simloop.scenario.replies",
    "InternalError": "simloop.errors",
    "InvariantViolated": "simloop.errors",
    "Limits": "simloop.kernel.limits",
    "LoopTrace": "simloop.trace.looptrace",
    "Machine": "simloop.kernel.machine",
    "MakeFakeModel": "simloop.runs.fixtures",
    "Message": "simloop.messages",
    "Mismatch": "simloop.runs.mismatch",
    "Model": "simloop.world.fake_model",
    "Outcome": "simloop.messages",
    "Pace": "simloop.scenario.replies",
    "Part": "simloop.messages",
    "PastMessage": "simloop.scenario.history",
    "Queued": "simloop.scenario.schema",
    "ReasoningDelta": "simloop.messages",
    "Reply": "simloop.scenario.replies",
    "Request": "simloop.messages",
    "Result": "simloop.runs.result",
    "RetryPolicy": "simloop.kernel.retry",
    "RunOptions": "simloop.runs.options",
    "RunawayRun": "simloop.errors",
    "Scenario": "simloop.scenario.schema",
    "ScenarioError": "simloop.errors",
    "ScriptExhausted": "simloop.errors",
    "ScriptUnused": "simloop.errors",
    "ScriptedHook": "simloop.scenario.schema",
    "ScriptedTool": "simloop.scenario.schema",
    "SimloopError": "simloop.errors",
    "SimloopRun": "simloop.runs.fixtures",
    "Simulation": "simloop.runs.simulation",
    "StreamError": "simloop.messages",
    "StreamFault": "simloop.scenario.replies",
    "SummaryMessage": "simloop.messages",
    "TextDelta": "simloop.messages",
    "TokenUsage": "simloop.scenario.replies",
    "Tool": "simloop.world.tools",
    "ToolCall": "simloop.messages",
    "ToolCallDelta": "simloop.messages",
    "ToolCallPart": "simloop.messages",
    "ToolExecution": "simloop.kernel.policies",
    "ToolMessage": "simloop.messages",
    "ToolResult": "simloop.messages",
    "ToolSpec": "simloop.messages",
    "Trigger": "simloop.scenario.schema",
    "Usage": "simloop.messages",
    "UserError": "simloop.world.user_errors",
    "UserMessage": "simloop.messages",
    "VirtualClock": "simloop.runs.fixtures",
    "When": "simloop.scenario.replies",
    "arun": "simloop.runs.simulation",
    "duration": "simloop.scenario.durations",
    "load_scenario": "simloop.scenario.loader",
    "parse_scenario": "simloop.scenario.loader",
    "read_trace": "simloop.trace.codec",
    "run": "simloop.runs.simulation",
    "simulate": "simloop.virtual.simulate",
    "write_trace": "simloop.trace.codec",
}

__all__ = [
    "AfterLLMCall",
    "AfterToolCall",
    "Agent",
    "AssistantMessage",
    "BeforeLLMCall",
    "BeforeToolCall",
    "Callbacks",
    "CheckFailed",
    "Compaction",
    "Context",
    "Deadlock",
    "ErrorClass",
    "Event",
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
    "SummaryMessage",
    "TextDelta",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallPart",
    "ToolExecution",
    "ToolMessage",
    "ToolResult",
    "ToolSpec",
    "Trigger",
    "Usage",
    "UserError",
    "UserMessage",
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
    import importlib  # noqa: PLC0415 - see the docstring of the module

    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
