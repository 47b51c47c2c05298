import json
from collections.abc import Sequence

import pytest
from incases import in_cases
from msgspec import Raw, structs
from oracle.calls import (
    answers_match_tool_runs,
    scripted_results,
    sequential_tools_do_not_overlap,
    tool_timeouts,
)
from oracle.times import scripted_tool_durations
from recording import Recording, of_machine, returned, said

from simloop import Scenario, ScriptedTool, Simulation
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.outside import (
    calls_broken_off_in_time,
    tools_broken_off_in_time,
    uncertain_changes_not_repeated,
)
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.tools import (
    asked_for,
    changes_made_once,
    no_result_of_other_arguments,
    no_tool_cancelled_by_another,
    no_tools_for_broken_replies,
    no_tools_run_again_after_a_restart,
    only_called_tools_run,
    results_not_crossed,
    tool_arguments_fit_the_schema,
    tool_ends_before_its_answer,
    tool_runs_at_most_once,
)
from simloop.messages import (
    AssistantMessage,
    FinishReason,
    Message,
    Outcome,
    ToolCall,
    ToolSpec,
    UserMessage,
)
from simloop.trace import entries

GO = UserMessage("Go.")


def asked(*ids: str) -> Recording:
    """A run whose first reply has calls under these ids."""
    return Recording().prompt().request([GO]).replied("", *ids)


def ran(*ids: str) -> Recording:
    run = asked(*ids)
    for call_id in ids:
        run.started(call_id).result(call_id)
    return run


def with_tool(**options: object) -> Subject:
    tool = ScriptedTool.model_validate({"returns": "seen", **options})
    simulation = Simulation(Scenario(prompt="Go.", tools={"look": tool}))
    return Subject(scenario=simulation.scenario, tools=simulation.scripts.tools)


def in_order(order: str, *, sequential: bool = False) -> Subject:
    """The reference loop, which runs the tool `look` in this order."""
    execution = {"order": order}
    tool = {"returns": "seen", "sequential": sequential, "json_schema": {}}
    scenario = Scenario.model_validate(
        {"prompt": "Go.", "tools": {"look": tool}, "tool_execution": execution}
    )
    return Subject.of(Simulation(scenario))


def called(*tools: str) -> Recording:
    """A run whose first reply calls the tool `look`, and has not ended."""
    return Recording().prompt().request([GO], tools=tools or ["look"]).call("a")


BAD: list[tuple[Invariant, Recording, Subject, str]] = [
    (tool_runs_at_most_once, ran("a").started("a"), of_machine(), "call 'a' started again"),
    (tool_runs_at_most_once, ran("a").started("a"), Subject(), "call 'a' started again"),
    (only_called_tools_run, asked("a").started("b"), of_machine(), "of call 'b' with {} runs"),
    (only_called_tools_run, asked("a").started("a", '{"x":1}'), of_machine(), "the model called"),
    (only_called_tools_run, asked("a").started("a", name="delete"), of_machine(), "'delete'"),
    (only_called_tools_run, asked("a").started("a", '{"x":1}'), Subject(), "no call of the model"),
    (only_called_tools_run, asked("a").started("b").started("c"), Subject(),
     "no call of the model"),
    (tool_ends_before_its_answer, asked("a").started("a").ended(), of_machine(),
     "has not ended before the end"),
    (tool_ends_before_its_answer,
     asked("a").started("a").request([GO, said("", "a"), returned("a")]).result("a"), Subject(),
     "ends after request 2"),
    (tool_ends_before_its_answer, asked("a").started("a").ended().result("a"), Subject(),
     "after the end of the run"),
    (tool_timeouts, asked("a").started("a").after(3).result("a"), with_tool(timeout="2s"),
     "took 3000000000 ns, and its timeout is 2000 ms"),
    (tool_timeouts,
     asked("a").started("a").after(1).result("a", "Error: timed out after 1 ms", is_error=True),
     with_tool(timeout="2s"), "timed out after 1000000000 ns"),
    (tool_timeouts,
     asked("a").started("a").after(1).result("a", "Error: timed out after 1 ms", is_error=True),
     with_tool(), "its timeout is None"),
    (tool_timeouts, asked("a").started("a").after(3).result("a"),
     with_tool(timeout="2s", outlives_cancel="5s"), "took 3000000000 ns"),
    (tool_ends_before_its_answer, asked("a").started("a").answered("a", "aborted").result("a"),
     of_machine(), "ends after its call was answered"),
    (scripted_results, ran("a"), with_tool(returns="blue"), "returns 'seen'"),
    (scripted_results, ran("a"), with_tool(returns="", raises="no"), "returns 'seen' as no error"),
    (scripted_results, asked("a").started("a").result("a", "Error: no", is_error=True), with_tool(),
     "as an error"),
    (sequential_tools_do_not_overlap, asked("a", "b").started("a").started("b"),
     in_order("sequential"), "of call 'b' with {} runs beside that of 'a'"),
    (sequential_tools_do_not_overlap, asked("a", "b").started("a").started("b"),
     in_order("parallel", sequential=True), "beside that of 'a'"),
    (answers_match_tool_runs, asked("a").answered("a"), of_machine(), "and its tool did not start"),
    (answers_match_tool_runs, ran("a").answered("a", "aborted", ran=False), of_machine(),
     "is answered as not run"),
    (no_tool_cancelled_by_another,
     asked("a", "b").started("a").started("b").after(1).result("a")
     .request([GO, said("", "a", "b"), returned("a"), returned("b", "stopped")]), Subject(),
     "of call 'b' with {} was ended when another tool of its batch ended"),
    (no_tools_for_broken_replies, called().finish(FinishReason.LENGTH).started("a"), Subject(),
     "ended with length"),
    (no_tools_for_broken_replies, called().failed().started("a"), Subject(), "the reply to"),
    (no_tools_for_broken_replies,
     called().finish().started("a").result("a").request([GO]).call("a").failed().started("a"),
     Subject(), "the reply to"),
    (no_tools_for_broken_replies, called().cut().started("a"), of_machine(), "the reply to"),
    (no_tools_for_broken_replies, called().finish(FinishReason.ERROR).started("a"), of_machine(),
     "ended with error"),
]  # fmt: skip


@in_cases(BAD)
def test_a_tool_that_runs_as_it_must_not_is_found(
    invariant: Invariant, run: Recording, subject: Subject, why: str
) -> None:
    (found,) = run.found(invariant, subject)
    assert why in found


