"""The invariants on failures that an agent hides, and on what it does in their place."""

import json
from collections.abc import Collection, Sequence

import pytest
from msgspec import Raw
from recording import Recording, returned, said

from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.outside import (
    arguments_quoted,
    changes_committed,
    keys_used_once,
    no_changes_for_broken_replies,
    no_half_values,
    no_lost_updates,
    numbers_passed_on,
    refused_changes_not_repeated,
    services_not_pressed,
    slow_programs_ended,
    uncertain_changes_not_repeated,
)
from simloop.check.invariants.requests import (
    no_failure_in_place_of_the_history,
    prompt_and_tools_kept,
    summaries_lose_nothing,
)
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.told import (
    changes_not_denied,
    failed_changes_told_to_the_user,
    failed_programs_told,
    failures_not_remembered,
    missing_rows_told,
    pages_told,
    refused_changes_told,
)
from simloop.check.invariants.tools import (
    failures_told,
    no_arguments_invented,
    no_result_of_other_arguments,
    sent_result_matches_tool_result,
)
from simloop.check.invariants.user import conversation_kept_between_prompts
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
CALLED: list[Message] = [GO, said("", "a")]
SUMMED: list[Message] = [
    *CALLED,
    returned("a"),
    said("", "b"),
    returned("b"),
    UserMessage("Sum up."),
]

FAILED = UserMessage("Before: error 503")
BANK = "https://b.example"


def asked(system_prompt: str = "") -> Recording:
    return Recording().prompt().request([GO], system_prompt=system_prompt)


def looked(text: str, *, is_error: bool = False) -> Recording:
    run = asked().replied("", "a").add(entries.ToolStarted, "a", "look", "{}", own=True)
    return run.result("a", text, is_error=is_error)


def twins(*ids: str) -> Recording:
    """Two calls, of which the first fails; their ids may be one."""
    run = asked().replied("", *ids).add(entries.ToolStarted, "a", "look", "{}", own=True)
    return run.result("a", "Error: full", is_error=True)


def sent(run: Recording, text: str) -> Recording:
    return run.request([*CALLED, returned("a", text)])


def printed(text: str, exit_status: int, stream: str = "stdout") -> Recording:
    run = asked().replied("", "a").add(entries.ProgramStarted, 1, ("pytest",))
    run.add(entries.ProgramOutput, 1, stream, text).add(entries.ProgramEnded, 1, exit_status)
    return run


def booked(status: int, method: str = "POST", keys: Sequence[str] = ("", "")) -> Recording:
    run = asked().replied("", "a")
    for number, key in enumerate(keys, 1):
        run.add(entries.ServiceRequest, number, "https://b.example", method, "/b", "{}", key)
        run.add(entries.ServiceReply, number, status)
    return run


def job(key: str) -> Recording:
    run = asked().replied("", "a").add(entries.ServiceRequest, 1, BANK, "GET", "/jobs/1")
    return run.add(entries.ServiceReply, 1, 200, f'{{"{key}": "failed"}}')


def pressed(
    *waits_s: float,
    calls: tuple[str, ...] = ("a",),
    retry_after: str = "",
    status: int = 503,
    method: str = "GET",
    waits: bool = False,
) -> Recording:
    """Requests to a service that is down, or asks for a wait; each comes some seconds later.

    The calls may wait for a yes of the user.
    """
    run = asked().replied("", *calls)
    if waits:
        run.ended(text="May I?").prompt("yes")
    for number, wait_s in enumerate((0, *waits_s), 1):
        run.after(wait_s).add(entries.ServiceRequest, number, "https://b.example", method, "/b")
        status = 429 if retry_after else status
        run.add(entries.ServiceReply, number, status, retry_after=retry_after)
    return run


def stopped_amid(
    *, ends: bool = False, later_s: float | None = None, next_s: float = 1, waits: str = "thread"
) -> Recording:
    """A stop amid a program for the newest call, and beside one that an earlier call began.

    It ends before the end of the run, so many seconds later, or not at all. What is left `waits`.
    """
    run = asked().replied("", "a").add(entries.ProgramStarted, 1, ("serve",))
    run.request([*CALLED, returned("a")]).replied("", "b")
    run.add(entries.ProgramStarted, 2, ("pytest", "-q")).stop()
    if ends:
        run.add(entries.ProgramEnded, 2, -9)
    run.add(entries.LeftBehind, waits, "serve", "bot.py:9 in look")
    run.add(entries.LeftBehind, "program", "serve", "bot.py:9 in look").ended()
    if later_s is not None:
        run.after(later_s).add(entries.ProgramEnded, 2, -9)
    return run.prompt().after(next_s).prompt()


def test_a_thread_of_an_earlier_run_waits_for_no_later_program() -> None:
    run = asked().replied("", "a").add(entries.ProgramStarted, 1, ("serve",)).finish()
    run.add(entries.LeftBehind, "thread", "serve", "bot.py:9").ended().prompt().request([GO])
    run.replied("", "b").add(entries.ProgramStarted, 2, ("pytest", "-q")).stop()
    run.add(entries.LeftBehind, "program", "pytest", "bot.py:9 in look").ended()
    (found,) = run.found(slow_programs_ended)
    assert "pytest -q goes on at the end of the run, and the user has stopped it" in found


def probed(text: str = "exit status 3", *, again: bool) -> Recording:
    """Two equal calls; the program of the first one fails."""
    run = sent(printed("", 3), "exit status 3").replied("", "b")
    if again:
        run.add(entries.ProgramStarted, 2, ("pytest",)).add(entries.ProgramEnded, 2, 3)
    before = [*CALLED, returned("a", "exit status 3")]
    return run.request([*before, said("", "b"), returned("b", text)])


def silent() -> Recording:
    """A tool that returns nothing; another agent asks before its result is sent."""
    run = asked().replied("", "a").started("a").result("a", "")
    run.request([UserMessage("Part.")], system_prompt="Help.").replied("Done.")
    return run.request([*CALLED, returned("a", "")])


def hidden_late() -> Recording:
    """A program fails, and a summary is asked for before its result is sent; then none runs."""
    run = asked().replied("", "a")
    run.add(entries.ProgramStarted, 1, ("pytest",)).add(entries.ProgramEnded, 1, 3)
    run.request([UserMessage("Sum up.")], system_prompt="Help.").replied("Done.")
    first = [*CALLED, returned("a", "exit status 3")]
    run.request(first).replied("", "b")
    return run.request([*first, said("", "b"), returned("b", "exit status 3")])


def told_late() -> Recording:
    """Two equal calls fail; a summary is asked for before the result of the second one is sent."""
    run = sent(printed("", 3), "exit status 3").replied("", "b")
    run.add(entries.ProgramStarted, 2, ("pytest",)).add(entries.ProgramEnded, 2, 3).ended().prompt()
    run.request([UserMessage("Sum up.")]).replied("", "c")
    before = [*CALLED, returned("a", "exit status 3")]
    return run.request([*before, said("", "b"), returned("b", "exit status 3")])


def unfit() -> Recording:
    """A tool runs; then two equal calls have arguments that do not fit, and nothing runs."""
    run, before = asked().replied("", "z").started("z").result("z"), [*CALLED[:1], said("", "z")]
    run.request(before := [*before, returned("z")])
    for call_id in ("a", "b"):
        run.replied("", call_id).result(call_id, "Error: unfit", is_error=True)
        run.request(before := [*before, said("", call_id), returned(call_id, "Error: unfit")])
    return run


def broken(*, again: bool) -> Recording:
    """Two equal calls; the tool of the first one fails."""
    run = asked().replied("", "a").started("a").result("a", "Error: full", is_error=True)
    run.request([*CALLED, returned("a", "Error: full")]).replied("", "b")
    if again:
        run.started("b").result("b", "Error: full", is_error=True)
    before = [*CALLED, returned("a", "Error: full")]
    return run.request([*before, said("", "b"), returned("b", "Error: full")])


def fails_late(kind: type, *values: object) -> Recording:
    """What an earlier call has begun fails late; then two equal calls do not fit."""
    run = asked().replied("", "z").add(entries.ProgramStarted, 9, ("pytest",))
    run.add(entries.ServiceRequest, 9, "https://b.example", "GET", "/b", "{}", "")
    before: list[Message] = [GO, said("", "z"), returned("z", "Stopped.")]
    run.request([*before]).add(kind, 9, *values).replied("", "a")
    before += [said("", "a"), returned("a", "Error: unfit")]
    run.request([*before]).replied("", "b")
    return run.request([*before, said("", "b"), returned("b", "Error: unfit")])


def waiting(
    text: str = "Error: no result in 20 s", *, first: str = "Error: full", waits: int = 20
) -> Recording:
    """Two calls; the tool of the first one fails, and the second one waits for something."""
    run = asked().replied("", "a").started("a").result("a", first, is_error=first != "seen")
    before = [*CALLED, returned("a", first)]
    run.request(before).replied("", "b").after(waits)
    return run.request([*before, said("", "b"), returned("b", text)])


def down(text: str, *, again: bool) -> Recording:
    """Two equal calls; the service of the first one is down."""
    run = sent(booked(503, keys=[""]), text).replied("", "b")
    if again:
        run.add(entries.ServiceRequest, 2, "https://b.example", "POST", "/b", "{}", "")
        run.add(entries.ServiceReply, 2, 503)
    return run.request([*CALLED, returned("a", text), said("", "b"), returned("b", text)])


