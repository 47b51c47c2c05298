"""The alphabet of a world: replies and their faults, and the edges of all settings.

The first value of each list is the benign one, or the default. Axes are drawn one by one, so that
any two values can meet. A tool or hook that hangs has a limit: no loop could end without one.
"""

import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import chain, islice, repeat
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from simloop.fuzz.choices import Choices, features_on, one_of, switch
from simloop.kernel.limits import DeclaredLimits, Limits
from simloop.kernel.machine import Feature
from simloop.kernel.policies import Compaction, HookExecution, HookIsolation, ToolExecution
from simloop.kernel.retry import ExponentialBackoff
from simloop.runs.loop import Loop
from simloop.scenario import replies, schema
from simloop.scenario.conversation import PastMessage, calls_of
from simloop.scenario.designs import LoopOptions
from simloop.scenario.schema import Context, Scenario, ScriptedHook, ScriptedTool
from simloop.world.faults import BODIES, FAULTS, WAITS, Keys, ReplyFault, Stage

_DATA: Any = json.loads(Path(__file__).with_name("alphabet.json").read_text("utf-8"))
"""The values of settings; those of a hook come after the probability of the change."""
TOOLS = ("read", "search", "write", "shell")
PLAIN_TOOLS = {name: ScriptedTool(returns=f"what {name} found") for name in TOOLS}
"""The names of the tools that replies call if a loop does not offer its own."""
_WAIT_MS = 4_000  # the limit of a tool or hook that hangs, if nothing else bounds it


def _path(n: int) -> Keys:
    return {"path": f"file-{n}"}


LAST = replies.Reply(say="All is done.", times="always")
"""The last reply of every script: from then on the model answers without faults."""


ANSWER_FAULTS: Sequence[Keys] = _DATA["answer faults"]
"""What may become of one recorded result of a tool, besides coming as it was."""


def with_answer(tool: ScriptedTool, keys: Keys, place: int) -> ScriptedTool:
    """Return a tool with other keys of one of its results: that at a place, or the last."""
    answers = list(tool.answers)
    at = min(place, len(answers) - 1)
    said = {} if "raises" in keys else {"returns": answers[at].returns}
    answers[at] = schema.ToolAnswer(**{**said, **keys})
    return tool.model_copy(update={"answers": answers})


class CalledTools:
    """The tools that replies call; `last` is the reply that ends a run."""

    names: Sequence[str] = TOOLS
    last = LAST
    own: Collection[str] = ()
    """Those that are functions of the agent itself, and no tools of the world."""
    unseen: Sequence[str] = ()
    """Those whose runs no trace shows."""

    def arguments(self, _place: int, number: int) -> Keys:
        """Return valid arguments of the tool at a place; number 0 has the plain ones."""
        return _path(number)

    def broken(self, _place: int, number: int) -> Any:
        """Return arguments of the tool at a place that its schema refuses, if it refuses any."""
        return ({"path": number}, {}, {"path": "a", "extra": number})[number % 3]

    def answer(self, _number: int) -> Keys:
        """Return the keys of a reply with an object, if the agent asks for one as its answer."""
        return {}

    def name(self, place: int) -> str:
        return self.names[place % len(self.names)] if self.names else "nonesuch"

    def call(self, place: int, number: int) -> dict[str, Any]:
        name = self.name(place)
        return {name: self.arguments(self.names.index(name), number) if self.names else {}}


FIXED = CalledTools()


def _each(tools: CalledTools, places: Iterable[int], n: int) -> list[dict[str, Any]]:
    return [tools.call(place, n) for place in places]