GOOD: list[tuple[Invariant, Recording, Subject]] = [
    (tool_runs_at_most_once, ran("a", "b"), of_machine()),
    (tool_runs_at_most_once, ran("a", "a"), Subject()),
    (only_called_tools_run, ran("a", "b"), of_machine()),
    (only_called_tools_run, asked("a").started("own-id"), Subject()),
    (tool_ends_before_its_answer, ran("a").request([GO, said("", "a"), returned("a")]).ended(),
     of_machine()),
    (tool_ends_before_its_answer, asked("a").started("a").answered("a").ended(), of_machine()),
    (tool_ends_before_its_answer, asked("a").started("a").ended(), Subject()),
    (tool_ends_before_its_answer, asked("a").started("a").request([GO]).result("a"), Subject()),
    (tool_timeouts, asked("a").started("a").after(2).result("a"), with_tool(timeout="2s")),
    (tool_timeouts,
     asked("a").started("a").after(3).result("a", "Error: timed out after 2 s", is_error=True),
     with_tool(timeout="2s", outlives_cancel="1s")),
    (tool_timeouts, asked("a").started("a").stop().after(3).result("a"),
     with_tool(timeout="2s", outlives_cancel="1s")),
    (scripted_results, ran("a"), with_tool()),
    (scripted_results, asked("a").started("a").result("a", "Error: no", is_error=True),
     with_tool(returns="", raises="no")),
    (scripted_results, asked("a").result("a", "Error: no", is_error=True), with_tool()),
    (no_tool_cancelled_by_another,
     asked("a", "b").queued("Wait.").started("a").after(1).result("b", "Error: unknown")
     .request([GO, said("", "a", "b"), returned("a", "interrupted"), returned("b")]), Subject()),
    (sequential_tools_do_not_overlap, ran("a", "b"), in_order("sequential")),
    (sequential_tools_do_not_overlap, asked("a", "b").started("a").started("b"),
     in_order("parallel")),
    (answers_match_tool_runs, ran("a").answered("a"), of_machine()),
    (answers_match_tool_runs, asked("a").started("a").answered("a", ran=False), of_machine()),
    (no_tool_cancelled_by_another,
     asked("a", "b").started("a").started("b").after(1).result("a").after(30)
     .request([GO, said("", "a", "b"), returned("a"), returned("b", "timed out")]), Subject()),
    (no_tool_cancelled_by_another,
     asked("a", "b").started("a").started("b").after(1).result("a").stop().ended().prompt()
     .request([GO, said("", "a", "b"), returned("a"), returned("b", "stopped"), GO]), Subject()),
    (no_tool_cancelled_by_another,
     asked("a", "b").started("a").add(entries.ToolStarted, "b", "look", "{}", in_thread=True)
     .after(1).result("a")
     .request([GO, said("", "a", "b"), returned("a"), returned("b", "later")]), Subject()),
    (no_tools_for_broken_replies, called().finish(FinishReason.TOOL_CALLS).started("a"), Subject()),
    (no_tools_for_broken_replies, called().finish(FinishReason.STOP).started("a"), Subject()),
    (no_tools_for_broken_replies, called().started("a"), Subject()),
    # Two calls with one id: the tool runs for the one that may run.
    (no_tools_for_broken_replies,
     called().failed().request([GO]).call("a").finish(FinishReason.STOP).started("a"), Subject()),
    (no_tools_for_broken_replies,
     called().finish(FinishReason.STOP).request([GO]).call("a").failed().started("a"), Subject()),
]  # fmt: skip


@in_cases(GOOD)
def test_a_tool_that_runs_as_it_should_is_not_found(
    invariant: Invariant, run: Recording, subject: Subject
) -> None:
    assert run.found(invariant, subject) == []


@pytest.mark.parametrize(
    ("arguments", "text", "is_found"),
    [
        ('{"x":2}', "seen", True),
        ('{"x": 1}', "seen", False),
        ('{"x":2}', "The user forbids it.", False),
    ],
)
def test_an_agent_may_remember_results_only_with_their_arguments(
    arguments: str, text: str, *, is_found: bool
) -> None:
    run = Recording().prompt().request([GO]).call("a", '{"x":1}').finish(FinishReason.TOOL_CALLS)
    run.started("a", '{"x":1}').result("a")
    run.request([GO, said("", "a", arguments='{"x":1}'), returned("a")]).call("b", arguments)
    answered: list[Message] = [said("", "b", arguments=arguments), returned("b", text)]
    run.request([GO, said("", "a", arguments='{"x":1}'), returned("a"), *answered])
    assert bool(run.found(no_result_of_other_arguments)) is is_found


def test_a_call_that_the_engine_has_renamed_runs_under_its_new_id() -> None:
    run = Recording().prompt().request([GO]).call("a", '{"x":1}').call("a", '{"x":2}')
    run.add(entries.CallRenamed, "a", "a#2", "look").finish(FinishReason.TOOL_CALLS)
    run.started("a", '{"x":1}').started("a#2", '{"x":2}')
    for each in (tool_runs_at_most_once, only_called_tools_run):
        assert run.found(each, of_machine()) == []
    assert run.started("a#2", '{"x":2}').found(tool_runs_at_most_once, of_machine())


def test_an_agent_that_begins_anew_with_each_prompt_may_use_its_ids_again() -> None:
    run = asked("a").started("a").ended().prompt().request([GO]).replied("", "a")
    run.result("a", "Error: Invalid parameters", is_error=True).started("a").after(9).result("a")
    for each in (
        tool_runs_at_most_once,
        tool_timeouts,
        tool_ends_before_its_answer,
        scripted_results,
    ):
        assert run.found(each, with_tool(timeout="20s")) == []


@pytest.mark.parametrize(
    ("in_thread", "told", "ends", "finds"),
    [
        (True, "No end yet: it may be done.", "seen", 0),
        (True, "Error: it was stopped.", "seen", 1),
        (True, "Error: it was stopped.", "Error: given up", 0),
        (True, "It is done.", "Error: given up", 1),
        (False, "No end yet: it may be done.", "seen", 1),
        (False, "Error: it was stopped.", "Error: given up", 1),
    ],
)
def test_a_tool_in_a_thread_may_end_after_the_model_is_told_that_it_may(
    told: str, ends: str, finds: int, *, in_thread: bool
) -> None:
    run = asked("a").add(entries.ToolStarted, "a", "look", "{}", in_thread=in_thread).after(30)
    run.request([GO, said("", "a"), returned("a", told)]).after(1).result("a", ends)
    assert len(run.found(tool_ends_before_its_answer)) == finds


