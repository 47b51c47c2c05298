"""The plan of a run: a scenario and a loop, checked and converted once for any number of runs.

Nothing in a plan changes during a run. An object that keeps state (the model, the hooks of a
script, the files, the faults of chance) is made anew for each run, by the methods.
"""

import copy
import difflib
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, cast

import msgspec
from pydantic_core import PydanticSerializationError

from simloop.engine.hooks import Callbacks, Hooks
from simloop.engine.settings import ContextScript, EngineSettings
from simloop.errors import CannotExpress, ScenarioError
from simloop.kernel.limits import USUAL_MOVES, Limits
from simloop.kernel.machine import Feature
from simloop.kernel.policies import Policies, ToolExecution, ToolStart, utf8_bytes_over_4
from simloop.runs.loop import A_MACHINE, OF_LOOPS, loop_of, with_loop_options
from simloop.runs.options import GivenLoop, RunOptions, check_options, check_scenario
from simloop.runs.scripted import behaviours_of, file_tools_of, scripted_hooks, scripted_tools
from simloop.scenario.catalog import Expectations, name_of
from simloop.scenario.history import past_messages
from simloop.scenario.replies import parts_of_fault
from simloop.scenario.schema import Scenario
from simloop.trace.codec import FORMAT, VERSION, digest
from simloop.trace.entries import Header
from simloop.trace.kinds import ENGINE_TRIGGERS
from simloop.virtual.seeds import Seeds
from simloop.world.chance import FaultSites, FaultyModel, faulty_tool
from simloop.world.fake_model import FakeModel, FunctionModel, Model, ScriptEntry
from simloop.world.files import Files
from simloop.world.own_tools import ToolBehaviour
from simloop.world.tools import Tool, toolbox

_NO_HOOKS, _NO_CALLBACKS = Hooks(), Callbacks()


class Surroundings(NamedTuple):
    """The model, the files and the tools of one run, with the faults of chance if it has some.

    `script` is the model without those faults.
    """

    script: Model
    model: Model
    files: Files | None
    tools: Mapping[str, Tool]
    faulty: Callable[[Tool], Tool] | None = None
    sites: FaultSites | None = None


