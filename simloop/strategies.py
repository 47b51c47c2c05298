"""Hypothesis strategies for scenarios and their parts, and the check of what they draw.

    from hypothesis import given
    from simloop import strategies as sim

    @given(sim.scenarios("mypackage:agent"))
    def test_the_agent_keeps_every_invariant(scenario):
        sim.check(scenario)

Importing this module registers the strategies: `from_type(simloop.Reply)` works afterwards.

Every strategy shrinks towards the plain scenario: no fault, no latency and the default limits.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

from hypothesis import strategies as st

from simloop.check.invariants.invariant import Invariant
from simloop.check.trial import FINISHES, UNJUDGED, Rules, Until, trial
from simloop.errors import InvariantViolated, RunawayRun
from simloop.fuzz import alphabet, worlds
from simloop.fuzz.alphabet import Abilities, hook_for, tool_for
from simloop.fuzz.choices import Choices, one_of
from simloop.fuzz.course import AgentCourse, plain_scenario
from simloop.kernel.limits import Limits
from simloop.kernel.policies import Compaction, HookExecution, HookIsolation, ToolExecution
from simloop.kernel.retry import ExponentialBackoff
from simloop.runs.loop import loop_of
from simloop.runs.options import GivenLoop
from simloop.runs.plan import Plan
from simloop.runs.result import Result
from simloop.scenario.expect import CountBounds, Expect
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Queued, Scenario, ScriptedHook, ScriptedTool, Trigger
from simloop.scenario.writing import scenario_text

T = TypeVar("T")


@st.composite
def _part(draw: st.DrawFn, make: Callable[[Choices], T]) -> T:
    """Draw a value in a span of its own, so that Hypothesis makes all of it plain at once."""
    return make(HypothesisChoices(draw))


@st.composite
def _rest(draw: st.DrawFn, most: int, make: Callable[[int], T], got: tuple[T, ...] = ()) -> list[T]:
    """Draw the rest of a list inside the rest before it: Hypothesis can delete any element."""
    left = most - len(got)
    # The choice is also made after the last possible element: without it, a full list that loses an
    # element would take the choice from the value that follows the list.
    if not draw(st.integers(0, left or 1)) or not left:
        return [*got]
    return draw(_rest(most, make, (*got, draw(_part(lambda _: make(len(got)))))))


class HypothesisChoices:
    """Choices that Hypothesis makes and shrinks: see `simloop.fuzz.choices.Choices`."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def boolean(self, p: float) -> bool:
        """Return a boolean of about the probability `p` that shrinks to False.

        The number 1 means True for every probability, so a choice keeps its meaning when an earlier
        one changes the probability.
        """
        if p <= 0 or p >= 1:
            return p >= 1
        if p < 0.5:  # noqa: PLR2004 - a half
            return self._draw(st.integers(0, round(1 / p) - 1)) == 1
        return self._draw(st.integers(0, round(1 / (1 - p)) - 1)) > 0

    def integer(self, low: int, high: int) -> int:
        return low + self._draw(st.integers(0, high - low))

    def weighted(self, weights: Sequence[int]) -> int:
        if not (bounds := list(accumulate(weights))) or not bounds[-1]:
            return 0
        return bisect_right(bounds, self._draw(st.integers(0, bounds[-1] - 1)))

    def maybe(self, p: float, make: Callable[[Choices], T]) -> T | None:
        return self._draw(_part(lambda own: make(own) if own.boolean(p) else None))

    def several(self, most: int, make: Callable[[int], T]) -> list[T]:
        return self._draw(_rest(most, make))


_ANY = worlds.usual_weights(Abilities())
_FAILING = _ANY._replace(ends=[0, *_ANY.ends[1:]])
_ANY_UNUSED = Expect(unused=CountBounds(min=0))
_POLICIES: dict[Any, str] = {
    ExponentialBackoff: "retry", Compaction: "compaction", ToolExecution: "tool_execution",
    HookExecution: "hook_execution", HookIsolation: "hook_isolation",
}  # fmt: skip


def replies() -> st.SearchStrategy[Reply]:
    """Return the strategy of the replies of a model: texts, calls, failures, any pace."""
    return _part(lambda choices: worlds.reply_for(choices, _ANY, choices.integer(0, 9)))


def faults() -> st.SearchStrategy[Reply]:
    """Return the strategy of the replies that fail, or that end in an unusual way."""
    return _part(lambda choices: worlds.reply_for(choices, _FAILING, choices.integer(0, 9)))


def tools(name: str = "read") -> st.SearchStrategy[ScriptedTool]:
    """Return the strategy of fake tools: they return, raise, hang or take their time."""
    return _part(lambda choices: tool_for(choices, name, frozenset(alphabet.FEATURES)))


def hooks() -> st.SearchStrategy[ScriptedHook]:
    """Return the strategy of fake hooks at any point."""
    return _part(hook_for)