def test_a_function_of_the_agent_with_the_name_of_a_scripted_tool_is_not_judged_as_that() -> None:
    run = asked("a").add(entries.ToolStarted, "a", "look", "{}", own=True).after(3)
    run.result("a", "Error: no", is_error=True)
    for each in (scripted_results, scripted_tool_durations, tool_timeouts):
        assert run.found(each, with_tool(takes="1s", timeout="2s")) == []
        scripted = asked("a").started("a").after(3).result("a", "Error: no", is_error=True)
        assert scripted.found(each, with_tool(takes="1s", timeout="2s"))


OTHER = "https://pay.example"
PAYS = Subject(mutating={"look", "https://shop.example", OTHER})


def twice(*, again: str = "b", more: Sequence[str] = ()) -> Recording:
    run = asked("a", *more).started("a").result("a", "Error: late", is_error=True)
    return run.started(again)


def inner(*runs: str) -> Recording:
    """A run whose first reply has two calls of `order`, which runs `look` inside."""
    run = Recording().prompt().request([GO], tools=["order"])
    for call_id in ("a", "b"):
        run.call(call_id, name="order")
    for arguments in runs:
        run.started("own-1", arguments)
    return run


def programs(*args: tuple[str, ...], calls: Sequence[str] = ("a",)) -> Recording:
    run = asked(*calls)
    for number, each in enumerate(args):
        run.add(entries.ProgramStarted, number, each)
    return run


def asks(seconds: float, *, calls: bool = True) -> Recording:
    """A run of which a request to a service takes so long."""
    run = asked("a") if calls else Recording().prompt().request([GO]).replied("Yes.")
    run.add(entries.ServiceRequest, 1, "https://shop.example", "GET", "/a").after(seconds)
    return run.add(entries.ServiceReply, 1, 200)


class Sends(Recording):
    """A recording with requests to a service."""

    def sends(
        self, number: int, end: str = "", *, method: str = "POST", body: str = "1", once: str = "",
        service: str = "https://shop.example",
    ) -> "Sends":  # fmt: skip
        self.add(entries.ServiceRequest, number, service, method, "/pay", body, once)
        return self.add(entries.ServiceReply, number, 0 if end else 200, "", end)


def pays_both(*bodies: str) -> Sends:
    """A run whose two calls of one tool pay each a person; the first payment is lost."""
    run = Sends()
    run.prompt().request([GO])
    for call_id, person in (("a", "Ada"), ("b", "Bo")):
        run.call(call_id, json.dumps({"to": person}), name="pay")
    run.finish(FinishReason.TOOL_CALLS)
    for number, body in enumerate(bodies, 1):
        run.sends(number, "lost" if number == 1 else "", body=body)
    return run


def sends(*more: str, waits: bool = False) -> Sends:
    """A run whose calls make requests, which may wait for a yes of the user."""
    run = Sends()
    run.prompt().request([GO]).replied("", "a", *more)
    if waits:
        run.ended(text="May I?").prompt("yes")
    return run


CROSSED: list[Message] = [GO, said("", "a", "b"), returned("a", "rain"), returned("b", "rain")]


def both(a: str = "rain", b: str = "snow") -> Recording:
    return asked("a", "b").started("a").started("b", '{"x":1}').result("a", a).result("b", b)


def fitting(
    arguments: str, call_id: str = "a", ran: str = "", *, result: str = "seen",
    is_error: bool = False, asks: bool = False,
) -> Recording:  # fmt: skip
    """A run of the tool `look`, whose schema has the number `depth` and the text `of`."""
    depth = b'{"depth":{"type":"integer"},"of":{"type":"string"}},"additionalProperties":false}'
    schema = Raw(b'{"type":"object","properties":' + depth)
    run = Recording().prompt().request([GO])
    spec = ToolSpec("look", "", schema)
    run.entries[-1] = structs.replace(run.entries[-1], tools=(spec,))
    run.call("a", arguments).finish(FinishReason.TOOL_CALLS)
    run = run.started(call_id, ran or arguments)
    if asks:
        run.add(entries.ServiceRequest, 1, OTHER, "GET", "/a")
    return run.result(call_id, result, is_error=is_error)


def beside_another_agent() -> Recording:
    """A reply with two calls: an agent asks for the one, and a program runs for the other."""
    run = asked("a", "b").request([UserMessage("Look.")], tools=[])
    return run.add(entries.ProgramStarted, 1, ("pay", "17"))


BOUND = Subject(tool_timeout=20 * 10**9)


def in_module(source: str) -> Subject:
    return Subject(tool_timeout=20 * 10**9, source=source)


def broken_off(seconds: float, result: str = "Error: it took too long") -> Recording:
    run = asked("a").started("a").after(seconds)
    return run.request([GO, said("", "a"), returned("a", result)])


def within(scenario: dict[str, object]) -> Subject:
    """A run of a scenario with these keys, by an agent that breaks off its tools after 20 s."""
    given = {"prompt": "Go.", "model": [{"say": "Hi."}], **scenario}
    return Subject(tool_timeout=20 * 10**9, scenario=Scenario.model_validate(given))


SHOP: dict[str, object] = {"services": {"https://shop.example": [{"get": "/a", "json": {}}]}}
SLOW = {"takes": "45s"}


def slow_itself(*, own: bool = True) -> Recording:
    run = asked("a").add(entries.ToolStarted, "a", "look", "{}", own=own)
    return run.after(45).result("a")


def of_tests(seconds: float, *, end: bool = True) -> Recording:
    run = asked("a").add(entries.ProgramStarted, 1, ("pytest", "-q")).after(seconds)
    return run.add(entries.ProgramEnded, 1, 0) if end else run.ended()