class Plan:
    """A scenario with the caller's options, checked and ready to run with any seed.

    `source` is the scenario as it was given; `scenario` has the options of the loop, too, and
    `content` is that in JSON. `python` names the Python code that the runs need besides the
    scenario. The lists and mappings of the scenario must not change while the plan is in use.
    """

    def __init__(self, scenario: Scenario, given: RunOptions) -> None:
        check_scenario(scenario)
        check_options(given)
        self.source = scenario
        try:
            self.scenario = scenario = with_loop_options(scenario, given)
            self.loop = loop_of(scenario, given)
            self._check_features(given)
        except ScenarioError as error:
            error.path = self.source.path or None
            raise
        tools = toolbox(given.get("tools", ()))
        self.given = cast("RunOptions", {**given, "tools": tools})
        self.python = (
            *(f"tool {name}" for name in tools),
            *(name for name in _CODE if given.get(name)),
            *(("loop",) if self.loop.is_own else ()),
        )
        if given.get("model") is not None and (scenario.model or scenario.summaries):
            raise ScenarioError(
                "there are two models: a script in the scenario, and `model`",
                key="model",
                hint="leave one of them out",
            )
        self._script = script_of(scenario)
        self._tools = {**scripted_tools(scenario), **tools}
        self.behaviours: Mapping[str, ToolBehaviour] | None = None
        """The behaviour of the tools that an agent's own code calls; a machine has none."""
        if self.loop.machine is None:
            self.behaviours = behaviours_of(scenario.tools)
        self._command: tuple[str, str] | None = None
        self._settings = _settings_of(scenario, given, self.loop.policies)
        self.content = content_of(scenario)
        self._digest = digest(self.content)

    def _check_features(self, given: RunOptions) -> None:
        reasons = reasons_against(self.loop.unsupported, self.scenario, given)
        if not reasons:
            return
        hint = ""
        if self.loop.is_own and name_of(self.source.path):
            hint = f"one that every loop can run: simloop run {_SIMPLE} --loop {self.loop.name}"
        raise CannotExpress(self.loop.name, reasons, *filter(None, [hint]))

    def by_itself(self) -> Scenario:
        """Return the scenario that states the loop, its options, the seed and the expectations."""
        loop = self.loop
        seed = self.given.get("seed")
        named = {"loop": loop.name, "judge_as": loop.judge_as} if loop.has_name else {}
        given = {"seed": seed} if seed is not None else {}
        return self.scenario.model_copy(
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
        other._command = None  # noqa: SLF001
        other.source = other.scenario = scenario
        other._script = script_of(scenario)  # noqa: SLF001 - of the same class
        other.content, other._digest = b"null", ""  # noqa: SLF001
        return other

    def fresh(self) -> "Plan":
        """Return this plan, or an equal one if its loop is a machine of the caller's own.

        Such a machine may keep something from one run for the next.
        """
        if not self.loop.is_own or self.loop.machine is None:
            return self
        again = Plan(self.source, self.given)
        again.content, again._digest = self.content, self._digest
        return again

    def surroundings(self, seeds: Seeds) -> Surroundings:
        """Return the model, the files and the tools of one run. Raises ScenarioError."""
        scenario, script = self.scenario, self._model()
        files = None if scenario.files is None else Files(scenario.files)
        tools = self._tools
        if files is not None:
            tools = {**file_tools_of(scenario, files), **tools}
        _check_tools_of_hooks(scenario, tools)
        if scenario.faults is None:
            return Surroundings(script, script, files, tools)
        sites = FaultSites(scenario.faults, seeds)
        faulty = partial(faulty_tool, sites=sites)
        tools = {name: faulty(tool) for name, tool in tools.items()}
        return Surroundings(
            script, FaultyModel(script, sites, parts_of_fault), files, tools, faulty, sites
        )

    def _model(self) -> Model:
        given = self.given.get("model")
        if given is None:
            return FakeModel(*self._script)
        return given if hasattr(given, "stream") else FunctionModel(given)

    def settings(self, seeds: Seeds, around: Surroundings) -> EngineSettings:
        """Return the settings of the engine for one run, whose scripted hooks count their calls."""
        hooks = self.given.get("hooks") or _NO_HOOKS
        if self.scenario.hooks:
            hooks = scripted_hooks(self.scenario) + hooks
        return self._settings(seeds=seeds, faulty=around.faulty, hooks=hooks)

    def header(self, seed: int) -> Header:
        """Return the first line of the trace of one run."""
        loop = self.loop
        return Header(
            format=FORMAT,
            version=VERSION,
            title=self.scenario.title,
            loop=loop.name,
            seed=seed,
            scenario_digest=self._digest,
            scenario=msgspec.Raw(self.content),
            limits=dict(loop.limits),
            python=self.python,
            judge_as=loop.judge_as,
        )

    def command(self, seed: int) -> str:
        """Return the command or the call that repeats one run."""
        if self._command is None:
            self._command = _repetition(self.source, self.given, "run", "simloop.run")
        before, after = self._command
        return f"{before}{seed}{after}"


_CODE = ("hooks", "callbacks", "model", "retry", "estimate_tokens")
"""The options that are Python code, which a trace cannot hold."""
_SIMPLE = "finish-reasons/stop"
"""A bundled scenario that asks a loop for nothing but an answer."""


def reasons_against(
    unsupported: Mapping[Feature, str], scenario: Scenario, given: RunOptions
) -> list[str]:
    """Return the reasons why a loop without these features cannot make the run."""
    return [why for feature, why in unsupported.items() if _NEEDS[feature](scenario, given)]


def _needs_hooks(scenario: Scenario, given: RunOptions) -> bool:
    return bool(scenario.hooks or given.get("hooks") or given.get("hook_cost"))


def _needs_compaction(scenario: Scenario, _: RunOptions) -> bool:
    """Return whether the engine must shorten the context, or ask for summaries.

    A reply for `always` is also for an agent that asks for summaries itself.
    """
    asks = any(reply.times != "always" for reply in scenario.summaries)
    return asks or bool(scenario.compaction or scenario.context)


def _needs_early_tools(scenario: Scenario, _: RunOptions) -> bool:
    policy = scenario.tool_execution
    return policy is not None and policy.start is ToolStart.WHEN_CALLED


def _needs_limits(scenario: Scenario, _: RunOptions) -> bool:
    return bool(_limits_of_loops(scenario.limits) != _USUAL_LIMITS)


_limits_of_loops = attrgetter(*OF_LOOPS, "first_part_timeout_ms", "model_call_timeout_ms")
_USUAL_LIMITS = _limits_of_loops(Limits())


def _needs_triggers(scenario: Scenario, _: RunOptions) -> bool:
    return any(trigger.after in ENGINE_TRIGGERS for trigger in scenario.triggers().values())


def _needs_policies(scenario: Scenario, given: RunOptions) -> bool:
    """Return whether the scenario or the caller sets a policy of the engine.

    A timeout alone of the tools is kept by the world.
    """
    tools = scenario.tool_execution
    return (
        scenario.retry is not None
        or scenario.hook_isolation is not None
        or scenario.hook_execution is not None
        or scenario.warn_after is not None
        or bool(scenario.clock.ahead or scenario.clock.behind)
        or (tools is not None and (tools.order is not None or tools.start is not None))
        or any(given.get(name) for name in ("retry", "callbacks", "estimate_tokens"))
    )


_NEEDS: Mapping[Feature, Callable[[Scenario, RunOptions], bool]] = {
    Feature.HOOKS: _needs_hooks,
    Feature.ABORT: lambda scenario, _: scenario.abort is not None,
    Feature.COMPACTION: _needs_compaction,
    Feature.EARLY_TOOLS: _needs_early_tools,
    Feature.HISTORY: lambda scenario, _: bool(scenario.history),
    Feature.LIMITS: _needs_limits,
    Feature.TRIGGERS: _needs_triggers,
    Feature.SYSTEM_PROMPT: lambda scenario, _: bool(scenario.system_prompt),
    Feature.POLICIES: _needs_policies,
    Feature.QUEUE: lambda *_: False,  # a message that is left there is the next prompt
}
"""For each feature that not every loop has, whether a run needs it."""


def script_of(scenario: Scenario) -> tuple[list[ScriptEntry], list[ScriptEntry]]:
    """Return the scenario's script, as the arguments of a fake model that plays it."""
    return (
        [reply.entry(f"model.{index}") for index, reply in enumerate(scenario.model)],
        [reply.entry(f"summaries.{index}") for index, reply in enumerate(scenario.summaries)],
    )


def tool_execution_of(scenario: Scenario, policies: Policies) -> ToolExecution:
    """Return how tools run: the scenario's settings, with the loop's for those it leaves unset."""
    own = policies.tool_execution
    return scenario.tool_execution.on(own) if scenario.tool_execution else own


def _settings_of(
    scenario: Scenario, given: RunOptions, policies: Policies
) -> Callable[..., EngineSettings]:
    return partial(
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
        max_transitions=scenario.max_transitions or USUAL_MOVES,
    )


def _context(scenario: Scenario) -> ContextScript | None:
    if scenario.context is None:
        return None
    return ContextScript(over=tuple(scenario.context.over), shrunk=tuple(scenario.context.shrunk))


def _check_tools_of_hooks(scenario: Scenario, tools: Mapping[str, object]) -> None:
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


def repeat(scenario: Scenario, given: RunOptions, seed: int, verb: str, call: str) -> str:
    """Return the command that repeats a run, or the call if a file or a name is missing."""
    before, after = _repetition(scenario, given, verb, call)
    return f"{before}{seed}{after}"


def _repetition(scenario: Scenario, given: RunOptions, verb: str, call: str) -> tuple[str, str]:
    """Return the text of `repeat` before the seed, and after it: many runs share both."""
    loop: GivenLoop = given.get("loop") or scenario.loop
    judge_as, options = given.get("judge_as") or "", given.get("loop_options") or {}
    expect_on = given.get("expect_on")
    file = expect_on.path if isinstance(expect_on, Expectations) else ""
    if scenario.path and isinstance(loop, str) and (file or not expect_on):
        flags = _flags(loop, scenario, judge_as, options)
        hooks = given.get("hooks")
        if hooks is not None and hooks.names:
            verb = "run"  # no other verb takes hooks
            flags += "".join(f" --hooks {shlex.quote(name)}" for name in hooks.names)
        flags += f" --expect {shlex.quote(file)}" if file else ""
        return f"simloop {verb} {shlex.quote(scenario.path)} --seed ", flags
    source = f"simloop.load_scenario({scenario.path!r})" if scenario.path else "scenario"
    words = []
    if loop != scenario.loop:
        words.append(f"loop={loop!r}" if isinstance(loop, str) else f"loop={_called(loop)}")
    words += [f"judge_as={judge_as!r}"] if judge_as else []
    words += [f"loop_options={options!r}"] if options else []
    words += ["expect_on=expect_on"] if expect_on else []
    return f"{call}({source}, seed=", "".join(f", {word}" for word in words) + ")"


def _flags(loop: GivenLoop, scenario: Scenario, judge_as: str, options: Mapping[str, Any]) -> str:
    other = isinstance(loop, str) and loop != scenario.loop
    chosen = f" --loop {shlex.quote(str(loop))}" if other else ""
    return chosen + flags_of(judge_as, options)


def flags_of(judge_as: str, options: Mapping[str, Any]) -> str:
    """Return the command-line options that are for one loop, with a space before each."""
    words = [("--judge-as", judge_as)] if judge_as else []
    words += [("--option", f"{key}={_written(value)}") for key, value in options.items()]
    return "".join(f" {flag} {shlex.quote(word)}" for flag, word in words)


def _written(value: Any) -> str:
    return {"True": "true", "False": "false", "None": "null"}.get(str(value), str(value))


def _called(loop: GivenLoop) -> str:
    name = getattr(loop, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else A_MACHINE
