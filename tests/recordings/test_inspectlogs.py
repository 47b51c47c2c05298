"""Logs of inspect: what is apart from the events, and what a damaged archive says."""

import io
import json
import zipfile
from importlib.util import find_spec
from typing import Any

import pytest
from sessions import played, read, scenario
from written import WRITTEN

from simloop.errors import ScenarioError
from simloop.scenario.writing import content

USER = {"role": "user", "content": "attachment://h"}
OUTPUT = {"choices": [{"message": {"role": "assistant", "content": "Yes."}, "stop_reason": "stop"}]}


def sample(**event: Any) -> dict[str, Any]:
    told = {"event": "model", "output": OUTPUT, "tools": [], **event}
    return {"id": 1, "epoch": 1, "attachments": {"h": "Is it?"}, "events": [told]}


def log(*samples: Any) -> str:
    return json.dumps({"version": 2, "eval": {"task": "t", "task_id": "i"}, "samples": samples})


def archive(**files: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as written:
        for name, text in files.items():
            written.writestr(f"samples/{name}.json", text)
    return held.getvalue()


@pytest.mark.parametrize("name", [each for each in WRITTEN if each.startswith("inspect ")])
def test_a_log_of_inspect_runs_with_the_requests_that_were_recorded(name: str) -> None:
    assert played(read(WRITTEN[name])).requests[0].system_prompt == "Be brief."


def test_an_archive_is_the_same_as_a_log_in_json() -> None:
    one = sample(input=[USER])
    (packed, plain) = (read(archive(a=json.dumps(one))), read(log(one)))
    assert content(scenario(packed)) == content(scenario(plain))
    assert scenario(plain).prompt == "Is it?"


@pytest.mark.skipif(find_spec("zstandard") is not None, reason="the library is there")
def test_an_archive_that_needs_a_library_names_the_extra_that_has_it() -> None:
    with pytest.raises(ScenarioError, match=r"agent-simloop\[recordings\]"):
        read(WRITTEN["inspect-eval call"])


def test_messages_in_a_pool_are_put_in_their_places() -> None:
    pooled = sample(input_refs=[[1, 2]]) | {"events_data": {"messages": [{}, USER]}}
    assert scenario(read(log(pooled))).prompt == "Is it?"


def test_samples_after_the_first_and_retries_are_counted() -> None:
    recording = read(log(sample(input=[USER], retries=2), sample(input=[USER])))
    assert recording.skipped == {
        "a failed attempt of which the log has the number alone": 2,
        "a sample after the first: write it to a log of its own": 1,
    }


def test_a_text_that_stands_for_itself_many_times_is_refused() -> None:
    one = sample(input=[USER] * 300)
    one["attachments"] = {"h": "x" * 1_000_000}
    with pytest.raises(ScenarioError, match="too long"):
        read(log(one))


# An archive holds the time at which it was written: as a name, it differs in each process.
@pytest.mark.parametrize(
    "data",
    [archive(a="{"), archive(a="[]")[:60], b"PK\x03\x04"],
    ids=["of no JSON", "cut", "of its sign alone"],
)
def test_a_damaged_archive_is_refused(data: bytes) -> None:
    with pytest.raises(ScenarioError, match=r"no JSON|cannot be unpacked"):
        read(data)
