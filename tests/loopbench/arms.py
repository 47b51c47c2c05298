"""The arms of the benchmark: the ways to look for a fault, each with its cost.

A failure is a false alarm if the correct loop has it too, in the same scenario, or if the
faulty loop does not break it in a run of the scenario alone.
"""

import asyncio
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from fault import Fault, applied
from hypothesis import HealthCheck, Phase, given, seed, settings
from msgspec import Struct

from simloop import Scenario
from simloop.check.invariants.judge import add_invariants, in_module
from simloop.check.trial import Failure, Rules, Until, Verdict, failure_of, only, verify
from simloop.fuzz.search import FoundFailure, Search
from simloop.fuzz.shrink import shrink
from simloop.kernel.limits import Limits
from simloop.prove.proof import prove
from simloop.runs.loop import machine_for
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.scenario.loader import load_scenario
from simloop.strategies import scenarios

_BUNDLED = Path(__file__).parent.parent.parent / "scenarios"


class Trial(Struct, array_like=True):
    """One search for one fault. `rule` is the name of the invariant that reported it, or empty.

    `replies` are those of the shrunk scenario, -1 if it was not shrunk. `alarms` are the rules that
    correct loops break.
    """

    runs: int
    cpu_s: float
    rule: str = ""
    replies: int = -1
    shrink_s: float = 0.0
    alarms: tuple[str, ...] = ()


class _SearchHere(Search):
    """A search in which a failing world is run again here: only this process has the fault."""

    def alone(self, world: Scenario, name: str) -> Failure | None:
        rules = Rules(only(name) if self.is_of_agent else None, expectations=False)
        return failure_of(Plan(world, {"loop": self.loop}), rules, name=name)


def searched(fault: Fault, number: int, seconds: float) -> Trial:
    """The arm that searches generated worlds, for so many seconds of computing."""
    with rules_of(fault):
        return _searched(fault, number, seconds)


@contextmanager
def rules_of(fault: Fault) -> Iterator[None]:
    """Add the rules that the author of an agent states beside it, as `--invariants MODULE` does."""
    with ExitStack() as stack:
        module = fault.loop.partition(":")[0]
        if fault.part == "sdk" and in_module(importlib.import_module(module)):
            stack.callback(add_invariants(module))
        yield


def search_for(fault: Fault, seed: int) -> Search:
    """Return a search as the author of the loop would start it."""
    breaches = fault.part == "agent"
    return _SearchHere(fault.given_loop(), seed=seed, scenarios=course_of(fault), breaches=breaches)


def _searched(fault: Fault, number: int, seconds: float) -> Trial:
    alone: RunOptions = {"loop": fault.given_loop()}
    with applied(fault):
        search = search_for(fault, number)
        steps = search.steps()
    alarms: list[str] = []
    while search.cpu_s < seconds:
        with applied(fault):
            new = next(steps)
        right = [each for each in new if _is_of_fault(each, alone)]
        alarms += [each.name for each in new if each not in right]
        if not right:
            continue
        found = right[0]
        world = found.scenario
        trial = Trial(search.runs, search.cpu_s, found.name, alarms=tuple(alarms))
        if number == 0:  # the costs of one are enough
            start_s = time.process_time()
            with applied(fault):
                shrunk = shrink(world, alone)
            trial.shrink_s = time.process_time() - start_s
            trial.replies = -1 if shrunk is None else len(shrunk.scenario.model)
        return trial
    return Trial(search.runs, search.cpu_s, alarms=tuple(alarms))


def course_of(fault: Fault) -> list[Scenario]:
    """The plain course of an agent with services or programs, which its author would give."""
    path = Path(__file__).parent / f"{fault.loop.partition(':')[0].replace('.', '/')}.simloop.yaml"
    return [load_scenario(path)] if path.exists() else []


