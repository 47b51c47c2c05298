"""The loop of document 003: ask, act on one function call, observe, until there is none."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from builders import counters_of

from simloop import Limits, Outcome, Reply, Result, Scenario, ScriptedTool, run
from simloop.errors import CannotExpress
from simloop.kernel import effects, states
from simloop.kernel.effects import Effect
from simloop.kernel.machine import (
    Bound,
    Feature,
    Transition,
    checked_transition,
)
from simloop.kernel.policies import Compaction
from simloop.kernel.signals import (
    Began,
    ModelReplied,
    Signal,
    StepClosed,
    ToolsReturned,
)
from simloop.loops.react import ReactLoop, ReactOptions
from simloop.messages import AssistantMessage, FinishReason, ToolMessage
from simloop.scenario.designs import LoopOptions
from simloop.scenario.replies import Http
from simloop.scenario.schema import Queued, ScriptedHook, Trigger

BOTH = (True, False)
SECOND = 10**9
CALL_MODEL: tuple[Effect, ...] = (effects.CallModel(),)
KEEP: tuple[Effect, ...] = (effects.CloseStep(keep=True),)


def replied(finish: str, *, text: bool = True, calls: bool = False) -> ModelReplied:
    return ModelReplied(FinishReason(finish), text, calls)


ANSWER, CALLS = replied("stop"), replied("tool-calls", calls=True)
ROUND: tuple[Signal, ...] = (CALLS, ToolsReturned(), StepClosed())

every_reply = pytest.mark.parametrize(
    ("finish", "text"), list(product(map(str, FinishReason), BOTH))
)


def play(*arrivals: Signal, limits: Limits | None = None, **options: Any) -> Transition:
    """Take a run from its beginning through `arrivals`; the last transition."""
    loop = ReactLoop(limits, ReactOptions(**options))
    moved = checked_transition(loop, loop.start(), Began())
    for signal in arrivals:
        moved = checked_transition(loop, moved[0], signal)
    return moved


# The machine


@every_reply
def test_a_reply_without_a_call_is_the_answer_whatever_it_ended_with(
    finish: str,
    text: bool,  # noqa: FBT001
) -> None:
    reply = replied(finish, text=text)
    assert play(reply)[1] == KEEP
    after, asked = play(reply, StepClosed())
    assert after.state == states.Finished(Outcome.COMPLETED)
    assert asked == (effects.EndRun(),)


@every_reply
def test_a_reply_with_a_call_acts_on_the_first_one_and_goes_on(
    finish: str,
    text: bool,  # noqa: FBT001
) -> None:
    reply = replied(finish, text=text, calls=True)
    assert play(reply)[1] == (effects.RunTools(first_only=True),)
    assert play(reply, ToolsReturned())[1] == KEEP
    after, asked = play(reply, ToolsReturned(), StepClosed())
    assert (after.state, asked) == (states.CallingModel(), CALL_MODEL)


def test_a_round_is_one_step_however_many_the_reply_reports() -> None:
    for calls in BOTH:
        burst = ModelReplied(FinishReason.TOOL_CALLS, text=True, calls=calls, steps=9)
        assert play(burst)[0].total_steps == 1


# Options


@pytest.mark.parametrize(
    ("limits", "options", "rounds"),
    [
        pytest.param(None, {}, 100, id="the-documents-hundred"),
        pytest.param(Limits(max_steps=7), {}, 7, id="max-steps"),
        pytest.param(Limits(max_steps=7), {"max_rounds": 3}, 3, id="max-rounds-goes-first"),
    ],
)
def test_the_bound_on_rounds_is_an_option_else_max_steps(
    limits: Limits | None, options: dict[str, int], rounds: int
) -> None:
    loop = ReactLoop(limits, ReactOptions(**options))  # type: ignore[arg-type]
    assert loop.bounds == {"max_rounds": Bound("total_steps", rounds, of_turns=True)}
    assert isinstance(play(*ROUND * rounds, limits=limits, **options)[0].state, states.Finished)


def test_all_calls_of_a_reply_are_run_if_so_chosen() -> None:
    asked = [play(CALLS, all_calls=chosen)[1] for chosen in BOTH]
    assert asked == [(effects.RunTools(),), (effects.RunTools(first_only=True),)]
    orders = [
        ReactLoop(options=ReactOptions(all_calls=chosen)).policies.tool_execution.order
        for chosen in BOTH
    ]
    assert orders == ["parallel", "sequential"]


# Runs

TOOLS = {
    "t": ScriptedTool(returns="ok", takes="1s"),
    "strict": ScriptedTool(parameters={"path": "string"}),
    "broken": ScriptedTool(raises="no such file"),
}
CALL, DONE = Reply(call={"t": {}}), Reply(say="Done.")


def go(*model: Reply, options: ReactOptions | None = None, **more: Any) -> Result:
    chosen = LoopOptions(react=options or ReactOptions())
    given = {"prompt": "Go.", "tools": TOOLS, "model": list(model), "loops": chosen, **more}
    return run(Scenario(**given), loop="react")


def test_three_rounds_as_the_document_shows_them() -> None:
    result = go(CALL, CALL, DONE)
    assert (result.outcome, result.text, counters_of(result).total_steps) == (
        Outcome.COMPLETED,
        "Done.",
        3,
    )
    assert [len(request.messages) for request in result.requests] == [1, 3, 5]


def test_only_the_first_call_is_run_and_the_model_never_sees_the_others() -> None:
    result = go(Reply(call=[{"t": {}}, {"broken": {}}, {"t": {}}]), DONE)
    assert [call.name for call in result.calls] == ["t"]
    said = [m for m in result.requests[-1].messages if isinstance(m, AssistantMessage)]
    assert [len(message.calls) for message in said] == [1]
    answers_sent = [m.text for m in result.requests[-1].messages if isinstance(m, ToolMessage)]
    assert answers_sent == ["ok"]


def test_with_all_calls_they_run_at_once_and_all_results_are_sent() -> None:
    three = Reply(call=[{"t": {}}] * 3)
    result = go(three, DONE, options=ReactOptions(all_calls=True))
    assert (len(result.calls), result.elapsed_ns, len(result.messages)) == (3, SECOND, 6)


def test_too_many_rounds_end_in_the_documents_words_after_the_last_tool() -> None:
    result = go(Reply(call={"t": {}}, times=2), options=ReactOptions(max_rounds=2))
    assert (result.outcome, result.limit) == (Outcome.MAX_STEPS, "max_rounds")
    assert result.message == "Max tool call rounds exceeded"
    assert (len(result.calls), len(result.requests)) == (2, 2)
    assert isinstance(result.messages[-1], ToolMessage), "the history is kept, and whole"


def test_the_next_prompt_goes_on_from_the_history_with_a_fresh_budget() -> None:
    model = [Reply(call={"t": {}}, times=2), CALL, DONE]
    result = go(*model, options=ReactOptions(max_rounds=2), then=["And now?"])
    assert result.outcomes == (Outcome.MAX_STEPS, Outcome.COMPLETED)
    assert [len(request.messages) for request in result.requests] == [1, 3, 6, 8]
    assert counters_of(result).total_steps == 2


def test_what_the_user_says_meanwhile_is_the_next_prompt() -> None:
    result = go(CALL, DONE, DONE, queue=[Queued(at="500ms", say="And now?")])
    assert result.outcomes == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert [len(request.messages) for request in result.requests] == [1, 3, 5]


def test_a_failed_call_is_not_tried_again_and_the_prompt_stays_in_the_history() -> None:
    result = go(Reply(http=Http(status=503)), DONE, then=["Again."])
    assert result.outcomes == (Outcome.FAILED, Outcome.COMPLETED)
    assert [message.text for message in result.messages] == ["Go.", "Again.", "Done."]


@pytest.mark.parametrize(
    ("asked_for", "feature"),
    [
        ({"abort": Trigger(at="1ns")}, Feature.ABORT),
        ({"hooks": [ScriptedHook(at="before_llm_call")]}, Feature.HOOKS),
        ({"compaction": Compaction()}, Feature.COMPACTION),
        ({"summaries": [DONE]}, Feature.COMPACTION),
    ],
    ids=["abort", "hooks", "compaction", "summaries"],
)
def test_what_the_document_does_not_have_is_refused_with_the_reason(
    asked_for: Mapping[str, Any], feature: Feature
) -> None:
    with pytest.raises(CannotExpress, match=ReactLoop.unsupported[feature]):
        go(DONE, **asked_for)
