"""Existing scenarios as worlds: those of the bundled library, or those that the user names.

Not here: their changes (families.py). The rules to keep: the expectations of a scenario are
dropped, because its world is changed; and a scenario with an endless wait, or with a loop that only
a stop ends, is left out, because a change may remove the stop.
"""

from collections.abc import Iterator

from simloop.errors import ScenarioError
from simloop.fuzz.replies import LAST, LAST_SUMMARY, TOOLS
from simloop.fuzz.settings import Abilities, transitions_of, waits_for_ever
from simloop.scenario.catalog import SUFFIX, bundled_folder
from simloop.scenario.expect import Expect
from simloop.scenario.loader import load_scenario
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario, ScriptedTool

_OF_SCRIPTS = frozenset({"ScriptExhausted", "ScriptUnused"})
_TIMES = 3
"""The repetitions of an endless reply in the world of a loop that may not end."""


def bundled_scenarios() -> Iterator[Scenario]:
    """Yield the bundled scenarios; each file is read only when the caller reaches it."""
    for path in sorted(bundled_folder().rglob(f"*{SUFFIX}")):
        try:
            yield load_scenario(path)
        except ScenarioError:
            continue  # for an installation with fewer extras


def world_of(scenario: Scenario, abilities: Abilities, loop: str) -> Scenario | None:
    """Return a scenario as a world for `loop`; None if it is left out."""
    expected = scenario.expected_of(loop)
    if expected.broken_pairs or (expected.error and expected.error not in _OF_SCRIPTS):
        return None
    if waits_for_ever(scenario, abilities):
        return None
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


def _repeats(replies: list[Reply]) -> bool:
    return any(each.times == "always" and each.when is None for each in replies)


def _bounded(reply: Reply, abilities: Abilities) -> Reply:
    """Return an endless reply with a few repetitions, if the loop may not end either."""
    for_ever = reply.times == "always" or (reply.when is not None and reply.times is None)
    if abilities.ends or not for_ever:
        return reply
    return reply.model_copy(update={"times": _TIMES})