def folded(*told: str) -> Recording:
    """One turn after the other goes into a summary; the second one is asked for with these."""
    said_by_user = ["One.", "Two.", "Three."]
    turns: list[list[Message]] = [
        [UserMessage(each), AssistantMessage("Yes.")] for each in said_by_user
    ]
    history: list[Message] = [each for turn in turns for each in turn]
    run = Recording()
    for each in said_by_user:
        run.prompt(each)
    run.prompt().request([*history, GO]).replied("Yes.")
    run.request([UserMessage("Sum up: One.")], tools=[]).replied("A first one.")
    run.request([*map(UserMessage, told)], tools=[]).replied("Both.")
    return run.request([UserMessage("Before: Both."), *turns[2], GO])


def refused_beside(text: str) -> Recording:
    """A call is refused beside one whose program fails, and again when it comes alone."""
    run = asked().replied("", "a", "b").add(entries.ProgramStarted, 1, ("pytest",))
    both: list[Message] = [said("", "a", "b"), returned("a", "exit status 3"), returned("b", text)]
    run.add(entries.ProgramEnded, 1, 3).request([GO, *both]).replied("", "c")
    return run.request([GO, *both, said("", "c"), returned("c", text)])


def keyed(*keys: str, body: str = "{}") -> Recording:
    run = asked().replied("", "a")
    for number, key in enumerate(keys, 1):
        run.add(entries.ServiceRequest, number, BANK, "POST", "/b", body * number, key)
    return run


def billed(first: str, second: str, key: str = "pay-I7") -> Recording:
    run = asked().call("a", first).call("b", second).finish()
    for number, body in enumerate((first, second), 1):
        run.add(entries.ServiceRequest, number, BANK, "POST", "/payments", body, key)
    return run


@pytest.mark.parametrize(("mutating", "finds"), [((), 1), ({"pay"}, 1), ({"other"}, 0)])
def test_a_tool_that_is_declared_to_change_nothing_may_keep_what_it_has_read(
    mutating: Collection[str], finds: int
) -> None:
    run = asked().replied("", "a")
    run.add(entries.ToolResult, "a", "pay", "Paid.", overwrote="UPDATE t SET n = ?")
    found = run.found(no_lost_updates, Subject(mutating=mutating))
    assert len(found) == finds
    what = "'UPDATE t SET n = ?' of the tool 'pay' writes what was read before another call"
    assert all(each.startswith(what) for each in found)


@pytest.mark.parametrize(("status", "finds"), [(409, 0), (201, 1), (503, 1)])
def test_the_key_of_a_request_that_is_refused_may_be_used_for_another(
    status: int, finds: int
) -> None:
    run = keyed("k").add(entries.ServiceReply, 1, status)
    run.add(entries.ServiceRequest, 2, BANK, "POST", "/b", "[]", "k")
    assert len(run.found(keys_used_once)) == finds


BILL = '{"invoice": "I7", "cents": 1}'


def both_change(
    body: str = '{"extras":["%s"]}', path: str = "", *, waits: bool = False, ends: bool = True,
    other: str = "/lines/7", reads: int = 2,
) -> Recording:  # fmt: skip
    """Two calls add an extra to what they have read; the second may read it after the first."""
    run = asked().call("a", '{"n":7,"extra":"tv"}').call("b", '{"n":7,"extra":"sms"}').finish()
    for number in range(1, reads + 1):
        run.add(entries.ServiceRequest, number, BANK, "GET", "/lines/7")
        run.add(entries.ServiceReply, number, 200, '{"extras":[],"price":2}')
    run.add(entries.ServiceRequest, 3, BANK, "PUT", "/lines/7" + path, body.replace("%s", "tv"))
    if ends:
        run.add(entries.ServiceReply, 3, 200)
    if waits:
        run.add(entries.ServiceRequest, 4, BANK, "GET", "/lines/7")
        run.add(entries.ServiceReply, 4, 200, '{"extras":["tv"]}')
    given = body.replace("%s", "sms")
    return run.add(entries.ServiceRequest, 5, BANK, "PUT", other + path, given)


def charged(given: str, sent: str, *, method: str = "POST", calls: int = 1) -> Recording:
    run = asked()
    for number in range(calls):
        run.call(f"{number}", given)
    return run.finish().add(entries.ServiceRequest, 1, BANK, method, "/b", sent)


HALF = '{"to": "Ada", "cents": 45'


def cut_in(
    given: str = HALF, body: str = HALF + "}", *, calls: int = 1, path: str = "/b",
) -> Recording:  # fmt: skip
    run = asked()
    for number in range(calls):
        run.call(f"{number}", given)
    return run.finish().add(entries.ServiceRequest, 1, BANK, "POST", path, body)


def addressed(path: str, text: str = "a/b?c=d#e") -> Recording:
    run = asked().call("a", f'{{"name": "{text}"}}').finish()
    return run.add(entries.ServiceRequest, 1, BANK, "GET", path)


def listed(
    text: str, *pages: str, calls: str = "a", status: int = 200, at: str = "/boats?page=",
    beside: bool = False,
) -> Recording:  # fmt: skip
    """A call for which a service has these pages of a list, the last with that status.

    Another agent of the program may have called a tool `beside` it.
    """
    run = Recording().prompt()
    if beside:
        run.request([UserMessage("Other.")], system_prompt="Translate.").replied("", "other")
    run.request([GO]).replied("", *calls)
    for number, page in enumerate(pages, 1):
        run.add(entries.ServiceRequest, number, BANK, "GET", f"{at}{number}")
        run.add(entries.ServiceReply, number, status if number == len(pages) else 200, page)
    return run.request([GO, said("", *calls), *(returned(each, text) for each in calls)])


def linked(text: str, *, follows: bool = True) -> Recording:
    """A call whose list has a page with a link to the next one, which has a path of its own."""
    run, link = asked().replied("", "a"), f"{BANK}/rest/2"
    pages = {"/boats": {"boats": ["Ada"], "next": link}, "/rest/2": {"boats": ["Cy"]}}
    for number, (path, page) in enumerate([*pages.items()][: 1 + follows], 1):
        run.add(entries.ServiceRequest, number, BANK, "GET", path)
        run.add(entries.ServiceReply, number, 200, json.dumps(page))
    return run.request([GO, said("", "a"), returned("a", text)])


FIRST, LAST = '{"boats": ["Ada", "Bo"], "more": true}', '{"boats": ["Cy"], "more": false}'
OF_TWO = FIRST.replace('"more": true', '"pages": 2')


def commanded(*args: str, key: str = "of", text: str = "lake 7") -> Recording:
    run = asked().call("a", json.dumps({key: text})).finish()
    given = args if args[1:] else ("/bin/sh", "-c", *args)
    return run.add(entries.ProgramStarted, 1, given)


def given_up(text: str, *, ends: bool = False) -> Recording:
    run = asked().replied("", "a").add(entries.ProgramStarted, 1, ("pytest", "-q"))
    if ends:
        run.add(entries.ProgramEnded, 1, -9)
    return sent(run, text).add(entries.LeftBehind, "program", "pytest", "bot.py:9 in look")


def ordered_once(
    *, finish: FinishReason = FinishReason.TOOL_CALLS, method: str = "POST", once: str = ""
) -> Recording:
    run = asked().call("a", "{}", "pay").finish(finish)
    return run.add(entries.ServiceRequest, 1, "https://b.example", method, "/b", "{}", once)


def paying() -> Recording:
    """A run in which a tool calls a function of its own that fails."""
    run = asked().replied("", "a").started("own-1", name="pay")
    return run.add(entries.ToolResult, "own-1", "pay", "Error: the bank is away", is_error=True)


TRIED: list[Message] = [GO, said("", "a", "b"), *(returned(i, "Error: too long") for i in "ab")]


def tried_again() -> Recording:
    """Two tools are broken off, and once more each; then another one is called."""
    run = asked().replied("", "a", "b")
    for call_id in ("a", "b", "own-1", "own-2"):
        run.started(call_id)
    return run.request(TRIED).replied("", "c")


def cancelled() -> Recording:
    """A tool named by a word that, in the result of another tool, tells of a failure."""
    call = ToolCall("a", "cancel_order", "{}")
    run = asked().call("a", name="cancel_order").finish()
    run.add(entries.ServiceRequest, 1, BANK, "POST", "/b").add(entries.ServiceReply, 1, 503)
    said_by_model = AssistantMessage("", (call,))
    return run.request([GO, said_by_model, returned("a", "Order 7 is cancelled.")])


def answered(
    *replies: tuple[int, str, str],
    method: str = "POST",
    prompt: bool = False,
    given: str = '{{"room":"room {0}"}}',
) -> Recording:
    """Calls of one tool, each with one request to a service: its status, its body, the result."""
    run, history = asked(), list[Message]([GO])
    for number, (status, body, text) in enumerate(replies, 1):
        call = ToolCall(f"c{number}", "book", given.format(number))
        run.call(call.id, name="book", arguments=call.arguments).finish()
        run.add(entries.ServiceRequest, number, "https://b.example", method, "/b", "{}")
        run.add(entries.ServiceReply, number, status, body)
        if prompt:
            run.ended().prompt("More.")
            history = [*history, UserMessage("More.")]
        history = [*history, AssistantMessage("", (call,)), returned(call.id, text)]
        run.request(history)
    return run


def lost() -> Recording:
    run = asked().replied("", "a").add(entries.ServiceRequest, 1, "https://b.example", "GET", "/b")
    return run.add(entries.ServiceReply, 1, 0, "", "timed-out")


