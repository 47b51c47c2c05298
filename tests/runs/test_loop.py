"""A loop of the user's own: every form is sealed, recorded, judged and held to limits alike."""

import asyncio
import importlib
import sys
import time
from pathlib import Path
from signal import SIGINT, raise_signal
from typing import Any, ClassVar

import pytest

from simloop import (
    ExpectationFailed,
    ExponentialBackoff,
    Limits,
    Outcome,
    Reply,
    Scenario,
    ScenarioError,
    load_scenario,
    parse_scenario,
    run,
)
from simloop.check.invariants.subject import Subject
from simloop.check.replay import rerun
from simloop.check.trial import verify
from simloop.engine.machine_agent import MachineAgent
from simloop.engine.settings import EngineSettings
from simloop.errors import BrokenMachine
from simloop.kernel.limits import DeclaredLimits
from simloop.kernel.machine import Feature, Run, Transition
from simloop.kernel.policies import Policies
from simloop.kernel.signals import Signal
from simloop.loops.pi import PiLoop
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Message, UserMessage
from simloop.runs.loop import UNSUPPORTED_BY_AGENTS, Loop, isolated, loaded, loop_of
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.trace.codec import decode, encode
from simloop.trace.requests import requests
from simloop.world.world import World

ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")])
SEEN: list[float] = []


class Own(ReferenceLoop):
    """A loop of the user's own, which looks at the clock and has an option."""

    name = "own"

    def __init__(self, limits: Limits | None = None, *, patience: int = 0) -> None:
        super().__init__(limits)
        self.patience = patience

    def advance(self, run: Run, signal: Signal) -> Transition:
        SEEN.append(time.time())
        return super().advance(run, signal)


def machine_of(simulation: Simulation) -> Any:
    return simulation.loop.machine


def own(limits: Limits) -> Own:
    return Own(limits)


class Judged(Own):
    judge_as = "pi"


OWN = Own()
HERE = "test_loop"
FORMS = {
    "name of a class": f"{HERE}:Own",
    "name of a function": f"{HERE}:own",
    "name of a machine": f"{HERE}:OWN",
    "class": Own,
    "function": own,
    "machine": OWN,
}
at_each_form = pytest.mark.parametrize("loop", FORMS.values(), ids=FORMS)


# Sealed and recorded


@at_each_form
def test_a_loop_of_ones_own_is_sealed_and_recorded_in_whatever_form_it_is_given(loop: Any) -> None:
    SEEN.clear()
    header = run(ANSWERED, loop=loop).trace.header
    assert header.python == ("loop",)
    assert len(SEEN) > 1
    assert len(set(SEEN)) == 1, "its clock is the virtual one"
    assert header.loop == (loop if isinstance(loop, str) else "own")


@pytest.mark.parametrize("loop", ["reference", "pi", "pi@0.87.1"])
def test_a_bundled_loop_is_not_recorded_as_python(loop: str) -> None:
    assert run(ANSWERED, loop=loop).trace.header.python == ()


def test_the_trace_of_a_named_loop_is_run_again_with_that_name_and_not_without() -> None:
    recorded = run(ANSWERED, loop=f"{HERE}:Own", loop_options={"patience": 2}).trace
    assert encode(rerun(recorded, f"{HERE}:Own")) == encode(recorded)
    with pytest.raises(ScenarioError, match=r"no module is imported that only the trace names"):
        rerun(recorded)


def test_the_trace_of_an_object_can_be_run_again_if_the_loop_is_named() -> None:
    recorded = run(ANSWERED, loop=OWN).trace
    assert rerun(recorded, f"{HERE}:OWN").entries == recorded.entries
    with pytest.raises(ScenarioError, match=r"give it by name: --loop module:attribute"):
        rerun(recorded)


def test_the_trace_of_a_subclass_is_never_run_as_that_of_the_bundled_loop() -> None:
    recorded = run(ANSWERED, loop=MyPi()).trace
    assert (recorded.header.loop, recorded.header.python) == ("pi", ("loop",))
    with pytest.raises(ScenarioError, match=r"give it by name: --loop module:attribute"):
        rerun(recorded)


