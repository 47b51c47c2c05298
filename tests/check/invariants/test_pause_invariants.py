import asyncio
from typing import Any

import pytest
from recording import Recording, returned, said

from simloop import InvariantViolated, Line, Reply, Scenario, Then, World, traced
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.pauses import (
    answers_reach_their_calls,
    changes_asked_about,
    no_tools_run_again_after_a_pause,
    refused_changes_not_made,
    tools_ask_each_time,
    unknown_ends_treated_alike,
)
from simloop.check.invariants.requests import newest_user_message_sent
from simloop.check.invariants.subject import Subject
from simloop.messages import Message, Outcome, UserMessage
from simloop.strategies import check
from simloop.trace.entries import (
    Input,
    ProgramEnded,
    ProgramStarted,
    Restarted,
    ServiceReply,
    ServiceRequest,
)

GO, YES = UserMessage("Go."), UserMessage("yes")
A, B = '{"path": "a.txt"}', '{"path":"b.txt"}'
CALLS = said("", "a", "b", arguments=A)


def asked() -> Recording:
    """A run whose model calls for two files, and whose agent asks about the first."""
    return (
        Recording()
        .prompt().request([GO])
        .call("a", A).call("b", B).finish()
    )  # fmt: skip


def ran(run: Recording, call_id: str, arguments: str, *, is_error: bool = False) -> Recording:
    return run.started(call_id, arguments).result(call_id, is_error=is_error)


def paused() -> Recording:
    """The tool of the first call has run, and the user is asked about the second."""
    return ran(asked(), "a", A).ended(text="Look at b.txt?").after(60).prompt("yes")


def rejected() -> Recording:
    """The user has rejected the first call, and is asked about the second."""
    run = asked().ended(text="Look at a.txt?").prompt("Not that one.")
    return run.request([GO, CALLS, returned("a", "Not that one."), returned("b", "not now")])


def answered(*results: Message) -> Recording:
    run = asked().ended(text="Look at a.txt?").prompt("Not that one.")
    return run.request([GO, CALLS, *results])


def typed(asked_by: str, read_by: str) -> Recording:
    return asked().add(Input, "yes", "Look?", asked_by=asked_by, read_by=read_by)


ASKS = "Look at a.txt? [y/N] "


def refused(
    text: str, question: str = ASKS, *more: str, ends: bool = False, calls: str = "a"
) -> Recording:
    run = Recording().prompt().request([GO]).replied("", *calls).add(Input, text, question, ends)
    for answer in more:
        run.add(Input, answer, question)
    return run.started("a", A)


BAD: list[tuple[Invariant, Recording, str]] = [
    (no_tools_run_again_after_a_pause, ran(paused(), "a", A),
     "'look' of call 'a' with {\"path\": \"a.txt\"} has run before the pause"),
    (no_tools_run_again_after_a_pause, paused().started("own-1", '{"path":"a.txt"}'),
     "runs again after it"),
    (no_tools_run_again_after_a_pause, ran(asked(), "a", A).add(Restarted).started("a", A),
     "has run before the pause"),
    (no_tools_run_again_after_a_pause,
     ran(ran(asked(), "a", '{"path": "A"}'), "b", '{"path": "A"}').prompt("yes")
     .started("c", '{"path": "A"}'), "has run before the pause"),
    (no_tools_run_again_after_a_pause,
     paused().call("c", A).finish().started("c", A).result("c").started("d", A),
     "has run before the pause"),
    (answers_reach_their_calls, typed("a", "b"),
     "the tool of call 'a' asks 'Look?', and that of call 'b' reads the answer"),
    (answers_reach_their_calls, refused("y", "Look at a.txt? [y/N] Look at b.txt? [y/N] "),
     "b.txt? [y/N] ', and one line cannot answer both"),
    (answers_reach_their_calls, rejected().ended().prompt("yes").started("a", A),
     "runs after a pause, and its call was answered before"),
    (answers_reach_their_calls,
     answered(returned("a", "seen"), returned("b", "The user says: Not that one.")),
     "answers 'Not that one.' to call 'a', and request 2 has that as the result of call 'b'"),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "run", "why"), BAD)