CHANGES: list[tuple[Invariant, Recording, Subject, str]] = [
    (changes_made_once, ran("a").ended().prompt("yes").started("a"), PAYS,
     "runs again, and the model has asked for 0 calls"),
    (changes_made_once, twice(), PAYS, "of call 'b' with {} runs again, and"),
    (changes_made_once, twice(again="a"), PAYS, "and the model has asked for 1 call"),
    (changes_made_once, inner("{}", "{}", '{"x":1}', "{}"), PAYS,
     "'look' of call 'own-1' with {} runs again, and the model has asked for 2 calls"),
    (changes_made_once, ran("a").request([GO, said("", "a", "b"), returned("a"), returned("b")]),
     PAYS, "request 2 answers call 'b' with the result of another: 'look' has not run again"),
    (changes_made_once, programs(("pay", "17"), ("pay", "18"), ("pay", "17")),
     Subject(mutating={"pay"}), "the program pay 17 runs again, and the model has asked for 1"),
    (uncertain_changes_not_repeated, sends().sends(1, "lost").sends(2),
     Subject(mutating={"https://shop.example/pay"}), "sent again as request 2 to a service"),
    (tools_broken_off_in_time, asks(31), BOUND,
     "the request GET https://shop.example/a takes 31.000s, and the agent declares"),
    (uncertain_changes_not_repeated, sends().sends(1, "lost").sends(2), PAYS,
     "POST https://shop.example/pay is sent again as request 2 to a service"),
    (uncertain_changes_not_repeated,
     sends().sends(1, "timed-out", once="k").sends(2, once="other"), PAYS, "sent again"),
    (uncertain_changes_not_repeated, sends().sends(1, "closed", once="k").sends(2), PAYS,
     "sent again"),
    (uncertain_changes_not_repeated,
     sends().sends(1, "lost", once="k").sends(2, once="k", service=OTHER), PAYS,
     "POST https://pay.example/pay is sent again as request 2"),
    (uncertain_changes_not_repeated,
     sends().sends(1, "lost", method="PATCH").sends(2, body="2").sends(3, method="PATCH"), PAYS,
     "PATCH https://shop.example/pay is sent again as request 3"),
    (uncertain_changes_not_repeated, sends(waits=True).sends(1, "lost").sends(2), PAYS,
     "sent again as request 2"),
    (uncertain_changes_not_repeated,
     sends("b").sends(1, "lost", once="a").sends(2, "lost", once="b").sends(3, once="c"), PAYS,
     "sent again as request 3"),
    (uncertain_changes_not_repeated, pays_both('{"to": "Ada"}', '{"to": "Ada"}'), PAYS,
     "sent again as request 2"),
    (tools_broken_off_in_time, asked("a").started("a").after(45).result("a"), BOUND,
     "the tool 'look' of call 'a' with {} takes 45.000s, and the agent declares a tool_timeout of"),
    (tools_broken_off_in_time, asked("a").started("a").after(31).ended(), BOUND, "takes 31.000s"),
    (tools_broken_off_in_time, slow_itself(), within(SHOP), "the tool 'look' of call 'a' with {}"),
    (tools_broken_off_in_time, slow_itself(), within({**SHOP, "tools": {"look": {}}}),
     "takes 45.000s"),
    (tools_broken_off_in_time, slow_itself(), within({**SHOP, "tools": {"sell": SLOW}}),
     "takes 45.000s"),
    (tools_broken_off_in_time, slow_itself(own=False), within({**SHOP, "tools": {"look": SLOW}}),
     "takes 45.000s"),
    (tools_broken_off_in_time, slow_itself(), within({"tools": {"look": SLOW}}), "takes 45.000s"),
    (tools_broken_off_in_time, slow_itself(own=False), within({"input": ["yes"]}), "takes 45.000s"),
    (tools_broken_off_in_time,
     asked("a").started("a").after(40).request([GO, said("", "a"), returned("a", "Error: late")]),
     BOUND, "takes 40.000s"),
    (tools_broken_off_in_time, asked("a").started("a").after(45).result("a"), in_module("async"),
     "takes 45.000s"),
    (tools_broken_off_in_time, asked("a").started("a").after(40).request([GO], purpose="summary"),
     BOUND, "takes 40.000s"),
    (tools_broken_off_in_time, broken_off(12), BOUND,
     "with {} is broken off after 12.000s and not 20.000s: 'Error: it took too long'"),
    (tools_broken_off_in_time, broken_off(12, "Error: no result in 20 s"), BOUND, "after 12.000s"),
    (tools_broken_off_in_time, broken_off(12, "No end after 20 s"), BOUND, "after 12.000s"),
    (tools_broken_off_in_time, of_tests(3_600), BOUND, "the program pytest -q takes 3600.000s"),
    (tools_broken_off_in_time, of_tests(99, end=False), BOUND, "the program pytest -q takes"),
    (results_not_crossed, both().request(CROSSED), Subject(),
     "request 2 answers call 'b' with the result of call 'a': 'rain'"),
    (results_not_crossed, both('{"rain":1}').request([*CROSSED[:3], returned("b", '{"rain": 1}')]),
     Subject(), "with the result of call 'a': '{\"rain\": 1}'"),
    (results_not_crossed,
     asked("a", "b").started("b", '{"x":1}').started("a").result("a", "rain").request(CROSSED),
     Subject(), "request 2 answers call 'b' with the result of call 'a'"),
    (results_not_crossed, both().ended().prompt("More.").request([*CROSSED, UserMessage("More.")]),
     Subject(), "request 2 answers call 'b' with the result of call 'a': 'rain'"),
    (tool_arguments_fit_the_schema, fitting('{"depth":"3"}'), Subject(), "does not allow these"),
    (tool_arguments_fit_the_schema, fitting('{"depth":3,"x":1}'), Subject(), "not allow these"),
    (tool_arguments_fit_the_schema, fitting('{"depth":3,"of":[]}'), Subject(), "not allow these"),
]  # fmt: skip


@in_cases(CHANGES)
def test_a_change_or_a_result_that_is_wrong_is_found(
    invariant: Invariant, run: Recording, subject: Subject, why: str
) -> None:
    (found,) = run.found(invariant, subject)
    assert why in found


