"""How a name becomes a loop: the designs, their versions, machines of one's own, and options."""

import pytest

from simloop import Limits, Outcome, Reply, Scenario, parse_scenario, run
from simloop.errors import (
    ScenarioError,
)
from simloop.kernel.machine import Machine
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.pi import PiLoop
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.runs.loop import machine_for
from simloop.scenario.designs import DESIGNS, names

ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")])
VERSIONED = [name for name in names() if "@" in name]
CLASSES = {
    "reference": ReferenceLoop,
    "pi": PiLoop,
    "react": ReactLoop,
    "opencode": OpencodeLoop,
}


# Machines of one's own, found by their names in this file


class Own(PiLoop):
    """A machine of one's own: as pi, under another name."""

    name = "own"


OWN = Own()


def made(limits: Limits) -> Machine:
    return ReactLoop(limits)


def refuses(limits: Limits) -> Machine:
    raise RuntimeError(f"not with {limits.max_steps} steps")


class Half:
    """No machine: it lacks most of one."""

    name = "half"

    def advance(self) -> None: ...


HALF = Half()


class Shelf:
    own = OWN


# Names


def test_the_names_are_those_of_the_designs_then_those_of_their_versions() -> None:
    assert names() == [
        *("reference", "pi", "react", "opencode"),
        "reference@documented",
        "pi@0.87.1",
        "opencode@1.18.34",
    ]


@pytest.mark.parametrize("name", names())
def test_every_name_gives_a_machine_of_its_design_that_runs(name: str) -> None:
    design = name.partition("@")[0]
    machine = machine_for(name, Limits())
    assert (type(machine), machine.name) == (CLASSES[design], design)
    result = run(ANSWERED, loop=name)
    assert (result.outcome, result.trace.header.loop) == (Outcome.COMPLETED, name)


@pytest.mark.parametrize("name", VERSIONED)
def test_a_version_has_the_options_of_that_version(name: str) -> None:
    design, _, version = name.partition("@")
    machine = machine_for(name, Limits())
    assert isinstance(machine, ReferenceLoop | PiLoop | OpencodeLoop)
    assert machine.options == DESIGNS[design].versions[version]
    assert machine.options != type(machine)().options


def test_the_limits_reach_the_machine() -> None:
    limits = Limits(max_steps=7)
    assert {name: machine_for(name, limits).bounds for name in CLASSES} == {
        "reference": ReferenceLoop(limits).bounds,
        "pi": {},
        "react": ReactLoop(limits).bounds,
        "opencode": OpencodeLoop(limits).bounds,
    }


@pytest.mark.parametrize(
    ("loop", "nearest"),
    [
        ("opencod", "opencode"),
        ("refrence", "reference"),
        ("pi@0.87.2", "pi@0.87.1"),
        ("opencode@9", "opencode"),
        ("react@1", "react"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_and_all_that_there_are(
    loop: str, nearest: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        machine_for(loop, Limits())
    assert caught.value.message == f"there is no loop `{loop}`"
    assert caught.value.hint.startswith(f"did you mean `{nearest}`? known: reference, ")
    assert all(name in caught.value.hint for name in names())


def test_a_name_like_no_other_has_no_nearest() -> None:
    with pytest.raises(ScenarioError) as caught:
        machine_for("zzz", Limits())
    assert caught.value.hint.startswith("known: reference, ")
    assert caught.value.hint.endswith("or module:attribute for one of your own")


def test_an_empty_version_is_no_version() -> None:
    with pytest.raises(ScenarioError):
        machine_for("opencode@", Limits())


def test_an_unknown_name_in_a_file_is_told_with_its_place() -> None:
    with pytest.raises(ScenarioError, match=r"^a\.yaml:2:7: loop: there is no loop `opencod`"):
        parse_scenario("prompt: x\nloop: opencod\n", "a.yaml")


def test_a_file_for_a_loop_of_ones_own_can_be_run_on_another_where_that_is_not() -> None:
    assert run(parse_scenario("prompt: x\nloop: no.such:Loop\nmodel: [{say: y}]\n"), loop="pi").ok


# Machines of one's own


@pytest.mark.parametrize(
    ("attribute", "design"),
    [("OWN", "own"), ("Own", "own"), ("made", "react"), ("Shelf.own", "own")],
    ids=["machine", "class", "function", "attribute-of-an-attribute"],
)
def test_a_machine_of_ones_own_is_a_machine_or_what_makes_one(attribute: str, design: str) -> None:
    loop = f"test_registry:{attribute}"
    assert machine_for(loop, Limits()).name == design
    result = run(ANSWERED, loop=loop)
    assert (result.outcome, result.trace.header.loop) == (Outcome.COMPLETED, loop)


def test_what_makes_a_machine_is_given_the_limits() -> None:
    machine = machine_for("test_registry:made", Limits(max_steps=7))
    assert machine.bounds == ReactLoop(Limits(max_steps=7)).bounds


def test_a_machine_itself_can_be_given() -> None:
    assert machine_for(OWN, Limits()) is OWN
    result = run(ANSWERED, loop=OWN)
    assert (result.trace.header.loop, result.trace.header.python) == ("own", ("loop",))


@pytest.mark.parametrize(
    ("loop", "says"),
    [
        ("no_such_module:x", "ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "test_registry:nobody",
            "AttributeError: module 'test_registry' has no attribute 'nobody'",
        ),
        ("test_registry:", "AttributeError: "),
        (":x", "ValueError: "),
        ("test_registry:refuses", "RuntimeError: not with 100 steps"),
        ("test_registry:ANSWERED", "TypeError: 'Scenario' object is not callable"),
    ],
)
def test_a_machine_that_cannot_be_had_is_an_error_that_says_why(loop: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        machine_for(loop, Limits())
    assert caught.value.message.startswith(f"the loop `{loop}` cannot be loaded: {says}")
    assert (caught.value.key, caught.value.hint.startswith("write module:attribute")) == (
        "loop",
        True,
    )


def test_what_is_no_machine_is_refused_by_what_it_lacks() -> None:
    with pytest.raises(ScenarioError) as caught:
        machine_for("test_registry:HALF", Limits())
    assert caught.value.message == (
        "the loop `test_registry:HALF` is not a machine: it has no "
        "legal, policies, bounds, unsupported, start"
    )
