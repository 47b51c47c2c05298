"""The alphabet of replies: the contents of a reply, and the faults of the catalogue as its ends.

A reply is drawn along a few axes: its content, its end, and for some ends the details of a failed
call; then its pace, its usage and the steps that it reports. The first variant of each axis is the
benign one. A reply is made once for each combination, because validating it costs more than playing
it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from simloop.scenario.replies import Http, Pace, Reply, TokenUsage, calls_of, reply_of_fault
from simloop.world.faults import BODIES, FAULTS, WAITS, Keys, ReplyFault, Stage

TOOLS = ("read", "search", "write", "shell")
"""The names of the tools that replies call; `tools.py` draws them."""


def _path(n: int) -> Keys:
    return {"path": f"file-{n}"}


CONTENTS: Mapping[str, Callable[[int], Keys]] = {
    "text": lambda n: {"say": f"Answer {n}."},
    "call": lambda n: {"call": {"read": _path(n)}},
    "text and call": lambda n: {"say": f"Look {n}.", "call": {"search": _path(n)}},
    "two calls": lambda n: {"call": {"read": _path(n), "search": _path(n)}},
    "all tools": lambda n: {"say": f"Four {n}.", "call": dict.fromkeys(TOOLS, _path(n))},
    "equal calls": lambda n: {"call": [{"read": _path(n)}, {"read": _path(n)}]},
    "many calls": lambda n: {"call": [{TOOLS[i % 4]: _path(12 * n + i)} for i in range(12)]},
    "writing call": lambda n: {"call": {"write": _path(n)}},
    "repeated call": lambda _: {"call": {"shell": {"path": "again"}}},
    "thought and text": lambda n: {"think": f"Thought {n}.", "say": f"Said {n}."},
    "thought and call": lambda n: {"think": f"Thought {n}.", "call": {"write": _path(n)}},
    "thought": lambda n: {"think": f"Only a thought {n}."},
    "nothing": lambda _: {},
    "blank": lambda _: {"say": " "},
    "long text": lambda n: {"say": [f"Long {n}: ", "word " * 150]},
    "huge text": lambda n: {"say": [f"Huge {n}: " + "many words " * 2_000]},
    "odd text": lambda n: {"say": [f"\x1b[31mred {n}\x00", "\U0001f600 [b]x[/b]", "\n\n"]},
    "malformed arguments": lambda _: {"call": {"read": '{"path": '}},
    "empty arguments": lambda _: {"call": {"read": ""}},
    "null arguments": lambda _: {"call": {"read": "null"}},
    "list arguments": lambda _: {"call": {"read": "[1]"}},
    "wrong type": lambda n: {"call": {"read": {"path": n}}},
    "missing argument": lambda _: {"call": {"read": {}}},
    "extra argument": lambda n: {"call": {"read": {"path": "a", "extra": n}}},
    "unknown tool": lambda n: {"call": {"nonesuch": _path(n)}},
    "capital name": lambda n: {"call": {"READ": _path(n)}},
    "good and unknown": lambda n: {"call": {"read": _path(n), "nonesuch": {}, "search": _path(n)}},
    "good and malformed": lambda n: {"call": {"read": _path(n), "write": "{"}},
    "pieces": lambda n: {"call": {"read": _path(n)}, "fragments": 3},
    "interleaved": lambda n: {
        "call": {"read": _path(n), "write": _path(n)}, "fragments": 2, "interleave": True,
    },
    "half call": lambda _: {"half_call": {"read": '{"pa'}},
    "text and half call": lambda n: {"say": f"Cut {n}.", "half_call": {"write": '{"path": "'}},
    "call and half call": lambda n: {"call": {"read": _path(n)}, "half_call": {"write": "{"}},
}  # fmt: skip
"""The contents of a reply; each one is made with a number, so that texts and arguments differ."""


_PLAIN = ReplyFault("plain", Stage.END, {})
ENDS: Sequence[ReplyFault] = (_PLAIN, *(fault for fault in FAULTS if fault.weight))
"""The ends of a reply: first none of its own, then the faults of the catalogue."""

PACES: Sequence[Keys] = (
    {},
    {"first_part": "1s"},
    {"per_part": "100ms"},
    {"first_part": "30s"},
    {"first_part": "999ms", "per_part": "1s"},
    {"per_part": "2s"},
    {"per_token": "20ms"},
    {"first_part": "170s", "per_part": "60s"},
)
"""The paces at which parts arrive."""

USAGES: Sequence[Keys | None] = (
    None,
    {"input": 0, "output": 0},
    {"input": 120, "output": 15},
    {"input": 500_000, "output": 4_000},
    {"input": 10**9, "output": 10**9},
)
"""The token counts that a provider reports."""

STEPS = (1, 0, 2, 3, 5, 19, 20, 21, 100)
"""The steps that a reply reports."""

IDS: Sequence[Callable[[int], list[str]]] = (
    lambda _: [],
    lambda calls: [f"{n}" for n in range(calls)],
    lambda calls: [f"past-{n + 1}" for n in range(calls)],
    lambda calls: [""] * calls,
    lambda calls: ["a"] * calls,
    lambda calls: [f"call-{calls - n}" for n in range(calls)],
)
"""The ids of so many calls: new ones, those of any other reply or of the history, and bad ones."""

CONTENT_NAMES, END_NAMES = tuple(CONTENTS), tuple(fault.name for fault in ENDS)
_NOTHING = CONTENT_NAMES.index("nothing")
ENDS_WITH_BODY = tuple(
    tuple(END_NAMES.index(f"http {status}") for status in body.statuses) for body in BODIES
)
"""The ends with which providers send each body."""
_CONTENT_LIST = tuple(CONTENTS.values())


class Recipe(NamedTuple):
    """A reply as numbers, one for each axis; all 0 is a short text with a normal end.

    `number` makes texts and arguments differ.
    """

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
def reply_of(recipe: Recipe) -> Reply:
    """Return the reply of a recipe; equal recipes share it.

    If two choices contradict each other, the end decides: a failed call has no content. A reply is
    a copy of a validated reply with validated values, because validating each combination takes as
    long as a run.
    """
    fault, end = ENDS[recipe.end], _end_of(recipe.end)
    update: dict[str, Any] = {"pace": _paces()[recipe.pace], "finish": None, **end}
    if fault.stage is Stage.INSTEAD:
        if "http" in end:
            update["http"] = _http_of(recipe.end, recipe.wait, recipe.body)
        return _content_of(_NOTHING, 0).model_copy(update=update)
    silent = recipe.content == _NOTHING and "mid-output" in fault.keys.values()
    content = _content_of(0 if silent else recipe.content, recipe.number)
    if recipe.ids and content.call:
        update["ids"] = IDS[recipe.ids](len(calls_of(content.call)))
    if end.keys() <= {"finish"}:
        update |= {"usage": _usages()[recipe.usage], "steps": STEPS[recipe.steps]}
        update["finish"] = end.get("finish", content.finish)
    return content.model_copy(update=update)


@cache
def _end_of(end: int) -> Keys:
    """Return the keys of an end with values that are validated already."""
    fault = ENDS[end]
    return {key: getattr(reply_of_fault(fault), key) for key in fault.keys}


@lru_cache(maxsize=1_000)
def _content_of(content: int, number: int) -> Reply:
    keys = _CONTENT_LIST[content](number)
    return Reply(**keys) if keys else Reply(finish="stop")


@lru_cache(maxsize=5_000)
def _http_of(end: int, wait: int, body: int) -> Http:
    return Http(**{**ENDS[end].keys["http"], **WAITS[wait], **BODIES[body].keys})


@cache
def _paces() -> tuple[Pace, ...]:
    return tuple(Pace(**keys) for keys in PACES)


@cache
def _usages() -> tuple[TokenUsage | None, ...]:
    return tuple(None if keys is None else TokenUsage(**keys) for keys in USAGES)


LAST = Reply(say="All is done.", times="always")
"""The last reply of every script: from then on the model answers without faults."""

SUMMARIES: Mapping[str, Callable[[int], Reply]] = {
    "good": lambda n: Reply(say=f"Summary {n}."),
    "long": lambda n: Reply(say=[f"Summary {n}: " + "as long as everything " * 400]),
    "of four words": lambda _: Reply(say="They said hello. Twice."),
    "of ten words": lambda _: Reply(say="one two three four five six seven eight nine ten"),
    "of some words": lambda n: Reply(say=["words " * (3 * n + 5)]),
    "of more words": lambda n: Reply(say=["more words " * (5 * n + 9)]),
    "empty": lambda _: Reply(finish="stop"),
    "http 500": lambda _: Reply(http=Http(status=500)),
    "http 429": lambda _: Reply(http=Http(status=429, retry_after="2s")),
    "overflow": lambda _: Reply(http=Http(status=413, message="prompt is too long")),
    "http 401": lambda _: Reply(http=Http(status=401)),
    "cut off": lambda n: Reply(say=f"Half a summary {n}", finish="length"),
    "unfinished": lambda n: Reply(say=f"Broken summary {n}", unfinished=True),
    "lost": lambda n: Reply(say=f"Lost summary {n}", lost="mid-output"),
    "filtered": lambda _: Reply(finish="content_filter"),
    "with a call": lambda n: Reply(say=f"Summary {n}.", call={"read": _path(n)}),
    "thought": lambda n: Reply(think=f"Thought {n}.", finish="stop"),
    "slow": lambda n: Reply(say=f"Slow summary {n}.", pace=Pace(first_part="20s")),
    "stalled": lambda _: Reply(stall="before-headers"),
    "raises": lambda _: Reply(raises="the client is broken"),
}
"""The replies to requests for a summary."""

LAST_SUMMARY = Reply(say="The summary.", times="always")


@lru_cache(maxsize=1_000)
def summary_of(kind: int, number: int) -> Reply:
    """Return a reply to a request for a summary."""
    return _SUMMARY_LIST[kind](number)


_SUMMARY_LIST = tuple(SUMMARIES.values())
