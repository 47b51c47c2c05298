"""Cassettes of any recorder become scenarios, and the recorded agent runs in them as it did."""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped] # it has no types
import pytest
import yaml
import zstandard
from chatting import chat_agent
from recordedfiles import (
    ANSWER,
    CASSETTES,
    CHAT_CALL,
    CHAT_RESULT,
    EXCHANGES,
    FILES,
    OTHER_PROVIDERS,
    PROMPT,
    Exchange,
    asks,
    completion,
    har,
    user,
    vcrpy,
)

from simloop import Scenario, run
from simloop.errors import ScenarioError
from simloop.recordings import files, vcr
from simloop.recordings.formats import read_recording
from simloop.recordings.recording import Recording
from simloop.recordings.scenarios import scenario_of
from simloop.scenario.writing import scenario_text


def recorded(data: bytes | str | Any, folder: Path, name: str = "tape.yaml") -> Recording:
    path = folder / name
    whole = data if isinstance(data, bytes | str) else json.dumps(data)
    path.write_bytes(whole.encode() if isinstance(whole, str) else whole)
    return read_recording(path)


def imported(data: bytes | str | Any, folder: Path, name: str = "tape.yaml") -> Scenario:
    scenario, _ = scenario_of(recorded(data, folder, name))
    return scenario


@pytest.mark.parametrize("shape", [*CASSETTES, "har"])
def test_the_recorded_agent_sends_the_recorded_requests(shape: str, tmp_path: Path) -> None:
    scenario = imported(FILES[shape], tmp_path)
    result = run(scenario, loop=chat_agent())
    assert (result.text, result.mismatches) == (ANSWER, ())
    assert len(result.requests) == 4


@pytest.mark.parametrize("shape", CASSETTES)
def test_all_shapes_of_a_cassette_hold_the_same(shape: str, tmp_path: Path) -> None:
    plain = imported(CASSETTES["vcr-text"], tmp_path)
    other = imported(CASSETTES[shape], tmp_path)
    rules = [dict(each) for each in (plain, other)]
    for each in rules:
        each.pop("services")  # a shape may hold the length of a body, and its type
    assert rules[0] == rules[1]


@pytest.mark.parametrize("provider", OTHER_PROVIDERS)
def test_a_cassette_and_a_har_file_of_each_provider_run_on_the_reference_loop(
    provider: str, tmp_path: Path
) -> None:
    tape = imported(FILES[provider], tmp_path)
    log = imported(har(OTHER_PROVIDERS[provider]), tmp_path, "a.har")
    for scenario in (tape, log):
        result = run(scenario)
        assert (result.text, result.mismatches) == (ANSWER, ())
    assert log.expect == tape.expect


def test_what_the_agent_sends_otherwise_is_the_field_that_differs(tmp_path: Path) -> None:
    scenario = imported(CASSETTES["vcr-text"], tmp_path)
    result = run(scenario, loop=chat_agent(result="32 degrees"))
    assert [each.key for each in result.mismatches] == ["sent.2.messages.2.tool"]


def test_what_vcrpy_has_written_of_an_agent_over_the_sdk_of_openai() -> None:
    recording = read_recording(Path(__file__).parent / "files" / "openai-by-vcrpy.yaml")
    scenario, _ = scenario_of(recording)
    assert (recording.skipped, recording.removed) == ({}, {})
    assert "sk-test" not in scenario_text(scenario, "")  # headers of requests are not kept
    system = {"role": "system", "content": "You know the weather."}
    result = run(scenario, loop=chat_agent(begins=[system], asks_service=False))
    assert (result.text, result.mismatches) == (ANSWER, ())


def test_a_har_file_has_the_times(tmp_path: Path) -> None:
    scenario = imported(FILES["har"], tmp_path)
    result = run(scenario, loop=chat_agent())
    assert round(result.elapsed_s, 2) == 4 * 0.3 + 0.31


def test_a_lost_connection_of_a_har_file_is_lost_again(tmp_path: Path) -> None:
    whole = har(EXCHANGES[:2])
    lost = whole["log"]["entries"][0]
    lost["response"] |= {"status": 0, "content": {"size": 0}}
    lost["_error"] = "net::ERR_CONNECTION_RESET"
    scenario = imported(whole, tmp_path, "a.har")
    assert scenario.model[0].lost == "before-headers"


# ---------------------------------------------------------------- bodies

