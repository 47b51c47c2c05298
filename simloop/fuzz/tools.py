"""The alphabet of fake tools: their results, their times and their schemas.

Not here: the calls of the model (replies.py). The rules to keep: the axes are drawn one by one, so
that any two properties can meet in one tool; and a tool that hangs has a timeout.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from simloop.fuzz.choices import Choices, one_of
from simloop.scenario.schema import ScriptedTool

_ENDINGS: Sequence[Callable[[str], Mapping[str, Any]]] = (
    lambda name: {"returns": f"what {name} found"},
    lambda name: {"raises": f"{name} is broken"},
    lambda _: {"returns": ""},
    lambda _: {"returns": None},
    lambda _: {"returns": 0},
    lambda _: {"returns": False},
    lambda name: {"returns": {"of": name, "lines": [1, 2]}},
    lambda _: {"returns_chars": 3_000},
    lambda _: {"returns_chars": 60_000},
    lambda name: {"returns": f"{name} \x1b[2J \U0001f600"},
    lambda _: {"raises": ""},
    lambda _: {"cancels": True},
    lambda _: {"hangs": True, "timeout": "3s"},
    lambda _: {"cancels": True, "takes": "1s"},
)
_WEIGHTS = (24, 12, 2, 2, 1, 1, 2, 2, 1, 2, 1, 3, 5, 4)
_TAKES = ("0s", "120ms", "1s", "5s", "999ms", "31s")
_TIMEOUTS = (None, None, "1ms", "1s", "5s")
_OUTLIVES = ("200ms", "2s")
_SCHEMAS: Sequence[Mapping[str, Any]] = (
    {"parameters": {"path": "string?"}},
    {"parameters": {"path": "string"}},
    {"json_schema": {"type": "object"}},
    {"json_schema": {"type": "object", "properties": {"path": {"type": "string", "maxLength": 6}}}},
)


def tool_for(choices: Choices, name: str, on: Collection[str]) -> ScriptedTool:
    """Draw a tool; `on` are the features of the family."""
    keys: dict[str, Any] = {"description": f"Does the {name}."}
    if "tools" not in on:
        keys |= {**_ENDINGS[0](name), **_SCHEMAS[0]}
    else:
        keys |= {**_ENDINGS[choices.weighted(_WEIGHTS)](name), **one_of(choices, _SCHEMAS)}
        keys["sequential"] = choices.boolean(0.3)
        keys["terminate"] = choices.boolean(0.1)
        if choices.boolean(0.1):
            keys["details"] = {"of": name}
    if "slow tools" in on:
        keys["takes"] = one_of(choices, _TAKES)
        keys.setdefault("timeout", one_of(choices, _TIMEOUTS))
    if on:
        # Also drawn for a tool that has no use for it: a shrinker can change the ending alone.
        outlives = choices.maybe(0.35, lambda own: one_of(own, _OUTLIVES))
        if outlives is not None and keys.keys() & {"hangs", "takes"}:
            keys["outlives_cancel"] = outlives
    return ScriptedTool(**keys)