RIGHT: list[tuple[Invariant, Recording, Subject]] = [
    (changes_made_once, twice(more=["b"]), PAYS),
    (changes_made_once, asked("a").ended(text="Shall I?").prompt("yes").started("a"), PAYS),
    (changes_made_once, inner("{}", "{}", '{"x":1}'), PAYS),
    (changes_made_once, programs(("pay",), ("pay",), calls="ab"), Subject(mutating={"pay"})),
    (changes_made_once, programs(("payer", "1"), ("payer", "1")), Subject(mutating={"pay"})),
    (changes_made_once, programs(("pay",), calls=""), Subject(mutating={"pay"})),
    (changes_made_once, beside_another_agent(), Subject(mutating={"pay"})),
    (uncertain_changes_not_repeated, sends("b", waits=True).sends(1, "lost").sends(2), PAYS),
    (uncertain_changes_not_repeated, sends().sends(1, "lost").sends(2),
     Subject(mutating={"https://shop.example/payments"})),
    (uncertain_changes_not_repeated,
     sends().sends(1, "lost", method="PUT").sends(2, method="PUT"), PAYS),
    (tools_broken_off_in_time, asks(29), BOUND),
    (tools_broken_off_in_time, broken_off(19.5), BOUND),
    *((tools_broken_off_in_time, slow_itself(), within({**works, "tools": {"look": each}}))
      for works in (SHOP, {"programs": {"press": [{"stdout": "Done."}]}})
      for each in (SLOW, {"hangs": True})),
    (tools_broken_off_in_time, slow_itself(), within({"input": ["yes"]})),
    (uncertain_changes_not_repeated, pays_both('{"to": "Ada"}', '{"to": "Bo"}'), PAYS),
    (uncertain_changes_not_repeated, pays_both("1", "1"), PAYS),
    (tools_broken_off_in_time, broken_off(12, "Error: the other call has failed"), BOUND),
    (tools_broken_off_in_time, asks(99, calls=False), BOUND),
    (changes_made_once, inner("{}", "{}").request([GO, said("", "a"), returned("a")],
     tools=["order"]).call("c", name="order").started("own-3"), PAYS),
    (changes_made_once,
     ran("a", "b").request([GO, said("", "a", "b"), returned("a"), returned("b")]), PAYS),
    (changes_made_once,
     ran("a").request([GO, said("", "a", "b"), returned("a"), returned("b", "not paid again")]),
     PAYS),
    (changes_made_once, ran("a").request([GO, said("", "a"), returned("a")]).ended().prompt()
     .request([said("", "a"), returned("a"), GO]), PAYS),
    (changes_made_once, twice(), Subject(mutating={"pay"})),
    (changes_made_once, asked("a").started("a").result("a").ended().prompt().request([GO])
     .replied("", "a").started("a"), PAYS),
    (uncertain_changes_not_repeated, sends().sends(1, "lost", once="k").sends(2, once="k"), PAYS),
    (uncertain_changes_not_repeated,
     sends("b").sends(1, "lost", once="a").sends(2, "lost", once="a").sends(3, once="b"), PAYS),
    (uncertain_changes_not_repeated, sends().sends(1, "refused").sends(2), PAYS),
    (uncertain_changes_not_repeated, sends().sends(1).sends(2), PAYS),
    (uncertain_changes_not_repeated,
     sends().sends(1, "lost", method="GET").sends(2, method="GET"), PAYS),
    (uncertain_changes_not_repeated, sends().sends(1, "lost").sends(2, body="2"), PAYS),
    (uncertain_changes_not_repeated,
     sends().sends(1, "lost", service="http://x").sends(2, service="http://x"), PAYS),
    (tools_broken_off_in_time, asked("a").started("a").after(29).result("a"), BOUND),
    (tools_broken_off_in_time,
     asked("a").started("a").after(20).request([GO, said("", "a"), returned("a", "Error: late")])
     .after(60).result("a").ended(), BOUND),
    (tools_broken_off_in_time, asked("a").started("a").prompt().after(60).result("a"), BOUND),
    (tools_broken_off_in_time, of_tests(20), BOUND),
    (tools_broken_off_in_time,
     asked("a", "b").add(entries.ToolStarted, "a", "look", "{}", in_thread=True).after(20)
     .started("b").after(15).result("a"), BOUND),
    (tools_broken_off_in_time,
     asked("a", "b").started("a").after(20).started("b").after(20)
     .request([GO, said("", "a", "b"), returned("a", "Late."), returned("b", "Late.")]), BOUND),
    (tools_broken_off_in_time,
     asked("a").started("a").after(20).request([GO], purpose="summary").after(40)
     .request([GO, said("", "a"), returned("a", "Late.")]), BOUND),
    (results_not_crossed, both("rain", "rain").request(CROSSED), Subject()),
    (results_not_crossed,
     both("ok").request([*CROSSED[:2], returned("a", "ok"), returned("b", "ok")]), Subject()),
    (results_not_crossed,
     both().request([*CROSSED[:2], returned("a", "rain"), returned("b", "It is rain")]), Subject()),
    (results_not_crossed, both(b="").request(CROSSED), Subject()),
    (results_not_crossed,
     asked("a", "b").started("b").started("own-1").result("own-1", "rain").request(CROSSED),
     Subject()),
    (results_not_crossed,
     asked("a", "b").started("b", '{"x":1}').started("a").result("a", "rain", is_error=True)
     .request(CROSSED), Subject()),
    (tool_arguments_fit_the_schema, fitting('{"depth":3}'), Subject()),
    (tool_arguments_fit_the_schema,
     fitting('{"depth":3}', ran='{"depth":3,"session":"s"}'), Subject()),
    (tools_broken_off_in_time, asked("a").started("a").after(45).result("a"), in_module("def")),
    (tools_broken_off_in_time, asked("a").started("a").after(45).result("a"),
     in_module("check_same_thread=False")),
    (tool_arguments_fit_the_schema, fitting("[]"), Subject()),
    (tool_arguments_fit_the_schema, fitting('{"depth":null}'), Subject()),
    (tool_arguments_fit_the_schema, fitting('{"of":[]}', asks=True), Subject()),
    (tool_arguments_fit_the_schema, fitting('{"of":[]}', result="Sold: none"), Subject()),
    (tool_arguments_fit_the_schema, fitting('{"depth":3,"of":7}'), Subject()),
    (tool_arguments_fit_the_schema, fitting('{"of":[]}', is_error=True), Subject()),
    (tool_arguments_fit_the_schema, fitting('{"of":[]}', result="Not found."), Subject()),
    (tool_arguments_fit_the_schema, fitting('{"depth":null}', "own-1"), Subject()),
]  # fmt: skip