def summed(
    history: list[Message], *, fails: bool = False, words: str = "", cut: str = ""
) -> Recording:
    run = asked().replied("", "a").request(SUMMED[:3]).replied("", "b").request(SUMMED, tools=[])
    if cut:
        return run.text(cut).finish(FinishReason.LENGTH).request(history)
    run = run.failed(503) if fails else run.replied(words)
    return run.request(history)


def ordered(given: str, ran: str) -> Recording:
    spec = ToolSpec("pay", "", Raw(b'{"required": ["sum"]}'))
    run = Recording().prompt().add(entries.Request, 1, "main", "", 0, 0, (GO,), "", (spec,))
    run.requests = 1
    return run.call("a", given, "pay").finish().started("a", ran, "pay")


def dropped(text: str) -> Recording:
    run = asked().replied("", "a")
    return run.add(entries.ToolResult, "a", "return_loan", text, missed="UPDATE loans")


def forgotten(
    *kept: Message, words: str | None = None, cut: str = "", of: Sequence[Message] = ()
) -> Recording:
    """A second prompt, before which a conversation is to be summed up."""
    run = asked().replied("", "a").request(SUMMED[:3]).replied("", "b").request(SUMMED[:5])
    run.replied("Done.").ended(text="Done.").prompt("More.")
    run.request([*of, UserMessage("Sum up: all of it")], tools=[])
    if cut:
        run.text(cut).finish(FinishReason.LENGTH)
    else:
        run = run.failed(503) if words is None else run.replied(words)
    return run.request([*kept, UserMessage("More.")])


def summed_twice(*asked_of: str, kept: str = "Then.", wish: str = "") -> Recording:
    """Two summaries, the second of these messages; the last request has the words `kept`."""
    run = Recording().prompt().request([GO]).replied("", "a").request(SUMMED[:3])
    run.replied("", "b").request(SUMMED, tools=[]).replied("At first.")
    run.request([UserMessage("Before: At first."), GO]).replied("Yes.")
    if wish:
        run.queued(wish).request([UserMessage("Before: At first."), GO, UserMessage(wish)])
    run.request([*map(UserMessage, asked_of)], tools=[], purpose="summary").replied("Then.")
    return run.request([UserMessage(f"Before: {kept}"), GO])


def retold(told: str, result: str = "seen") -> Recording:
    """A conversation is told in one text for its summary."""
    run = asked().replied("", "a").request([*CALLED, returned("a", result)])
    run.replied("", "b").request([UserMessage(told)], tools=[]).replied("In short.")
    return run.request([UserMessage("Before: In short.")])


def summed_in_vain(begins: str = "Before: ") -> Recording:
    """The second summary fails, and the words before the first one stand before others."""
    run = asked().replied("", "a").request(SUMMED[:3]).replied("", "b")
    run.request(SUMMED, tools=[]).replied("At first.")
    run.request([UserMessage("Before: At first."), GO]).replied("", "c")
    history: list[Message] = [UserMessage("Before: At first."), GO]
    for call_id in "cd":
        history += [said("", call_id), returned(call_id)]
        run.request(list(history)).replied("", "d")
    run.request([*history, GO], tools=[]).failed()
    return run.request([UserMessage(f"{begins}not available"), GO])


def windowed(words: str) -> Recording:
    """The oldest messages go, and a model has said `words` about the newest one alone."""
    yes = AssistantMessage("Yes.")
    history: list[Message] = [GO, yes, UserMessage("More."), yes]
    run = Recording().prompt().prompt("More.").prompt("Last.").request(history).replied("Yes.")
    run.request([UserMessage("Facts of: Yes.")], system_prompt="Extract.", tools=[]).replied(words)
    return run.request([*history[2:], AssistantMessage(words), UserMessage("Last.")])


def again(*messages: Message, text: str = "Done.") -> Recording:
    run = asked().replied(text).ended(text=text).prompt("More.")
    return run.request([*messages, UserMessage("More.")])


def test_a_refusal_whose_result_is_not_sent_is_not_that_of_the_call_before() -> None:
    run = answered((201, "", "ok")).call("c2", name="book").finish()
    run.add(entries.ServiceRequest, 2, "https://b.example", "POST", "/b", "{}")
    run.add(entries.ServiceReply, 2, 422).ended().prompt("More.")
    assert run.request([GO, UserMessage("More.")]).found(refused_changes_told) == []


def test_a_failure_beside_several_equal_conversations_may_be_of_another_one() -> None:
    for system, finds in ("", 0), ("Translate.", 1):
        run = Recording().prompt().request([UserMessage("Other.")], system_prompt=system)
        run.request([GO]).replied("", "a")
        run.add(entries.ServiceRequest, 1, "https://b.example", "POST", "/b", "{}", "")
        run.add(entries.ServiceReply, 1, 503)
        assert len(sent(run, "It is done.").found(failed_programs_told)) == finds