def limits() -> st.SearchStrategy[Limits]:
    """Return the strategy of limits: small ones and the defaults."""
    draw = alphabet.values_for
    return _part(lambda choices: Limits(**draw(choices, "limits"), **draw(choices, "timeouts")))


def policies(kind: type[T]) -> st.SearchStrategy[T]:
    """Return the strategy of the policies of a kind, such as `ExponentialBackoff`.

    The other kinds are `Compaction`, `ToolExecution`, `HookExecution` and `HookIsolation`.
    """
    return _part(partial(alphabet.policy_for, field=_POLICIES[kind]))


def aborts() -> st.SearchStrategy[Trigger]:
    """Return the strategy of aborts, at a time or after an entry of the trace."""
    return _part(lambda choices: worlds.trigger_for(choices, _ANY))


def queued_messages() -> st.SearchStrategy[Queued]:
    """Return the strategy of messages that the user sends during a run."""
    return _part(lambda choices: worlds.message_for(choices, _ANY, choices.integer(0, 9)))


def scenarios(loop: GivenLoop = "reference", **options: Any) -> st.SearchStrategy[Scenario]:
    """Return the strategy of whole scenarios for `loop`: settings, replies and a user.

    `options` are those of `simloop.run`. A scenario uses no feature that the loop lacks. For an
    agent of one's own it is the course of the agent, which calls the tools that it offers, with up
    to three circumstances. Each is played once when it is drawn, and its run uses all of its
    replies and messages. Raises ScenarioError if `loop` is not a loop.
    """
    return _part(_worlds(loop, options))


def conversations(loop: GivenLoop = "reference", **options: Any) -> st.SearchStrategy[Scenario]:
    """Return the strategy of scenarios with two or three prompts."""
    return _part(_worlds(loop, options, ["And then?"], ["And then?", "Thanks."]))


def _worlds(loop: GivenLoop, options: Any, *further: list[str]) -> Callable[[Choices], Scenario]:
    given: Any = {"loop": loop, **options}
    chosen = loop_of(Scenario(prompt="Do the work."), given)
    abilities = Abilities.of(chosen)
    name = loop if isinstance(loop, str) else "reference"
    weights = worlds.usual_weights(abilities)

    def world(choices: Choices) -> Scenario:
        common = alphabet.settings_of(choices, abilities, name)
        on = worlds.features_for(choices, abilities)
        return worlds.world_for(choices, common, weights._replace(on=on))

    draw = world
    if chosen.machine is None:
        abilities = abilities._replace(breaches=False)
        draw = AgentCourse.of([plain_scenario(name)], given, abilities).drawn

    def drawn(choices: Choices) -> Scenario:
        more = {"then": one_of(choices, further)} if further else {}
        return _used(draw(choices).model_copy(update={"expect": _ANY_UNUSED, **more}), given)

    return drawn


def _used(scenario: Scenario, given: Any) -> Scenario:
    run: Any = trial(Plan(scenario, given), UNJUDGED).run
    if not (unused := set(run.unused_places)):
        return scenario
    played, update = run.scripts.model.played, dict[str, Any]()
    for key in ("model", "summaries", "queue", "input"):
        if isinstance(parts := getattr(scenario, key), list):
            update[key] = [
                each if place not in unused else each.model_copy(update={"times": played[place]})
                for place, each in ((f"{key}.{number}", part) for number, part in enumerate(parts))
                if place not in unused or played.get(place)
            ]
    return scenario.model_copy(update={**update, **({"abort": None} if "abort" in unused else {})})


def check(
    scenario: Scenario, *, invariants: Sequence[Invariant] | None = None, **options: Any
) -> Result | None:
    """Play `scenario`, judge it and return its result. `options` are those of `simloop.run`.

    There is no result if a design that may go on for ever had to be stopped. Unlike `simloop.run`,
    this function ignores unused replies and expectations. `invariants` replace the catalogue.
    Raises InvariantViolated or the error that ended the run, with the text of a scenario file.
    """
    given: Any = options
    verdict = trial(Plan(scenario, given), Rules(invariants, expectations=False), Until.VIOLATION)
    if (failure := verdict.failure()) is not None:
        kind = RunawayRun if failure.name == FINISHES else InvariantViolated
        found = f"{failure.name}: {failure.text}\n{failure.sentence}"
        raise kind(f"{found}\n{scenario_text(scenario)}")
    return verdict.result


for kind, strategy in {
    Reply: replies(), ScriptedTool: tools(), ScriptedHook: hooks(), Limits: limits(),
    **{kind: policies(kind) for kind in _POLICIES},
    Trigger: aborts(), Queued: queued_messages(), Scenario: scenarios(),
}.items():  # fmt: skip
    st.register_type_strategy(kind, strategy)
