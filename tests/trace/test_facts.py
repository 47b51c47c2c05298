from hypothesis import given
from hypothesis import strategies as st

from simloop import Compaction, Reply, Request, Scenario, run
from simloop.messages import StopCause
from simloop.trace.entries import Ended, Hook, Prompt, StopRequested
from simloop.trace.facts import Facts
from simloop.trace.requests import requests


def look() -> str:
    return "seen " * 50


@given(rounds=st.integers(1, 12), window=st.integers(50, 2000))
def test_each_main_request_is_read_as_it_was_sent(rounds: int, window: int) -> None:
    """Also after compactions."""
    scenario = Scenario(
        prompt="Go.",
        model=[Reply(call={"look": {}}, times=rounds), Reply(say="Done.")],
        compaction=Compaction(window=window, keep_turns=1, strategy="drop-oldest"),
    )
    result = run(scenario, tools=[look])
    facts = Facts()
    read: list[Request] = []
    for entry in result.trace.entries:
        facts.read(entry)
        if facts.request is not None and facts.request not in read[-1:]:
            read.append(facts.request)
    assert read == [each for each in requests(result.trace.entries) if each.purpose == "main"]


def test_the_reply_and_the_running_tools_are_known_at_every_entry() -> None:
    model = [Reply(say="I look.", call={"look": {}}), Reply(say="Done.")]
    result = run(Scenario(prompt="Go.", model=model), tools=[look])
    facts, seen = Facts(), []
    for entry in result.trace.entries:
        facts.read(entry)
        text = "" if facts.reply is None else facts.reply.text
        seen.append((text, len(facts.running), facts.ended is not None))
    assert ("I look.", 1, False) in seen
    assert seen[-1] == ("Done.", 0, True)


def test_the_stops_vetoes_and_replies_of_a_run_are_those_of_no_earlier_run() -> None:
    model = [Reply(say="One."), Reply(say="Two."), Reply(say="Three.")]
    scenario = Scenario(prompt="Go.", then=["And now?", "And then?"], model=model)
    facts, seen = Facts(), []
    for entry in run(scenario).trace.entries:
        facts.read(entry)
        if isinstance(entry, Ended):
            stop = StopRequested(entry.seq, entry.at_ns, StopCause.ABORT)
            veto = Hook(entry.seq, entry.at_ns, "before_llm_call", "guard", "blocked")
            for other in (stop, stop, veto, Hook(entry.seq, 0, "before_llm_call", "log", "ok")):
                facts.read(other)
            own = [reply.text for reply in facts.main_replies[facts.earlier_replies :]]
            seen.append((own, len(facts.stops), [hook.hook for hook in facts.vetoes]))
    assert seen == [([said], 2, ["guard"]) for said in ("One.", "Two.", "Three.")]


def test_no_reply_is_known_before_the_first_request_of_a_run() -> None:
    scenario = Scenario(prompt="Go.", then=["And now?"], model=[Reply(say="One."), Reply(say="2")])
    facts, texts = Facts(), []
    for entry in run(scenario).trace.entries:
        facts.read(entry)
        if isinstance(entry, Prompt | Ended):
            texts.append(None if facts.reply is None else facts.reply.text)
    assert texts == [None, "One.", None, "2"]
