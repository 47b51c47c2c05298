"""Whatever requests a cassette has, and in whatever order: they get the recorded answers again."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from chatting import asked
from hypothesis import given
from hypothesis import strategies as st
from recordedfiles import CHAT_URL, LIMIT, Exchange, chunks, completion, user, vcrpy

from simloop import Scenario, run
from simloop.messages import json_value
from simloop.recordings.formats import read_recording
from simloop.recordings.scenarios import scenario_of

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def sends(exchanges: Sequence[Exchange], heard: list[tuple[int, Any]]) -> Callable[[str], str]:
    """Return an agent that sends the requests of a cassette, all of them at its first prompt."""
    waiting = list(exchanges)

    def agent(_: str) -> str:
        while waiting:
            status, text = asked(CHAT_URL, waiting.pop(0).sent)
            heard.append((status, said(text)))
        return ""

    return agent


def said(body: str) -> Any:
    """Return what a body of the chat format says: the text, the calls, and whether it ends."""
    if not body.startswith("data:"):
        whole = json.loads(body)
        if "choices" not in whole:
            return whole["error"]["code"]
        message = whole["choices"][0]["message"]
        given = [each["function"]["arguments"] for each in message.get("tool_calls") or ()]
        calls = [json_value(each, each) for each in given]  # a scenario has objects as objects
        return message["content"] or "", calls, True
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    deltas = [each for line in lines if line != "[DONE]" for each in json.loads(line)["choices"]]
    text = "".join(each["delta"].get("content") or "" for each in deltas)
    return text, [], any(each["finish_reason"] for each in deltas)


Turn = tuple[str, int]


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Exchange]]:
    """Draw conversations, which differ in their prompts or in their system prompts."""
    prompts = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True))
    return [draw(conversation(prompt)) for prompt in prompts]


@st.composite
def conversation(draw: st.DrawFn, prompt: str) -> list[Exchange]:
    system = draw(st.sampled_from(["", "", f"You are {prompt}."]))
    begin = [{"role": "system", "content": system}] if system else []
    messages: list[Any] = [*begin, user(f"Do {prompt}.")]
    exchanges: list[Exchange] = []
    for number in range(draw(st.integers(1, 3))):
        streams = draw(st.booleans())
        asked = {"model": "m", "messages": [*messages], "tools": [TOOL], "stream": streams}
        for _ in range(draw(st.integers(0, 2))):  # attempts that failed
            is_cut = streams and draw(st.booleans())
            cut = chunks("Hal", finish=None)
            exchanges.append(Exchange(asked, cut if is_cut else LIMIT, 200 if is_cut else 429))
        count = draw(st.integers(0, 2)) if not streams else 0
        text = draw(st.sampled_from(["", "Say.", "Say.\n\nMore."])) if count else f"Text {number}."
        calls = [
            {"id": f"{prompt}{number}{n}", "type": "function",
             "function": {"name": "look", "arguments": draw(st.sampled_from(ARGUMENTS))}}
            for n in range(count)
        ]  # fmt: skip
        reply: dict[str, Any] = {"role": "assistant", "content": text or None}
        reply |= {"tool_calls": calls} if calls else {}
        finish = "tool_calls" if calls else "stop"
        answer = chunks(text) if streams else completion(reply, finish)
        exchanges.append(Exchange(asked, answer))
        messages.append(reply)
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": f"found {prompt}{number}"}
            for call in calls
        ]
        if not calls:
            messages.append(user(f"And {number}?"))
    return exchanges


ARGUMENTS = ["{}", '{"at": 1}', '{"at":[1,2.5,null]}', '{"at": "é\\n"}', "{broken", "",
             '{"id":123456789012345678901234}']  # fmt: skip


@st.composite
def interleaved(draw: st.DrawFn) -> list[Exchange]:
    """Draw an order in which the answers of several conversations were complete."""
    waiting = [list(each) for each in draw(conversations())]
    order: list[Exchange] = []
    while any(waiting):
        place = draw(st.integers(0, len(waiting) - 1))
        if waiting[place]:
            order.append(waiting[place].pop(0))
    return order


def imported(exchanges: Sequence[Exchange]) -> Scenario:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tape.json"
        path.write_text(json.dumps(vcrpy(exchanges)))
        scenario, _ = scenario_of(read_recording(path))
    return scenario


@given(exchanges=interleaved())
def test_the_recorded_requests_get_the_recorded_answers(exchanges: list[Exchange]) -> None:
    heard: list[tuple[int, Any]] = []
    result = run(imported(exchanges), loop=sends(exchanges, heard))
    assert heard == [(each.status, said(each.text)) for each in exchanges]
    assert result.mismatches == ()