def _is_of_fault(found: FoundFailure, alone: RunOptions) -> bool:
    # The rules of the oracle read a ledger, which its first rule keeps.
    rule = [*(only("ledger-follows-the-run") or ()), *found.rule] if found.rule else None
    rules = Rules(rule, expectations=False)
    clean = failure_of(Plan(found.scenario, alone), rules, name=found.name)
    return bool(found.reproduced) and (clean is None or clean.name != found.name)


def _failure(world: Scenario, given: RunOptions) -> Failure | None:
    return failure_of(Plan(world, given), Rules(expectations=False))


class _Over(BaseException):
    """Ends Hypothesis at once: it handles no exception of this kind."""


def examples(fault: Fault, number: int, seconds: float) -> Trial:
    """The arm that draws whole scenarios with Hypothesis, which shrinks nothing here."""
    alone: RunOptions = {"loop": fault.given_loop()}
    trial = Trial(0, 0.0)
    start_s = time.process_time()

    @seed(number)
    @settings(
        max_examples=1_000_000,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=tuple(HealthCheck),
    )
    @given(scenarios(fault.given_loop()))
    def look(world: Scenario) -> None:
        trial.runs += 1
        trial.cpu_s = time.process_time() - start_s
        with applied(fault):
            failure = _failure(world, alone)
        clean = None if failure is None else _failure(world, alone)
        if failure is not None and (clean is None or clean.name != failure.name):
            trial.rule = failure.name
            raise _Over
        if trial.cpu_s > seconds:
            raise _Over

    with suppress(_Over):
        look()
    return trial


def bundled(fault: Fault, number: int, seconds: float) -> Trial:
    """The arm that runs the bundled scenarios, in the order of their names."""
    del number, seconds  # it does not depend on chance
    right = _verdicts(fault.loop, fault.given_loop())
    start_s = time.process_time()
    with applied(fault):
        for runs, (path, rule) in enumerate(_judged(fault.given_loop()), start=1):
            if rule and not right[path]:
                return Trial(runs, time.process_time() - start_s, rule)
    return Trial(len(right), time.process_time() - start_s)


_KNOWN: dict[str, dict[Path, str]] = {}


def _verdicts(name: str, loop: object) -> dict[Path, str]:
    if name not in _KNOWN:
        _KNOWN[name] = dict(_judged(loop))
    return _KNOWN[name]


def _judged(loop: object) -> Iterator[tuple[Path, str]]:
    """Each bundled scenario that the loop can run, with what is wrong."""
    for path in _files():
        try:
            verdict = verify(path, Until.END, loop=loop)  # type: ignore[arg-type]
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a faulty engine
            yield path, type(error).__name__
            continue
        if not verdict.cannot:
            yield path, _wrong(verdict)


@cache
def _files() -> tuple[Path, ...]:
    return tuple(sorted(_BUNDLED.rglob("*.simloop.yaml")))


def _wrong(verdict: Verdict) -> str:
    if verdict.exit_code:
        return "expectations" if verdict.failures else type(verdict.worst).__name__
    return verdict.violations[0].name if verdict.violations else ""


def explored(fault: Fault, number: int, seconds: float) -> Trial:
    """The arm that explores the machine; it sees nothing of the engine, and nothing of an agent."""
    del number, seconds
    if fault.part != "machine":
        return Trial(0, 0.0)
    start_s = time.process_time()
    with applied(fault):
        proof = prove(machine_for(fault.loop, Limits()), Limits())
    spent_s = time.process_time() - start_s
    new = len(proof.violations) > _proved(fault.loop)[0] or proof.holds != _proved(fault.loop)[1]
    return Trial(1, spent_s, "explore" if new else "")


@cache
def _proved(loop: str) -> tuple[int, bool]:
    proof = prove(machine_for(loop, Limits()), Limits())
    return len(proof.violations), proof.holds


ARMS: dict[str, Callable[[Fault, int, float], Trial]] = {
    "scenarios": bundled,
    "explore": explored,
    "search": searched,
    "hypothesis": examples,
}
"""By name, in the order of the table."""

BY_CHANCE = frozenset(("search", "hypothesis"))
"""The arms whose trials differ by their seeds."""
