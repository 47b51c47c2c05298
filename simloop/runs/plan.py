"""The plan of a run: a scenario and a loop, checked and converted once for any number of runs.

Nothing in it changes during a run: its methods make what keeps state anew for each run.
"""

import asyncio
import copy
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Any, cast

import msgspec
from pydantic_core import PydanticSerializationError

from simloop.engine.hooks import POINTS, Callbacks, Hooks
from simloop.engine.settings import EngineSettings
from simloop.errors import CannotExpress, ScenarioError
from simloop.kernel import durations, limits
from simloop.kernel.machine import Feature
from simloop.kernel.policies import Policies, utf8_bytes_over_4
from simloop.messages import Message, ToolResult
from simloop.runs import command_hooks
from simloop.runs.loop import A_MACHINE, OF_LOOPS, Loop, loop_of
from simloop.runs.options import GivenLoop, RunOptions, check_options, check_scenario
from simloop.scenario import catalog, fields, people
from simloop.scenario.conversation import past_messages
from simloop.scenario.replies import entries_of
from simloop.scenario.schema import Scenario, ScriptedHook, ScriptedTool
from simloop.scenario.services import rules_of
from simloop.trace import entries, kinds
from simloop.trace.codec import FORMAT, VERSION, digest
from simloop.virtual.seeds import Seeds
from simloop.world import fake_model, faults, tools_port
from simloop.world.file_tools import file_tools
from simloop.world.files import Files
from simloop.world.services import Service
from simloop.world.tools import Tool, toolbox
from simloop.world.tools_port import ToolBehaviour
from simloop.world.user_functions import UserFunction

_NO_HOOKS, _NO_CALLBACKS = Hooks(), Callbacks()
_Entries = list[fake_model.ScriptEntry]
_CODE = ("hooks", "callbacks", "model", "retry", "estimate_tokens", "real_hooks")
_OF_BUNDLED_LOOPS = frozenset({
    Feature.SYSTEM_PROMPT, Feature.HISTORY, Feature.LIMITS, Feature.POLICIES, Feature.COMPACTION,
})  # fmt: skip
_POLICIES = ("retry", "callbacks", "estimate_tokens")
_SPELLED = {"True": "true", "False": "false", "None": "null"}
_limits_of_loops = attrgetter(*OF_LOOPS, "first_part_timeout_ms", "model_call_timeout_ms")
_USUAL_LIMITS = _limits_of_loops(limits.Limits())
_SETTINGS = (*faults.TOOL_ENDS, "takes", "outlives_cancel", "timeout", "details")