MORE: list[tuple[Invariant, Recording, str]] = [
    (failures_told, sent(looked("Error: the disk is full", is_error=True), "done"),
     "has 'done' for call 'a', and the tool 'look' failed: the disk is full"),
    (failures_told, sent(asked().replied("", "a").started("a"), "done"), "it has not ended"),
    (failures_told, sent(twins("a", "b"), "done"), "and the tool 'look' failed: full"),
    (failures_told, sent(paying(), "done"), "and the tool 'pay' failed: the bank is away"),
    (failed_programs_told, sent(printed("2 passed\n", 3), "2 passed"), "ended with exit status 3"),
    (failed_programs_told, sent(printed("", -9), "It is done."), "and its program was ended"),
    (failed_programs_told, sent(printed("", 3), "It is done."), "and its program ended with 3"),
    (failed_programs_told, sent(printed("such a mess", 1, "stderr"), "It is done."),
     "and its program ended with 1"),
    (failed_programs_told, sent(booked(503), "It is done."), "request to a service has status 503"),
    (failed_programs_told, sent(lost(), "It is done."), "to a service failed: timed-out"),
    (failed_programs_told, sent(booked(503), "No room is free."), "has status 503"),
    (failed_programs_told, sent(job("state"), "Paired."), "to a service says 'failed'"),
    (failed_programs_told, sent(job("status"), "Paired."), "says 'failed'"),
    (failed_programs_told, sent(booked(503), "Order 7 was not found."), "has status 503"),
    (refused_changes_told, answered((422, "", "room 1: is "), (201, "b-7", "room 2: is b-7")),
     "request 3 has 'room 2: is b-7' for a change that a service refused with 422, as for one"),
    (refused_changes_told, answered((201, "", "booked 7"), (401, "", "booked 8")), "with 401"),
    (refused_changes_told, answered((422, "", "Booked.")), "'Booked.' for a change"),
    (refused_changes_told, answered((403, "", "done")), "refused with 403"),
    (refused_changes_told, answered((404, "", "Booked.")), "refused with 404"),
    (refused_changes_told, answered((401, "", "ok"), (201, "", "ok"), given="[{0}]"), "with 401"),
    (failed_programs_told, cancelled(), "request 2 has 'Order 7 is cancelled.', and its last"),
    (sent_result_matches_tool_result, sent(looked("seen by all of us"), "seen by"),
     "is cut to 'seen by'"),
    (sent_result_matches_tool_result, sent(looked('{"seen":[1,2]}'), '{"seen": [1'), "is cut to"),
    (refused_changes_not_repeated, booked(422), "is sent again as request 2 after status 422"),
    (services_not_pressed, pressed(0, 0, 0), "as request 4: retry 3 in a row without a wait"),
    (services_not_pressed, pressed(1, retry_after="7"),
     "request 2 after 1.000s, and the service asks for 7.000s"),
    (services_not_pressed, pressed(*[0.5] * 10, status=401), "retry 10 in a row within a second"),
    (slow_programs_ended, stopped_amid(later_s=60), "and the user has stopped it"),
    (slow_programs_ended, stopped_amid(waits="session"), "and the user has stopped it"),
    (slow_programs_ended, stopped_amid(later_s=21), "and the user has stopped it"),
    (slow_programs_ended, stopped_amid(next_s=21),
     "the program pytest -q goes on at the end of the run, and the user has stopped it"),
    (failures_not_remembered, hidden_late(), "answers call 'b' with the same failure"),
    (failures_not_remembered, probed(again=False), "answers call 'b' with the same failure"),
    (failures_not_remembered, waiting(), "it has waited, and nothing has run"),
    (failures_not_remembered, broken(again=False), "'Error: full', and nothing has run"),
    (failures_not_remembered, down("Error: down", again=False),
     "'Error: down', and nothing has run"),
    (summaries_lose_nothing, folded("Sum up: Two."), "and its summary lack 'One.'"),
    (no_lost_updates, both_change(),
     "PUT https://b.example/lines/7 writes what was read before request 3 changed it"),
    (no_lost_updates, both_change(path="/extras"), "/lines/7/extras writes what was read"),
    (no_lost_updates, both_change('{"extra":"%s"}', ends=False), "is sent while request 3 for"),
    (numbers_passed_on, charged('{"fee": 0}', '{"fee": 20}'), "has 'fee' 20, and its call 0"),
    (numbers_passed_on, charged('{"euros": 1150.1}', '{"cents": 115009}'), "has 115009, and its"),
    (numbers_passed_on, charged('{"ask": false}', '{"ask": true}'), "has 'ask' True, and its"),
    (no_half_values, cut_in(), "/b has '45', in which its call breaks off"),
    (no_half_values, cut_in('{"to": "A/7', "[]", path="/b/A%2F7"), "has 'A/7', in which its call"),
    (no_half_values, asked().call("a", HALF).finish().started("a", '{"cents": 45}'), "has '45'"),
    (keys_used_once, keyed("k", "k"), "has the Idempotency-Key of request 1"),
    (keys_used_once, billed(BILL, BILL.replace("7", "8")), "has the Idempotency-Key of request 1"),
    (keys_used_once, billed(BILL, BILL.replace("1", "2"), "k"), "the Idempotency-Key of request 1"),
    (keys_used_once, billed('{"n": "", "cents": 1}', '{"n": "", "cents": 2}'), "Key of request 1"),
    (keys_used_once, billed('{"x": "r", "to": 1}', '{"x": "r", "to": 2}', "r"), "of request 1"),
    (keys_used_once, billed(BILL, "[]"), "has the Idempotency-Key of request 1"),
    (keys_used_once, billed(BILL, '{"cents": 2}'), "has the Idempotency-Key of request 1"),
    (pages_told, listed("['Cy']", FIRST, LAST), "has \"['Cy']\": a page of /boats is missing"),
    (pages_told, listed("Ada, Bo", FIRST, LAST), "a page of /boats is missing"),
    (pages_told, listed("Ada, Bo", FIRST), "a page of /boats is missing"),
    (pages_told, linked("Ada", follows=False), "a page of /boats is missing"),
    (pages_told, listed("Ada, Bo", OF_TWO), "a page of /boats is missing"),
    (refused_changes_told, answered((409, "", "Booked.")), "refused with 409"),
    (refused_changes_told, answered((409, "", "Booked, reference 175300e3ab9f.")), "with 409"),
    (refused_changes_told, answered((422, "", "(nothing)")), "refused with 422"),
    (refused_changes_told, answered((422, "", "Done: room 7, number unknown, it did not tell")),
     "refused with 422"),
    (refused_changes_told, answered((422, "", "Booked: room 7 for two, 300 cents are paid back.")),
     "refused with 422"),
    (refused_changes_told, answered((422, "refused", "The message is sent.")), "refused with 422"),
    (refused_changes_told, answered((422, "refused", "5 cents were paid.")), "refused with 422"),
    (refused_changes_told, answered((422, "", 'Booked: {"status": 422}')), "refused with 422"),
    (refused_changes_told, answered((422, "", 'Paid: {"error": "full"}')), "refused with 422"),
    (refused_changes_told, answered((422, "refused", "The booking was made. Receipt: refused")),
     "refused with 422"),
    (missing_rows_told, dropped("Loan 7 is returned."), "'UPDATE loans' has found no row"),
    (summaries_lose_nothing, retold("Sum up: Go."), "request 4 and its summary lack 'seen'"),
    (summaries_lose_nothing, retold(f"Sum up: {'x' * 19_000} seen"), "its summary lack 'Go.'"),
    (arguments_quoted, commanded("measure lake 7"), "-c 'measure lake 7' has the text 'lake 7' of"),
    (arguments_quoted, commanded("measure it's", text="it's"), "of call 'a' as it is"),
    (arguments_quoted, addressed("/users/a/b?c=d"), "of call 'a' as it is"),
    (arguments_quoted, addressed("/users/a/b%3Fc%3Dd%23e"), "of call 'a' as it is"),
    (arguments_quoted, addressed("/users?name=a/b?c=d"), "of call 'a' as it is"),
    (summaries_lose_nothing, windowed("No."), "request 3 and its summary lack 'Go.'"),
    (summaries_lose_nothing, summed_twice("Go.", "Sum up."), "and its summary lack 'At first.'"),
    (summaries_lose_nothing, summed_twice("At first.", wish="Rather two."), "lack 'Rather two.'"),
    (no_failure_in_place_of_the_history, summed_in_vain(), "has 'Before: not available' for its"),
    (no_failure_in_place_of_the_history, forgotten(), "request 5 has nothing of its history"),
    (no_failure_in_place_of_the_history, forgotten(UserMessage("Hm.")), "nothing of its history"),
    (no_failure_in_place_of_the_history, forgotten(words=""), "nothing of its history"),
    (no_failure_in_place_of_the_history, forgotten(*SUMMED[3:5], of=SUMMED[:3]),
     "nothing of its history"),
    (no_failure_in_place_of_the_history, forgotten(cut="In sh"), "nothing of its history"),
    (changes_committed, asked().add(entries.LeftBehind, "transaction", "1 changed rows", "b.py:3"),
     "1 changed rows of a database are left without a commit at b.py:3"),
    (slow_programs_ended, given_up("It timed out."),
     "the program pytest -q goes on at the end of the run, and the model is told 'It timed out.'"),
    (no_arguments_invented, ordered("{}", '{"sum":1}'), "the call has no 'sum'"),
    (no_arguments_invented, ordered('{"to": ["x"', "{}"), "runs, and the call has '{\"to\": ["),
    (no_arguments_invented, ordered('{"to":', '{"sum":1}'), "the call has no 'sum'"),
    (prompt_and_tools_kept,
     asked("Be kind.").replied("", "a").request([*CALLED, returned("a")]),
     "request 2 lacks the system prompt of request 1"),
    (prompt_and_tools_kept,
     asked("Be kind.\n\nBikes of today: b7.").replied("", "a").request(
         [*CALLED, returned("a")], system_prompt="Bikes of today: none."),
     "request 2 lacks the system prompt of request 1"),
    (prompt_and_tools_kept, asked().failed().after(1).request([GO], tools=[]),
     "request 2 repeats request 1 without its tools"),
    (no_failure_in_place_of_the_history,
     summed([FAILED, GO], fails=True), "the summary failed"),
    (no_failure_in_place_of_the_history,
     asked().replied("", "a").request(SUMMED[:3]).replied("", "b")
     .request([UserMessage("Sum it up")], tools=[]).text("In sh").finish(FinishReason.LENGTH)
     .request([UserMessage("Before: In sh"), *SUMMED[3:5]]), "the summary is cut off"),
    (no_failure_in_place_of_the_history, summed([UserMessage("Before: "), GO]), "has no words"),
    (no_failure_in_place_of_the_history, summed([UserMessage("Go, seen"), GO]), "has no words"),
    (no_failure_in_place_of_the_history, summed([UserMessage("Before: In sh"), GO], cut="In sh"),
     "has 'Before: In sh' for its history: the summary is cut off"),
    (no_failure_in_place_of_the_history,
     summed([FAILED, *SUMMED[1:5]], fails=True).request([FAILED, *SUMMED[1:]], tools=[]).failed(503)
     .request([FAILED, GO]), "request 6 has 'Before: error 503' for its history"),
    (conversation_kept_between_prompts, again().replied("Done.").ended(),
     "request 2 has nothing of the conversation"),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "run", "why"), MORE)
def test_a_failure_that_is_hidden_or_filled_up_is_found(
    invariant: Invariant, run: Recording, why: str
) -> None:
    (found,) = run.found(invariant, Subject(is_instance=True, mutating=[BANK]))
    assert why in found