CONTENTS: Mapping[str, Callable[[int, CalledTools], Keys]] = {
    "text": lambda n, _: {"say": f"Answer {n}."},
    "call": lambda n, of: {"call": of.call(0, n)},
    "text and call": lambda n, of: {"say": f"Look {n}.", "call": of.call(1, n)},
    "two calls": lambda n, of: {"call": _each(of, (0, 1), n)},
    "all tools": lambda n, of: {"say": f"All {n}.", "call": _each(of, range(len(of.names)), n)},
    "equal calls": lambda n, of: {"call": _each(of, (0, 0), n)},
    "many calls": lambda n, of: {"call": [of.call(i, 12 * n + i) for i in range(12)]},
    "writing call": lambda n, of: {"call": of.call(2, n)},
    "repeated call": lambda _, of: {"call": of.call(3, 0)},
    "thought and text": lambda n, _: {"think": f"Thought {n}.", "say": f"Said {n}."},
    "thought and call": lambda n, of: {"think": f"Thought {n}.", "call": of.call(2, n)},
    "thought": lambda n, _: {"think": f"Only a thought {n}."}, "nothing": lambda *_: {},
    "blank": lambda *_: {"say": " "},
    "long text": lambda n, _: {"say": [f"Long {n}: ", "word " * 150]},
    "huge text": lambda n, _: {"say": [f"many words {n} " * 1_572]},
    "odd text": lambda n, _: {"say": [f"\x1b[31mred {n}\x00", "\U0001f600 [b]x[/b]", "\n\n"]},
    "malformed arguments": lambda _, of: {"call": {of.name(0): '{"path": '}},
    "empty arguments": lambda _, of: {"call": {of.name(0): ""}},
    "null arguments": lambda _, of: {"call": {of.name(0): "null"}},
    "list arguments": lambda _, of: {"call": {of.name(0): "[1]"}},
    "wrong type": lambda n, of: {"call": {of.name(n): of.broken(n, 3 * n)}},
    "missing argument": lambda n, of: {"call": {of.name(n): of.broken(n, 3 * n + 1)}},
    "extra argument": lambda n, of: {"call": {of.name(n): of.broken(n, 3 * n + 2)}},
    "unknown tool": lambda n, _: {"call": {"nonesuch": _path(n)}},
    "capital name": lambda n, of: {"call": {of.name(0).upper(): of.arguments(0, n)}},
    "good and unknown": lambda n, of: {"call": [of.call(0, n), {"nonesuch": {}}, of.call(1, n)]},
    "good and malformed": lambda n, of: {"call": [of.call(0, n), {of.name(2): "{"}]},
    "pieces": lambda n, of: {"call": of.call(0, n), "fragments": 3},
    "interleaved": lambda n, of: {"call": _each(of, (0, 2), n), "fragments": 2, "interleave": True},
    "half call": lambda _, of: {"half_call": {of.name(0): '{"pa'}},
    "text and half call":
        lambda n, of: {"say": f"Cut {n}.", "half_call": {of.name(2): '{"path": "'}},
    "call and half call": lambda n, of: {"call": of.call(0, n), "half_call": {of.name(2): "{"}},
}  # fmt: skip

_PLAIN = ReplyFault("plain", Stage.END, {})
ENDS: Sequence[ReplyFault] = (_PLAIN, *(fault for fault in FAULTS if fault.weight))
"""The ends of a reply: first none of its own, then the faults of the catalogue."""

PACES = tuple(replies.Pace(**each) for each in _DATA["paces"])
USAGES = tuple(each and replies.TokenUsage(**each) for each in _DATA["usages"])
STEPS = (1, 0, 2, 3, 5, 19, 20, 21, 100)

IDS: Sequence[Callable[[int], list[str]]] = (
    lambda _: [], lambda calls: [f"{n}" for n in range(calls)],
    lambda calls: [f"past-{n + 1}" for n in range(calls)], lambda calls: [""] * calls,
    lambda calls: ["a"] * calls, lambda calls: [f"call-{calls - n}" for n in range(calls)],
)  # fmt: skip
"""The ids of so many calls: new ones, those of any other reply or of the history, and bad ones."""

AXES: Mapping[str, Sequence[Any]] = {
    "wait": WAITS, "body": BODIES, "pace": PACES, "usage": USAGES, "steps": STEPS, "ids": IDS,
}  # fmt: skip

NO_WIRE = frozenset(f"error part {code}" for code in _DATA["no wire"])
"""The faults whose codes some formats on the wire cannot express within a stream."""

CONTENT_NAMES, END_NAMES = tuple(CONTENTS), tuple(fault.name for fault in ENDS)
GROUPS: Mapping[str, Sequence[int]] = {
    group: [CONTENT_NAMES.index(name) for name in names] for group, names in _DATA["groups"].items()
}
"""The places of contents that have something in common."""
_NOTHING = CONTENT_NAMES.index("nothing")
_END = {name: place for place, name in enumerate(END_NAMES)}
ENDS_WITH_BODY = tuple(tuple(_END[f"http {each}"] for each in body.statuses) for body in BODIES)


class Recipe(NamedTuple):
    """A reply as numbers, one for each axis; all 0 is plain, `number` makes texts differ."""

    content: int = 0
    end: int = 0
    wait: int = 0
    body: int = 0
    pace: int = 0
    usage: int = 0
    steps: int = 0
    ids: int = 0
    number: int = 0


