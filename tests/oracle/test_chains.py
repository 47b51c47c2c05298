"""The chain of a point lets hooks that run at once end in any order, and no others."""

from collections.abc import Iterable
from typing import Any

import pytest

from oracle.hooks import Chain, stretches_of
from simloop import HookExecution, independent
from simloop.engine.settings import EngineSettings
from simloop.trace.entries import Hook
from simloop.world.user_functions import UserFunction

PARALLEL = EngineSettings(hook_execution=HookExecution(order="parallel"))
SEQUENTIAL = EngineSettings()


def hooks(names: str) -> tuple[UserFunction, ...]:
    """Return a hook for each letter; those of capital letters are independent."""
    return tuple(
        UserFunction(lambda given: None, name, is_independent=name.isupper()) for name in names
    )


def ran(name: str) -> Hook:
    return Hook(0, 0, "before_llm_call", name, "ok")


def judged(chain: Chain, names: Iterable[str], vetoes: str = "") -> list[bool]:
    """Return for each hook whether the chain lets it run."""
    return [not chain.run(ran(name), ends=name in vetoes) for name in names]


def test_only_neighbours_that_are_independent_run_at_once() -> None:
    found = [list(each) for each in stretches_of(hooks("ABcDefGH"), PARALLEL)]
    assert found == [[0, 1], [2], [3], [4], [5], [6, 7]]


def test_without_the_policy_each_hook_runs_alone() -> None:
    found = [list(each) for each in stretches_of(hooks("ABc"), SEQUENTIAL)]
    assert found == [[0], [1], [2]]


@pytest.mark.parametrize("order", ["ABCd", "CBAd", "BCAd"])
def test_hooks_that_run_at_once_end_in_any_order(order: str) -> None:
    chain = Chain(hooks("ABCd"), PARALLEL)
    assert judged(chain, order) == [True] * 4
    assert not chain.missing


@pytest.mark.parametrize(
    ("order", "right"), [("BA", 0), ("AdB", 1), ("AAB", 1), ("BB", 1), ("ABdd", 3)]
)
def test_another_order_is_found_at_its_first_hook(order: str, right: int) -> None:
    settings = PARALLEL if right else SEQUENTIAL
    assert judged(Chain(hooks("ABd"), settings), order)[: right + 1] == [True] * right + [False]


def test_a_veto_ends_the_chain_when_the_hooks_beside_it_have_ended() -> None:
    chain = Chain(hooks("ABCd"), PARALLEL)
    assert judged(chain, "B", vetoes="B") == [True]
    assert chain.missing == "A"
    assert judged(chain, "CAd") == [True, True, False]


def test_a_new_call_begins_with_the_first_hook() -> None:
    chain = Chain(hooks("AB"), PARALLEL)
    judged(chain, "B", vetoes="B")
    chain.begin()
    assert judged(chain, "BA") == [True, True]


def test_two_hooks_of_one_name_that_run_at_once_cannot_be_told_apart() -> None:
    twins = hooks("AA")
    assert Chain(twins, PARALLEL).is_ambiguous
    assert not Chain(twins, SEQUENTIAL).is_ambiguous
    assert judged(Chain(twins, PARALLEL), "AAA") == [True, True, False]


def test_the_mark_of_a_function_counts() -> None:
    @independent
    def reads(given: Any) -> None:
        del given

    assert stretches_of([UserFunction(reads), UserFunction(reads)], PARALLEL) == [range(2)]
