from typing import Any

import pytest

from simloop import Limits, Reply, Scenario, Simulation
from simloop.check.invariants.invariant import EntryKind, Need, Watch, invariant
from simloop.check.invariants.judge import Judge
from simloop.check.invariants.subject import Subject
from simloop.errors import ScenarioError
from simloop.kernel import effects, signals
from simloop.kernel.names import NAMES
from simloop.kernel.states import Finished
from simloop.trace.entries import Ended, Finish, Request, StopRequested, ToolStarted


def look() -> str:
    return "seen"


def played(**limits: int) -> Simulation:
    replies = [Reply(say="I look.", call={"look": {}}), Reply(say="Done.")]
    limited = Scenario(prompt="Go.", model=replies, limits=Limits(**limits))
    simulation = Simulation(limited, tools=[look])
    simulation.run()
    return simulation


@invariant("A conversation has one request.", "a test", sees=[Request])
def one_request(subject: Subject) -> Watch:
    yield
    entry = yield
    assert subject.facts.request is not None
    return f"request {entry.number} has {len(subject.facts.request.messages)} messages"


@invariant("No reply calls tools.", "a test", sees=[Finish], needs=[Need.LIMITS])
def no_calls(subject: Subject) -> Watch:
    while True:
        yield
        assert subject.facts.reply is not None
        if subject.facts.reply.calls:
            return "a call"


def test_a_violation_has_the_entry_at_which_it_was_found() -> None:
    simulation = played()
    subject = Subject.of(simulation)
    found = Judge(subject, [one_request]).read(simulation.trace.entries).violations
    second = [e for e in simulation.trace.entries if isinstance(e, Request)][1]
    assert [str(each) for each in found] == [
        f"one-request: request 2 has 3 messages (entry {second.seq})"
    ]


def test_each_invariant_is_violated_at_most_once_and_keeps_no_other_from_being_judged() -> None:
    simulation = played()
    judged = Judge(Subject.of(simulation), [one_request, no_calls]).read(simulation.trace.entries)
    assert [each.name for each in judged.violations] == ["no-calls", "one-request"]


def test_an_invariant_without_its_input_is_not_judged() -> None:
    judged = Judge(Subject(), [no_calls]).read(played().trace.entries)
    assert judged.unjudged == {"no-calls": "the loop declares no limits"}
    assert not judged.violations


def test_a_deviation_of_the_loop_is_not_judged() -> None:
    subject = Subject(limits=Limits(), deviations={"no-calls": "by design"})
    judged = Judge(subject, [no_calls]).read(played().trace.entries)
    assert judged.unjudged == {"no-calls": "by design"}


def seen(*sees: EntryKind, **given: Any) -> list[str]:
    """Return the entries of a run that an invariant with these `sees` is sent, in words."""
    simulation = played()
    sent: list[str] = []

    @invariant("A test.", "a test", sees=sees, **given)
    def listener(subject: Subject) -> Watch:
        assert subject.facts.entry is not None
        sent.append("begun")
        while True:
            entry = yield
            what: Any = getattr(entry, "signal", entry)
            sent.append(NAMES[type(what)])

    Judge(Subject.of(simulation), [listener]).read(simulation.trace.entries)
    return sent


def test_an_invariant_begins_with_the_first_entry_that_it_sees() -> None:
    assert seen(StopRequested) == []
    assert seen(ToolStarted) == ["begun", "tool-started"]


def test_an_invariant_sees_transitions_by_signal_by_effect_and_by_state() -> None:
    assert seen(signals.ToolsReturned) == ["begun", "tools-returned"]
    assert seen(effects.RunTools) == ["begun", "model-replied"]
    assert seen(Finished, Ended) == ["begun", "step-closed", "ended"]


@invariant("A tool is started before the second request.", "a test", sees=[Request, ToolStarted])
def starts_first(_: Subject) -> Watch:
    first = yield
    return f"it begins with a {type(first).__name__}"


@invariant(
    "No request follows a tool.", "a test", sees=[Request, ToolStarted], begins=[ToolStarted]
)
def nothing_after_tools(_: Subject) -> Watch:
    first = yield
    second = yield
    return f"{type(second).__name__} {second.number} follows a {type(first).__name__}"


def test_an_invariant_begins_with_the_first_entry_of_the_kinds_that_it_names() -> None:
    simulation = played()
    found = (
        Judge(Subject(), [starts_first, nothing_after_tools])
        .read(simulation.trace.entries)
        .violations
    )
    assert [each.text for each in found] == [
        "it begins with a Request",
        "Request 2 follows a ToolStarted",
    ]


@invariant("A request has one message.", "a test", sees=[Request])
def one_message(subject: Subject, entry: Request) -> str:
    count = len(subject.facts.sent[entry.number].messages)
    return f"request {entry.number} has {count}" if count >= entry.number else ""


def test_a_plain_function_judges_each_entry_and_is_violated_at_most_once() -> None:
    simulation = played()
    found = (
        Judge(Subject(), [one_message, starts_first, one_request])
        .read(simulation.trace.entries)
        .violations
    )
    assert [each.name for each in found] == ["one-message", "starts-first", "one-request"]
    assert found[0].text == "request 1 has 1"


@invariant("A request has a successor.", "a test", sees=[Request])
def has_a_successor(_: Subject, entry: Request) -> str:
    return next(iter(()), "") or next(iter([entry][1:])).purpose


def test_a_plain_function_that_runs_out_of_something_fails_and_is_not_violated() -> None:
    with pytest.raises(ScenarioError, match="`has-a-successor` fails"):
        Judge(Subject(), [has_a_successor]).read(played().trace.entries)


@invariant("Only one request is sent.", "a test", sees=[Request])
def only_one(_: Subject, entry: Request) -> str:
    return f"request {entry.number}" if entry.number > 1 else ""


def test_the_violations_of_one_entry_are_in_the_order_of_the_invariants() -> None:
    for order in ([one_request, only_one], [only_one, one_request]):
        found = Judge(Subject(), order).read(played().trace.entries).violations
        assert [each.name for each in found] == [each.name for each in order]


@invariant("A run has nothing to judge.", "a test", sees=[Request])
def returns_at_once(subject: Subject) -> Watch:
    if subject.limits is None:
        return ""
    while True:
        yield


def test_an_invariant_that_returns_at_once_is_not_violated() -> None:
    assert Judge(Subject(), [returns_at_once]).read(played().trace.entries).violations == []