@lru_cache(maxsize=20_000)
def reply_of(recipe: Recipe, tools: CalledTools = FIXED) -> replies.Reply:
    """Return the reply of a recipe: a copy of a validated one. The end decides a contradiction."""
    fault, end = ENDS[recipe.end], _end_of(recipe.end)
    update: dict[str, Any] = {"pace": PACES[recipe.pace], "finish": None, **end}
    if fault.stage is Stage.INSTEAD:
        if "http" in end:
            update["http"] = _http_of(recipe.end, recipe.wait, recipe.body)
        return _content_of(_NOTHING, 0, tools).model_copy(update=update)
    silent = recipe.content == _NOTHING and "mid-output" in fault.keys.values()
    content = _content_of(0 if silent else recipe.content, recipe.number, tools)
    if recipe.ids and content.call:
        update["ids"] = IDS[recipe.ids](len(calls_of(content.call)))
    if end.keys() <= {"finish"}:
        update |= {"usage": USAGES[recipe.usage], "steps": STEPS[recipe.steps]}
        update["finish"] = end.get("finish", content.finish)
    return content.model_copy(update=update)


@cache
def _end_of(end: int) -> Keys:
    fault = ENDS[end]
    return {key: getattr(replies.reply_of_fault(fault), key) for key in fault.keys}


@lru_cache(maxsize=1_000)
def _content_of(content: int, number: int, tools: CalledTools) -> replies.Reply:
    keys = CONTENTS[CONTENT_NAMES[content]](number, tools)
    if "say" in keys and not keys.keys() & {"call", "half_call"}:
        keys = {**keys, **tools.answer(number)}
    return replies.Reply(**keys) if keys else replies.Reply(finish="stop")


@lru_cache(maxsize=5_000)
def _http_of(end: int, wait: int, body: int) -> replies.Http:
    return replies.Http(**{**ENDS[end].keys["http"], **WAITS[wait], **BODIES[body].keys})


SUMMARIES: Mapping[str, Mapping[str, Any]] = _DATA["summaries"]
"""The replies to a request for a summary: {n} is a number, and a text that `repeats` has its count,
and how much more it is with each further number."""
LAST_SUMMARY = replies.Reply(say="The summary.", times="always")


@lru_cache(maxsize=1_000)
def summary_of(kind: int, number: int) -> replies.Reply:
    """Return a reply to a request for a summary."""
    keys = json.loads(json.dumps([*SUMMARIES.values()][kind]).replace("{n}", str(number)))
    if "repeats" in keys:
        text, times, more = keys.pop("repeats")
        keys["say"] = [keys.get("say", "") + text * (times + more * number)]
    return replies.Reply(**keys)


_ENDING_WEIGHTS, _ENDINGS = zip(*_DATA["ends of tools"], strict=True)
_TOOL_TAKES = _DATA["takes of tools"]
_TIMEOUTS = (None, None, "1ms", "1s", "5s")
_OUTLIVES = ("200ms", "2s")
_SCHEMAS: Sequence[Mapping[str, Any]] = _DATA["schemas"]


@cache
def _ending(number: int, name: str) -> Keys:
    keys: Keys = json.loads(json.dumps(_ENDINGS[number]).replace("{name}", name))
    return keys


def tool_for(choices: Choices, name: str, on: Collection[str]) -> ScriptedTool:
    """Draw a tool; `on` are the features of the family."""
    keys: dict[str, Any] = {"description": f"Does the {name}."}
    if "tools" not in on:
        keys |= {**_ending(0, name), **_SCHEMAS[0]}
    else:
        keys |= _ending(choices.weighted(_ENDING_WEIGHTS), name)
        keys |= one_of(choices, _SCHEMAS)
        keys["sequential"] = choices.boolean(0.3)
        keys["terminate"] = choices.boolean(0.1)
        if choices.boolean(0.1):
            keys["details"] = {"of": name}
    if "slow tools" in on:
        keys["takes"] = one_of(choices, _TOOL_TAKES)
        keys.setdefault("timeout", one_of(choices, _TIMEOUTS))
    if on:
        # Also drawn for a tool that has no use for it: a shrinker can change the ending alone.
        outlives = choices.maybe(0.35, lambda own: one_of(own, _OUTLIVES))
        if outlives is not None and keys.keys() & {"hangs", "takes"}:
            keys["outlives_cancel"] = outlives
    return ScriptedTool(**keys)


_POINTS: Mapping[str, Mapping[str, tuple[float, Sequence[Any]]]] = _DATA["hooks"]
"""The changes that a hook can make at each point, each with its probability and its values."""

_POINT_WEIGHTS = (4, 4, 3, 1)
"""A hook after a model call changes nothing, so it is drawn less often."""