@in_cases(RIGHT)
def test_a_change_or_a_result_that_is_right_is_not_found(
    invariant: Invariant, run: Recording, subject: Subject
) -> None:
    assert run.found(invariant, subject) == []


@pytest.mark.parametrize(
    ("text", "finds"),
    [("Two books.", 1), ("The call was cut off.", 0), ("Abgeschnitten", 0), ("不存在", 0), ("", 0)],
)
def test_a_result_of_a_call_that_was_cut_off_tells_of_it(text: str, finds: int) -> None:
    run = called().finish(FinishReason.LENGTH).request([GO, said("", "a"), returned("a", text)])
    assert len(run.found(no_tools_for_broken_replies)) == finds
    run = called().finish(FinishReason.LENGTH).started("a").result("a", text)
    run.request([GO, said("", "a"), returned("a", text)])
    assert len(run.found(no_tools_for_broken_replies)) == 1  # of its run


@pytest.mark.parametrize(
    ("told", "takes_s", "in_thread", "finds"),
    [
        ("Error: no result after 20 s", 45, True, 1),
        ("Error: no result after 20 s", 45, False, 0),
        ("Error: no result after 20 s", 29, True, 0),
        ("Error: it is full", 45, True, 0),
    ],
)
def test_a_tool_that_is_said_to_be_broken_off_does_not_hold_the_agent_up(
    told: str, takes_s: int, finds: int, *, in_thread: bool
) -> None:
    """Where a tool may work outside, what the world adds to it is not judged otherwise."""
    run = asked("a")
    run.add(entries.ToolStarted, "a", "look", "{}", own=True, in_thread=in_thread).after(takes_s)
    run.result("a").request([GO, said("", "a"), returned("a", told)])
    subject = within({**SHOP, "tools": {"look": SLOW}})
    assert len(run.found(tools_broken_off_in_time, subject)) == finds


def test_a_new_answer_of_the_model_makes_a_change_another_one() -> None:
    again = sends().sends(1, "lost")
    again.request([GO]).replied("", "b")
    assert again.sends(2).found(uncertain_changes_not_repeated, PAYS) == []


@pytest.mark.parametrize(("text", "finds"), [("It is paid.", 1), ("The bank refuses it.", 0)])
def test_a_tool_that_has_failed_by_its_own_words_may_run_again(text: str, finds: int) -> None:
    run = asked("a").request([GO, said("", "a"), returned("a", text)]).failed().request([GO])
    run.replied("", "b").request([GO, said("", "b"), returned("b", text)])
    assert len(run.found(no_tools_run_again_after_a_restart)) == finds


def looked_up(
    day: str, text: str, *, asks: bool, first: str = "Monday: rain", program: bool = False
) -> Recording:
    """A service tells of Monday; then the model asks for another day."""
    calls = [
        ToolCall(name, "look", f'{{"day": "{d}"}}') for name, d in (("a", "Monday"), ("b", day))
    ]
    run = Recording().prompt().request([GO]).call("a", calls[0].arguments).finish()
    run.add(entries.ServiceRequest, 1, OTHER, "GET", "/days?day=Monday")
    run.add(entries.ServiceReply, 1, 200, "Monday: rain")
    before: list[Message] = [GO, AssistantMessage("", (calls[0],)), returned("a", first)]
    run.request(before).call("b", calls[1].arguments).finish()
    if asks:
        run.add(entries.ServiceRequest, 2, OTHER, "GET", f"/days?day={day}")
    if program:
        run.add(entries.ProgramStarted, 1, ("days", day)).add(entries.ProgramEnded, 1, 0)
    return run.request([*before, AssistantMessage("", (calls[1],)), returned("b", text)])


@pytest.mark.parametrize(
    ("run", "finds"),
    [
        (looked_up("Tuesday", "Monday: rain", asks=False), 1),
        (looked_up("Tuesday", "Monday: rain", asks=True), 0),
        (looked_up("Tuesday", "Monday: rain", asks=False, program=True), 0),
        (looked_up("Monday", "Monday: rain", asks=False), 0),
        (looked_up("Tuesday", "Tuesday: rain", asks=False), 0),
        (looked_up("Tuesday", "Error: Monday", first="Error: Monday", asks=False), 0),
        (looked_up("Tuesday", "Done before, Monday", first="Done before, Monday", asks=False), 0),
        (
            looked_up(
                "Tuesday", "An earlier one: Monday", first="An earlier one: Monday", asks=False
            ),
            0,
        ),
    ],
)
def test_what_a_service_has_sent_is_no_result_of_other_arguments(
    run: Recording, finds: int
) -> None:
    found = run.found(no_result_of_other_arguments)
    assert (
        found == ["request 3 answers call 'b' with a result of 'look' for other arguments"] * finds
    )


def test_a_result_that_is_told_again_is_no_result_of_other_arguments() -> None:
    run = looked_up("Tuesday", "Monday: rain", asks=True)
    first, second = (
        AssistantMessage("", (ToolCall(one, "look", f'{{"day": "{day}"}}'),))
        for one, day in (("a", "Monday"), ("b", "Tuesday"))
    )
    results = returned("a", "Monday: rain"), returned("b", "Monday: rain")
    run.request([UserMessage("Shorter."), first, results[0], second, results[1]])
    assert run.found(no_result_of_other_arguments) == []


@pytest.mark.parametrize(
    ("first", "second", "body", "found"),
    [
        ('{"id": "b1", "seats": 2}', '{"id": "b1"}', '{"seats": 32}', ""),  # it may be for both
        ('{"id": "b1", "seats": 2}', '{"id": "b2"}', '{"seats": 32}', "a"),
        ('{"id": "b1"}', '{"id": "other b1"}', "", "a"),
        ('{"id": 1}', '{"id": 2}', "[1]", "a"),
        ('{"id": 1}', '{"id": 2}', "[3]", ""),
        ('{"id": 1}', "{}", "[1]", ""),  # one without words fits all
        ('{"id": 1}', "", "[3]", "a"),  # the only one
        ('{"id": "b1"}', '{"id": "b1", "n": null}', "", "a"),
        ('{"id": "ab"}', '{"id": "other ab"}', '{"id": "OTHER AB"}', "b"),
        ('{"n": 1}', '{"n": 1, "id": "b1", "say": "x y"}', '{"n": 1, "id": "b1", "say": "x"}', ""),
        ('{"n": 1, "id": ""}', '{"n": 1, "id": "é"}', '{"n": 1, "id": "\\u00e9"}', "b"),
    ],
)
def test_a_request_is_for_the_call_whose_words_it_has(
    first: str, second: str, body: str, found: str
) -> None:
    subject, run = Subject(), Recording().prompt().request([GO]).call("a", first)
    run = run.call("b", second) if second else run
    for entry in run.finish(FinishReason.TOOL_CALLS).entries:
        subject.read(entry)
    assert asked_for(subject, entries.ServiceRequest(0, 0, 1, OTHER, "PUT", "/b1", body)) == found


