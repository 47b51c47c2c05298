"""The check that each loop, version and fault site named in a scenario exists."""

from collections.abc import Callable, Iterable, Iterator

from simloop.errors import ScenarioError
from simloop.scenario.designs import check_loop
from simloop.scenario.schema import Scenario
from simloop.virtual.seeds import Seeds
from simloop.world.chance import FaultSites


def check_names_in(scenario: Scenario) -> None:
    """Raise ScenarioError with each unknown fault site, loop and judge.

    The check skips the user's own loops, because a caller may replace them.
    """
    found = [*mistakes_in_names(scenario.loop, scenario.judge_as, scenario.expect_on)]
    found += _mistake(_check_faults, scenario)
    if found:
        first, *others = found
        first.others = tuple(others)
        raise first


def mistakes_in_names(
    loop: object, judge_as: object, expect_on: Iterable[object]
) -> Iterator[ScenarioError]:
    """Yield an error for each loop that does not exist; values that are no text are skipped."""
    of_loop = _mistake(_check_known, loop, "loop")
    yield from of_loop
    if isinstance(judge_as, str) and not of_loop:
        yield from _mistake(check_judge_as, judge_as, loop)
    for other in expect_on:
        yield from _mistake(_check_known, other, f"expect_on.{other}")


def _mistake(check: Callable[..., None], *given: object) -> list[ScenarioError]:
    """Return the error that a check raises, or nothing."""
    try:
        check(*given)
    except ScenarioError as error:
        return [error]
    return []


def _check_known(loop: object, key: str) -> None:
    if isinstance(loop, str) and ":" not in loop:
        check_loop(loop, key)


def _check_faults(scenario: Scenario) -> None:
    if scenario.faults is not None:
        FaultSites(scenario.faults, Seeds(scenario.seed))


def check_judge_as(judge_as: str, loop: object) -> None:
    """Raise ScenarioError if `loop` cannot be judged as this design; empty means no design."""
    if not judge_as:
        return
    if isinstance(loop, str) and ":" not in loop:
        raise ScenarioError(
            f"`{loop}` is bundled with simloop and has expectations of its own",
            key="judge_as",
            hint="leave it out, or name a loop of your own as module:attribute",
        )
    check_loop(judge_as, "judge_as")