_CHANGES = max(map(len, _POINTS.values()))
_UNUSED = repeat(("", (0.1, (None,))))

_SHORT = ("1ns", "100ms", "1s")
_HOOK_TAKES = ("100ms", "1s", "4999ms", "5s", "6s", "7s")


def hook_for(choices: Choices) -> ScriptedHook:
    """Draw a hook."""
    point: Any = tuple(_POINTS)[choices.weighted(_POINT_WEIGHTS)]
    keys: dict[str, Any] = {}
    # Each point has as many choices, so that a shrinker can change the point alone.
    for name, (probability, values) in islice(chain(_POINTS[point].items(), _UNUSED), _CHANGES):
        if (value := choices.maybe(probability, partial(one_of, values=values))) is not None:
            keys[name] = value
    tool = choices.maybe(0.3, partial(one_of, values=TOOLS))
    if tool is not None and point.endswith("tool_call"):
        keys["tool"] = tool
    keys["nth"] = choices.maybe(0.5, lambda own: own.integer(1, 3))
    keys |= _failure_for(choices)
    keys["independent"] = choices.boolean(0.5)
    return ScriptedHook(at=point, **keys)


def _judges(choices: Choices) -> list[ScriptedHook]:
    """Draw two hooks that forbid a thing at once, each for its own reason."""
    if not choices.boolean(0.1):
        return []
    point: Any = one_of(choices, [name for name, keys in _POINTS.items() if "block" in keys])
    return [ScriptedHook(at=point, block=each, independent=True) for each in ("this", "that")]


def _failure_for(choices: Choices) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    if choices.boolean(0.15):
        # The failure of a hook that waits arrives in another place, if no timeout comes before it.
        takes = choices.maybe(0.5, partial(one_of, values=_SHORT))
        return {"raises": "the hook is broken", **({} if takes is None else {"takes": takes})}
    if choices.boolean(0.3):
        keys["hangs"] = True
    elif choices.boolean(0.3):
        keys["takes"] = one_of(choices, _HOOK_TAKES)
    if keys and choices.boolean(0.8):  # a hook that fails before it acts shows less
        keys["waits"] = "after"
    return keys


class Abilities(NamedTuple):
    """The abilities of a loop."""

    lacks: Collection[Feature] = ()  # what the loop does not support
    has_engine: bool = True  # false for an agent
    ends: bool = True  # with any model
    limits: Limits | None = None  # those that an agent declares
    tools: CalledTools = FIXED  # those that the model calls
    breaches: bool = True  # the provider may break the contract of its API
    bounds_streams: bool = False  # a stalled reply ends, as the client of a provider bounds it
    asks_openai: bool = True

    @property
    def summarises(self) -> bool:
        """Return whether the loop may ask for summaries: an agent may compact by itself."""
        return Feature.COMPACTION not in self.lacks or not self.has_engine

    @classmethod
    def of(cls, loop: Loop) -> "Abilities":
        if (machine := loop.machine) is None:
            limits, asks_openai = loop.declared_limits or DeclaredLimits(), "openai" in loop.source
            asks_anthropic = "anthropic" in loop.source
            return cls(
                frozenset(loop.unsupported), has_engine=False,
                bounds_streams=asks_openai or asks_anthropic or not _takes_world(loop.declares),
                asks_openai=asks_openai or not asks_anthropic,
                ends=max(limits.max_steps, limits.max_error_count) < inf,
                limits=loop.declared_limits and limits.or_usual,
            )  # fmt: skip
        bounded = "max_steps" in machine.bounds or "max_rounds" in machine.bounds
        endless = bool(getattr(machine, "endless", "")) or not bounded
        return cls(frozenset(loop.unsupported), ends=not endless)


def _takes_world(agent: Any) -> bool:
    call = agent.__call__ if isinstance(agent, type) else agent
    try:
        return "world" in inspect.signature(call).parameters
    except (TypeError, ValueError):  # written in C
        return False


_OPTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = _DATA["options"]
"""Options of the bundled designs that are not those of a version. They hold for a version too, if
its design merges them."""

_FEATURES: Mapping[str, tuple[str, str]] = _DATA["features"]
"""The field of a scenario that a feature sets, and the feature of a loop that it needs, if any."""
FEATURES = tuple(_FEATURES)


def possible(abilities: Abilities) -> list[str]:
    """Return the features that a family may have."""
    return [name for name, (_, needed) in _FEATURES.items() if needed not in abilities.lacks]


