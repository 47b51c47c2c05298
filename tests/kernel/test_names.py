"""What a report calls a state, a signal or an effect says all that decides."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from simloop.kernel import effects, signals, states
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.names import NAMES, describe
from simloop.messages import FinishReason, Outcome


class LLMCall(Struct, frozen=True):
    """One whose name has a word in capitals."""


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (signals.ModelReplied, "model-replied"),
        (signals.Began, "began"),
        (states.BackingOff, "backing-off"),
        (effects.RunTools, "run-tools"),
    ],
)
def test_a_class_is_called_by_its_name_in_kebab_case(kind: type[Struct], name: str) -> None:
    assert NAMES[kind] == name


def test_no_two_of_one_kind_are_called_the_same() -> None:
    for union in (states.State, signals.Signal, effects.Effect):
        kinds = get_args(union)
        assert len({NAMES[kind] for kind in kinds}) == len(kinds)


def test_a_class_of_ones_own_has_a_name_too() -> None:
    assert NAMES[LLMCall] == NAMES[LLMCall] == "llmcall"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (signals.Began(), "began"),
        (signals.ContextMeasured(over=False), "context-measured"),
        (signals.ContextMeasured(over=True), "context-measured: over"),
        (
            signals.ModelReplied(FinishReason.TOOL_CALLS, text=True, calls=True),
            "model-replied: tool-calls, text, calls",
        ),
        (
            signals.ModelReplied(FinishReason.STOP, text=False, calls=False, steps=21),
            "model-replied: stop, 21 steps",
        ),
        (
            signals.ModelFailed(ErrorClass.RATE_LIMIT, retryable=True),
            "model-failed: rate-limit, retryable",
        ),
        (states.Finished(Outcome.COMPLETED), "finished: completed"),
        (states.Finished(Outcome.MAX_STEPS, "max_steps"), "finished: max-steps, max_steps"),
        (states.Compacting(forced=True), "compacting: forced"),
        (
            states.ClosingStep(states.ReplyFacts(FinishReason.STOP, text=True, calls=False)),
            "closing-step",
        ),
    ],
    ids=str,
)
def test_a_value_is_told_in_words(value: Struct, words: str) -> None:
    assert describe(value) == words


REPLIES = st.builds(
    signals.ModelReplied,
    st.sampled_from(FinishReason),
    st.booleans(),
    st.booleans(),
    st.integers(1, 30),
)


@settings(derandomize=True)
@given(REPLIES, REPLIES)
def test_two_replies_are_told_the_same_only_if_they_are_the_same(
    one: Struct, other: Struct
) -> None:
    assert (describe(one) == describe(other)) == (one == other)