GOOD: list[tuple[Invariant, Recording]] = [
    (failures_told, sent(looked("Error: the disk is full", is_error=True), "It failed.")),
    (failures_told,
     sent(looked("Error: x", is_error=True).started("own-1").result("own-1", "seen"), "seen")),
    (failures_told, sent(looked("Error: x", is_error=True).stop(), "")),
    (failures_told, sent(asked().replied("", "a").started("a"), "This took too long.")),
    (failures_told, sent(paying(), "It cannot be paid.")),
    (failures_told, sent(paying().started("own-2", name="pay")
     .add(entries.ToolResult, "own-2", "pay", "paid"), "done")),
    (failures_told, paying().request([GO, said("", "a", "b"), returned("a"), returned("b")])),
    (failures_told,
     tried_again().request([*TRIED, said("", "c"), returned("c", "It is paid.")])),
    (failed_programs_told, sent(printed("2 passed\n", 0), "2 passed")),
    (failed_programs_told, sent(printed("", -9), "It was cancelled.")),
    (failed_programs_told, sent(printed("", 1), "It is done.")),
    (failed_programs_told, sent(printed("such a mess", 0, "stderr"), "It is done.")),
    (changes_committed,
     asked().stop().add(entries.LeftBehind, "transaction", "1 changed rows", "b.py:3")),
    (failed_programs_told, sent(booked(404), "Nothing there")),
    (failed_programs_told, sent(job("state"), "No boards were made.")),
    (failed_programs_told, sent(job("phase"), "Paired.")),
    (refused_changes_told, answered((201, "", "booked"), (409, "", "booked"))),
    (refused_changes_told, answered((503, "", "Error: 503"), (404, "", "Booked."))),
    (refused_changes_told, answered((201, "", "booked"), (422, "", "full"))),
    (refused_changes_told, answered((503, "", "Error 503: "), given='{{"room":" "}}')),
    (refused_changes_told, answered((422, "", "booked already"))),
    (refused_changes_told, answered((422, "refused", "The booking was made already: refused"))),
    (refused_changes_told, answered((422, "refused", "The answer is: refused"))),
    (refused_changes_told, answered((422, "full", "(full)"))),
    (refused_changes_told, answered((422, "", '{"status": 422}'))),
    (refused_changes_told, answered((422, "", 'Booked: {"id": ""}, but it was refused'))),
    (refused_changes_told, answered((422, "", 'Booked: {"is": "refused"} is what it says'))),
    (refused_changes_told, answered((422, "full", "Done: the room was refused, as it is full"))),
    (refused_changes_told, answered((422, "", "The booking was not made."))),
    (refused_changes_told, answered((422, "", "booked by somebody who came first"))),
    (refused_changes_told, answered((422, "", "the room is booked"))),
    (refused_changes_told, answered((201, "7", "it says 7"), (422, "no room", "it says no room"))),
    (refused_changes_told, answered((201, "", "not there"), (422, "", "not there"))),
    (refused_changes_told, answered((201, "", "seen"), (422, "", "seen"), method="GET")),
    (refused_changes_told, answered((422, "", "seen"), (201, "", "seen"), prompt=True)),
    (failed_programs_told, sent(booked(503), "There was no answer.")),
    (failed_programs_told, sent(booked(503), "Order 7 is cancelled.")),
    (failed_programs_told, sent(lost().add(entries.ServiceReply, 1, 200), "It is done.")),
    (failed_programs_told, sent(lost().ended().prompt("More."), "It is done.")),
    (failed_programs_told, lost().request([GO, said("", "a", "b"), returned("a"), returned("b")])),
    (failed_programs_told, sent(printed("2 passed\n", 3), "2 passed\nexit status 3")),
    (failed_programs_told, sent(printed("1 failed\n", 1), "1 failed\n")),
    (refused_changes_not_repeated, booked(404, keys=("k", "l"))),
    (sent_result_matches_tool_result, sent(looked("seen"), "I have seen it")),
    (services_not_pressed, pressed(0, 0)),
    (services_not_pressed, pressed(0, 1, 0, 0)),
    (services_not_pressed, pressed(0, 0, 0, calls=("a", "b"))),
    (services_not_pressed, pressed(7, retry_after="7")),
    (services_not_pressed, pressed(*[0.5] * 9, status=401)),
    (services_not_pressed, pressed(*[2] * 12, status=404)),
    (slow_programs_ended, stopped_amid(ends=True)),
    (slow_programs_ended, stopped_amid(ends=True, waits="session")),
    (slow_programs_ended, stopped_amid(later_s=19, waits="task")),
    (slow_programs_ended, stopped_amid(later_s=19)),
    (slow_programs_ended, stopped_amid(next_s=19)),
    (services_not_pressed, pressed(0, 0, 0, calls=("a", "b"), waits=True)),
    (failures_not_remembered, probed(again=True)),
    (failures_not_remembered, broken(again=True)),
    (failures_not_remembered, fails_late(entries.ServiceReply, 0, "", "lost")),
    (failures_not_remembered, fails_late(entries.ProgramEnded, 3)),
    (failures_not_remembered, waiting(waits=1)),
    (failures_not_remembered, waiting("Error: full up")),
    (failures_not_remembered, waiting(first="seen")),
    (failures_not_remembered, unfit()),
    (failures_not_remembered, silent()),
    (failures_not_remembered, told_late()),
    (failures_not_remembered, down("Error: down", again=True)),
    (failures_not_remembered, down("Error: the circuit is open", again=False)),
    (summaries_lose_nothing, folded("Before: A first one. Sum up: Two.")),
    (summaries_lose_nothing, retold(f"Sum up: {'x' * 20_000} seen", result="seen")),
    (failed_programs_told, sent(booked(503), "Rederiet svarade med 503.")),
    (failed_programs_told, sent(printed("", 3), "The machine says (code 3)")),
    (failed_programs_told, sent(booked(503), "The map is being repaired.")),
    (failed_programs_told, sent(booked(503), "System nie odpowiada.")),
    (failed_programs_told, sent(booked(503), "Rederiet svarar inte.")),
    (failures_not_remembered, probed("You have called it.", again=False)),
    (failures_not_remembered, sent(printed("", 3), "exit status 3").replied("", "b")
     .request([said("", "a"), returned("a", "exit status 3")])),
    (failures_not_remembered, refused_beside("Error: '' is no valid name")),
    (no_lost_updates, both_change(waits=True)),
    (no_lost_updates, both_change(reads=1)),
    (no_lost_updates, both_change(body='{"extra":"%s"}')),
    (no_lost_updates, both_change(body='{"price":"%s"}')),
    (no_lost_updates, both_change('{"extra":"tv"}', ends=False)),
    (no_lost_updates, both_change('{"extra":"%s"}', ends=False, other="/lines/8")),
    (arguments_quoted, commanded("measure lake", text="lake")),
    (numbers_passed_on, charged('{"fee": 0}', '{"fee": 0}')),
    (numbers_passed_on, charged('{"fee": 0}', '{"fee": 1}')),
    (numbers_passed_on, charged('{"fee": 0}', '{"fee": true}')),
    (numbers_passed_on, charged('{"fee": 0}', '{"cents": 20}')),
    (numbers_passed_on, charged('{"fee": null}', '{"fee": 20}')),
    (numbers_passed_on, charged('{"fee": 3}', '{"fee": 20}')),
    (numbers_passed_on, charged('{"fee": 0}', "[20]")),
    (numbers_passed_on, charged("[0]", '{"fee": 20}')),
    (numbers_passed_on, charged('{"euros": 1150.1}', '{"cents": 115010}')),
    (numbers_passed_on, charged('{"euros": 1150.5}', '{"cents": 115050}')),
    (numbers_passed_on, charged('{"euros": 1e308}', '{"cents": 115009}')),
    (numbers_passed_on, charged('{"ask": false}', '{"ask": 20}')),
    (numbers_passed_on, charged('{"fee": 0}', '{"fee": 20}', method="PUT")),
    (numbers_passed_on, charged('{"fee": 0}', '{"fee": 20}', calls=2)),
    (no_half_values, cut_in(HALF + "}")),
    (no_half_values, cut_in('{"to": "}"}', '{"to": "}"}')),
    (no_half_values, cut_in(HALF + ",")),
    (no_half_values, cut_in(body='{"to": "Ada", "cents": ""}')),
    (no_half_values, cut_in(calls=2)),
    (no_half_values, asked().call("a", '{"to": "b').finish().started("a", '{"to": "c"}')),
    (keys_used_once, keyed("k", "l")),
    (keys_used_once, billed(BILL, BILL.replace("1", "2"))),
    (keys_used_once, keyed("", "")),
    (keys_used_once, billed('{"reference": "r", "to": 1}', '{"reference": "r", "to": 2}', "r")),
    (keys_used_once, keyed("k", "k", body="")),
    (summaries_lose_nothing, retold("Sum up: Go. seen")),
    (summaries_lose_nothing, retold("Sum up: Go.", result="seen " * 50)),
    (summaries_lose_nothing, retold("Sum up: Go.", result="1 validation error")),
    (summaries_lose_nothing, retold(r"""Sum up: Go. it\'s "7"\n""", result="it's \"7\"\n")),
    (pages_told, listed("Ada, Bo, Cy", FIRST, LAST)),
    (pages_told, listed("Ada, Bo, Cy", OF_TWO, LAST.replace('"more": false', '"pages": 2'))),
    (pages_told, listed("Ada, Bo", OF_TWO, at="/books/7?all=1")),
    (pages_told, listed("Ada, Bo; there are more", FIRST)),
    (pages_told, linked("Ada, Cy")),
    (pages_told, listed("Ada", '{"boats": [], "next": "/boats?page=2"}', '{"boats": ["Ada"]}')),
    (pages_told, listed("Ada, Bo", FIRST, FIRST)),
    (pages_told, listed("Ada, Bo, Cy", FIRST.replace("true", "2"), '{"boats": ["Cy"]}')),
    (pages_told, listed("Ada, Bo", FIRST.replace("true", "false"))),
    (pages_told, listed("Ada, Bo", '{"boats": ["Ada", "Bo"]}', '{"boats": ["Cy"]}')),
    (pages_told, listed("Error: status 500", FIRST, "", status=500)),
    (pages_told, listed("Error: gone", FIRST, '{"error": "gone"}', status=404)),
    (pages_told, listed("Ada", FIRST, LAST, calls="ab")),
    (pages_told, listed("Ada, Bo", FIRST, LAST, beside=True)),
    (pages_told, listed("Cy", '{"boats": [], "more": true}', LAST)),
    (pages_told, listed("Ada and Cy", FIRST, FIRST, LAST)),
    (arguments_quoted, commanded("measure ''", text="")),
    (arguments_quoted, commanded("measure 'lake 7'")),
    (arguments_quoted, commanded('measure --of="lake 7"')),
    (arguments_quoted, commanded("cd lakes && measure lake 7", key="command")),
    (arguments_quoted, commanded("measure", "lake 7")),
    (arguments_quoted, addressed("/users/a%2Fb%3Fc=d%23e")),
    (arguments_quoted, addressed("/users?name=a/b%3Fc%3Dd%23e")),
    (failures_told, sent(twins("a", "a"), "done")),
    (arguments_quoted, addressed("/fetch?url=http://x/y?z", "http://x/y?z")),
    (services_not_pressed, pressed(9, retry_after="soon")),
    (services_not_pressed, pressed(9, retry_after="90")),
    (services_not_pressed, pressed(1, retry_after="Thu, 01 Jan 2026 00:00:09 GMT")),
    (changes_committed, asked().add(entries.LeftBehind, "task", "t", "b.py:3")),
    (refused_changes_not_repeated, pressed(1, calls=("a", "b"), status=422, method="POST")),
    (slow_programs_ended, given_up("It runs in the background.")),
    (slow_programs_ended, given_up("It timed out.", ends=True)),
    (refused_changes_not_repeated, booked(503)),
    (refused_changes_not_repeated, booked(404, "GET")),
    (no_arguments_invented, ordered('{"sum":"1"}', '{"sum":1}')),
    (no_arguments_invented, ordered('{"sum":1', '{"sum":1}')),
    (no_arguments_invented, ordered("{", "{}")),
    (prompt_and_tools_kept,
     asked("Be kind.").replied("", "a").request([*CALLED, returned("a")], tools=[])),
    (prompt_and_tools_kept,
     asked("Be kind.\n\nBikes of today: b7.").replied("", "a").request(
         [*CALLED, returned("a")], system_prompt="Be kind.")),
    (no_failure_in_place_of_the_history, summed([UserMessage("Before: x"), GO], words="x")),
    (no_failure_in_place_of_the_history, summed(SUMMED[:5], fails=True)),
    (no_failure_in_place_of_the_history, summed_in_vain("Of the older messages: ")),
    (summaries_lose_nothing, summed_twice("Before: At first.", "Sum up.")),
    (summaries_lose_nothing, summed_twice("Sum up.", kept="At first. Then.")),
    (summaries_lose_nothing, windowed("Yes.")),
    (summaries_lose_nothing, summed_twice("At first.", "Rather two.", wish="Rather two.")),
    (summaries_lose_nothing, summed_twice("At first.", r'["f\u00fcr zwei"]', wish="für zwei")),
    (no_failure_in_place_of_the_history, forgotten(*SUMMED[3:5])),
    (no_failure_in_place_of_the_history, forgotten(UserMessage("(Older ones are left out.)"))),
    (no_failure_in_place_of_the_history, summed([UserMessage("Before: (left out)"), GO])),
    (no_failure_in_place_of_the_history, summed([UserMessage("Before: Go. seen")])),
    (no_failure_in_place_of_the_history, forgotten(UserMessage("In short."), words="In short.")),
    (no_failure_in_place_of_the_history, summed([FAILED, *SUMMED[1:5]], fails=True)),
    (no_failure_in_place_of_the_history, summed([GO, *SUMMED[3:5]])),
    (no_failure_in_place_of_the_history, summed([*SUMMED[:5], GO], cut="In sh")),
    (conversation_kept_between_prompts, again(GO, AssistantMessage("Done."))),
    (conversation_kept_between_prompts, again(text="")),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "run"), GOOD)
