"""The alphabet of fake hooks, and of their policies.

Not here: the limits of a family whose hooks hang (settings.py). The rule to keep: each change that
a hook can make is drawn by itself, so that one hook can make several, and then fail.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, islice, repeat
from typing import Any

from simloop.fuzz.choices import Choices, one_of
from simloop.fuzz.replies import TOOLS
from simloop.kernel.policies import HookExecution, HookIsolation
from simloop.scenario.schema import ScriptedHook

_POINTS: Mapping[str, Mapping[str, tuple[float, Sequence[Any]]]] = {
    "before_llm_call": {
        "system_prompt": (0.5, ("Another system prompt.", "Yet another one.", "")),
        "hide_tools": (0.25, (["read"], ["write", "search"], list(TOOLS))),
        "add_tools": (
            0.25,
            (
                {"nonesuch": {"returns": "I am here"}},
                {"read": {"returns": "another read"}},
                {"nonesuch": {"raises": "I am broken"}, "write": {"returns": "written elsewhere"}},
            ),
        ),
        "block": (0.1, ("not this",)),
    },
    "before_tool_call": {
        "arguments": (
            0.5,
            ({"path": "changed"}, {"path": 5}, {"path": "changed too"}, {"extra": True}),
        ),
        "block": (0.3, ("not this",)),
    },
    "after_tool_call": {"result": (0.6, ("changed", "", "changed \x1b[1m words"))},
    "after_llm_call": {},
}
"""The changes that a hook can make at each point, each with its probability and its values."""

_WEIGHTS = (4, 4, 3, 1)
"""A hook after a model call changes nothing, so it is drawn less often."""

_CHANGES = max(map(len, _POINTS.values()))
_UNUSED = repeat(("", (0.1, (None,))))
"""The changes that a point lacks."""

_SHORT = ("1ns", "100ms", "1s")
_TAKES = ("100ms", "1s", "4999ms", "5s", "6s", "7s")


def hook_for(choices: Choices) -> ScriptedHook:
    """Draw a hook."""
    point: Any = tuple(_POINTS)[choices.weighted(_WEIGHTS)]
    keys: dict[str, Any] = {}
    # Each point has as many choices, so that a shrinker can change the point alone.
    for name, (probability, values) in islice(chain(_POINTS[point].items(), _UNUSED), _CHANGES):
        value = choices.maybe(probability, partial(one_of, values=values))
        if value is not None:
            keys[name] = value
    tool = choices.maybe(0.3, partial(one_of, values=TOOLS))
    if tool is not None and point.endswith("tool_call"):
        keys["tool"] = tool
    keys["nth"] = choices.maybe(0.5, lambda own: own.integer(1, 3))
    keys |= _failure_for(choices)
    keys["independent"] = choices.boolean(0.5)
    return ScriptedHook(at=point, **keys)


def _failure_for(choices: Choices) -> dict[str, Any]:
    """Draw how a hook fails, or how long it takes, before or after its changes."""
    keys: dict[str, Any] = {}
    if choices.boolean(0.15):
        # The failure of a hook that waits arrives in another place, if no timeout comes before it.
        takes = choices.maybe(0.5, partial(one_of, values=_SHORT))
        return {"raises": "the hook is broken", **({} if takes is None else {"takes": takes})}
    if choices.boolean(0.3):
        keys["hangs"] = True
    elif choices.boolean(0.3):
        keys["takes"] = one_of(choices, _TAKES)
    if keys and choices.boolean(0.8):  # a hook that fails before it acts shows less
        keys["waits"] = "after"
    return keys


def hook_execution_for(choices: Choices) -> HookExecution:
    """Draw whether independent hooks run at once."""
    return HookExecution(order=one_of(choices, ("sequential", "parallel", "parallel")))


def hook_isolation_for(choices: Choices) -> HookIsolation:
    """Draw the isolation policy of hooks."""
    words = ("isolate", "fail-run", "block-call", "error-result")
    return HookIsolation(
        on_failure=one_of(choices, words),
        timeout_ms=one_of(choices, (5_000, 1, 100, 1_000, None)),
    )