@pytest.mark.parametrize(
    ("tool", "arguments", "mutating", "finds"),
    [
        ("pay", '{"cents": -1}', ["pay"], 1),
        ("pay", '{"cents": 1}', ["pay"], 0),
        ("pay", '{"day": -1}', ["pay"], 0),
        ("pay", '{"cents": -1}', [], 0),
        ("adjust_stock", '{"count": -1}', ["adjust_stock"], 0),
        ("book", '{"cents": -1}', ["book"], 0),  # a credit
        ("book_room", '{"count": -1}', ["book_room"], 1),
    ],
)
def test_a_tool_that_changes_the_world_takes_no_negative_amount(
    tool: str, arguments: str, mutating: list[str], finds: int
) -> None:
    for text, is_told in ("done", False), ("Error: no", True):
        spec = ToolSpec(tool, "", Raw(b"{}"))
        run = Recording().prompt().add(entries.Request, 1, "main", "", 0, 0, (GO,), "", (spec,))
        run.requests = 1
        run.call("a", arguments, tool).finish().started("a", arguments, tool)
        run.add(entries.ToolResult, "a", tool, text)
        found = run.found(tool_arguments_fit_the_schema, Subject(mutating=mutating))
        assert len(found) == (0 if is_told else finds)


@pytest.mark.parametrize(("second", "finds"), [("b", 0), ("a", 1)])
def test_each_of_two_equal_calls_sends_a_change_once(second: str, finds: int) -> None:
    run = Sends().prompt().request([GO]).call("a", '{"of": "tea"}').call("b", '{"of": "tea"}')
    run.finish(FinishReason.TOOL_CALLS).started("a").sends(1, "lost", body="tea")
    if second == "b":
        run.result("a").started("b")
    found = run.sends(2, body="tea").found(
        uncertain_changes_not_repeated, Subject(mutating={"https://shop.example"})
    )
    assert len(found) == finds


def test_calls_with_one_id_have_each_a_result_of_its_own() -> None:
    run = Recording().prompt().request([GO])
    calls = [ToolCall(f"own-{n}", "look", f'{{"n":{n % 2}}}') for n in range(3)]
    for call in calls:
        run.call("a", call.arguments)
    run.finish(FinishReason.TOOL_CALLS)
    for call in calls:
        run.started("a", call.arguments).result("a")
    run.request([GO, AssistantMessage("", tuple(calls)), *[returned(each.id) for each in calls]])
    assert run.found(no_result_of_other_arguments) == []


def test_a_framework_may_read_the_arguments_of_a_call_otherwise() -> None:
    run = Recording().prompt().request([GO]).call("a", '{"day": "1"}').finish()
    calls: list[Message] = [GO, said("", "a", arguments='{"day": "1"}'), returned("a")]
    run.add(entries.ToolStarted, "own-1", "look", '{"day": "1970-01-01"}', own=True).result("own-1")
    run.request(calls).call("b", '{"day": "2"}').finish().started("b", '{"day": "2"}').result("b")
    run.request([*calls, said("", "b", arguments='{"day": "2"}'), returned("b")])
    run.call("c", '{"day": "1"}').finish()
    run.add(entries.ToolStarted, "own-2", "look", '{"day": "1970-01-01"}', own=True).result("own-2")
    calls += [said("", "b", arguments='{"day": "2"}'), returned("b")]
    run.request([*calls, said("", "c", arguments='{"day": "1"}'), returned("c")])
    assert run.found(no_result_of_other_arguments) == []


def test_a_reading_is_for_the_call_of_which_it_has_all_words() -> None:
    subject, run = Subject(), Recording().prompt().request([GO]).call("a", '{"paper": "matt"}')
    for entry in run.call("b", '{"paper": "matt", "copies": 100}').finish().entries:
        subject.read(entry)
    assert asked_for(subject, entries.ServiceRequest(0, 0, 1, OTHER, "GET", "/papers/matt")) == "a"


def test_a_program_is_for_the_call_whose_tool_runs() -> None:
    subject, run = Subject(), Recording().prompt().request([GO]).replied("", "a", "b")
    for entry in run.started("b").entries:
        subject.read(entry)
    assert asked_for(subject, entries.ProgramStarted(0, 0, 1, ("lp",))) == "b"


def test_a_later_reply_of_a_service_does_not_hide_that_the_first_one_is_told() -> None:
    run = Recording().prompt().request([GO])
    for call_id, arguments in CALLS_BOTH:
        run.call(call_id, arguments)
    run.finish(FinishReason.TOOL_CALLS)
    for number, (at, body) in enumerate((("Oslo", "away"), ("Oslo", "[]"), ("other+Oslo", "away"))):
        run.add(entries.ServiceRequest, number, OTHER, "GET", f"/days?at={at}&day=2")
        run.add(entries.ServiceReply, number, 404, body)
    calls = AssistantMessage("", tuple(ToolCall(one, "look", each) for one, each in CALLS_BOTH))
    run.request([GO, calls, returned("a", "It is away"), returned("b", "It is away")])
    assert run.found(results_not_crossed) == []


CALLS_BOTH = [("a", '{"at": "Oslo", "day": 2}'), ("b", '{"at": "other Oslo", "day": 2}')]


def served(
    a: str, b: str, *, first: str = "[1, 1]", second: str = "[1]", again: str | None = None
) -> Recording:
    """A run that calls twice at once, whose service answers the second request first."""
    run = Recording().prompt().request([GO])
    if again is not None:
        run.call("c", json.dumps({"at": again}))
    for call_id, arguments in CALLS_BOTH:
        run.call(call_id, arguments)
    run.finish(FinishReason.TOOL_CALLS)
    run.add(entries.ServiceRequest, 1, OTHER, "GET", "/days?at=Oslo&day=2")
    run.add(entries.ServiceRequest, 2, OTHER, "GET", "/days?at=other+Oslo&day=2")
    run.add(entries.ServiceReply, 2, 200, second).add(entries.ServiceReply, 1, 200, first)
    calls = AssistantMessage("", tuple(ToolCall(one, "look", each) for one, each in CALLS_BOTH))
    return run.request([GO, calls, returned("a", a), returned("b", b)])