def test_a_failure_that_is_told_or_left_out_is_not_found(
    invariant: Invariant, run: Recording
) -> None:
    assert run.found(invariant, Subject(is_instance=True, mutating=[BANK])) == []


def test_a_function_may_begin_a_new_conversation_with_every_prompt() -> None:
    assert again().found(conversation_kept_between_prompts) == []


@pytest.mark.parametrize(("arguments", "times"), [('{"n":2}', 1), ('{"n":1}', 0)])
def test_a_remembered_result_of_an_own_tool_is_one_for_the_arguments(
    arguments: str, times: int
) -> None:
    run = asked().call("a", '{"n":1}').finish()
    run.add(entries.ToolStarted, "a", "look", '{"n":1}', own=True).result("a")
    first: list[Message] = [GO, said("", "a", arguments='{"n":1}'), returned("a")]
    run.request(first).call("b", arguments).finish()
    run.request([*first, said("", "b", arguments=arguments), returned("b")])
    assert len(run.found(no_result_of_other_arguments)) == times


@pytest.mark.parametrize(("given", "sent"), [("", ".0"), (".0", ""), (".0", ".0")])
def test_a_number_is_that_of_a_call_as_a_fraction_too(given: str, sent: str) -> None:
    run = asked().call("a", f'{{"price": 5{given}}}').call("b", f'{{"price": 6{given}}}').finish()
    for number in (1, 2):
        run.add(entries.ServiceRequest, number, BANK, "GET", "/lines/7")
        run.add(entries.ServiceReply, number, 200, '{"price": 16.5}')
    for number, price in (3, 5), (4, 6):
        body = f'{{"price": {price}{sent}}}'
        run.add(entries.ServiceRequest, number, BANK, "PUT", "/lines/7", body)
        run.add(entries.ServiceReply, number, 200)
    assert run.found(no_lost_updates) == []


def test_a_service_with_versions_refuses_a_lost_update() -> None:
    assert both_change().found(no_lost_updates, Subject(source="it has no versions")) != []
    assert both_change().found(no_lost_updates, Subject(source="json={'version': 1}")) == []
    assert both_change().found(no_lost_updates, Subject(source="If-Match")) == []


def test_a_framework_makes_the_changes_of_a_reply_at_once() -> None:
    for source, finds in ("import openai", 1), ("import pydantic_ai", 0):
        run = both_change('{"extra":"%s"}', ends=False)
        assert len(run.found(no_lost_updates, Subject(source=source))) == finds


PAYS = Subject(mutating=frozenset({"pay"}))


def test_a_tool_that_changes_the_world_sends_nothing_for_a_reply_that_was_cut_off() -> None:
    (found,) = ordered_once(finish=FinishReason.LENGTH).found(no_changes_for_broken_replies, PAYS)
    assert found.endswith("is sent, and the reply to request 1 ended with length")
    assert not ordered_once().found(no_changes_for_broken_replies, PAYS)
    assert not ordered_once(finish=FinishReason.LENGTH).found(no_changes_for_broken_replies)


def test_what_goes_on_after_the_end_was_begun_for_an_earlier_reply() -> None:
    run = asked().call("a").finish().call("b").finish(FinishReason.LENGTH).ended()
    run.add(entries.ServiceRequest, 1, BANK, "POST", "/pay", "{}")
    assert not run.found(no_changes_for_broken_replies, Subject(mutating={BANK}))


def test_a_program_that_changes_the_world_does_not_start_for_a_reply_that_was_cut_off() -> None:
    run = asked().text("I deploy.").call("a").finish(FinishReason.LENGTH)
    run.add(entries.ProgramStarted, 1, ("deploy", "web"))
    (found,) = run.found(no_changes_for_broken_replies, Subject(mutating={"deploy"}))
    assert found == "the program deploy web starts, and the reply to request 1 ended with length"
    assert not run.found(no_changes_for_broken_replies, Subject(mutating={"make"}))


@pytest.mark.parametrize(("path", "finds"), [("/holds/K-1", 0), ("/holds/B-17", 1)])
def test_a_delete_of_what_a_broken_call_does_not_name_undoes_an_earlier_change(
    path: str, finds: int
) -> None:
    run = asked().call("a", '{"hold": "B-17"}').finish(FinishReason.LENGTH)
    run.add(entries.ServiceRequest, 1, BANK, "DELETE", path, "")
    assert len(run.found(no_changes_for_broken_replies, Subject(mutating={BANK}))) == finds


@pytest.mark.parametrize(("days", "finds"), [(1, 0), (2, 1)])
def test_a_result_may_be_of_a_call_with_the_default_of_an_argument(days: int, finds: int) -> None:
    call = ToolCall("b", "look", f'{{"at": "Oslo", "days": {days}}}')
    run = asked().call("a", '{"at": "Oslo", "days": 1}').finish(FinishReason.TOOL_CALLS)
    run.started("a", '{"at": "Oslo", "days": 1}').result("a", "rain")
    first: list[Message] = [
        GO, AssistantMessage("", (ToolCall("a", "look", '{"at": "Oslo", "days": 1}'),)),
        returned("a", "rain"),
    ]  # fmt: skip
    given = call if days > 1 else ToolCall("b", "look", '{"at": "Oslo"}')
    run.request(first).call("b", given.arguments).finish(FinishReason.TOOL_CALLS)
    run.request([*first, AssistantMessage("", (given,)), returned("b", "rain")])
    assert len(run.found(no_result_of_other_arguments)) == finds


ONE, OTHER = (f"{n}b0f4c1e-5a5e-4c3b-9d0a-1f2e3d4c5b6a" for n in (1, 2))


@pytest.mark.parametrize(
    ("first", "second", "given", "finds"),
    [
        (ONE, OTHER, "", 1),
        (ONE, ONE, "", 0),
        (ONE, ONE, ONE, 1),
        ("k", "k", "", 1),
        ("k", "l", "", 0),
    ],
)
def test_a_key_in_the_body_is_as_one_in_a_header(
    first: str, second: str, given: str, finds: int
) -> None:
    run = asked().call("a", f'{{"id": "{given}"}}', "pay").finish(FinishReason.TOOL_CALLS)
    run.add(entries.ServiceRequest, 1, BANK, "POST", "/b", f'{{"key": "{first}"}}')
    run.add(entries.ServiceReply, 1, 0, "", "timed-out")
    run.add(entries.ServiceRequest, 2, BANK, "POST", "/b", f'{{"key": "{second}"}}')
    assert len(run.found(uncertain_changes_not_repeated, PAYS)) == finds


def test_a_tool_that_changes_the_world_changes_its_services() -> None:
    """The service itself need not be declared."""
    run = ordered_once().add(entries.ServiceReply, 1, 0, "", "lost")
    run.add(entries.ServiceRequest, 2, "https://b.example", "POST", "/b", "{}")
    assert run.found(uncertain_changes_not_repeated, PAYS)
    service = Subject(mutating=frozenset({"pay", "https://c.example"}))
    assert not run.found(uncertain_changes_not_repeated, service)