STREAM = EXCHANGES[-1]
ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def coded(encoding: str, data: bytes) -> str:
    whole = vcrpy([EXCHANGES[1], STREAM])
    for interaction in whole["interactions"][1:]:
        interaction["response"]["headers"]["Content-Encoding"] = [encoding]
        interaction["response"]["body"]["string"] = data
    return str(yaml.safe_dump(whole))


@pytest.mark.parametrize("encoding", ENCODERS)
def test_an_encoded_body_is_decoded(encoding: str, tmp_path: Path) -> None:
    data = ENCODERS[encoding](STREAM.text.encode())
    assert imported(coded(encoding, data), tmp_path).model[-1].say == ANSWER


@pytest.mark.parametrize("encoding", [*ENCODERS, "identity", "odd"])
def test_a_body_that_the_recorder_has_decoded_is_taken_as_it_is(
    encoding: str, tmp_path: Path
) -> None:
    assert imported(coded(encoding, STREAM.text.encode()), tmp_path).model[-1].say == ANSWER


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_broken_body_is_left_out_and_counted(encoding: str, tmp_path: Path) -> None:
    data = ENCODERS[encoding](STREAM.text.encode())
    told = recorded(coded(encoding, data[:6] + b"\xff" * 9), tmp_path)
    assert next(iter(told.skipped)).startswith(
        f"a body that cannot be read: its {encoding} is broken"
    )


def test_without_its_library_an_encoding_is_left_out_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vcr._LIBRARIES, "br", "no_such_library")
    told = recorded(coded("br", brotli.compress(STREAM.text.encode())), tmp_path)
    assert dict(told.skipped) == {
        "a body that cannot be read: it is encoded as br: "
        "pip install 'agent-simloop[recordings]'": 1
    }


# ---------------------------------------------------------------- files that are refused