class Plan:
    """A scenario with the caller's options, checked and ready to run with any seed.

    `source` is the scenario as it was given; `scenario` has the options of the loop, too, and
    `content` is that in JSON. `expected` are the expectations that hold for the loop. `python`
    names the Python code that the runs need, and a trace cannot hold. The lists and mappings of the
    scenario must not change while the plan is in use.
    """

    def __init__(self, scenario: Scenario, given: RunOptions) -> None:
        check_scenario(scenario)
        check_options(given)
        self.source = scenario
        try:
            self.loop = loop = loop_of(scenario, given)
            self.scenario = scenario = loop.scenario
            names = loop.name, loop.judge_as, loop.expect_on
            self.expected = catalog.expectations(scenario, *names, is_agent=loop.machine is None)
            if scenario.unscripted == "fail" and self.expected.refused is None:
                self.expected = self.expected.model_copy(update={"refused": []})
            _check_restarts(scenario, loop)
            if reasons := reasons_against(_needed_of(loop, scenario), scenario, given):
                raise CannotExpress(loop.name, reasons)
        except ScenarioError as error:
            error.path = self.source.path or None
            raise
        tools = toolbox(given.get("tools", ()))
        self.given = cast("RunOptions", {**given, "tools": tools})
        self.python = (
            *(f"tool {name}" for name in tools),
            *(f"service {address}" for address in given.get("services") or ()),
            *(name for name in _CODE if given.get(name)),
            *(f"program {key}" for key in given.get("programs", ())),
            *(("loop",) if loop.is_own else ()),
        )
        has_script = any((scenario.model, scenario.models, scenario.summaries))
        if has_script and given.get("model") is not None:
            message = "there are two models: a script in the scenario, and `model`"
            raise ScenarioError(message, key="model", hint="leave one of them out")
        self._script = script_of(scenario)
        history = tuple(past_messages(scenario.history))
        self._tools = {**scripted_tools(scenario), **tools}
        self._services = _services_of(scenario, given)
        self._settings = _settings_of(scenario, given, loop.policies, history)
        self.content = content_of(scenario)
        self._digest = digest(self.content)

    def by_itself(self) -> Scenario:
        """Return the scenario that states the loop, its options, the seed and the expectations."""
        loop, seed = self.loop, self.given.get("seed")
        named = {"loop": loop.name, "judge_as": loop.judge_as} if loop.has_name else {}
        given = {"seed": seed} if seed is not None else {}
        changed = {**named, **given, "expect": self.expected, "expect_on": {}}
        return self.scenario.model_copy(update=changed)

    @property
    def has_file(self) -> bool:
        """Return whether a file can state the whole plan."""
        return self.loop.has_name and not [name for name in self.python if name != "loop"]

    @property
    def has_commands(self) -> bool:
        """Return whether hooks are commands that the world plays."""
        is_real = self.given.get("real_hooks")
        return not is_real and any(hook.command is not None for hook in self.scenario.hooks)

    @property
    def programs(self) -> Mapping[str, Any]:
        if self.given.get("real_hooks"):
            return {}
        return {**self.scenario.programs, **self.given.get("programs", {})}

    def playing(self, scenario: Scenario) -> "Plan":
        """Return this plan for a scenario with another script, or other actions of the user.

        `scenario` differs from that of the plan in nothing but `prompt`, `then`, `model`, `models`,
        `summaries`, `tools`, `services`, `programs`, `abort`, `queue` and `seed`. That costs no
        validation and no JSON, so the header of such a run has no content of its scenario: a search
        makes thousands of runs, and nobody reads their headers.
        """
        other = copy.copy(self)
        other.source = other.scenario = scenario
        other._script = script_of(scenario)  # noqa: SLF001 - of the same class
        if scenario.tools is not self.scenario.tools:
            other._tools = {**scripted_tools(scenario), **self.given.get("tools", {})}  # type: ignore[dict-item] # noqa: SLF001
        if scenario.services is not self.scenario.services:
            other._services = _services_of(scenario, self.given)  # noqa: SLF001
        if bool(scenario.summaries) is not bool(self.scenario.summaries):  # see `Context`
            history = tuple(past_messages(scenario.history))
            other._settings = _settings_of(scenario, self.given, self.loop.policies, history)  # noqa: SLF001
        other.content, other._digest = b"null", ""  # noqa: SLF001
        return other

    def isolated(self) -> "Plan":
        other = copy.copy(self)
        other.given = {**self.given, "isolate": True}
        return other

    def fresh(self) -> "Plan":
        """Return this plan, or an equal one if the caller's own machine may keep things."""
        if not self.loop.is_own or self.loop.machine is None:
            return self
        again = Plan(self.source, self.given)
        again.content, again._digest = self.content, self._digest
        return again

    def tools(self, files: Files | None) -> Mapping[str, Tool]:
        """Return the tools of one run, with those over its files. Raises ScenarioError."""
        timeout_ms = self.scenario.shell_timeout // durations.UNITS_NS["ms"]
        of_files = {} if files is None else file_tools(files, timeout_ms)
        tools = {**of_files, **self._tools} if of_files else self._tools
        if self.scenario.hooks:
            _check_tools_of_hooks(self.scenario, tools)
        counted = scripted_tools(self.scenario, has_answers=True)
        return {**tools, **counted, **dict(self.given.get("tools", {}))} if counted else tools

    @property
    def behaviours(self) -> Mapping[str, ToolBehaviour]:
        """The behaviour in one run of the tools that an agent's own code calls."""
        if self.loop.machine is not None:
            return {}  # an engine runs the tools of the world alone
        return {
            name: _behaviour_in_turn(spec) if spec.answers else _behaviour(spec)
            for name, spec in self.scenario.tools.items()
            if spec.answers or stated(spec)
        }

    def services(self) -> list[Service]:
        return [make() for make in self._services]

    def model(self) -> fake_model.Model:
        if (given := self.given.get("model")) is None:
            return fake_model.FakeModel(*self._script)
        return given if hasattr(given, "stream") else fake_model.FunctionModel(given)

    def settings(self, seeds: Seeds) -> EngineSettings:
        """Return the settings of the engine for one run, whose scripted hooks count their calls."""
        hooks = self.given.get("hooks") or _NO_HOOKS
        if self.scenario.hooks:
            is_real = bool(self.given.get("real_hooks"))
            hooks = scripted_hooks(self.scenario, is_real=is_real) + hooks
        return self._settings(seeds=seeds, hooks=hooks)

    def header(self, seed: int) -> entries.Header:
        loop = self.loop
        return entries.Header(
            format=FORMAT, version=VERSION, title=self.scenario.title, loop=loop.name, seed=seed,
            scenario_digest=self._digest, scenario=msgspec.Raw(self.content),
            limits=dict(loop.limits), python=self.python, judge_as=loop.judge_as,
        )  # fmt: skip

    def command(self, seed: int) -> str:
        return repeat(self.source, self.given, seed, "run", "simloop.run")