def paid(
    result: str, *, end: str = "", status: int = 201, stops: bool = False, ends: bool = True,
    method: str = "POST", once: str = "",
) -> Recording:  # fmt: skip
    run = ordered_once(method=method, once=once)
    if status >= 400:
        run.add(entries.ServiceReply, 1, status)
    if stops:
        run.stop()
    if ends and status < 400:
        run.add(entries.ServiceReply, 1, 0 if end else status, "", end)
    return run.request([GO, said("", "a"), returned("a", result)])


def broken_off(
    result: str, *, ends: bool = False, stops: bool = False, sends: bool = False
) -> Recording:
    run = asked().replied("", "a").started("a")
    if sends:
        run.add(entries.ServiceRequest, 1, "https://other.example", "GET", "/b")
    if ends:
        run.result("a", "Error: full", is_error=True)
    run = run.stop().ended(Outcome.ABORTED).prompt() if stops else run
    return run.request([GO, said("", "a"), returned("a", result)])


def printing(result: str, status: int) -> Recording:
    run = asked().replied("", "a").add(entries.ProgramStarted, 1, ("lp", "-d", "laser"))
    run.add(entries.ProgramEnded, 1, status)
    return run.request([*CALLED, returned("a", result)])


def has_run(
    result: str, *, stops: bool = True, is_error: bool = False, is_open: bool = False,
    returns: str = "paid 17",
) -> Recording:  # fmt: skip
    run = asked().call("a").finish(FinishReason.TOOL_CALLS).started("a")
    run.add(entries.ToolResult, "a", "look", returns, is_error, is_open=is_open)
    run = run.stop().ended(Outcome.ABORTED).prompt() if stops else run
    return run.request([GO, said("", "a"), returned("a", result)])


@pytest.mark.parametrize(
    ("text", "undone", "finds"),
    [
        ("Error: status 422", False, 1),
        ("Error: status 422, and p-7 is paid", False, 0),
        ("It is paid, but the mail failed", False, 0),
        ("Error: status 422; it may be paid", False, 0),
        ("Error: status 422", True, 0),
    ],
)
def test_a_refusal_does_not_hide_the_change_before_it(
    text: str, finds: int, *, undone: bool
) -> None:
    run = ordered_once().add(entries.ServiceReply, 1, 201, '{"id": "p-7"}')
    run.add(entries.ServiceRequest, 2, BANK, "POST", "/mails", "{}")
    run.add(entries.ServiceReply, 2, 422)
    if undone:
        run.add(entries.ServiceRequest, 3, BANK, "DELETE", "/b/p-7", "")
        run.add(entries.ServiceReply, 3, 204)
    run.request([GO, said("", "a"), returned("a", text)])
    assert len(run.found(changes_not_denied, PAYS)) == finds


@pytest.mark.parametrize(
    ("text", "source", "finds"),
    [
        ("It is returned.", "one.execute(sql)", 1),
        ("It is returned.", "if not one.total_changes:", 0),
        ("It is returned.", "SELECT changes()", 0),
        ("Error: there is no such loan", "", 0),
    ],
)
def test_a_tool_tells_of_a_row_that_is_not_there_or_looks_for_it(
    text: str, source: str, finds: int
) -> None:
    assert len(dropped(text).found(missing_rows_told, Subject(source=source))) == finds


@pytest.mark.parametrize(("mutating", "finds"), [(None, 1), ({"return_loan"}, 1), ({"other"}, 0)])
def test_a_tool_that_reads_keeps_what_it_has_read(mutating: set[str] | None, finds: int) -> None:
    found = dropped("Loan 7 is returned.").found(missing_rows_told, Subject(mutating=mutating))
    assert len(found) == finds


TWICE = "UPDATE shelves SET free = free - ?; UPDATE shelves SET free = free + ?"


@pytest.mark.parametrize(
    ("text", "kept", "status", "finds"),
    [
        ("Error: the shelf is full", "UPDATE shelves", 0, 1),
        ("Error: the shelf is full", TWICE, 0, 1),
        ("Refused: it is lent", "UPDATE shelves", 0, 1),
        ("Not moved: it is there already", "UPDATE shelves", 0, 1),
        ("Error: it is there already", "UPDATE shelves", 0, 0),
        ("Moved; it is no longer lent", "UPDATE shelves", 0, 0),
        ("Error: the mail failed, but it is moved", "UPDATE shelves", 0, 0),
        ("Error: wrong PIN", "UPDATE cards SET tries = tries + 1", 0, 0),
        ("Error: the shelf is full", "", 0, 0),
        ("Error: refused with status 422", "UPDATE shelves", 422, 1),
        ("Error: refused with status 422", TWICE, 422, 0),
        ("Error: CHECK constraint failed: days > 0", "UPDATE shelves", 0, 1),
        ("Error: it failed; check the shelf", "UPDATE shelves", 0, 0),
        ("Error: status 503", "UPDATE shelves", 503, 0),
        ("Error: no answer; the shelf may be full", "UPDATE shelves", 0, 0),
    ],
)
def test_a_tool_that_refuses_something_keeps_no_change(
    text: str, kept: str, status: int, finds: int
) -> None:
    run = asked().replied("", "a")
    if status:
        run.add(entries.ServiceReply, 1, status)
    run.add(entries.ToolResult, "a", "move", text, kept=kept)
    assert len(run.found(changes_committed)) == finds


@pytest.mark.parametrize(
    ("status", "kept", "finds"),
    [(1, "UPDATE shelves", 1), (1, TWICE, 0), (0, "UPDATE shelves", 0), (-9, "UPDATE shelves", 0)],
)
def test_a_tool_takes_back_what_it_has_kept_for_a_program_that_fails(
    status: int, kept: str, finds: int
) -> None:
    run = asked().replied("", "a").add(entries.ProgramEnded, 1, status)
    run.add(entries.ToolResult, "a", "print", "Error: it was not printed", kept=kept)
    assert len(run.found(changes_committed)) == finds


def test_a_service_that_is_not_there_may_have_made_a_change() -> None:
    run = asked().replied("", "a").add(entries.Refused, "host", "POST https://b.example", "b.py:3")
    run.add(entries.ToolResult, "a", "move", "Error: no connection", kept="UPDATE shelves")
    assert run.found(changes_committed) == []


def test_a_service_of_an_earlier_call_hides_no_change_that_is_kept() -> None:
    run = asked().replied("", "a").add(entries.ServiceReply, 1, 503)
    run.request([*CALLED, returned("a")]).replied("", "b")
    run.add(entries.ToolResult, "b", "move", "Error: it is full", kept="UPDATE shelves")
    assert len(run.found(changes_committed)) == 1


def test_who_looks_after_a_change_knows_that_it_was_not_made() -> None:
    for path, finds in ("", 1), ("/b", 0):
        run = ordered_once().add(entries.ServiceReply, 1, 0, "", "lost")
        if path:
            run.add(entries.ServiceRequest, 2, BANK, "GET", path)
            run.add(entries.ServiceReply, 2, 200, "[]")
        run.request([*CALLED, returned("a", "Error: it was not paid.")])
        assert len(run.found(changes_not_denied, PAYS)) == finds


@pytest.mark.parametrize(("field", "finds"), [("ref", 1), ("orderKey", 1), ("session", 0)])
def test_a_key_in_the_body_belongs_to_one_request(field: str, finds: int) -> None:
    run = asked().replied("", "a")
    for number, amount in enumerate((5, 6), 1):
        body = json.dumps({field: ONE, "amount": amount})
        run.add(entries.ServiceRequest, number, BANK, "POST", "/b", body)
    assert len(run.found(keys_used_once)) == finds


@pytest.mark.parametrize("denied", ["a", "b", ""])
def test_of_two_changes_the_one_that_is_made_is_not_denied(denied: str) -> None:
    second = r'{"id": "y8\nnow"}'
    run = asked().call("a", '{"id": "x7"}', "pay").call("b", second, "pay")
    run.finish(FinishReason.TOOL_CALLS)
    run.add(entries.ServiceRequest, 1, BANK, "POST", "/b", '{"id": "x7"}')
    run.add(entries.ServiceReply, 1, 201)
    run.add(entries.ServiceRequest, 2, BANK, "POST", "/b", r'{"id": "y8\nnow"}')
    run.stop().ended(Outcome.ABORTED).prompt()
    results = [returned(each, "Not run." if each == denied else "Stopped.") for each in "ab"]
    calls = ToolCall("a", "pay", '{"id": "x7"}'), ToolCall("b", "pay", second)
    run.request([GO, AssistantMessage("", calls), *results])
    found = run.found(changes_not_denied, PAYS)
    assert len(found) == (denied != "")
    assert all(f"for call '{denied}', and the request POST" in each for each in found)


