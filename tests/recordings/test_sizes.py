"""Long recordings: the memory and the work of an import grow with its size, and no faster."""

import cProfile
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from claudecode import Lines, call
from commandline import Cli
from recordedfiles import Exchange, asks, completion, user, vcrpy
from sessions import read

from simloop.recordings.scenarios import scenario_of
from simloop.scenario.writing import scenario_text

MB = 10**6
LONG, SHORT = "much " * 20_000, "a line of a file\n" * 100


def session(results: int, text: str = SHORT) -> str:
    made = Lines().user("Look.")
    for number in range(results):
        made.reply(f"m{number}", call("Bash", f"t{number}")).result(f"t{number}", text)
    return made.reply("m", "Done.").text


def session_of_long_results(results: int) -> str:
    return session(results, LONG)


def spans_of_long_replies(replies: int) -> str:
    said = {"input.value": json.dumps([user()]), "openinference.span.kind": "LLM"}
    said["output.value"] = json.dumps(completion({"role": "assistant", "content": LONG}))
    return "".join(json.dumps({"trace_id": "t", "attributes": said}) + "\n" for _ in range(replies))


def peak(cli: Cli, recording: str, name: str) -> tuple[int, int]:
    """Return the bytes that an import takes at most, and those of the recording."""
    file = cli.file(name, recording)
    tracemalloc.start()
    done = cli("import", file, "-o", f"{name}.simloop.yaml")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert done.exit_code == 0
    return most, len(recording)


@pytest.mark.parametrize(
    ("make", "pieces"), [(session, 50), (session_of_long_results, 5), (spans_of_long_replies, 5)]
)
def test_an_import_takes_at_most_five_times_the_memory_of_its_file(
    cli: Cli, make: Callable[[int], str], pieces: int
) -> None:
    peak(cli, make(1), "first")  # what is loaded once
    (small, _), (large, size) = (
        peak(cli, make(pieces), "small"),
        peak(cli, make(10 * pieces), "ten"),
    )
    assert large < 11 * small
    assert large < 4.5 * size


# ---------------------------------------------------------------- conversations of many requests

TEXT = "The file has a line which says so. " * 5


def conversation(steps: int) -> list[dict[str, Any]]:
    """Return the messages of a conversation with a call in each step."""
    said: list[dict[str, Any]] = [user()]
    for number in range(steps):
        made = {"name": "look", "arguments": json.dumps({"line": number})}
        told = {"id": f"c{number}", "type": "function", "function": made}
        said.append({"role": "assistant", "content": "", "tool_calls": [told]})
        said.append({"role": "tool", "tool_call_id": f"c{number}", "content": TEXT})
    return [*said, {"role": "assistant", "content": "Done."}]


def requests(steps: int) -> list[tuple[list[dict[str, Any]], dict[str, Any]]]:
    said = conversation(steps)
    return [(said[:at], said[at]) for at in range(1, len(said), 2)]


def trajectory(steps: int) -> str:
    return json.dumps({"info": {"mini_version": "2.0"}, "messages": conversation(steps)})


def log_with_a_pool(steps: int) -> str:
    events = [
        {"event": "model", "input_refs": [[0, len(asked)]], "tools": [],
         "output": {"choices": [{"message": reply, "stop_reason": "stop"}]}}
        for asked, reply in requests(steps)
    ]  # fmt: skip
    sample = {"id": 1, "events": events, "events_data": {"messages": conversation(steps)}}
    return json.dumps({"version": 2, "eval": {"task": "t", "task_id": "i"}, "samples": [sample]})


def cassette(steps: int) -> str:
    made = [Exchange(asks(*asked), completion(reply)) for asked, reply in requests(steps)]
    return json.dumps(vcrpy(made))


def cassette_of_many(conversations: int) -> str:
    reply = completion({"role": "assistant", "content": TEXT})
    made = [Exchange(asks(user(f"Look at {one}.")), reply) for one in range(conversations)]
    return json.dumps(vcrpy(made))


def chain_of_responses(steps: int) -> str:
    """Return a cassette whose requests name the response before them, and do not repeat it."""
    made = []
    for number in range(steps):
        said = {"type": "message", "id": f"i{number}", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": TEXT}]}  # fmt: skip
        after = {"previous_response_id": f"r{number - 1}"} if number else {}
        asked = {"model": "gpt-5", "input": f"Look at {number}.", **after}
        answer = {"id": f"r{number}", "status": "completed", "output": [said]}
        made.append(Exchange(asked, answer, url="https://api.openai.com/v1/responses"))
    return json.dumps(vcrpy(made))


def spans(steps: int) -> str:
    told = [
        {"openinference.span.kind": "LLM", "input.value": json.dumps({"messages": asked}),
         "output.value": json.dumps(completion(reply))}
        for asked, reply in requests(steps)
    ]  # fmt: skip
    return "".join(json.dumps({"trace_id": "t", "attributes": each}) + "\n" for each in told)


def calls_of_functions(recording: str) -> int:
    """Return how many functions are called, in Python and in C, to import a recording."""
    profile = cProfile.Profile()
    with profile:
        scenario_text(*scenario_of(read(recording)))
    return sum(each.callcount for each in profile.getstats())


@pytest.mark.parametrize(
    "make",
    [session, trajectory, log_with_a_pool, cassette, cassette_of_many, chain_of_responses, spans],
)
def test_a_recording_of_four_times_the_requests_takes_no_more_work_for_each_byte(
    make: Callable[[int], str],
) -> None:
    calls_of_functions(make(2))  # what is loaded once
    small, large = make(25), make(100)
    growth = len(large) / len(small)
    assert growth > 3.5
    assert calls_of_functions(large) < 1.1 * growth * calls_of_functions(small)