_VALUES: Mapping[str, Mapping[str, Sequence[Any]]] = _DATA["policies"]
_MAKERS: Mapping[str, Callable[..., Any]] = {
    "limits": Limits, "retry": ExponentialBackoff, "compaction": Compaction,
    "tool_execution": ToolExecution, "hook_isolation": HookIsolation,
    "hook_execution": HookExecution,
}  # fmt: skip
"""The policies of a scenario; some features set a few settings of one."""


def values_for(choices: Choices, feature: str) -> dict[str, Any]:
    """Draw the settings of a policy that a feature sets."""
    return {name: one_of(choices, values) for name, values in _VALUES[feature].items()}


def policy_for(choices: Choices, field: str) -> Any:
    """Draw the whole policy of a field of a scenario."""
    features = [name for name in _VALUES if _FEATURES[name][0] == field]
    drawn = (values_for(choices, feature).items() for feature in features)
    return _MAKERS[field](**dict(chain.from_iterable(drawn)))


def _context(choices: Choices) -> Context:
    first = choices.boolean(0.4)
    over = choices.several(5, lambda _: choices.boolean(0.4))
    shrunk = choices.several(4, lambda _: choices.boolean(0.6))
    return Context(over=[first, *over, False], shrunk=shrunk)


_HISTORIES: Sequence[Sequence[Mapping[str, Any]]] = (
    *_DATA["histories"],
    ({"user": "long " * 300}, {"assistant": "words " * 300}, {"user": "more"}, {"assistant": "ok"}),
    tuple({role: f"{role} {n}"} for n in range(6) for role in ("user", "assistant")),
    ({"user": "A question without an answer."},),
)

_DRAWS: Mapping[str, Callable[[Choices], Any]] = {
    **{feature: partial(values_for, feature=feature) for feature in _VALUES},
    "context": _context,
    "hooks": lambda own: [*own.several(5, lambda _: hook_for(own)), *_judges(own)],
    "history": lambda own: [PastMessage(**each) for each in one_of(own, _HISTORIES)],
    "system prompt": lambda _: "You are a tool for tests.",
    "warn after": lambda own: own.integer(1, 3),
    "clock": lambda own: schema.ClockSkew(**one_of(own, ({}, {"ahead": "10s"}, {"behind": "10s"}))),
    **dict.fromkeys(("tools", "slow tools"), switch),  # both draw all tools together
}
"""The draws of the features, except for the options of a design, which depend on its name."""


def settings_of(choices: Choices, abilities: Abilities, loop: str) -> Scenario:
    """Return a scenario without a script: the settings of a family of worlds."""
    features = possible(abilities)
    draws = {each: _DRAWS[each] for each in features if each in _DRAWS}
    design = LoopOptions.key_of(loop)
    if "options" in features and design in _OPTIONS:
        draws["options"] = lambda own: {design: one_of(own, _OPTIONS[design])}
    on = features_on(choices, draws)
    keys, policies = dict[str, Any](), {"limits": dict[str, Any]()}
    for feature, value in on.items():
        if (field := _FEATURES[feature][0]) in _MAKERS:
            policies.setdefault(field, {}).update(value)
        elif field:
            keys[field] = value
    keys |= {field: _MAKERS[field](**values) for field, values in policies.items()}
    tools = abilities.tools
    is_of_world = not {*TOOLS}.difference(tools.own).isdisjoint(tools.names)
    drawn = _tools(choices, on) if is_of_world else {}
    keys["tools"] = {name: tool for name, tool in drawn.items() if name not in tools.own}
    keys["hook_isolation"] = _bound(keys.get("hooks", ()), keys.get("hook_isolation"))
    most = transitions_of(abilities)
    return Scenario(loop=loop, prompt="Do the work.", max_transitions=most, **keys)


def _tools(choices: Choices, on: Collection[str]) -> dict[str, ScriptedTool]:
    tools = {name: tool_for(choices, name, on) for name in TOOLS}
    if "tools" in on and choices.boolean(0.1):  # all of them ask for the end of the run
        return {n: tool.model_copy(update={"terminate": True}) for n, tool in tools.items()}
    return tools


def _bound(hooks: Sequence[ScriptedHook], isolation: HookIsolation | None) -> HookIsolation | None:
    if not any(hook.hangs for hook in hooks):
        return isolation
    isolation = isolation or HookIsolation()
    return isolation if isolation.timeout_ms else replace(isolation, timeout_ms=_WAIT_MS)


def transitions_of(abilities: Abilities) -> int:
    """Return the bound of a runaway: no world needs half as many transitions or requests."""
    return (3_000 if abilities.ends else 600) if abilities.has_engine else 200