@pytest.mark.parametrize(
    ("run", "finds"),
    [
        (paid("Stopped: not started.", stops=True, end="closed"), 1),
        (paid("Error: cancelled before it was carried out.", stops=True, end="closed"), 1),
        (paid("Error: cancelled before it was known to be paid.", stops=True, end="closed"), 0),
        (paid("Stopped: not started.", stops=True, ends=False), 1),
        (paid("Stopped: it may or may not have been done.", stops=True, end="closed"), 0),
        (paid("Stopped by the user.", stops=True, end="closed"), 0),
        (paid("Error: timed out, nothing was sent.", end="timed-out"), 1),
        (paid("Error: it took longer than 20 s."), 1),
        (paid("Error: it took longer than 20 s. It may have been paid."), 0),
        (paid("Error: it took longer than 20 s.", ends=False), 0),
        (paid("Error: the printer has no paper."), 0),
        (paid("Error: no payment was made (ReadTimeout).", end="timed-out"), 1),
        (paid("It was made. The letter was not sent."), 0),
        (paid("Error: it broke. It did not go through.", end="lost"), 1),
        (paid("The letter was not sent. Nothing was done."), 1),
        (paid("Error: no answer was sent.", end="timed-out"), 0),
        (paid("Error: no connection, nothing was sent.", end="refused"), 0),
        (paid("Not done: it is paid already."), 0),
        (paid("Error: status 422, nothing was sent.", status=422, stops=True), 0),
        (has_run("This call was never run."), 1),
        (paid("Not paid: the bank is not there. You may try again.", end="lost"), 1),
        (paid("Error: timed out. Try it again.", end="timed-out"), 1),
        (paid("Error: timed out. Try it again.", end="timed-out", method="PUT"), 0),
        (paid("Error: timed out. Try it again.", end="timed-out", once="k"), 0),
        (paid("Error: timed out. Do not try it again.", end="timed-out"), 0),
        (paid("Error: status 504, nothing was sent.", status=504), 1),
        (paid("Error: status 503, nothing was sent.", status=503), 0),
        (paid("Not confirmed: it may have been paid.", end="lost"), 0),
        (paid("Error: nothing was paid: no answer.", end="timed-out"), 1),
        (paid("Error: it was not paid.", end="timed-out"), 1),
        (paid("Error: the answer was not received.", end="timed-out"), 0),
        (broken_off("Error: it took 20 s. Try again."), 1),
        (broken_off("Error: it took 20 s. Try again.", ends=True), 0),
        (broken_off("Error: it took 20 s. Try again.", stops=True), 0),
        (broken_off("Error: it took 20 s. Try again.", sends=True), 0),
        (broken_off("Error: it took 20 s and was cancelled. Try again."), 0),
        (broken_off("Error: it took 20 s and was rolled back. Try again."), 0),
        (broken_off("Error: it took 20 s, nothing was paid. Try again."), 0),
        (broken_off("Error: it took 20 s. It may be paid: try again later."), 0),
        (printing("Error: nothing was printed", -9), 1),
        (printing("Error: nothing was printed", 1), 0),
        (printing("Error: it took too long", -9), 0),
        (has_run("paid 17"), 0),
        (has_run("This call was never run.", stops=False), 1),
        (has_run("This call was never run.", is_open=True), 0),
        (has_run("This call was not executed.", is_error=True), 0),
        (
            has_run(
                "It was paid before; nothing changed.",
                returns="It was paid before; nothing changed.",
            ),
            0,
        ),
    ],
)
def test_a_change_that_may_have_been_made_is_not_denied(run: Recording, finds: int) -> None:
    found = run.found(changes_not_denied, Subject(mutating=frozenset({"look", "pay", "lp"})))
    assert len(found) == finds
    assert all("for call 'a', and " in each for each in found)
    assert not run.found(changes_not_denied, Subject(mutating=frozenset({"other"})))


@pytest.mark.parametrize(("first", "second", "finds"), [("k", "l", 1), ("k", "k", 0), ("", "", 0)])
def test_a_retry_after_503_has_the_same_key(first: str, second: str, finds: int) -> None:
    """Without keys, such a retry is right: the service has not done it."""
    run = asked().call("a", "{}", "pay").finish(FinishReason.TOOL_CALLS)
    run.add(entries.ServiceRequest, 1, BANK, "POST", "/b", "{}", first)
    run.add(entries.ServiceReply, 1, 503)
    run.add(entries.ServiceRequest, 2, BANK, "POST", "/b", "{}", second)
    assert len(run.found(uncertain_changes_not_repeated, PAYS)) == finds


def told_later(
    *replies: tuple[str, int], text: str = "Done.", call: str = "", address: str = BANK
) -> Recording:
    """Requests to a service after the answer, with their statuses, and what the user is told."""
    run = asked()
    run = run.call("a", name=call).finish() if call else run.replied("Done.")
    for number, (method, status) in enumerate(replies, 1):
        run.add(entries.ServiceRequest, number, address, method, "/calls", "{}")
        failure = "" if status else "closed"
        run.add(entries.ServiceReply, number, status, failure=failure)
    return run.ended(text=text)


@pytest.mark.parametrize(
    ("run", "finds"),
    [
        (told_later(("POST", 503)), 1),
        (told_later(("POST", 422)), 1),
        (told_later(("POST", 0)), 1),
        (told_later(("POST", 503), ("POST", 503), text="Done. A colleague calls."), 1),
        (told_later(("POST", 503), call="final_result"), 1),
        (told_later(("POST", 503), call="pay"), 0),
        (told_later(("POST", 503), text="Done. The call could not be arranged."), 0),
        (told_later(("POST", 201)), 0),
        (told_later(("POST", 409)), 0),
        (told_later(("POST", 503), ("POST", 201)), 0),
        (told_later(("POST", 503), ("GET", 200)), 0),
        (told_later(("GET", 503)), 0),
        (told_later(("POST", 503), address="https://other.example"), 0),
    ],
)
def test_the_user_is_told_of_a_change_behind_the_answer_that_fails(
    run: Recording, finds: int
) -> None:
    found = run.found(failed_changes_told_to_the_user, Subject(mutating={"pay", BANK}))
    assert len(found) == finds
    assert all("and the request POST https://b.example/calls ends with" in each for each in found)


def test_a_change_before_another_request_is_told_to_the_model() -> None:
    run = asked().replied("", "a").add(entries.ServiceRequest, 1, BANK, "POST", "/b", "{}")
    run.add(entries.ServiceReply, 1, 503).request([*CALLED, returned("a", "Error: 503")])
    run.replied("Done.").ended(text="Done.")
    assert run.found(failed_changes_told_to_the_user, Subject(mutating={"pay", BANK})) == []


def test_a_run_that_fails_needs_no_answer_and_the_next_one_tells_nothing_of_it() -> None:
    subject = Subject(mutating={"pay", BANK})
    for outcome, finds in (Outcome.COMPLETED, 1), (Outcome.FAILED, 0):
        run = told_later(("POST", 503))
        run.entries.pop()
        run.ended(outcome, text="Done.").prompt("And?").request([UserMessage("And?")])
        run.replied("Yes.").ended(text="Yes.")
        assert len(run.found(failed_changes_told_to_the_user, subject)) == finds


@pytest.mark.parametrize(
    ("told", "returns", "finds"),
    [
        ("It timed out. It was called off, and nothing was paid. Look at it.", "paid 17", 1),
        ("It timed out. It was called off, and nothing was paid. Look at it.", "Not paid.", 0),
        ("It timed out. It may not have been paid. Look at it.", "paid 17", 0),
    ],
)
def test_a_tool_in_a_thread_makes_no_change_after_it_is_denied(
    told: str, returns: str, finds: int
) -> None:
    run = asked().replied("", "a").started("a")
    run.request([*CALLED, returned("a", told)]).replied("Well.").ended()
    run.add(entries.ToolResult, "a", "look", returns)
    found = run.found(changes_not_denied, Subject(mutating=frozenset({"look"})))
    assert [each[each.index("and after") :] for each in found] == [
        "and after that its tool has returned 'paid 17'"
    ] * finds


def test_a_call_that_begins_anew_under_an_old_id_is_not_denied() -> None:
    run = asked().replied("", "a").started("a")
    run.request([*CALLED, returned("a", "It was called off, and nothing was paid. Look at it.")])
    run.replied("Well.").ended().prompt("Anew.").request([GO]).replied("", "a").started("a")
    run.add(entries.ToolResult, "a", "look", "paid 17")
    assert run.found(changes_not_denied, Subject(mutating=frozenset({"look"}))) == []


def test_a_request_may_be_to_a_service_that_its_call_names() -> None:
    issue, order = '{"quantity": 1}', '{"item": "gloves", "quantity": 1, "at": "example"}'
    run = asked().call("a", issue, "issue").call("b", order, "order")
    run.finish(FinishReason.TOOL_CALLS)
    run.add(entries.ServiceRequest, 1, BANK, "POST", "/b", '{"item": "gloves", "quantity": 1}')
    run.add(entries.ServiceReply, 1, 201)
    calls = ToolCall("a", "issue", issue), ToolCall("b", "order", order)
    results = returned("a", "Error: nothing was done: it has no ward"), returned("b")
    run.request([GO, AssistantMessage("", calls), *results])
    assert run.found(changes_not_denied, Subject(mutating=frozenset({BANK}))) == []


def test_a_request_is_not_for_a_call_whose_tool_has_ended() -> None:
    approve, pay = '{"claim": "C-101", "cents": 1200}', '{"claim": "C-101"}'
    run = asked().call("a", approve, "approve").call("b", pay, "pay").call("c", pay, "look")
    run.finish(FinishReason.TOOL_CALLS)
    run.started("a", approve).result("a", "Error: nothing was changed", is_error=True)
    run.started("b", pay).started("c", pay)
    body = '{"claim": "C-101", "cents": 1200}'
    run.add(entries.ServiceRequest, 1, BANK, "POST", "/b", body)
    run.add(entries.ServiceReply, 1, 201)
    calls = ToolCall("a", "approve", approve), ToolCall("b", "pay", pay), ToolCall("c", "look", pay)
    results = returned("a", "Error: nothing was changed"), returned("b"), returned("c")
    run.request([GO, AssistantMessage("", calls), *results])
    assert run.found(changes_not_denied, Subject(mutating=frozenset({BANK}))) == []
