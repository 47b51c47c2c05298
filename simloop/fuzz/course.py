"""The worlds of an agent: its course with one circumstance each, then with several together.

A *small world* is what a developer would try first: the agent's plain course, disturbed once. The
search plays every small world before it combines two circumstances, and all of them once before
any of them twice. Small worlds are short, and an SDK converts the whole history for each request,
so they are also fast.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, cycle
from typing import Any

from simloop.check.invariants.invariant import Invariant
from simloop.check.trial import Rules
from simloop.fuzz import alphabet
from simloop.fuzz.alphabet import TOOLS, Abilities
from simloop.fuzz.choices import Choices, SeededChoices, one_of
from simloop.fuzz.circumstances import WorldDraft, circumstances
from simloop.fuzz.offers import Offer, Offered, offer_of
from simloop.fuzz.processes import cpu_s
from simloop.runs.loop import loop_of
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan, content_of
from simloop.scenario.schema import Scenario
from simloop.virtual.seeds import Seeds

_TOGETHER = 3
_PLACES = 5  # the places in a short course at which circumstances come together


class _Base:
    def __init__(self, scenario: Scenario, given: RunOptions, abilities: Abilities) -> None:
        if scenario.model and all(each.say and not each.call for each in scenario.model):
            more = scenario.model_copy(update={"model": []})  # an agent with tools does more
            scenario = more if any(e.call for e in offer_of(more, given).course) else scenario
        self.offer: Offer = offer_of(scenario, given)
        # An agent with functions of its own does not use the world's tools.
        of_world = self.offer.tools.keys() - (self.offer.own & {*TOOLS})
        tools = {
            name: each
            for name, each in scenario.tools.items()
            if name in of_world or (scenario.model and alphabet.PLAIN_TOOLS.get(name) != each)
        }
        script: dict[str, Any] = {"tools": tools}
        if not scenario.model:
            script["model"] = [self.offer.last]
        if self.offer.asks and not scenario.then:
            script["then"] = ["yes"]
        if scenario.input is None and self.offer.input is not None:
            script["input"] = self.offer.input
        self.scenario = scenario.model_copy(update=script)
        mine = Abilities.of(loop_of(scenario, given))  # a scenario may declare more
        self.abilities = abilities._replace(limits=mine.limits, ends=mine.ends)
        self.plan = Plan(self.scenario, given)
        self.circumstances = circumstances(self.scenario, self.offer, self.abilities)

    def draft(self) -> WorldDraft:
        return WorldDraft(self.scenario, self.offer)

    @property
    def places(self) -> int:
        """The places at which circumstances come together: all of a script, if it is long."""
        return max(_PLACES, len(self.scenario.model) - 1)

    def small(self) -> Iterator[Scenario]:
        """Yield the course alone, then with one circumstance each: by turns late and early.

        In a long script each place has its turn.
        """
        yield self.draft().scenario()
        turns = range(self.places) if self.places > _PLACES else (1, 0)
        for each, place in zip(self.circumstances, cycle(turns), strict=False):
            draft = self.draft()
            each.act(draft, place)
            yield draft.scenario()


class AgentCourse:
    """The courses of an agent, one for each scenario that the search varies, or the one it has."""

    def __init__(self, bases: Sequence[Scenario], given: RunOptions, abilities: Abilities) -> None:
        start_s = cpu_s()
        self._bases = [_Base(each, given, abilities) for each in bases]
        self.took_s = cpu_s() - start_s

    @classmethod
    def of(cls, bases: Sequence[Scenario], given: RunOptions, can: Abilities) -> "AgentCourse":
        """Return the course; one that a name and scenarios determine is made once in a process."""
        if given.keys() != {"loop"} or not isinstance(given["loop"], str):
            return cls(bases, given, can)
        key = given["loop"], can.breaches, *map(content_of, bases)
        if key not in _KNOWN:
            _KNOWN[key] = cls(bases, given, can)
        return _KNOWN[key]

    @cached_property
    def small(self) -> list[tuple[Plan, Scenario]]:
        return [(base.plan, world) for base in self._bases for world in base.small()]

    def abilities(self, abilities: Abilities) -> Abilities:
        """Return the abilities of the agent with what it offers and what its scenarios declare."""
        tools = {name: each for base in self._bases for name, each in base.offer.tools.items()}
        offers = [base.offer for base in self._bases]
        own = frozenset(chain.from_iterable(each.own for each in offers))
        ran = frozenset(chain.from_iterable(each.ran for each in offers))
        offered = Offered(tools, offers[0].last, own, ran, offers[0].asked)
        first = self._bases[0].abilities
        return abilities._replace(tools=offered, limits=first.limits, ends=first.ends)

    @property
    def scripted(self) -> list[Scenario]:
        """Return the scenarios, each with a script, which is the course where it had none."""
        return [
            each.scenario.model_copy(update={"model": [*each.offer.course, each.offer.last]})
            for each in self._bases
        ]

    @property
    def typed(self) -> dict[str, Any]:
        """Return the standard input of each world, if the agent reads it."""
        found = self._bases[0].offer.input
        return {} if found is None else {"input": found}

    def small_from(
        self, number: int, invariants: Sequence[Invariant] | None
    ) -> Iterator[tuple[Plan, Rules]]:
        """Yield the small worlds from `number`, which counts from 1."""
        rules = {base.plan: Rules(invariants, expectations=False) for base in self._bases}
        yield from ((plan.playing(each), rules[plan]) for plan, each in self.small[number - 1 :])

    def together(
        self, seed: int, first: int, runs: int, invariants: Sequence[Invariant] | None
    ) -> Iterator[tuple[Plan, Rules]]:
        """Yield `runs` worlds with several circumstances, from number `first` of such worlds."""
        rules = Rules(invariants, expectations=False)
        turn, place = divmod(first // runs, len(self._bases))
        base = self._bases[place]
        known = base.circumstances
        for number in range(runs):  # those of this course: each of its circumstances gets its turn
            choices = SeededChoices(seed, f"together {first + number}")
            time, place = divmod(turn * runs + number, len(known))
            order = Seeds(seed).stream(f"turn {time}").sample(range(len(known)), len(known))
            more = choices.integer(1, _TOGETHER - 1)
            numbers = [order[place], *(choices.integer(0, len(known) - 1) for _ in range(more))]
            draft = base.draft()
            for each in numbers:
                known[each].act(draft, choices.integer(0, base.places - 1))
            world = draft.scenario().model_copy(update={"seed": choices.integer(0, 999)})
            yield base.plan.playing(world), rules

    def drawn(self, choices: Choices) -> Scenario:
        """Draw a world: some replies of the course, and up to three circumstances."""
        base = self._bases[0]
        draft = base.draft()
        del draft.replies[choices.integer(0, len(draft.replies)) :]

        def disturb(_: int) -> None:
            one_of(choices, base.circumstances).act(draft, choices.integer(0, base.places - 1))

        choices.several(_TOGETHER, disturb)
        return draft.scenario().model_copy(update={"seed": choices.integer(0, 999)})


_KNOWN: dict[Any, AgentCourse] = {}


def plain_scenario(named: str, **more: Any) -> Scenario:
    """Return a scenario without a script, with the tools that an agent of the world has."""
    tools = {name: alphabet.tool_for(SeededChoices(0), name, ()) for name in TOOLS}
    most = alphabet.transitions_of(Abilities(has_engine=False))
    script: dict[str, Any] = {"tools": tools, "summaries": [alphabet.LAST_SUMMARY], **more}
    return Scenario(loop=named, prompt="Do the work.", max_transitions=most, **script)