@pytest.mark.parametrize(
    ("run", "finds"),
    [
        (served("17", "18", first="18", second="17"), 0),  # too short to be clear
        (served("rain", "snow", first="snow", second="rain"), 1),
        (served("It is rain.", "It is snow.", first="snow", second="rain"), 1),
        (served("snow", "rain", first="snow", second="rain"), 0),
        (served("snow", "snow", first="snow", second="snow"), 0),
        (served("wet", "white", first="snow", second="rain"), 0),
        (served('{"x": 12}', '{"x": 34}', first='{"x":34}', second='{"x":12}'), 1),
        (served('{"x":12}', '{"x":34}', first='{"x": 34}', second='{"x": 12}'), 1),
        (served('{"x":12} {"y":3}', "[]", first='{"x": 12}', second='{"y":3}'), 0),
        (served('{"x": 12}', '{"x": 34}', first='{"x":12}', second='{"x":34}'), 0),
        (served("snow, not rain", "rain", first="snow", second="rain"), 0),
        (served("rain", "snow", first="snow", second="rain", again=""), 0),  # it fits both
    ],
)
def test_what_a_service_has_sent_for_another_call_is_no_result(run: Recording, finds: int) -> None:
    found = run.found(results_not_crossed)
    assert len(found) == finds
    assert all("request 2 answers call 'a' with what a service has sent" in one for one in found)


def test_what_a_service_has_sent_is_no_other_result_after_a_failure_either() -> None:
    run = served("snow", "rain", first="snow", second="rain").failed().ended(Outcome.FAILED)
    calls = AssistantMessage("", tuple(ToolCall(one, "look", each) for one, each in CALLS_BOTH))
    results = [returned("a", "rain"), returned("b", "rain")]
    history: list[Message] = [GO, calls, *results, UserMessage("And?")]
    (found,) = run.prompt("And?").request(history).found(results_not_crossed)
    assert "request 3 answers call 'a' with what a service has sent for call 'b'" in found


@pytest.mark.parametrize(("text", "finds"), [("fog, rain", 0), ("rain", 0), ("hail", 1)])
def test_what_a_service_has_sent_before_may_be_told_again(text: str, finds: int) -> None:
    run = served("rain", "snow", first="rain", second="snow")
    given = '{"at": "Rome"}', '{"at": "Bern"}'
    run.call("c", given[0]).call("d", given[1]).finish()
    for number, (place, body) in enumerate((("Rome", "fog!"), ("Bern", "hail")), 3):
        run.add(entries.ServiceRequest, number, OTHER, "GET", f"/days?at={place}")
        run.add(entries.ServiceReply, number, 200, body)
    calls = AssistantMessage("", tuple(ToolCall(one, "look", each) for one, each in CALLS_BOTH))
    more = AssistantMessage("", tuple(map(ToolCall, "cd", ("look", "look"), given)))
    history: list[Message] = [GO, calls, returned("a", "rain"), returned("b", "snow"), more]
    run.request([*history, returned("c", text), returned("d", "hail")])
    assert len(run.found(results_not_crossed)) == finds


@pytest.mark.parametrize(
    ("tries_s", "ids", "finds"),
    [
        ((12, 12, 12), "a", 1),
        ((10, 10, 10), "a", 0),
        ((12, 19, 12), "a", 1),
        ((12, 12, 12), "ab", 0),
        ((12,), "a", 0),
    ],
)
def test_the_requests_of_a_call_take_no_longer_together_than_its_timeout(
    tries_s: tuple[int, ...], ids: str, finds: int
) -> None:
    run = asked(*ids)
    for number, seconds in enumerate(tries_s, 1):
        run.add(entries.ServiceRequest, number, "https://shop.example", "GET", "/a").after(seconds)
        run.add(entries.ServiceReply, number, 0, failure="timed-out")
    run.request([GO, said("", *ids), *map(returned, ids)])
    found = run.found(calls_broken_off_in_time, BOUND)
    said_so = f"the requests before request 2 take {sum(tries_s)}.000s, and the agent declares a"
    assert [each.startswith(said_so) for each in found] == [True] * finds


@pytest.mark.parametrize(("tries", "finds"), [(1, 0), (3, 1)])
def test_each_call_is_judged_by_its_own_requests(tries: int, finds: int) -> None:
    run, history = asked("a"), list[Message]([GO, said("", "a"), returned("a")])
    run.add(entries.ServiceRequest, 1, "https://shop.example", "GET", "/a").after(19)
    run.add(entries.ServiceReply, 1, 200).request(history).after(99).replied("", "b")
    for number in range(2, tries + 2):
        run.add(entries.ServiceRequest, number, "https://shop.example", "GET", "/a").after(12)
        run.add(entries.ServiceReply, number, 503)
    run.request([*history, said("", "b"), returned("b")]).replied("", "c")
    run.add(entries.ServiceRequest, 9, "https://shop.example", "GET", "/a")
    run.add(entries.ServiceReply, 9, 200).after(99).prompt("And?")
    assert len(run.found(calls_broken_off_in_time, BOUND)) == finds


@pytest.mark.parametrize(
    ("mutating", "text", "in_thread", "finds"),
    [
        (("pay",), "Error: given up after 20 s", True, 0),
        (("pay",), "Error: given up after 20 s", False, 1),
        (("pay",), "3 slots are free", True, 1),
        (("look",), "Error: given up after 20 s", True, 1),
        (("look",), "Error: its end is not known", True, 0),
        (None, "Error: given up after 20 s", True, 1),
    ],
)
def test_a_tool_in_a_thread_that_changes_nothing_may_end_after_it_was_given_up(
    mutating: tuple[str, ...] | None, text: str, finds: int, *, in_thread: bool
) -> None:
    run = asked("a").add(entries.ToolStarted, "a", "look", "{}", in_thread=in_thread)
    run.request([GO, said("", "a"), returned("a", text)]).result("a")
    assert len(run.found(tool_ends_before_its_answer, Subject(mutating=mutating))) == finds