REFUSED = {
    "an object": (
        "interactions:\n- request: !!python/object/apply:os.system ['true']\n", 2,
        "the tag tag:yaml.org,2002:python/object/apply:os.system makes an object",
    ),
    "a class": ("interactions:\n- a\n- !!python/name:os.system ''\n", 3, "makes an object"),
    "a tag of one's own": ("interactions: !mine {}\n", 1, "the tag !mine makes an object"),
    "an alias of nothing": ("interactions:\n- *a\n", 2, ""),
    "no base64": ("interactions:\n- !!binary é\n", 2, "this is no base64"),
    "no YAML": ("interactions: [\n", 2, "this is no YAML"),
    "too deep": (f"interactions:\n  {'[' * 250}\n", 2, "nested over 200 deep"),
    "no list": ("interactions: 7\n", None, "no list of interactions"),
    "no JSON": ('{"interactions": [}', 1, "this is no JSON"),
    "no TOML": ("[[interactions]]\na = \n", None, "this is no TOML"),
    "too large a number": (f"interactions:\n- {'9' * 30}\n", 2, "more than 64 bits"),
    "nothing": ("interactions: []\n", None, "no call of a model"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    text, line, words = REFUSED[case]
    with pytest.raises(ScenarioError) as caught:
        imported(text, tmp_path)
    assert words in str(caught.value)
    assert caught.value.line == line
    assert "tape.yaml" in str(caught.value.path)


def test_plain_tags_of_python_and_anchors_are_read(tmp_path: Path) -> None:
    text = json.dumps(json.dumps(completion({"role": "assistant", "content": ANSWER})))
    tape = f"""
interactions:
- request: &asked
    method: !!python/str POST
    uri: !!python/unicode https://api.openai.com/v1/chat/completions
    body: '{json.dumps(asks(user()))}'
    headers: !!python/tuple []
  response: &answer
    status: {{code: 200, message: OK}}
    headers: {{}}
    body: {{string: {text}}}
- {{request: *asked, response: *answer}}
"""
    assert [each.say for each in imported(tape, tmp_path).model] == [ANSWER] * 2


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1_000)
    with pytest.raises(ScenarioError, match="over 1,000 bytes when it is unpacked"):
        recorded(gzip.compress(b"interactions: []\n" * 1_000), tmp_path, "a.yaml.gz")


def test_files_of_other_recorders_are_unknown(tmp_path: Path) -> None:
    for data in (b"\x0a\x1agrok-4-1-fast-non-reasoning", b"", b"\xff\xfe", b"a: 1\n", b"[]"):
        with pytest.raises(ScenarioError, match="no recording that simloop knows"):
            recorded(data, tmp_path, "a.xai.yaml")


def test_requests_that_are_no_calls_are_left_out_by_reason(tmp_path: Path) -> None:
    given = [
        Exchange({"input": "x"}, {}, url="https://api.openai.com/v1/models", method="GET"),
        Exchange({"messages": []}, {}),
        Exchange({}, "", url="nowhere"),
        Exchange(asks(user()), completion({"role": "assistant", "content": ANSWER}), 999),
        Exchange(asks(user()), completion({"role": "assistant", "content": ANSWER})),
    ]
    told = recorded(vcrpy(given), tmp_path, "a.json")
    assert sorted(told.skipped.values()) == [1, 1, 1, 1]
    assert any("status" in reason for reason in told.skipped)
    assert any("messages" in reason for reason in told.skipped)


# ---------------------------------------------------------------- the order


def turn(prompt: str, *after: dict[str, Any]) -> dict[str, Any]:
    return asks(user(prompt), *after)


def test_parallel_conversations_are_told_apart_by_what_they_contain(tmp_path: Path) -> None:
    said = {name: completion({"role": "assistant", "content": name}) for name in ("A.", "B.")}
    call = completion(CHAT_CALL, "tool_calls")
    given = [  # in the order of their ends
        Exchange(turn("Ask B."), call), Exchange(turn("Ask A."), call),
        Exchange(turn("Ask A.", CHAT_CALL, CHAT_RESULT), said["A."]),
        Exchange(turn("Ask B.", CHAT_CALL, CHAT_RESULT), said["B."]),
    ]  # fmt: skip
    scenario = imported(vcrpy(given), tmp_path, "a.json")
    (other,) = scenario.models.values()
    assert [each.say for each in scenario.model] == ["", "B."]
    assert [each.say for each in other.replies] == ["", "A."]
    sent = scenario.expect.sent
    assert isinstance(sent, dict)
    assert {name: len(each) for name, each in sent.items()} == {"": 2, "agent-2": 2}
    assert (scenario.prompt, scenario.then) == ("Ask B.", ["Ask A."])
    result = run(scenario, loop=chat_agent(asks_service=False, streams=False))
    assert (result.mismatches, result.text) == ((), "A.")


def test_two_prompts_are_one_conversation(tmp_path: Path) -> None:
    first = {"role": "assistant", "content": "Hello."}
    given = [
        Exchange(turn("Hi"), completion(first)),
        Exchange(turn("Hi", first, user("Why?")), completion({**first, "content": "Because."})),
    ]
    scenario = imported(vcrpy(given), tmp_path, "a.json")
    assert (scenario.prompt, scenario.then) == ("Hi", ["Why?"])
    assert run(scenario).mismatches == ()


def test_what_comes_before_the_first_request_is_history(tmp_path: Path) -> None:
    first = {"role": "assistant", "content": "Hello."}
    given = [Exchange(turn("Hi", first, user("Why?")), completion({**first, "content": "So."}))]
    scenario = imported(vcrpy(given), tmp_path, "a.json")
    assert scenario.prompt == "Why?"
    assert [each.model_dump(exclude_defaults=True) for each in scenario.history] == [
        {"user": "Hi"}, {"assistant": "Hello."},
    ]  # fmt: skip
    assert run(scenario).mismatches == ()


def test_a_conversation_that_is_shortened_goes_on_with_its_next_prompt(tmp_path: Path) -> None:
    mid, end = ({"role": "assistant", "content": text} for text in ("Mid.", "End."))
    short = [user("So far: it is warm."), said_of_old := {**mid, "content": "Old."}, user("Now?")]
    given = [
        Exchange(asks(user()), completion(CHAT_CALL, "tool_calls")),
        Exchange(asks(user(), CHAT_CALL, CHAT_RESULT), completion(mid)),
        Exchange(asks(*short), completion(CHAT_CALL, "tool_calls")),
        Exchange(asks(said_of_old, CHAT_CALL, CHAT_RESULT), completion(end)),
    ]
    scenario = imported(vcrpy(given), tmp_path, "a.json")
    assert (scenario.prompt, scenario.then) == (PROMPT, ["Now?"])
    assert [each.say for each in scenario.model] == ["", "Mid.", "", "End."]
    again = imported(vcrpy([*given[:2], given[1]]), tmp_path, "b.json")
    assert again.then == []  # the same request once more is no prompt
