"""Families of worlds: settings that many runs share, and the scripts that are drawn in them.

Not here: the choice of the next world (search.py). The rule to keep: the settings of a family are
validated once; its scripts are not validated.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from simloop.check.invariants.judge import Chosen
from simloop.fuzz import scripts
from simloop.fuzz.choices import Choices
from simloop.fuzz.replies import LAST
from simloop.fuzz.scripts import Weights
from simloop.fuzz.settings import Abilities, settings_of
from simloop.fuzz.swarm import Arm
from simloop.runs.plan import Plan
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario


@dataclass(frozen=True, slots=True)
class Family:
    """Worlds with equal settings. `plan` is made from `settings`; `chosen` judges its runs.

    `against` is the plan of another loop, which must behave alike.
    """

    settings: Scenario
    weights: Weights
    plan: Plan
    chosen: Chosen
    against: Plan | None = None

    def world(self, choices: Choices) -> Scenario:
        """Draw a world."""
        return scripts.world_for(choices, self.settings, self.weights)

    def changed(self, choices: Choices, world: Scenario, other: Scenario) -> Scenario:
        """Return `world` with one to three changes of its script; a splice copies from `other`."""
        for _ in range(choices.integer(1, 3)):
            world = _CHANGES[choices.weighted(_WEIGHTS)](choices, self.weights, world, other)
        return world


def new_settings(
    choices: Choices, abilities: Abilities, arm: Arm, loop: str
) -> tuple[Scenario, Weights]:
    """Draw the settings and the weights of a new family."""
    settings = settings_of(choices, abilities, arm, loop)
    return settings, scripts.weights_of_family(choices, abilities, arm)


_MOST = 60
"""The most repeated replies of one world; more would exceed the bound of a runaway."""


def _with(world: Scenario, replies: list[Reply]) -> Scenario:
    replies = [*_shortened(replies)]
    if not replies or replies[-1].times != "always":
        replies.append(LAST)
    return world.model_copy(update={"model": replies})


def _shortened(replies: list[Reply]) -> Iterator[Reply]:
    """Yield the replies, with at most `_MOST` repetitions in all."""
    left = _MOST
    for reply in replies:
        times = reply.times
        if type(times) is not int or times == 1:
            yield reply
        elif left:
            yield reply if times <= left else reply.model_copy(update={"times": left})
            left = max(left - times, 0)


def with_reply_at(world: Scenario, place: int, reply: Reply) -> Scenario:
    """Return `world` with one more reply, before the reply to the request at `place`."""
    replies, left = list[Reply](), place
    for each in world.model:
        times = each.times
        count = left + 1 if times == "always" else times or 1
        if not 0 <= left < count:
            replies.append(each)
        else:
            after = times if times == "always" else count - left
            before = [each.model_copy(update={"times": left})] if left else []
            replies += [*before, reply, each.model_copy(update={"times": after})]
        left -= count
    return _with(world, replies)


def _change_reply(choices: Choices, weights: Weights, world: Scenario, _: Scenario) -> Scenario:
    replies = list(world.model)
    place = choices.integer(0, max(len(replies) - 2, 0))
    replies[place : place + 1] = [scripts.reply_for(choices, weights, place)]
    return _with(world, replies)


def _insert_reply(choices: Choices, weights: Weights, world: Scenario, _: Scenario) -> Scenario:
    replies = list(world.model)
    place = choices.integer(0, max(len(replies) - 1, 0))
    replies.insert(place, scripts.reply_for(choices, weights, len(replies)))
    return _with(world, replies)


def _repeat_reply(choices: Choices, _: Weights, world: Scenario, __: Scenario) -> Scenario:
    replies = list(world.model)
    if len(replies) > 1:
        place = choices.integer(0, len(replies) - 2)
        replies[place:place] = [replies[place]] * choices.integer(1, 3)
    return _with(world, replies)


def _delete_reply(choices: Choices, _: Weights, world: Scenario, __: Scenario) -> Scenario:
    replies = list(world.model)
    if len(replies) > 1:
        del replies[choices.integer(0, len(replies) - 2)]
    return _with(world, replies)


def _splice(choices: Choices, _: Weights, world: Scenario, other: Scenario) -> Scenario:
    kept = choices.integer(0, len(world.model))
    start = choices.integer(0, len(other.model))
    taken = [each for each in world.model[:kept] if each.times != "always"]
    return _with(world, [*taken, *other.model[start:]])


def _change_abort(choices: Choices, weights: Weights, world: Scenario, _: Scenario) -> Scenario:
    return world.model_copy(update={"abort": scripts.abort_for(choices, weights)})


def _change_queue(choices: Choices, weights: Weights, world: Scenario, _: Scenario) -> Scenario:
    return world.model_copy(update={"queue": scripts.queue_for(choices, weights)})


def _change_prompts(choices: Choices, weights: Weights, world: Scenario, _: Scenario) -> Scenario:
    return world.model_copy(update={"then": scripts.further_prompts(choices, weights)})


def _change_summaries(choices: Choices, weights: Weights, world: Scenario, _: Scenario) -> Scenario:
    return world.model_copy(update={"summaries": scripts.summaries_for(choices, weights)})


def _change_seed(choices: Choices, weights: Weights, world: Scenario, _: Scenario) -> Scenario:
    shuffled = "shuffle" in weights.on and choices.boolean(0.5)
    return world.model_copy(update={"seed": choices.integer(0, 999), "shuffle_ties": shuffled})


_CHANGES = (_change_reply, _insert_reply, _delete_reply, _repeat_reply, _splice, _change_abort,
            _change_queue, _change_prompts, _change_summaries, _change_seed)  # fmt: skip
_WEIGHTS = (6, 6, 2, 3, 3, 4, 3, 2, 2, 1)
