"""Variations of a scenario: its own script, with faults, an abort and messages of the user.

The tools of an agent that somebody wrote have names that no generated world knows. A scenario that
calls them, written or recorded, is what such an agent is searched with. The expectations of the
scenario are dropped, because its world is changed.
"""

from simloop.errors import ScenarioError
from simloop.fuzz import scripts
from simloop.fuzz.choices import Choices
from simloop.fuzz.replies import LAST, LAST_SUMMARY, TOOLS
from simloop.fuzz.scripts import Weights
from simloop.fuzz.settings import Abilities, transitions_of, waits_for_ever
from simloop.scenario.expect import Expect
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario, ScriptedTool

_TIMES = 3
"""The repetitions of an endless reply for a loop that may not end."""
_INSERT, _REPLACE, _REPEAT, _REMOVE = range(4)
_WEIGHTS = (6, 2, 1, 1)


def base_of(scenario: Scenario, abilities: Abilities, loop: str) -> Scenario:
    """Return what the variations of `scenario` on `loop` share; its model answers every request.

    Raises ScenarioError if a variation would wait without end.
    """
    if waits_for_ever(scenario, abilities):
        raise ScenarioError(
            "only a stop by the user ends this scenario, and a variation may have none",
            path=scenario.path or None,
            hint="give it a max_wall_clock, or its tools a timeout",
        )
    plain = {name: ScriptedTool(returns=f"what {name} found") for name in TOOLS}
    replies = [_bounded(each, abilities) for each in scenario.model]
    summaries = list(scenario.summaries)
    if abilities.summarises and not _repeats(summaries):
        summaries.append(LAST_SUMMARY)
    return scenario.model_copy(
        update={
            "title": "",
            "bugs": [],
            "loop": loop,
            "judge_as": "",
            "tools": {**plain, **scenario.tools},
            "model": replies if _repeats(replies) else [*replies, LAST],
            "summaries": summaries,
            "max_transitions": transitions_of(abilities),
            "expect": Expect(),
            "expect_on": {},
        }
    ).read_from("")


def varied(choices: Choices, base: Scenario, weights: Weights) -> Scenario:
    """Draw a variation of `base`; it may be `base` itself."""
    replies = list(base.model)
    for number in range(choices.integer(0, 3)):
        place = choices.integer(0, len(replies) - 1)
        action = choices.weighted(_WEIGHTS)
        if action == _INSERT:
            replies.insert(place, scripts.reply_for(choices, weights, number))
        elif place == len(replies) - 1:
            continue  # the last reply answers every further request
        elif action == _REPLACE:
            replies[place] = scripts.reply_for(choices, weights, number)
        elif action == _REPEAT:
            replies.insert(place, replies[place])
        else:
            del replies[place]
    return base.model_copy(
        update={
            "model": replies,
            "abort": base.abort or scripts.abort_for(choices, weights),
            "queue": base.queue or scripts.queue_for(choices, weights),
            "then": base.then or scripts.further_prompts(choices, weights),
            "shuffle_ties": "shuffle" in weights.on and choices.boolean(0.5),
            "seed": choices.integer(0, 999),
        }
    )


def _repeats(replies: list[Reply]) -> bool:
    return any(each.times == "always" and each.when is None for each in replies)


def _bounded(reply: Reply, abilities: Abilities) -> Reply:
    """Return an endless reply with a few repetitions, if the loop may not end either."""
    for_ever = reply.times == "always" or (reply.when is not None and reply.times is None)
    if abilities.ends or not for_ever:
        return reply
    return reply.model_copy(update={"times": _TIMES})