def _check_restarts(scenario: Scenario, loop: Loop) -> None:
    for number, prompt in enumerate(scenario.then):
        if isinstance(prompt, people.Then) and prompt.restart and not loop.can_restart:
            message = f"the loop `{loop.name}` is an agent that is made already, and cannot restart"
            hint = "give its class, or a function that makes it"
            raise ScenarioError(message, key=f"then.{number}.restart", hint=hint)


def _needed_of(loop: Loop, scenario: Scenario) -> Mapping[Feature, str]:
    if loop.machine is not None or not scenario.recorded:
        return loop.unsupported
    return {name: why for name, why in loop.unsupported.items() if name not in _OF_BUNDLED_LOOPS}


def reasons_against(
    unsupported: Mapping[Feature, str], scenario: Scenario, given: RunOptions
) -> list[str]:
    """Return the reasons why a loop without these features cannot make the run."""
    needs = set(_needs(scenario, given))
    return [why for feature, why in unsupported.items() if feature in needs]


def _needs(scenario: Scenario, given: RunOptions) -> Iterator[Feature]:
    tools = scenario.tool_execution
    if scenario.hooks or given.get("hooks"):
        yield Feature.HOOKS
    if scenario.abort is not None:
        yield Feature.ABORT
    # A summary for `always` is also for an agent that asks for summaries itself.
    asks = any(reply.times != "always" for reply in scenario.summaries)
    if asks or scenario.compaction or scenario.context:
        yield Feature.COMPACTION
    if tools is not None and tools.start == "when-called":
        yield Feature.EARLY_TOOLS
    if scenario.history:
        yield Feature.HISTORY
    if _limits_of_loops(scenario.limits) != _USUAL_LIMITS:
        yield Feature.LIMITS
    acts = (scenario.abort, *scenario.queue)
    if any(act is not None and act.after in kinds.ENGINE_TRIGGERS for act in acts):
        yield Feature.TRIGGERS
    if scenario.system_prompt:
        yield Feature.SYSTEM_PROMPT
    # A timeout alone of the tools is kept by the world.
    ordered = tools is not None and (tools.order or tools.start) is not None
    policies = scenario.retry, scenario.hook_isolation, scenario.hook_execution, scenario.warn_after
    skewed = scenario.clock.ahead or scenario.clock.behind
    if ordered or any(policies) or skewed or any(given.get(name) for name in _POLICIES):
        yield Feature.POLICIES


def script_of(scenario: Scenario) -> tuple[_Entries, _Entries, dict[str, fake_model.PartyScript]]:
    """Return the scenario's script, as the arguments of a fake model that plays it."""
    main = entries_of(scenario.model, "model")
    summaries = entries_of(scenario.summaries, "summaries")
    return main, summaries, {name: party.script(name) for name, party in scenario.models.items()}


def _services_of(scenario: Scenario, given: RunOptions) -> list[Callable[[], Service]]:
    scripted, apps = scenario.services.items(), given.get("services") or {}
    made = [partial(Service, address, rules_of(address, routes)) for address, routes in scripted]
    return [*made, *(app_of(app, address) for address, app in apps.items())]


def app_of(app: Callable[..., Any], address: str) -> Callable[[], Service]:
    """Return the function that makes a service of an app. Raises ScenarioError."""
    from simloop.wire.apps import kind_of  # noqa: PLC0415 - few runs have one

    kind = kind_of(app, address)
    return lambda: Service(address, app=kind(app, address))