@pytest.mark.parametrize("loop", [ReferenceLoop, ReferenceLoop()], ids=["class", "machine"])
def test_a_bundled_loop_that_is_given_as_an_object_keeps_its_name(loop: Any) -> None:
    assert run(ANSWERED, loop=loop).trace.header.loop == "reference"


# Judged as a design


EXPECTING = """
prompt: Go.
loop: {loop}
{more}
model: [{{say: Done.}}]
expect: {{text: Nothing.}}
expect_on: {{pi: {{text: Done.}}}}
"""


def expecting(loop: str = "reference", more: str = "") -> Scenario:
    return parse_scenario(EXPECTING.format(loop=loop, more=more))


@pytest.mark.parametrize("loop", FORMS.values(), ids=FORMS)
def test_a_loop_can_be_judged_as_a_design_by_the_call(loop: Any) -> None:
    assert not run(expecting(), loop=loop).ok
    result = run(expecting(), loop=loop, judge_as="pi")
    assert result.ok
    assert result.trace.header.judge_as == "pi"


@pytest.mark.parametrize("loop", [f"{HERE}:Judged", Judged, Judged()])
def test_a_loop_can_declare_the_design_that_it_is_judged_as(loop: Any) -> None:
    assert run(expecting(), loop=loop).ok
    assert not run(expecting(), loop=loop, judge_as="react").ok


class MyPi(PiLoop):
    """It inherits the name, and so the expectations and options, of pi."""


@pytest.mark.parametrize("loop", [f"{HERE}:MyPi", MyPi, MyPi()], ids=["name", "class", "machine"])
def test_a_subclass_that_inherits_a_name_is_judged_as_that_loop(loop: Any) -> None:
    assert run(expecting(), loop=loop).ok


@pytest.mark.parametrize("loop", [f"{HERE}:MyPi", MyPi], ids=["name", "class"])
def test_a_subclass_that_inherits_a_name_has_the_options_of_that_loop(loop: Any) -> None:
    scenario = Scenario(prompt="x", loops={"pi": {"parallel": True}})
    machine = machine_of(Simulation(scenario, loop=loop))
    assert machine.options.parallel is True


def test_a_file_can_say_what_its_own_loop_is_judged_as() -> None:
    scenario = expecting(f"{HERE}:Own", "judge_as: pi")
    assert run(scenario).ok
    assert not run(scenario, loop=f"{HERE}:own").ok, "that is another loop"
    assert verify(scenario).exit_code == 0


def test_an_expectation_of_the_loop_itself_comes_before_that_of_its_design() -> None:
    said = Scenario(
        prompt="Go.",
        model=[Reply(say="Done.")],
        expect_on={"pi": {"text": "No."}, f"{HERE}:Own": {"text": "Done."}},
    )
    assert run(said, loop=f"{HERE}:Own", judge_as="pi").ok
    assert not run(said, loop=f"{HERE}:own", judge_as="pi").ok


def test_a_bundled_loop_is_judged_as_itself() -> None:
    with pytest.raises(ScenarioError, match=r"`react` is bundled with simloop") as caught:
        run(ANSWERED, loop="react", judge_as="pi")
    assert caught.value.key == "judge_as"
    with pytest.raises(ScenarioError, match=r"^a:2:11: judge_as: `reference` is bundled"):
        parse_scenario("prompt: x\njudge_as: pi\n", "a")


def test_there_is_no_judging_as_a_design_that_there_is_not() -> None:
    with pytest.raises(ScenarioError, match=r"judge_as: there is no loop `pie` .*`pi`"):
        run(ANSWERED, loop=Own, judge_as="pie")


# Verified twice


