"""Long recordings: the memory that reading one takes grows with its size, and no faster."""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from claudecode import Lines, call
from recordedfiles import completion, user
from sessions import read

MB = 10**6
LONG = "much " * 20_000


def session(results: int) -> str:
    made = Lines().user("Look.")
    for number in range(results):
        made.reply(f"m{number}", call("Bash", f"t{number}")).result(f"t{number}", LONG)
    return made.reply("m", "Done.").text


def spans(replies: int) -> str:
    said = {"input.value": json.dumps([user()]), "openinference.span.kind": "LLM"}
    said["output.value"] = json.dumps(completion({"role": "assistant", "content": LONG}))
    return "".join(json.dumps({"trace_id": "t", "attributes": said}) + "\n" for _ in range(replies))


def peak(make: Callable[[int], str], pieces: int) -> Any:
    data = make(pieces).encode()
    tracemalloc.start()
    read(data)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data) > pieces * MB / 10
    return most


@pytest.mark.parametrize("make", [session, spans])
def test_ten_times_the_size_takes_ten_times_the_memory(make: Callable[[int], str]) -> None:
    small, large = peak(make, 20), peak(make, 200)
    assert large < 11 * small
    assert large < 6 * 200 * MB / 10
