"""The worlds of a search: the replies of a run and the actions of its user, in drawn settings."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from simloop.fuzz import alphabet
from simloop.fuzz.choices import Choices, features_on, one_of, switch, weights_of
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Feature
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Queued, Scenario, ScriptedTool, Trigger
from simloop.trace.kinds import ENGINE_TRIGGERS
from simloop.world.faults import NO_SECONDS, WAITS

FEATURES = ("abort", "queue", "prompts", "pace", "usage", "steps", "shuffle", "storm",
            "ids", "long")  # fmt: skip
_TIMES = ("0s", "1ns", "50ms", "1s", "1001ms", "2s", "2500ms", "5s", "31s", "200s")
_AT_BOUNDARY = ("request", "part", "text-delta", "tool-call", "finish", "error", "tool-started",
                "tool-result", "reasoning-delta", "tool-call-delta", "stream-cut")  # fmt: skip
_NUMBERS = 8  # the number of different texts of one kind; with more, fewer replies are made already
_LONGEST = 25
"""The largest number of replies before a limit: a run of a hundred steps takes as long as ten."""
_KINDS = 10
"""The largest number of enabled variants of one axis in a family, besides the benign one."""
_USUAL, _LENGTH = 4, 6
"""The weight of a usual variant, and the most replies, of a world without a family."""
_OF_HTTP = frozenset(n for n, fault in enumerate(alphabet.ENDS) if "http" in fault.keys)
_NAMES = "calls", "useless", "broken", "openai"  # what Anthropic refuses, or never sends
_CALLS, _USELESS, _BROKEN, _OPENAI = map(alphabet.GROUPS.__getitem__, _NAMES)
_TROUBLE = tuple(n for n, fault in enumerate(alphabet.ENDS) if fault.weight > 1)
_REAL_TROUBLE = tuple(n for n in _TROUBLE if not alphabet.ENDS[n].is_breach)
_NO_SECONDS = [n for n, wait in enumerate(WAITS) if NO_SECONDS.search(str(wait))]
_OF_OPENAI = tuple(n for n, body in enumerate(alphabet.AXES["body"]) if body.is_of_openai)
_BREACHES = tuple(n for n, fault in enumerate(alphabet.ENDS) if fault.is_breach)
_OF_BREACHES = frozenset({"usage", "steps", "ids"})
_CALLING = tuple(
    place for place, content in enumerate(alphabet.CONTENTS.values())
    if content(0, alphabet.FIXED).keys() & {"call", "half_call"}
)  # fmt: skip
_OF_WIRE = [n for n, fault in enumerate(alphabet.ENDS) if fault.name in alphabet.NO_WIRE]
_ENDLESS = [n for n, fault in enumerate(alphabet.ENDS) if "stall" in fault.keys]
_FURTHER: Sequence[list[str]] = ([], ["And then?"], ["And then?", "And at last?"])
_REPETITIONS = 3
_INSERT, _REPLACE, _REPEAT, _REMOVE = range(4)
_WEIGHTS = (6, 2, 1, 1)


class Weights(NamedTuple):
    """The weights of the variants in the scripts of one family; see `weights_of_family`."""

    on: frozenset[str]
    contents: Sequence[int]
    ends: Sequence[int]
    axes: Mapping[str, Sequence[int]]  # of the other axes of a reply
    summaries: Sequence[int] | None
    length: int
    entries: Sequence[str]
    abilities: alphabet.Abilities


def features_for(choices: Choices, abilities: alphabet.Abilities) -> frozenset[str]:
    """Draw the enabled features of the scripts in a family."""
    left_out = {"abort"} if Feature.ABORT in abilities.lacks else set()
    if not abilities.ends and abilities.has_engine:
        left_out.add("storm")
    possible = {each: switch for each in FEATURES if each not in left_out}
    return frozenset(features_on(choices, possible))


def weights_of_family(choices: Choices, abilities: alphabet.Abilities) -> Weights:
    """Return the weights of the variants in the scripts of a new family."""
    on = features_for(choices, abilities)
    contents = weights_of(choices, len(alphabet.CONTENTS), _KINDS)
    ends = weights_of(choices, len(alphabet.ENDS), _KINDS)
    _add_usual(choices, contents, ends)
    return _weights(abilities, on, contents, ends, partial(weights_of, choices))._replace(
        length=(4, 6, 2, 10)[choices.integer(0, 3)]
    )


def usual_weights(abilities: alphabet.Abilities) -> Weights:
    """Return weights that nobody draws, so that an index keeps its meaning for a shrinker."""
    contents, ends = [1] * len(alphabet.CONTENTS), [fault.weight for fault in alphabet.ENDS]
    for place in _CALLS:
        contents[place] = _USUAL
    weights = _weights(abilities, frozenset(FEATURES), contents, ends, lambda n: [1] * n)
    ends[0] = sum(ends)
    return weights


def _weights(
    abilities: alphabet.Abilities, on: frozenset[str], contents: list[int], ends: list[int],
    draw: Callable[[int], Sequence[int]],
) -> Weights:  # fmt: skip
    lacks = abilities.lacks
    if not abilities.has_engine:
        for place in _OF_WIRE if abilities.bounds_streams else _ENDLESS:
            ends[place] = 0
    if not abilities.breaches:
        on -= _OF_BREACHES
        for place in _BREACHES:
            ends[place] = 0
        for place in _BROKEN if abilities.asks_openai else (*_BROKEN, *_OPENAI):
            contents[place] = 0
        contents[0] = contents[0] or 1
    for place in () if abilities.tools.names else _CALLING:
        contents[place] = 0
    summaries: Sequence[int] | None = None
    if abilities.has_engine:
        summaries = () if Feature.COMPACTION in lacks else draw(len(alphabet.SUMMARIES))
    axes = {name: [*draw(len(variants))] for name, variants in alphabet.AXES.items()}
    for place in _NO_SECONDS if abilities.bounds_streams and not abilities.breaches else ():
        axes["wait"][place] = 0
    for place in () if abilities.asks_openai else _OF_OPENAI:
        axes["body"][place] = 0
    return Weights(
        on=on, contents=contents, ends=ends,
        axes=axes, summaries=summaries, length=_LENGTH,
        entries=(*_AT_BOUNDARY, *(() if Feature.TRIGGERS in lacks else ENGINE_TRIGGERS)),
        abilities=abilities,
    )  # fmt: skip


def _add_usual(choices: Choices, contents: list[int], ends: list[int]) -> None:
    """Enable valid calls and a usual failure in most families: rare variants alone show little."""
    if choices.boolean(0.8):
        for _ in range(2):
            place = one_of(choices, _CALLS)
            contents[place] = max(contents[place], sum(contents) // choices.integer(1, 4))
    if choices.boolean(0.4):
        place = one_of(choices, _USELESS)
        contents[place] = contents[place] or choices.integer(1, 30)
    if choices.boolean(0.5):
        place = one_of(choices, _TROUBLE)
        ends[place] = ends[place] or choices.integer(1, 30)
    ends[0] = max(ends[0], sum(ends) // choices.integer(1, 3))


def reply_for(choices: Choices, weights: Weights, number: int) -> Reply:
    """Draw one reply."""
    on, axes = weights.on, weights.axes
    pace = choices.weighted(axes["pace"]) if "pace" in on and choices.boolean(0.7) else 0
    usage = choices.weighted(axes["usage"]) if "usage" in on else 0
    steps = choices.weighted(axes["steps"]) if "steps" in on and choices.boolean(0.5) else 0
    ids = choices.weighted(axes["ids"]) if "ids" in on else 0
    # The end comes last, because the choices after it depend on it.
    end = choices.weighted(weights.ends)
    content = wait = body = 0
    if end in _OF_HTTP:
        wait = choices.weighted(axes["wait"])
        body = choices.weighted(axes["body"]) if choices.boolean(0.4) else 0
        if body and choices.boolean(0.5):
            end = one_of(choices, alphabet.ENDS_WITH_BODY[body])
    else:
        content = choices.weighted(weights.contents)
    return alphabet.reply_of(
        alphabet.Recipe(content, end, wait, body, pace, usage, steps, ids, number % _NUMBERS),
        weights.abilities.tools,
    )


def model_for(choices: Choices, weights: Weights, limits: Limits) -> list[Reply]:
    """Draw the replies of a run; the last one ends it well, or a storm that the loop must end."""
    replies = choices.several(weights.length, lambda n: reply_for(choices, weights, n))
    if "long" in weights.on:
        own_limits = weights.abilities.limits or limits
        first = choices.maybe(0.3, lambda own: _up_to_a_limit(own, own_limits, weights))
        replies = replies if first is None else [first, *replies]
    rate = 0.1 if weights.abilities.ends else 0.04
    if replies and "storm" in weights.on and choices.boolean(rate):
        return [*replies[:-1], replies[-1].model_copy(update={"times": "always"})]
    return [*replies, weights.abilities.tools.last]


def _up_to_a_limit(choices: Choices, limits: Limits, weights: Weights) -> Reply:
    if choices.boolean(0.3) or not weights.abilities.tools.names:
        most = limits.max_error_count
        ends = _TROUBLE if weights.abilities.breaches else _REAL_TROUBLE
        reply = alphabet.reply_of(alphabet.Recipe(end=one_of(choices, ends)))
    else:
        most = limits.max_steps
        reply = alphabet.reply_of(alphabet.Recipe(one_of(choices, _CALLS)), weights.abilities.tools)
    return reply.model_copy(update={"times": max(min(most, _LONGEST) - choices.integer(0, 3), 1)})


def _summaries_for(choices: Choices, weights: Weights) -> list[Reply]:
    if weights.summaries is None:  # an agent may ask for summaries, and need not
        return [alphabet.LAST_SUMMARY]
    if not weights.summaries:
        return []
    kinds = weights.summaries
    drawn = choices.several(3, lambda n: alphabet.summary_of(choices.weighted(kinds), n))
    return [*drawn, alphabet.LAST_SUMMARY]


def _when(choices: Choices, weights: Weights) -> dict[str, Any]:
    if choices.boolean(0.6):
        return {"after": one_of(choices, weights.entries), "nth": choices.integer(1, 4)}
    return {"at": one_of(choices, _TIMES)}


def trigger_for(choices: Choices, weights: Weights) -> Trigger:
    """Draw a trigger: a time, or an entry of the trace."""
    return Trigger(**_when(choices, weights))


def _abort_for(choices: Choices, weights: Weights) -> Trigger | None:
    if "abort" not in weights.on:
        return None
    return choices.maybe(0.6, lambda own: trigger_for(own, weights))


def message_for(choices: Choices, weights: Weights, number: int) -> Queued:
    """Draw a message of the user."""
    when, later = _when(choices, weights), choices.boolean(0.3)
    return Queued(say=f"Message {number}.", follow_up=later, **when)


def _queue_for(choices: Choices, weights: Weights) -> list[Queued]:
    if "queue" not in weights.on:
        return []
    return choices.several(3, lambda n: message_for(choices, weights, n))


def _further_prompts(choices: Choices, weights: Weights) -> list[str]:
    return [*one_of(choices, _FURTHER)] if "prompts" in weights.on else []


def world_for(choices: Choices, base: Scenario, weights: Weights) -> Scenario:
    """Draw the script of one run in the settings of its family."""
    return base.model_copy(update={
        "model": model_for(choices, weights, base.limits),
        "summaries": _summaries_for(choices, weights),
        "abort": _abort_for(choices, weights), "queue": _queue_for(choices, weights),
        "then": _further_prompts(choices, weights),
        "shuffle_ties": "shuffle" in weights.on and choices.boolean(0.5),
        "seed": choices.integer(0, 999),
    })  # fmt: skip


def base_of(scenario: Scenario, abilities: alphabet.Abilities, loop: str) -> Scenario:
    """Return what the variations of `scenario` on `loop` share.

    Its model answers every request. An agent whose scenario has no replies shows its course.
    """
    is_open = not (abilities.has_engine or scenario.model or scenario.models)
    models = {
        name: party.model_copy(update={"replies": _endless(party.replies, abilities)})
        for name, party in scenario.models.items()
    }
    summaries = list(scenario.summaries)
    if abilities.summarises and not _repeats(summaries):
        summaries.append(alphabet.LAST_SUMMARY)
    return scenario.model_copy(update={
        "title": "", "bugs": [], "loop": loop, "judge_as": "",
        "tools": {**alphabet.PLAIN_TOOLS, **scenario.tools},
        "model": [] if is_open else _endless(scenario.model, abilities), "models": models,
        "summaries": summaries, "max_transitions": alphabet.transitions_of(abilities),
        "expect": scenario.expect.properties, "expect_on": {},
    }).read_from("")  # fmt: skip


def answering(replies: Sequence[Reply]) -> list[Reply]:
    """Return replies of which the last answers every further request."""
    return [*replies] if _repeats(replies) else [*replies, alphabet.LAST]


def _endless(replies: Sequence[Reply], abilities: alphabet.Abilities) -> list[Reply]:
    return answering([_bounded(each, abilities) for each in replies])


def _varied(choices: Choices, base: Sequence[Reply], weights: Weights) -> list[Reply]:
    replies = list(base)
    for number in range(choices.integer(0, 3)):
        place = choices.integer(0, len(replies) - 1)
        if (action := choices.weighted(_WEIGHTS)) == _INSERT:
            replies.insert(place, reply_for(choices, weights, number))
        elif place == len(replies) - 1:
            continue  # the last reply answers every further request
        elif action == _REPLACE:
            replies[place] = reply_for(choices, weights, number)
        elif action == _REPEAT:
            replies.insert(place, replies[place].model_copy(update={"ids": []}))
        else:
            del replies[place]
    return replies


def varied(choices: Choices, base: Scenario, weights: Weights) -> Scenario:
    """Draw a variation of `base`; it may be `base` itself."""
    return base.model_copy(update={
        "model": _varied(choices, base.model, weights),
        "abort": base.abort or _abort_for(choices, weights),
        "queue": base.queue or _queue_for(choices, weights),
        "then": base.then or _further_prompts(choices, weights),
        "shuffle_ties": "shuffle" in weights.on and choices.boolean(0.5),
        "seed": choices.integer(0, 999),
        # Last, and only here: the worlds of other scenarios stay as they are.
        "models": {
            name: party.model_copy(update={"replies": _varied(choices, party.replies, weights)})
            for name, party in base.models.items()
        },
        "tools": _answering_otherwise(choices, base.tools),
    })  # fmt: skip


def _answering_otherwise(
    choices: Choices, tools: Mapping[str, ScriptedTool]
) -> Mapping[str, ScriptedTool]:
    known = [name for name, tool in tools.items() if tool.answers]
    for number in choices.several(2, lambda _: choices.integer(0, len(known) - 1)) if known else ():
        tool = tools[name := known[number]]
        place = choices.integer(0, len(tool.answers) - 1)
        keys = one_of(choices, alphabet.ANSWER_FAULTS)
        tools = {**tools, name: alphabet.with_answer(tool, keys, place)}
    return tools


def _repeats(replies: Sequence[Reply]) -> bool:
    return any(each.times == "always" and each.when is None for each in replies)


def _bounded(reply: Reply, abilities: alphabet.Abilities) -> Reply:
    for_ever = reply.times == "always" or (reply.when is not None and reply.times is None)
    if abilities.ends or not for_ever:
        return reply
    return reply.model_copy(update={"times": _REPETITIONS})