class Counting(Own):
    """It carries something into its next run: it says other things the second time."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.runs = 0

    def start(self) -> Run:
        self.runs += 1
        return super().start().__class__(super().start().state, error_count=self.runs)


@pytest.mark.parametrize("loop", [Own, own, OWN, f"{HERE}:Own"])
def test_a_loop_can_be_verified_in_every_form(loop: Any) -> None:
    assert verify(ANSWERED, loop=loop).deterministic is True


def test_verifying_an_object_drives_the_same_one_twice() -> None:
    verdict = verify(ANSWERED, loop=Counting())
    assert (verdict.deterministic, verdict.exit_code) == (False, 1)
    assert "verify(scenario, seed=0, loop=machine)" in str(verdict.errors[0])


def test_verifying_a_class_makes_a_machine_for_each_run() -> None:
    assert verify(ANSWERED, loop=Counting).deterministic is True


# Commands that work


class Broken(Own):
    def advance(self, run: Run, signal: Signal) -> Transition:
        raise ValueError("oops")


@pytest.mark.parametrize(
    ("loop", "explores", "reproduces"),
    [
        (f"{HERE}:Broken", f"simloop explore --loop {HERE}:Broken", f"--loop {HERE}:Broken"),
        (Broken, "simloop.prove.proof.prove(machine, limits).violations", "loop=Broken)"),
        (Broken(), "simloop.prove.proof.prove(machine, limits).violations", "loop=machine)"),
    ],
    ids=["name", "class", "machine"],
)
def test_the_hints_of_a_broken_machine_work_for_the_form_that_was_given(
    loop: Any, explores: str, reproduces: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text("prompt: x\n", "utf-8")
    with pytest.raises(BrokenMachine) as caught:
        run(load_scenario(path), loop=loop)
    assert f"find out where with: {explores}" in caught.value.message
    assert caught.value.reproduce.endswith(reproduces)
    by_call = f"simloop.run(simloop.load_scenario({str(path)!r}), seed=0, "
    assert caught.value.reproduce.startswith("simloop run " if isinstance(loop, str) else by_call)


def test_the_command_that_repeats_a_run_has_its_design_and_options(tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text("prompt: x\nmodel: [{say: a}]\nexpect: {text: b}\n", "utf-8")
    result = run(
        load_scenario(path), loop=f"{HERE}:Own", judge_as="pi", loop_options={"patience": 2}
    )
    assert result.reproduce == (
        f"simloop run {path} --seed 0 --loop {HERE}:Own --judge-as pi --option patience=2"
    )
    with pytest.raises(ExpectationFailed):
        result.check()


# Exact copies


def needs_an_option(limits: Limits, *, patience: int) -> Own:
    return Own(limits, patience=patience)


SHORT = ReferenceLoop(Limits(max_steps=3, max_steps_per_round=2))


@pytest.mark.parametrize("loop", [f"{HERE}:Own", Own], ids=["name", "class"])
def test_a_loop_takes_options_from_the_call(loop: Any) -> None:
    simulation = Simulation(ANSWERED, loop=loop, loop_options={"patience": 7})
    assert machine_of(simulation).patience == 7


def test_a_named_loop_takes_options_from_the_file_which_those_of_the_call_replace() -> None:
    text = f"prompt: x\nloop: {HERE}:Own\nloops: {{'{HERE}:Own': {{patience: 5}}}}\n"
    scenario = parse_scenario(text)
    machine = machine_of(Simulation(scenario))
    assert machine.patience == 5
    other = Simulation(scenario, loop_options={"patience": 6})
    machine = machine_of(other)
    assert machine.patience == 6
    assert b'"patience":6' in bytes(other.trace.header.scenario)


@pytest.mark.parametrize("loop", [f"{__name__}:needs_an_option", needs_an_option])
def test_an_option_that_a_loop_does_not_take_is_refused_with_those_that_it_takes(
    loop: Any,
) -> None:
    with pytest.raises(
        ScenarioError, match=r"unexpected keyword.*takes Limits and patience"
    ) as caught:
        run(ANSWERED, loop=loop, loop_options={"patients": 1, "patience": 1})
    assert caught.value.key.endswith("needs_an_option")
    with pytest.raises(ScenarioError, match=r"missing a required.*patience"):
        run(ANSWERED, loop=loop)


@pytest.mark.parametrize("loop", [OWN, f"{HERE}:OWN"], ids=["machine", "name"])
def test_a_machine_that_is_made_already_takes_no_options(loop: Any) -> None:
    with pytest.raises(ScenarioError, match=r"is made already, and takes no options"):
        run(ANSWERED, loop=loop, loop_options={"patience": 1})


def test_the_options_of_a_bundled_loop_may_be_given_with_the_call_too() -> None:
    machine = machine_of(Simulation(ANSWERED, loop="pi", loop_options={"parallel": True}))
    assert machine.options.parallel is True
    with pytest.raises(ScenarioError, match=r"pi\.paralel: unknown key"):
        run(ANSWERED, loop="pi", loop_options={"paralel": True})
    version = machine_of(
        Simulation(
            ANSWERED, loop="opencode@1.18.34", loop_options={"parallel": False, "first_delay": "3s"}
        )
    )
    assert (version.options.parallel, version.options.first_delay_ms) == (False, 3_000)
    assert version.options.calls_go_on is True  # the version's own


@pytest.mark.parametrize(
    ("loop", "options"),
    [
        ("pi@0.87.1", {"steering": "all"}),
        ("pi", {"follow_up": "all"}),
        ("opencode", {"steps": "enforce"}),
    ],
)
def test_an_option_that_is_a_word_may_be_given_as_text(loop: str, options: dict[str, str]) -> None:
    by_call = machine_of(Simulation(ANSWERED, loop=loop, loop_options=options))
    name = loop.partition("@")[0]
    scenario = Scenario(prompt="Hi?", loop=loop, loops={name: options})
    by_scenario = machine_of(Simulation(scenario))
    for option, word in options.items():
        assert getattr(by_call.options, option) == getattr(by_scenario.options, option) == word
    with pytest.raises(ScenarioError, match="steering: must be 'one-at-a-time' or 'all'"):
        run(ANSWERED, loop="pi", loop_options={"steering": "al"})


def test_the_key_of_options_must_be_a_design_or_have_a_module() -> None:
    with pytest.raises(ScenarioError, match=r"^a:2:9: loops\.pie: unknown key .*`pi`"):
        parse_scenario("prompt: x\nloops: {pie: {}}\n", "a")
    with pytest.raises(ScenarioError, match=r"^a:2:9: loops\.'a:b': must be a mapping"):
        parse_scenario("prompt: x\nloops: {'a:b': 5}\n", "a")


LIMITED = Scenario(
    prompt="Go.",
    limits=Limits(max_steps=2),
    tools={"t": {}},
    model=[Reply(call={"t": {}}, times="always")],
)


@pytest.mark.parametrize("loop", [Own, own, f"{HERE}:Own"], ids=["class", "function", "name"])
def test_what_makes_a_machine_makes_it_with_the_limits_of_the_scenario(loop: Any) -> None:
    result = run(LIMITED, loop=loop)
    assert result.counters
    assert (result.outcome, result.counters.total_steps) == (Outcome.MAX_STEPS, 2)
    assert result.trace.header.limits["max_steps"] == 2


@pytest.mark.parametrize("loop", [OWN, f"{HERE}:OWN"], ids=["machine", "name"])
def test_a_machine_that_was_made_with_other_limits_is_refused(loop: Any) -> None:
    with pytest.raises(
        ScenarioError, match=r"the scenario has max_steps 2, and .* has 100"
    ) as seen:
        run(LIMITED, loop=loop)
    assert seen.value.key == "limits.max_steps"
    assert "give the class" in seen.value.hint


def test_a_machine_with_other_limits_than_the_usual_ones_is_refused_too() -> None:
    with pytest.raises(ScenarioError, match=r"the scenario has max_steps 100, and .* has 3"):
        run(ANSWERED, loop=SHORT)
    with pytest.raises(ScenarioError, match=r"the scenario has max_steps 100, and .* has 3"):
        run(ANSWERED, loop=lambda _: SHORT)
    limits = {"max_steps": 3, "max_steps_per_round": 2}
    assert run(ANSWERED.model_copy(update={"limits": Limits(**limits)}), loop=SHORT).ok


def test_a_machine_that_shows_no_limits_is_refused_those_of_a_scenario() -> None:
    with pytest.raises(ScenarioError, match=r"was made without it"):
        run(LIMITED, loop=PiLoop())


def test_the_header_claims_only_limits_that_a_machine_is_known_to_keep() -> None:
    of_loops = {"max_steps", "max_steps_per_round", "max_error_count", "max_compaction_attempts"}
    assert of_loops <= set(run(ANSWERED, loop=ReferenceLoop()).trace.header.limits)
    claimed = run(ANSWERED, loop=PiLoop()).trace.header.limits
    assert not of_loops & set(claimed)
    assert claimed["model_call_timeout"] == "600s"
    assert of_loops <= set(run(ANSWERED, loop=PiLoop).trace.header.limits)


SETTINGS = EngineSettings()
ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")])


async def asks(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


class Asks:
    """An agent that keeps its conversation."""

    def __init__(self, manner: str = "") -> None:
        self.manner = manner
        self.heard: list[str] = []

    async def __call__(self, prompt: str) -> str:
        self.heard.append(prompt)
        return f"{self.manner}{len(self.heard)}"


def chosen(loop: Any, **options: Any) -> Loop:
    return loop_of(ANSWERED, {"loop": loop, "loop_options": options})


class Declaring(PiLoop):
    """It counts how often it is asked for its deviations."""

    asked = 0

    @property
    def deviations(self) -> dict[str, str]:
        self.asked += 1
        return {}


def test_a_machine_is_asked_once_for_its_declarations_by_all_runs_of_a_plan() -> None:
    machine = Declaring(Limits())
    plan = Plan(ANSWERED, {"loop": machine})
    asked = machine.asked
    subjects = [Subject.of(Simulation(plan)) for _ in range(3)]
    assert [subject.machine for subject in subjects] == [machine] * 3
    assert machine.asked <= asked + 1


def test_the_loop_of_a_machine_lacks_what_its_machine_lacks() -> None:
    machine = PiLoop(Limits())
    loop = chosen(machine)
    assert (loop.machine, loop.policies) == (machine, machine.policies)
    assert loop.unsupported == machine.unsupported != chosen("react").unsupported
    agent = loop.agent(SETTINGS)
    assert isinstance(agent, MachineAgent)
    assert loop.agent(SETTINGS) is not agent


def test_an_agent_lacks_each_feature_that_only_the_engine_has_with_a_reason() -> None:
    loop = chosen(asks)
    assert loop.unsupported is UNSUPPORTED_BY_AGENTS
    assert set(loop.unsupported) == set(Feature) - {Feature.ABORT}
    assert all(reason.startswith("an agent of your own ") for reason in loop.unsupported.values())
    assert (loop.machine, loop.policies) == (None, Policies())


# ---------------------------------------------------------------------- alike above the design


async def asks_in_pairs(prompt: str, world: World) -> str:
    """Hold two conversations at once, one of them with tools, and give one reply up."""
    first: list[Message] = [UserMessage(prompt)]
    second: list[Message] = [UserMessage(prompt), UserMessage("Is it allowed?")]
    replies = await asyncio.gather(world.model.reply(first), world.model.reply(second))
    for reply in replies:
        first.append(reply.message)
        first += [await world.tools.run(call) for call in reply.message.calls]
    given_up = world.model.stream(first)
    async for _ in given_up:
        break
    await given_up.aclose()
    return (await world.model.reply([*first, UserMessage("And?")])).message.text


def look() -> str:
    return "found"


def test_the_trace_of_an_agent_with_calls_at_once_and_replies_given_up_reads_back() -> None:
    replies = [
        Reply(say="One.", call={"look": {}}, pace={"first_part": "2s"}),
        Reply(say=["Two ", "parts."], pace={"per_part": "1s"}),
        Reply(say=["Given ", "up."], pace={"per_part": "1s"}),
        Reply(say="Done."),
    ]
    simulation = Simulation(
        Scenario(prompt="Go.", then=["Again."], model=[*replies, *replies]),
        loop=asks_in_pairs,
        tools=[look],
    )
    result = simulation.run()
    read = decode(encode(result.trace))
    assert read.entries == result.trace.entries
    assert [list(each.messages) for each in requests(read.entries)] == [
        list(each.messages)
        for each in simulation.scripts.model.requests  # type: ignore[attr-defined]
    ]
    assert result.text == "Done."


def test_a_machine_and_an_agent_that_do_the_same_leave_the_same_boundary() -> None:
    def boundary(loop: Any) -> list[tuple[str, Any]]:
        record = run(ANSWERED, loop=loop).trace.entries
        names = ("text", "reason", "outcome", "purpose")
        kinds = ("prompt", "request", "text-delta", "finish", "ended")
        return [
            (kind, [getattr(entry, name, None) for name in names])
            for entry in record
            if (kind := str(type(entry).__struct_config__.tag)) in kinds
        ]

    assert boundary(asks) == boundary("react")


class Declares(Asks):
    limits = Limits(max_steps=4)
    retry = ExponentialBackoff(jitter=0.5)
    deviations: ClassVar = {"answered-calls": "the provider accepts open calls"}


class HasOthers:
    """Its attributes have the names of declarations, and mean something else."""

    limits: ClassVar = {"max_steps": 4}
    retry = 7
    deviations: ClassVar = ["answered-calls"]

    async def __call__(self, prompt: str, world: World) -> str:
        return await asks(prompt, world)


def test_an_agent_declares_by_attributes() -> None:
    loop = chosen(Declares)
    assert loop.declared_limits == DeclaredLimits(max_steps=4)
    assert loop.retry is Declares.retry
    assert set(loop.deviations) == {"answered-calls"}


_CUT = {"no-tools-for-broken-replies", "no-changes-for-broken-replies"}


@pytest.mark.parametrize(
    ("package", "looks", "excused"),
    [("agents", "", _CUT), ("agents", ".finish_reason", set()), ("openai", "", set())],
)
def test_a_framework_that_looks_at_no_finish_reason_is_known(
    package: str, looks: str, excused: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent on it may do so itself."""
    (tmp_path / "on_framework.py").write_text(f"async def bot(prompt): return prompt{looks}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "on_framework", raising=False)
    module: Any = importlib.import_module("on_framework")
    module.Agent = type("Agent", (), {"__module__": f"{package}.agent"})
    assert set(chosen(module.bot).deviations) == excused


class UsualLimits(Asks):
    limits = Limits()


@pytest.mark.parametrize("loop", [UsualLimits, HasOthers])
def test_usual_limits_and_attributes_of_another_type_declare_nothing(loop: Any) -> None:
    undeclared = chosen(loop)
    assert (undeclared.declared_limits, undeclared.retry, undeclared.deviations) == (None, None, {})
    assert verify(ANSWERED, loop=HasOthers).errors == []


# The user's own code


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("x"), ValueError("x")],
    ids=repr,
)
def test_whatever_code_raises_is_an_error_of_its_author(error: BaseException) -> None:
    with pytest.raises(ScenarioError) as raised, isolated("it is broken", "mend it"):
        raise error
    assert str(raised.value).startswith(f"loop: it is broken: {type(error).__name__}")
    assert "it fails at test_loop.py:" in raised.value.hint


def test_a_ctrl_c_of_the_user_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt), isolated("it is broken", "mend it"):
        raise_signal(SIGINT)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("own_good:agent", "write it so"),
        ("own_bad:agent", "it fails at own_bad.py:2 in <module>: correct that, or install what is"),
    ],
)
def test_the_advice_is_about_the_name_or_the_line_that_fails(
    name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_good.py").write_text("agents = 1\n")
    (tmp_path / "own_bad.py").write_text("\nimport no_such_package\n")
    with pytest.raises(ScenarioError) as caught:
        loaded(name, "loop", "write it so")
    assert caught.value.message.startswith(f"the loop `{name}` cannot be loaded: ")
    assert caught.value.hint.startswith(hint)
