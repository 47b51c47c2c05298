"""The conversion of a Scenario to the world and the engine settings of its run.

Not here: running it (simulation.py). The rule to keep: a scripted tool or hook becomes a plain
Python function, so the simulator knows one kind of each. A function that takes no time is not
async, which avoids the cost of a coroutine.
"""

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from simloop.engine.hooks import Callbacks, Hooks
from simloop.engine.scripted_context import ContextScript
from simloop.engine.settings import EngineSettings
from simloop.errors import ScenarioError
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Feature
from simloop.kernel.policies import Policies, ToolExecution, ToolStart
from simloop.kernel.tokens import utf8_bytes_over_4
from simloop.runs.options import RunOptions
from simloop.runs.own_loop import OF_LOOPS
from simloop.runs.scripted_tools import pause, scripted_tool
from simloop.scenario.history import past_messages
from simloop.scenario.schema import HookPoint, Scenario, ScriptedHook
from simloop.scenario.strict import differs
from simloop.trace.kinds import ENGINE_TRIGGERS
from simloop.virtual.seeds import Seeds
from simloop.world.fake_model import Model, ScriptedFailure, ScriptEntry
from simloop.world.faults import FaultSites, FaultyModel, faulty_tool
from simloop.world.files import Files
from simloop.world.tools import Tool
from simloop.world.user_function import UserFunction

_USUAL = Limits()


def features_of(scenario: Scenario, given: RunOptions) -> dict[Feature, bool]:
    """Return the features that not every loop design has, each with whether the run needs it."""
    return {
        Feature.HOOKS: bool(scenario.hooks or given.get("hooks") or given.get("hook_cost")),
        Feature.ABORT: scenario.abort is not None,
        Feature.COMPACTION: _needs_summaries(scenario)
        or bool(scenario.compaction or scenario.context),
        Feature.EARLY_TOOLS: scenario.tool_execution is not None
        and scenario.tool_execution.start is ToolStart.WHEN_CALLED,
        Feature.HISTORY: bool(scenario.history),
        Feature.LIMITS: any(
            getattr(scenario.limits, name) != getattr(_USUAL, name)
            for name in (*OF_LOOPS, "first_part_timeout_ms", "model_call_timeout_ms")
        ),
        Feature.TRIGGERS: any(
            trigger.after in ENGINE_TRIGGERS for trigger in scenario.triggers().values()
        ),
        Feature.SYSTEM_PROMPT: bool(scenario.system_prompt),
        Feature.POLICIES: _has_policies(scenario)
        or any(given.get(name) for name in ("retry", "callbacks", "estimate_tokens")),
    }


def _needs_summaries(scenario: Scenario) -> bool:
    """Return whether a compaction of the engine must ask for summaries.

    A reply for `always` is also for an agent that asks for summaries itself.
    """
    return any(reply.times != "always" for reply in scenario.summaries)


def _has_policies(scenario: Scenario) -> bool:
    """Return whether the scenario sets a policy of the engine."""
    policies = (
        *(scenario.retry, scenario.hook_isolation, scenario.hook_execution),
        scenario.warn_after,
    )
    return (
        any(each is not None for each in policies)
        or differs(scenario, "clock")
        or _has_policy_of_tools(scenario)
    )


def _has_policy_of_tools(scenario: Scenario) -> bool:
    """Return whether the scenario sets how tools run; a timeout alone is kept by the world."""
    policy = scenario.tool_execution
    return policy is not None and (policy.order is not None or policy.start is not None)


def script_of(scenario: Scenario) -> tuple[list[ScriptEntry], list[ScriptEntry]]:
    """Return the scenario's script, as the arguments of a fake model that plays it."""
    return (
        [reply.entry(f"model.{index}") for index, reply in enumerate(scenario.model)],
        [reply.entry(f"summaries.{index}") for index, reply in enumerate(scenario.summaries)],
    )


