"""A raw stream is one reply, and no secret of a recording gets into its scenario."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordedfiles import ANSWER, FILES, STREAMS, Exchange, asks, completion, user, vcrpy

from simloop import Scenario, run
from simloop.errors import ScenarioError
from simloop.recordings.formats import read_recording
from simloop.recordings.scenarios import scenario_of
from simloop.recordings.secrets import without_secrets
from simloop.scenario.writing import scenario_text

_BEGUN = {"type": "message_start", "message": {"content": [], "usage": {}}}
_OPENED = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
_SAID = {"type": "text_delta", "text": "Let me"}
_OVER = {"type": "overloaded_error", "message": "Overloaded"}
FAILED: dict[str, tuple[list[Any], str, str]] = {
    "Chat Completions": (
        [{"choices": [{"index": 0, "delta": {"content": "Hel"}}]},
         {"error": {"message": "Overloaded", "code": 502}}],
        "Hel", "Overloaded",
    ),
    "Responses": (
        [{"type": "response.created", "response": {"output": []}, "sequence_number": 0},
         {"type": "error", "message": "Busy", "code": "server_error", "sequence_number": 1}],
        "", "Busy",
    ),
    "Anthropic Messages": (
        [_BEGUN, _OPENED, {"type": "content_block_delta", "index": 0, "delta": _SAID},
         {"type": "error", "error": _OVER}],
        "Let me", "Overloaded",
    ),
}  # fmt: skip


def imported(data: bytes, folder: Path, name: str = "one.sse") -> Scenario:
    (folder / name).write_bytes(data)
    scenario, _ = scenario_of(read_recording(folder / name))
    return scenario


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_stream_is_one_reply(dialect: str, tmp_path: Path) -> None:
    scenario = imported(STREAMS[dialect], tmp_path)
    (reply,) = scenario.model
    assert (reply.say, reply.unfinished) == (ANSWER, False)
    assert run(scenario).text == ANSWER


@pytest.mark.parametrize("dialect", FAILED)
def test_an_error_in_a_stream_fails_after_what_came_before(dialect: str, tmp_path: Path) -> None:
    events, said, message = FAILED[dialect]
    text = "".join(f"data: {json.dumps(each)}\r\n\r\n" for each in events)
    (reply,) = imported(text.encode(), tmp_path).model
    written = reply.model_dump(exclude_defaults=True)
    assert written.get("say", "") == said
    assert message in str(written)


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_stream_without_its_last_events_is_cut(dialect: str, tmp_path: Path) -> None:
    events = STREAMS[dialect].split(b"\n\n")
    kept = [each for each in events if b"stop" not in each and b"completed" not in each]
    (reply,) = imported(b"\n\n".join(kept).replace(b"data: [DONE]", b""), tmp_path).model
    assert reply.unfinished


@pytest.mark.parametrize("data", [b": nothing\n\n", b"data: [DONE]\n\n", b"data: {}\n\n", b"data:"])
def test_a_stream_of_no_provider_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no event of a provider"):
        imported(data, tmp_path)


# ---------------------------------------------------------------- secrets

SECRETS = {
    "sk-proj-abcdefghijklmnop1234": "key",
    "sk-ant-api03-abcdefghijklmnop": "key",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv": "key",
    "gsk_abcdefghijklmnopqrstuvwx": "key",
    "xai-abcdefghijklmnopqrstuvwx": "key",
    "AKIAABCDEFGHIJKLMNOP": "key",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789": "key",
    "github_pat_abcdefghijklmnopqrstuvwxyz0123456789": "key",
    "xoxb-1234567890-abcdef": "key",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh": "token",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----": "private key",
}
PLAIN = (
    "task-management and risk-assessment", "react@18.2.0", "pi@0.87.1", "a@b", "the key is under",
    "sk-learn", "eyJ", "Bearer of news", "?key=1", "git@", "x = y@z.1",
)  # fmt: skip


def cleaned(value: Any, **options: bool) -> tuple[Any, dict[str, int]]:
    removed = Counter[str]()
    return without_secrets(value, removed, **options), dict(removed)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_removed_and_counted_wherever_it_stands(secret: str) -> None:
    kind = SECRETS[secret]
    value = {"say": f"It is {secret}.", "call": [{"look": {"with": [secret]}}], secret: 1}
    found, removed = cleaned(value)
    assert found == {
        "say": "It is REMOVED.",
        "call": [{"look": {"with": ["REMOVED"]}}],
        "REMOVED": 1,
    }
    assert removed == {kind: 3}


def test_a_token_after_bearer_is_removed_and_the_word_stays() -> None:
    assert cleaned("curl -H 'Authorization: Bearer abcdefgh12345'") == (
        "curl -H 'Authorization: Bearer REMOVED'", {"token": 1},
    )  # fmt: skip


def test_a_key_in_an_address_is_a_parameter_that_fits_any() -> None:
    assert cleaned("/v1?unit=c&api_key=abcdef123&x=1") == (
        "/v1?unit=c&api_key={api_key}&x=1", {"token": 1},
    )  # fmt: skip


def test_headers_with_secrets_lose_their_values_and_schemas_stay() -> None:
    schema = {"properties": {"cookie": {"type": "string"}, "authorization": {"type": "string"}}}
    assert cleaned(schema) == (schema, {})
    found, removed = cleaned({"headers": {"Set-Cookie": "a=b", "x-api-key": "c", "accept": "d"}})
    assert found == {"headers": {"Set-Cookie": "REMOVED", "x-api-key": "REMOVED", "accept": "d"}}
    assert removed == {"header": 2}


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert cleaned(text, emails=True) == (text, {})


def test_addresses_are_removed_only_if_asked_for() -> None:
    text = "Write to ann.lee+x@mail.example.com, or bob@example.org."
    assert cleaned(text) == (text, {})
    assert cleaned(text, emails=True) == (
        "Write to REMOVED, or REMOVED.", {"e-mail address": 2},
    )  # fmt: skip


LEAF = st.none() | st.booleans() | st.integers() | st.text("ab c1.", max_size=9)
JSON = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner),
    max_leaves=12,
)


@given(value=JSON)
def test_a_value_without_secrets_is_unchanged(value: Any) -> None:
    assert cleaned(value, emails=True) == (value, {})


def test_a_secret_that_the_model_repeats_is_the_same_word_in_what_is_expected(
    tmp_path: Path,
) -> None:
    secret = "sk-proj-abcdefghijklmnop1234"
    first = {"role": "assistant", "content": f"Your key is {secret}."}
    given = [
        Exchange(asks(user(f"My key: {secret}")), completion(first)),
        Exchange(asks(user(f"My key: {secret}"), first, user("Ann@mail.example")),
                 completion({"role": "assistant", "content": "Hi"})),
    ]  # fmt: skip
    path = tmp_path / "a.json"
    path.write_text(json.dumps(vcrpy(given)))
    before = path.read_bytes()
    recording = read_recording(path)
    scenario, comment = scenario_of(recording, emails=True)
    text = scenario_text(scenario, comment)
    assert secret not in text
    assert "Ann@mail.example" not in text
    assert recording.removed == {"key": 4, "e-mail address": 2}
    assert "Removed 4 times: key." in comment
    assert run(scenario).mismatches == ()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "name", [name for name, data in FILES.items() if b"Rome" in data and b"PK" not in data]
)
def test_no_place_of_a_recording_lets_a_secret_through(name: str, tmp_path: Path) -> None:
    secret = b"sk-proj-abcdefghijklmnop1234"
    path = tmp_path / "recording"
    path.write_bytes(FILES[name].replace(b"Rome", secret).replace(b"weather", b"look"))
    recording = read_recording(path)
    scenario, comment = scenario_of(recording)
    assert secret.decode() not in scenario_text(scenario, comment)
    assert recording.removed["key"]
    assert recording.removed.total() == recording.removed["key"]