def _settings_of(
    scenario: Scenario, given: RunOptions, policies: Policies, history: tuple[Message, ...]
) -> Callable[..., EngineSettings]:
    tools, context = scenario.tool_execution, scenario.context
    usual = [] if scenario.summaries else [True]  # with summaries, a compaction is a real one
    own = msgspec.structs.asdict(policies)
    own["retry"] = given.get("retry") or scenario.retry or policies.retry
    if tools is not None:
        own["tool_execution"] = tools.on(policies.tool_execution)
    for name in ("compaction", "hook_isolation", "hook_execution", "warn_after"):
        if (stated := getattr(scenario, name)) is not None:
            own[name] = stated
    return partial(
        EngineSettings, callbacks=given.get("callbacks") or _NO_CALLBACKS,
        system_prompt=scenario.system_prompt, history=history, limits=scenario.limits,
        estimate_tokens=given.get("estimate_tokens") or utf8_bytes_over_4,
        context=None if context is None else (context.over, context.shrunk or usual),
        clock_skew_ns=scenario.clock.ahead - scenario.clock.behind,
        max_transitions=scenario.max_transitions or limits.USUAL_MOVES, **own,
    )  # fmt: skip


def _check_tools_of_hooks(scenario: Scenario, tools: Mapping[str, object]) -> None:
    known = {*tools, *(name for hook in scenario.hooks for name in hook.add_tools)}
    for index, hook in enumerate(scenario.hooks):
        named = [("tool", hook.tool), *(("hide_tools", name) for name in hook.hide_tools)]
        for field, name in named:
            if name is not None and name not in known:
                path, key = scenario.path or None, f"hooks.{index}.{field}"
                hint = f"there are: {', '.join(sorted(known)) or 'none'}"
                raise ScenarioError(f"there is no tool `{name}`", path=path, key=key, hint=hint)


def stated(spec: ScriptedTool) -> tuple[str, ...]:
    """Return the settings of a tool that state how it behaves."""
    return tuple(name for name in _SETTINGS if fields.differs(spec, name))


def _behaviour_in_turn(spec: ScriptedTool) -> ToolBehaviour:
    turn = _in_turn(spec)
    return ToolBehaviour(turn=lambda: _behaviour(own := turn(), is_answer=own is not spec))


def _behaviour(spec: ScriptedTool, *, is_answer: bool = False) -> ToolBehaviour:
    has_end = is_answer or any(fields.differs(spec, name) for name in faults.TOOL_ENDS)
    wait = partial(_wait, spec) if spec.takes or spec.hangs else None
    # A copy: the agent's code may change the value.
    result = (lambda: copy.deepcopy(_end(spec))) if has_end else None
    return ToolBehaviour(wait, result, spec.details, _timeout_ms(spec))


def _in_turn(spec: ScriptedTool) -> Callable[[], ScriptedTool]:
    usual = {"returns_chars": None, "cancels": False, "hangs": False}
    turns = iter([spec.model_copy(update={**usual, **dict(answer)}) for answer in spec.answers])
    return lambda: next(turns, spec)


def scripted_tool(name: str, spec: ScriptedTool) -> Tool:
    """Return a tool of the world that behaves as `spec` says."""
    turn = _in_turn(spec)

    def end(now: ScriptedTool) -> Any:
        value = _end(now)
        if now.details is None and not now.terminate:
            return value
        return ToolResult(tools_port.text_of(value), details=now.details, terminate=now.terminate)

    async def end_later(**_: Any) -> Any:
        now = turn()
        await _wait(now)
        return end(now)

    waits = spec.takes or spec.hangs or any(each.takes for each in spec.answers)
    return Tool(
        end_later if waits else lambda **_: end(turn()),
        name=name, description=spec.description, parameters=spec.schema_of_arguments(),
        timeout_ms=_timeout_ms(spec), sequential=spec.sequential,
    )  # fmt: skip


def _timeout_ms(spec: ScriptedTool) -> int | None:
    return None if spec.timeout is None else spec.timeout // durations.UNITS_NS["ms"]


def _end(spec: ScriptedTool) -> Any:
    if spec.raises is not None:
        raise fake_model.ScriptedFailure(spec.raises)
    if spec.cancels:
        raise asyncio.CancelledError
    return spec.returns if spec.returns_chars is None else "x" * spec.returns_chars


async def _wait(spec: ScriptedTool) -> None:
    """Take the time of the tool; go on after a cancellation if the tool outlives it."""
    try:
        await _pause(spec.takes, hangs=spec.hangs)
    except asyncio.CancelledError:
        if not spec.outlives_cancel:
            raise
        await asyncio.sleep(spec.outlives_cancel / 1e9)