def test_what_a_pause_spoils_is_found(invariant: Invariant, run: Recording, why: str) -> None:
    (found,) = run.found(invariant)
    assert why in found


RIGHT = {
    "the open call runs": ran(paused(), "b", B),
    "the model asks again": ran(paused().request([GO, CALLS]).call("c", A).finish(), "c", A),
    "a tool that has failed runs again": ran(
        ran(asked(), "a", A, is_error=True).prompt("yes"), "a", A
    ),
    "the model asks again with an argument that the tool lacks": ran(
        paused().call("c", '{"path":"a.txt","no":1}').finish(), "c", A
    ),
    "a tool that nobody called": ran(ran(asked(), "own-1", "{}").prompt("yes"), "own-2", "{}"),
    "a tool runs twice in one run": ran(ran(asked(), "a", A), "a", A),
    "a tool reads its own answer": typed("a", "a"),
    "a line that no tool asks for": typed("", "a"),
    "the rejected call is asked for again": ran(
        rejected().call("a", A).finish().ended().prompt("yes"), "a", A
    ),
    "an equal call is open": rejected().call("c", A).finish().ended().prompt("yes").started("a", A),
    "an id comes again": rejected().ended().prompt("yes").started("a", B),
    "the answer is in its result": answered(
        returned("a", "The user says: Not that one."), returned("b", "seen")
    ),
    "the answer is in both": answered(
        returned("a", "Not that one."), returned("b", "Not that one.")
    ),
    "the question before a stop is still on the screen": Recording().prompt().request([GO]).stop()
    .ended(Outcome.ABORTED).prompt("Next.").add(Input, "y", "Look? [y/N] Look? [y/N] "),
    "a short answer": asked().ended(text="Look at a.txt?").prompt("no")
    .request([GO, CALLS, returned("a", "seen"), returned("b", "nothing")]),
    "a question about both": asked().ended(text="Look at a.txt and b.txt?").prompt("Not b.txt.")
    .request([GO, CALLS, returned("a", "seen"), returned("b", "Not b.txt.")]),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("invariant", [no_tools_run_again_after_a_pause, answers_reach_their_calls])
def test_what_is_right_after_a_pause_is_not_reported(invariant: Invariant, name: str) -> None:
    assert RIGHT[name].found(invariant) == []


@pytest.mark.parametrize(
    ("key", "status", "asks_again", "finds"),
    [("", 201, False, 1), ("k", 201, False, 0), ("", 503, False, 0), ("", 201, True, 0)],
)
def test_a_change_before_a_pause_is_not_made_again_before_the_model_is_asked(
    key: str,
    status: int,
    asks_again: bool,  # noqa: FBT001
    finds: int,
) -> None:
    def sent(run: Recording, number: int) -> Recording:
        return run.add(ServiceRequest, number, "https://b.example", "POST", "/sms", "{}", key)

    run = sent(asked(), 1).add(ServiceReply, 1, status).ended(text="Shall I?").prompt("yes")
    run = run.request([GO, CALLS]).call("c", A).finish() if asks_again else run
    subject = Subject(mutating={"https://b.example"})
    assert len(sent(run, 2).found(no_tools_run_again_after_a_pause, subject)) == finds
    assert run.found(no_tools_run_again_after_a_pause, Subject()) == []


def test_a_change_that_begins_each_run_is_none_after_a_pause() -> None:
    run = asked().request([GO, CALLS, returned("a"), returned("b")]).replied("Done.")
    for number in 1, 2:
        run.add(ServiceRequest, number, "https://b.example", "POST", "/log", "{}", "")
        run.add(ServiceReply, number, 201).ended(text="Done.").prompt("Next.")
    subject = Subject(mutating={"https://b.example"})
    assert run.found(no_tools_run_again_after_a_pause, subject) == []


BUYS = Subject(mutating={"look"})


def bought(question: str, answer: str, *, first: str = A, second: str = B) -> Recording:
    """The user is asked before two calls, and both tools run."""
    run = Recording().prompt().request([GO]).call("a", first).call("b", second).finish()
    run.add(Input, answer, question)
    return ran(ran(run, "a", first), "b", second)


def test_a_change_at_a_service_that_the_user_was_not_asked_about_is_found() -> None:
    run = Recording().prompt().request([GO]).call("a", '{"id": "b1"}')
    run.call("b", '{"id": "other b1"}').finish().add(Input, "yes", "Pay b1?")
    run.add(ServiceRequest, 1, "https://b.example", "DELETE", "/other%20b1")
    (found,) = run.found(changes_asked_about, Subject(mutating={"https://b.example"}))
    assert "and the user has agreed to 'Pay b1?'" in found


@pytest.mark.parametrize(("image", "finds"), [("web:v3", 1), ("web:v2", 0)])
def test_a_program_that_the_user_was_not_asked_about_is_found(image: str, finds: int) -> None:
    """What both calls have says nothing of either."""
    run = Recording().prompt().request([GO]).call("a", '{"service": "web", "tag": "v2"}')
    run.call("b", '{"service": "web", "tag": "v3"}').finish().add(Input, "y", "Release v2 of web?")
    run.add(ProgramStarted, 1, ("kubectl", "set", "image", image))
    assert len(run.found(changes_asked_about, Subject(mutating={"kubectl set"}))) == finds


@pytest.mark.parametrize(
    ("run", "finds"),
    [
        (bought("Look at a.txt?", "yes"), 1),
        (bought("Look at a.txt?", "always"), 0),
        (bought("Look at a.txt.", "yes"), 0),
        (bought("Look at a.txt and b.txt?", "y"), 0),
        (bought("May I look?", "y"), 0),
        (bought("Pay b1?", "y", first='{"id": "b1"}', second='{"id": "other b1"}'), 1),
        (bought("Pay b1?", "y", first='{"id": "b1"}', second='{"id": "b"}'), 1),
        (bought("At a.txt?", "y", second='{"path": "b.txt", "depth": 9}'), 1),
        (bought("At a.txt?", "y", first='{"path": "a.txt", "depth": 9}', second=B), 1),
        (bought("At a.txt?", "y", first='{"path": "a.txt", "depth": 9}',
                second='{"path": "b.txt", "depth": 2}'), 0),
        (bought("At a.txt?", "y", second='{"path": "\\n\\t\\n\\t"}'), 0),
        (bought("9 copies of a.txt?", "y"), 0),  # the other may be small
        # A tool that starts may still refuse.
        (bought("a to web?", "y", first='{"id": "a", "to": "web"}',
                second='{"id": "b", "to": "web"}'), 0),
        (ran(asked().ended(text="Look at a.txt?").prompt("yes"), "b", B), 1),
        (ran(asked().ended(text="Look at a.txt?").prompt("yes").add(Input, "y", "b.txt?"), "b", B),
         0),
        (ran(asked().ended(text="Look at a.txt?").prompt("yes").request([GO, CALLS]), "b", B), 0),
    ],
)  # fmt: skip
def test_a_change_that_the_user_was_not_asked_about_is_found(run: Recording, finds: int) -> None:
    """A small one needs no question, and a text with blanks may look otherwise in it."""
    found = run.found(changes_asked_about, BUYS)
    assert len(found) == finds
    assert all("and the user has agreed to " in each for each in found)


def paid(
    *, asks: bool = False, answer: str = "y", question: str = "Pay?", cents: str = "5",
    results: tuple[str, str] = ("Paid: 5", "Paid: 5"), is_error: bool = False,
) -> Recording:  # fmt: skip
    """The tool of the first call asks while it runs, and that of the second if it `asks`."""
    run, second = asked().request([GO, CALLS, returned("a")]), f'{{"cents": {cents}}}'
    run.call("c", '{"cents": 5}').call("d", second).finish()
    for call_id, given, result in zip("cd", ('{"cents": 5}', second), results, strict=True):
        run.started(call_id, given)
        if asks or call_id == "c":
            run.add(Input, answer, question, asked_by=call_id, read_by=call_id)
        run.result(call_id, result, is_error=is_error)
    return run


@pytest.mark.parametrize(
    ("keys", "finds"),
    [
        ({}, 1),
        ({"cents": "9", "results": ("Paid: 5", "Paid: 9")}, 1),
        ({"results": ("Paid: 240.00", "Paid: 30.00")}, 0),  # no call tells how large it is
        ({"cents": "4"}, 0),
        ({"cents": '"5"'}, 0),  # no number tells how large it is
        ({"asks": True}, 0),
        ({"answer": "always"}, 0),
        ({"question": "Pay now"}, 0),
        ({"results": ("Paid: 5", "Nothing to pay")}, 0),
        ({"results": ("Not paid", "Not paid")}, 0),
    ],
)
def test_a_tool_that_asks_while_it_runs_asks_about_each_change(
    keys: dict[str, Any], finds: int
) -> None:
    found = paid(**keys).found(tools_ask_each_time, BUYS)
    assert len(found) == finds
    assert all("ends without a question, and the user has agreed to {" in each for each in found)
    assert paid().found(tools_ask_each_time, Subject(mutating={"other"})) == []


@pytest.mark.parametrize(
    ("keys", "finds"),
    [
        ({}, 1),
        ({"question": "I shall pay."}, 0),
        ({"answer": "no"}, 0),
        ({"asks": True}, 0),
        ({"calls": "cd"}, 0),
        ({"method": "GET"}, 0),
    ],
)
def test_an_agent_that_ends_its_run_with_a_question_asks_about_each_change(
    keys: dict[str, Any], finds: int
) -> None:
    assert len(paid_later(**keys).found(tools_ask_each_time, Subject(mutating={SHOP}))) == finds


def paid_later(
    *, question: str = "Shall I?", answer: str = "yes", asks: bool = False, calls: str = "c",
    method: str = "POST",
) -> Recording:  # fmt: skip
    """The user says yes to a payment, and the model calls for another one."""
    run, history, given = Recording().prompt(), list[Message]([GO]), '{"cents": 5}'
    run.request([*history])
    for number, ids in enumerate((calls, "e")):
        for call_id in ids:
            run.call(call_id, given)
        run.finish()
        if asks or not number:
            run.ended(text=question).prompt(answer)
        run.add(ServiceRequest, number, SHOP, method, "/pay", given)
        run.add(ServiceReply, number, 201)
        history += [said("", *ids, arguments=given), *(returned(each, "Paid.") for each in ids)]
        run.request([*history])
    return run


@pytest.mark.parametrize(
    ("run", "answer"),
    [
        (refused("n"), "'n'"),
        (refused(" NO "), "' NO '"),
        (refused(""), "''"),
        (refused("", ends=True), "the end of the input"),
        (refused("", "Look? (y/n)", ends=True), "the end of the input"),
        (refused("n", ASKS, "no", calls="ab"), "'no'"),
        (refused("y", ASKS, "n", "no", calls="ab"), "'no'"),
    ],
)
def test_a_change_that_the_user_has_refused_is_found(run: Recording, answer: str) -> None:
    (found,) = run.found(refused_changes_not_made, Subject(mutating={"look"}))
    assert found.endswith(f"with {answer}")
    assert run.found(refused_changes_not_made, Subject(mutating={"book"})) == []


@pytest.mark.parametrize(
    "run",
    [
        refused("y"),
        refused("", "Look? [Y/n]"),
        refused("n", "What is its name?"),
        refused("n", "Stop here? [y/N]"),
        refused("n", calls="ab"),
        refused("n", ASKS, "y", calls="ab"),
        refused("n", ASKS, "y", "n", calls="ab"),
    ],
)
def test_a_change_that_the_user_may_have_allowed_is_not_found(run: Recording) -> None:
    assert run.found(refused_changes_not_made, Subject(mutating={"look"})) == []


def test_an_answer_to_a_call_need_not_be_a_message() -> None:
    answers: list[Message] = [GO, CALLS, returned("a"), returned("b")]
    assert paused().request(answers).found(newest_user_message_sent) == []
    (found,) = paused().request([GO]).found(newest_user_message_sent)
    assert "does not hold the user's message 'yes'" in found


# ------------------------------------------------------------------ agents that are wrong


@traced
def pay(bill: str) -> str:
    return f"{bill} is paid"


@traced
def delete(path: str) -> str:
    return f"{path} is gone" if input(f"Delete {path}? ") == "y" else f"{path} is kept"


STORE: dict[str, Any] = {}
"""What outlives a restart."""


class PaysTwice:
    """An agent that asks before it deletes, and begins the whole step anew on the answer."""

    async def __call__(self, prompt: str, world: World) -> str:
        if prompt == "Pay.":
            STORE["messages"] = [UserMessage(prompt)]
            STORE["reply"] = (await world.model.reply(STORE["messages"])).message
            pay("rent")
            return "Send the receipt?"
        results = [returned(call.id, pay("rent")) for call in STORE["reply"].calls]
        messages = [*STORE["messages"], STORE["reply"], *results]
        return (await world.model.reply(messages)).message.text


async def asks_for_both_at_once(prompt: str, world: World) -> str:
    messages: list[Message] = [UserMessage(prompt)]
    reply = (await world.model.reply(messages)).message
    asking = [asyncio.to_thread(delete, path) for path in ("a", "b")]
    found = await asyncio.gather(*asking)
    results = [returned(call.id, text) for call, text in zip(reply.calls, found, strict=True)]
    return (await world.model.reply([*messages, reply, *results])).message.text


def test_an_agent_that_begins_its_step_anew_is_found() -> None:
    scenario = Scenario(
        prompt="Pay.",
        then=[Then(after="2h", say="yes", restart=True)],
        model=[Reply(call={"pay": {"bill": "rent"}}), Reply(say="Paid.")],
    )
    with pytest.raises(InvariantViolated, match=r"no-tools-run-again-after-a-pause: .*'pay'"):
        check(scenario, loop=PaysTwice, invariants=[no_tools_run_again_after_a_pause])


def test_an_agent_whose_tools_ask_at_the_same_time_is_found() -> None:
    both = [{"delete": {"path": "a"}}, {"delete": {"path": "b"}}]
    scenario = Scenario(
        prompt="Delete both.",
        input=[Line(say="y", after="1m"), Line(say="n", after="1m")],
        model=[Reply(call=both), Reply(say="Done.")],
    )
    with pytest.raises(InvariantViolated, match=r"Delete b\?', and that of call 'call-1' reads"):
        check(scenario, loop=asks_for_both_at_once)


SHOP = "https://shop.example"


def tried_thrice(**keys: Any) -> Recording:
    """A call whose change ends unknown, by a stop; then it is made again, and ends so again."""
    run, history = Recording().prompt(), list[Message]([GO])
    for number, end in enumerate(("closed", keys.get("then", "lost"), ""), 1):
        call_id, sends = "abc"[number - 1], end or keys.get("sends")
        run.after({2: keys.get("waits", 0), 3: 40}.get(number, 0))
        run.request([*history]).call(call_id, A)
        run.finish()
        if number == keys.get("looks"):
            run.add(ServiceRequest, 9, SHOP, "GET", "/orders").add(ServiceReply, 9, 200, "[]")
        if sends:
            once = keys.get("once", "")
            run.add(ServiceRequest, number, SHOP, keys.get("method", "POST"), "/orders", "{}", once)
        if end == "closed" and keys.get("stops", True):
            run.stop()
        if end:
            run.add(ServiceReply, number, 200 if end == "made" else 0, "", end.replace("made", ""))
        text = "Error: its end is not known." if end else keys.get("text", "Error: not again.")
        history += [said("", call_id, arguments=A), returned(call_id, text)]
        if end == "closed" and keys.get("stops", True):
            run.ended(Outcome.ABORTED).prompt("More.")
            history += [UserMessage("More.")]
    return run.request(history)


@pytest.mark.parametrize(
    ("keys", "finds"),
    [
        ({}, 1),
        ({"then": "timed-out"}, 1),
        ({"stops": False}, 1),
        ({"stops": False, "then": "closed"}, 0),  # both alike
        ({"then": "made"}, 0),
        ({"sends": True}, 0),
        ({"text": "Ordered."}, 0),
        ({"once": "k"}, 0),
        ({"method": "GET"}, 0),
        ({"looks": 2}, 0),
        ({"looks": 3}, 1),
        ({"waits": 90}, 0),
        ({"waits": 20}, 1),
    ],
)
def test_a_change_that_is_not_repeated_after_one_unknown_end_is_not_after_another(
    keys: dict[str, Any], finds: int
) -> None:
    run = tried_thrice(**keys)
    found = run.found(unknown_ends_treated_alike, Subject(mutating={SHOP}))
    assert len(found) == finds
    assert run.found(unknown_ends_treated_alike, Subject(mutating={"other"})) == []
    assert all("the tool 'look' makes its change again after a" in each for each in found)


@pytest.mark.parametrize(
    ("steps", "finds"),
    [
        # A try in the same call is no call of the model, and one that has succeeded is known.
        ([(A, ["lost", "lost"]), (A, []), (B, ["stop"]), (B, [])], 0),
        ([(A, ["lost"]), (A, [""]), (A, []), (B, ["stop"]), (B, ["lost"])], 0),
        ([(A, ["lost"]), (A, []), (B, ["stop"]), (B, ["lost"])], 1),
        ([(A, ["killed"]), (A, ["killed"]), (B, ["stop"]), (B, [])], 1),
        ([(A, ["killed"]), (A, ["killed"]), (B, ["lost"]), (B, [])], 1),
        ([(A, ["failed"]), (A, ["failed"]), (B, ["stop"]), (B, [])], 0),
        ([(A, ["stop"]), (A, []), (B, ["killed"]), (B, [])], 0),
    ],
)
def test_only_the_calls_of_a_model_after_an_unknown_end_are_compared(
    steps: list[tuple[str, list[str]]], finds: int
) -> None:
    run, history, number = Recording().prompt(), list[Message]([GO]), 0
    for place, (arguments, ends) in enumerate(steps):
        call_id = f"call-{place}"
        run.request([*history]).call(call_id, arguments).finish()
        for end in ends:
            number += 1
            if end in ("killed", "failed"):
                run.add(ProgramStarted, number, ("order", arguments))
                run.add(ProgramEnded, number, -9 if end == "killed" else 1)
                continue
            run.add(ServiceRequest, number, SHOP, "POST", "/orders", arguments)
            if end == "stop":
                run.stop()
            failure = {"stop": "closed"}.get(end, end)
            run.add(ServiceReply, number, 0 if failure else 200, "", failure)
        text = "Error: not again, or its end is not known." if ends != [""] else "Ordered."
        history += [said("", call_id, arguments=arguments), returned(call_id, text)]
        if "stop" in ends:
            run.ended(Outcome.ABORTED).prompt("More.")
            history += [UserMessage("More.")]
    declared = Subject(mutating={SHOP, "order"})
    assert len(run.request(history).found(unknown_ends_treated_alike, declared)) == finds