def _file_tools(files: Files, scenario: Scenario) -> dict[str, Tool]:
    # Few scenarios have files, and the patterns of a shell take long to compile.
    from simloop.world.file_tools import file_tools  # noqa: PLC0415

    return file_tools(files, scenario.shell_timeout // 10**6)


def scripted_tools(scenario: Scenario, files: Files | None = None) -> dict[str, Tool]:
    """Return the scenario's tools by name; the tools over its files come first."""
    own = {name: scripted_tool(name, spec) for name, spec in scenario.tools.items()}
    return own if files is None else {**_file_tools(files, scenario), **own}


def scripted_hooks(scenario: Scenario) -> Hooks:
    """Return the scenario's hooks, in order."""

    def at(point: HookPoint) -> Iterable[UserFunction]:
        numbered = enumerate(scenario.hooks)
        return [_hook(spec, number) for number, spec in numbered if spec.at == point]

    return Hooks(
        before_llm_call=at("before_llm_call"),
        after_llm_call=at("after_llm_call"),
        before_tool_call=at("before_tool_call"),
        after_tool_call=at("after_tool_call"),
    )


def hooks_of(scenario: Scenario, given: RunOptions) -> Hooks:
    """Return the hooks of one run, as those of a script count their calls."""
    own = given.get("hooks") or _NO_HOOKS
    return scripted_hooks(scenario) + own if scenario.hooks else own


_NO_HOOKS, _NO_CALLBACKS = Hooks(), Callbacks()


def python_code(given: RunOptions, tools: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the Python code that a trace cannot hold, without the user's own loop."""
    names = ("hooks", "callbacks", "model", "retry", "estimate_tokens")
    code = (name for name in names if given.get(name))
    return (*(f"tool {name}" for name in tools), *code)


def tool_execution_of(scenario: Scenario, policies: Policies) -> ToolExecution:
    """Return how tools run: the scenario's settings, with the loop's for those it leaves unset."""
    own = policies.tool_execution
    return scenario.tool_execution.on(own) if scenario.tool_execution else own


class Surroundings(NamedTuple):
    """The model and the tools of a conversation, with the faults of chance if it has some."""

    model: Model
    tools: Mapping[str, Tool]
    faulty: Callable[[Tool], Tool] | None
    sites: FaultSites | None = None


def surroundings_of(
    scenario: Scenario,
    tools: dict[str, Tool],
    model: Model,
    seeds: Seeds,
    files: Files | None,
) -> Surroundings:
    """Return the model and the tools of a run; `tools` are all but those over its files."""
    if files is not None:
        tools = {**_file_tools(files, scenario), **tools}
    _check_tools_of_hooks(scenario, tools)
    if scenario.faults is None:
        return Surroundings(model, tools, None)
    sites = FaultSites(scenario.faults, seeds)
    faulty = functools.partial(faulty_tool, sites=sites)
    tools = {name: faulty(tool) for name, tool in tools.items()}
    return Surroundings(FaultyModel(model, sites), tools, faulty, sites)


def settings_of(
    scenario: Scenario, given: RunOptions, policies: Policies
) -> Callable[..., EngineSettings]:
    """Return a function that makes the settings of one run from its hooks, seeds and faults.

    The loop's `policies` supply each setting that neither the scenario nor the caller states.
    """
    return functools.partial(
        EngineSettings,
        callbacks=given.get("callbacks") or _NO_CALLBACKS,
        system_prompt=scenario.system_prompt,
        history=past_messages(scenario.history),
        limits=scenario.limits,
        retry=given.get("retry") or scenario.retry or policies.retry,
        compaction=scenario.compaction or policies.compaction,
        tool_execution=tool_execution_of(scenario, policies),
        hook_isolation=scenario.hook_isolation or policies.hook_isolation,
        hook_execution=scenario.hook_execution or policies.hook_execution,
        tool_rules=policies.tool_rules,
        report_failed_tools=policies.report_failed_tools,
        sent_back=policies.sent_back,
        abort_is_flag=policies.abort_is_flag,
        estimate_tokens=given.get("estimate_tokens") or utf8_bytes_over_4,
        context=_context(scenario),
        clock_skew_ns=scenario.clock.ahead - scenario.clock.behind,
        replies=policies.replies,
        warn_after=policies.warn_after if scenario.warn_after is None else scenario.warn_after,
        max_transitions=scenario.max_transitions,
    )


def _check_tools_of_hooks(scenario: Scenario, tools: Mapping[str, object]) -> None:
    """Raise ScenarioError if a hook can never act because it names a missing tool."""
    if not scenario.hooks:
        return
    tools = {**tools, **{name: None for hook in scenario.hooks for name in hook.add_tools}}
    for index, hook in enumerate(scenario.hooks):
        named = [("tool", hook.tool), *(("hide_tools", name) for name in hook.hide_tools)]
        for field, name in named:
            if name is not None and name not in tools:
                known = ", ".join(tools) or "none"
                close = difflib.get_close_matches(name, tools, n=1)
                hint = f"did you mean `{close[0]}`?" if close else f"there are: {known}"
                raise ScenarioError(
                    f"there is no tool `{name}`",
                    path=scenario.path or None,
                    key=f"hooks.{index}.{field}",
                    hint=hint,
                )


def _context(scenario: Scenario) -> ContextScript | None:
    if scenario.context is None:
        return None
    return ContextScript(over=tuple(scenario.context.over), shrunk=tuple(scenario.context.shrunk))


def _hook(spec: ScriptedHook, number: int) -> UserFunction:
    asked = 0
    added = {name: scripted_tool(name, tool) for name, tool in spec.add_tools.items()}

    def is_due(given: Any) -> bool:
        nonlocal asked
        if spec.tool is not None and given.call.name != spec.tool:
            return False
        asked += 1
        return spec.nth in (None, asked)

    def act(given: Any) -> None:
        if is_due(given):
            do(given)

    def do(given: Any) -> None:
        if spec.raises is not None:
            raise ScriptedFailure(spec.raises)
        if added:
            given.tools.update(added)
        _change(spec, given)

    async def act_later(given: Any) -> None:
        if not is_due(given):
            return
        if spec.waits == "after":
            do(given)
        await pause(spec.takes, hangs=spec.hangs)
        if spec.waits == "before":
            do(given)

    return UserFunction(
        act_later if spec.takes or spec.hangs else act,
        spec.name or f"hook-{number}",
        is_independent=spec.independent,
    )


def _change(spec: ScriptedHook, given: Any) -> None:
    if spec.block is not None:
        given.block(spec.block)
    if spec.system_prompt is not None:
        given.system_prompt = spec.system_prompt
    for name in spec.hide_tools:
        given.tools.pop(name, None)
    if spec.arguments:
        given.arguments.update(spec.arguments)  # in place: the change must not reach the reply
    if spec.result is not None:
        given.result = msgspec.structs.replace(given.result, text=spec.result)