async def _pause(takes_ns: int, *, hangs: bool) -> None:
    await asyncio.sleep(takes_ns / 1e9)
    if hangs:
        await asyncio.get_running_loop().create_future()


def scripted_tools(scenario: Scenario, *, has_answers: bool = False) -> dict[str, Tool]:
    """Return the scenario's tools by name, without those over its files."""
    return {
        name: scripted_tool(name, spec)
        for name, spec in scenario.tools.items()
        if spec.answers or not has_answers  # they count their calls: each run needs new ones
    }


def scripted_hooks(scenario: Scenario, *, is_real: bool = False) -> Hooks:
    """Return the scenario's hooks, in order."""
    hooks: dict[str, list[UserFunction]] = {point: [] for point in POINTS}
    for number, spec in enumerate(scenario.hooks):
        hooks[spec.at].append(_hook(spec, number, is_real=is_real))
    return Hooks(**hooks)


def _hook(spec: ScriptedHook, number: int, *, is_real: bool) -> UserFunction:
    turns = count(1)
    added = {name: scripted_tool(name, tool) for name, tool in spec.add_tools.items()}
    change = partial(_change, spec, added)

    def is_due(given: Any) -> bool:
        is_asked = spec.tool is None or given.call.name == spec.tool
        return is_asked and spec.nth in (None, next(turns))

    def act(given: Any) -> None:
        if is_due(given):
            change(given)

    async def act_later(given: Any) -> None:
        if not is_due(given):
            return
        if spec.waits == "after":
            change(given)
        await _pause(spec.takes, hangs=spec.hangs)
        if spec.waits == "before":
            change(given)

    async def command(given: Any) -> None:
        if is_due(given):
            await command_hooks.call(str(spec.command), spec.at, given, is_real=is_real)

    call = act_later if spec.takes or spec.hangs else act if spec.command is None else command
    name = spec.name or spec.command or f"hook-{number}"
    return UserFunction(call, name, is_independent=spec.independent)


def _change(spec: ScriptedHook, added: Mapping[str, Tool], given: Any) -> None:
    if spec.raises is not None:
        raise fake_model.ScriptedFailure(spec.raises)
    if added:
        given.tools.update(added)
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


def content_of(scenario: Scenario) -> bytes:
    """Return the scenario in JSON without defaults, as a header has it. Raises ScenarioError."""
    try:
        # A field that nobody has set is not compared with its default, which takes time.
        text = scenario.model_dump_json(exclude_unset=True, exclude_defaults=True, by_alias=True)
    except PydanticSerializationError:  # a text is no Unicode, which only Python code can give
        from simloop.scenario.writing import half_of_a_pair  # noqa: PLC0415 - in case of need

        raise half_of_a_pair() from None
    return text.encode()


def repeat(scenario: Scenario, given: RunOptions, seed: int, verb: str, call: str) -> str:
    """Return the command that repeats a run, or the call if a file or a name is missing."""
    loop: GivenLoop = given.get("loop") or scenario.loop
    judge_as, options = given.get("judge_as") or "", given.get("loop_options") or {}
    if scenario.path and isinstance(loop, str):
        flags = [("--loop", loop)] if loop != scenario.loop else []
        flags += [("--judge-as", judge_as)] if judge_as else []
        flags += [("--option", f"{k}={_SPELLED.get(str(v), v)}") for k, v in options.items()]
        after = "".join(f" {flag} {shlex.quote(word)}" for flag, word in flags)
        after += " --isolate" * bool(given.get("isolate"))
        after += " --real-hooks" * bool(given.get("real_hooks"))
        return f"simloop {verb} {shlex.quote(scenario.path)} --seed {seed}{after}"
    source = f"simloop.load_scenario({scenario.path!r})" if scenario.path else "scenario"
    words = []
    if loop != scenario.loop:
        words.append(f"loop={loop!r}" if isinstance(loop, str) else f"loop={_called(loop)}")
    words += [f"judge_as={judge_as!r}"] if judge_as else []
    words += [f"loop_options={options!r}"] if options else []
    words += [f"{name}=True" for name in ("isolate", "real_hooks") if given.get(name)]
    return f"{call}({', '.join((source, f'seed={seed}', *words))})"


def _called(loop: GivenLoop) -> str:
    name = getattr(loop, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else A_MACHINE
