from collections.abc import Iterator

import pytest

from simloop import AssistantMessage, Reply, Scenario, UserMessage, World
from simloop.fuzz.choices import SeededChoices
from simloop.fuzz.families import Family
from simloop.fuzz.long_runs import LongRuns
from simloop.fuzz.play import play
from simloop.fuzz.replies import LAST
from simloop.fuzz.search import Search
from simloop.fuzz.settings import Abilities
from simloop.kernel.machine import Feature
from simloop.messages import Message

ROUNDS = 12
AGENT = Abilities(has_engine=False)


async def forgets_late_messages(prompt: str, world: World) -> str:
    """Take the messages of the user after the last round too, and send them to nobody."""
    messages: list[Message] = [UserMessage(prompt)]
    for _ in range(ROUNDS):
        reply = (await world.model.reply(messages, tools=world.tools.specs)).message
        if not reply.calls:
            return reply.text
        results = [await world.tools.run(call) for call in reply.calls]
        messages += [AssistantMessage(reply.text, reply.calls), *results]
        messages += map(UserMessage, world.user.take())
    return "That was enough."


def _played(rounds: int, abilities: Abilities = AGENT) -> tuple[LongRuns, Family]:
    """Return the long runs after a run of so many rounds and a run of one round."""
    call = Reply(call={"look": {}}, times=rounds - 1)
    world = Scenario(
        prompt="Go.", model=[call, LAST], tools={"look": {"returns": "x"}}, then=["And?"]
    )
    search = Search("native:Native", seed=1)
    family = next(search._given_worlds([world]))[0]
    long_runs = LongRuns(abilities)
    plan = family.plan.playing(family.settings)
    long_runs.add(family, family.settings, play(plan, family.chosen).prepared.trace.entries)
    return long_runs, family


def _changed(long_runs: LongRuns) -> Iterator[Scenario]:
    choices = SeededChoices(1)
    for _ in range(200):
        changed = long_runs.changed(choices)
        assert changed is not None
        yield changed[1]


def test_messages_and_aborts_come_in_the_last_rounds_of_a_long_run() -> None:
    worlds = list(_changed(_played(ROUNDS)[0]))
    said = {(each.after, each.nth) for world in worlds for each in world.queue}
    assert {nth for after, nth in said if after == "request"} == {12, 11, 10}
    assert {nth for after, nth in said if after == "tool-result"} == {11, 10, 9}
    stopped = {(world.abort.after, world.abort.nth) for world in worlds if world.abort}
    assert ("finish", 12) in stopped
    assert stopped <= said


def test_a_reply_is_added_before_one_of_the_last_replies() -> None:
    long_runs, _ = _played(ROUNDS)
    times = {
        world.model[0].times for world in _changed(long_runs) if not (world.queue or world.abort)
    }
    assert times == {11, 10, 9}


def test_a_loop_that_cannot_be_aborted_gets_no_abort() -> None:
    abilities = AGENT._replace(lacks=[Feature.ABORT])
    assert not any(world.abort for world in _changed(_played(ROUNDS, abilities)[0]))


def test_a_short_run_is_not_changed_at_its_end() -> None:
    assert _played(7)[0].changed(SeededChoices(1)) is None
    assert _played(8)[0].changed(SeededChoices(1)) is not None


def test_a_run_that_costs_as_much_as_many_others_is_not_repeated() -> None:
    machine = AGENT._replace(has_engine=True)
    assert _played(16, machine)[0].changed(SeededChoices(1)) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_message_that_is_lost_after_the_last_round_is_found(seed: int) -> None:
    search = Search(forgets_late_messages, seed=seed)
    assert "queued-messages-delivered" in {found.name for found in search.run(runs=1_500)}
