"""The pieces of a text are one line of a trace file, and the same entries when it is read."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop import Reply, Scenario, ScenarioError, run
from simloop.messages import FinishReason, Outcome, UserMessage
from simloop.scenario.replies import Pace
from simloop.trace import codec, entries
from simloop.trace.codec import FORMAT, VERSION, decode, encode
from simloop.trace.entries import AnyEntry, Footer, Header
from simloop.trace.looptrace import LoopTrace

HEADER = Header(FORMAT, VERSION, "", "own", 0, "", msgspec.Raw(b"{}"))


def written(*pieces: AnyEntry) -> bytes:
    """The file of a run of two replies at once, which have these pieces."""
    go = (UserMessage("Go."),)
    record: list[AnyEntry] = [
        entries.Prompt(0, 0, "Go."),
        *(entries.Request(0, 0, number, "main", "", added=go) for number in (1, 2)),
        *pieces,
    ]
    last_ns = record[-1].at_ns
    record += [
        *(entries.Finish(0, last_ns, number, FinishReason.STOP, "stop") for number in (1, 2)),
        entries.Ended(0, last_ns, Outcome.COMPLETED, "", "", "", last_ns),
    ]
    numbered = [msgspec.structs.replace(each, seq=seq) for seq, each in enumerate(record)]
    return encode(LoopTrace(HEADER, numbered, Footer(len(record), last_ns)))


def text(piece: str, at_ns: int = 0, number: int = 1) -> AnyEntry:
    return entries.TextDelta(0, at_ns, number, piece)


def thought(piece: str, at_ns: int = 0, number: int = 1) -> AnyEntry:
    return entries.ReasoningDelta(0, at_ns, number, piece)


def of_pieces(data: bytes) -> list[dict[str, Any]]:
    """The lines of a file that hold pieces."""
    every = [msgspec.json.decode(line) for line in data.splitlines()]
    return [line for line in every if "-delta" in line["kind"]]


def test_a_reply_in_words_is_one_line_with_the_text_and_the_times_of_its_words() -> None:
    pace = Pace(first_part="1s", per_part="20ms")
    trace = run(Scenario(prompt="Hi", model=[Reply(say="It says Hello.", pace=pace)])).trace
    (line,) = of_pieces(encode(trace))
    del line["seq"]
    assert line == {
        "kind": "text-deltas",
        "at_ns": 1_000_000_000,
        "request": 1,
        "text": "It says Hello.",
        "lengths": [2, 5, 7],
        "gaps_ns": 20_000_000,
    }


def test_a_word_more_takes_its_letters_and_its_length_in_the_file() -> None:
    """An entry for each word would take 75 bytes more."""

    def size(words: int) -> int:
        return len(encode(run(Scenario(prompt="Hi", model=[Reply(say="word " * words)])).trace))

    # The text is in the scenario, in the reply, and twice in the end of the run.
    assert size(600) - size(500) == 100 * (4 * len("word ") + len("5,"))


def test_pieces_of_two_replies_that_come_in_turn_keep_their_order() -> None:
    pieces = text("a"), text("b", number=2), text("c"), text("d"), thought("e"), thought("f")
    data = written(*pieces)
    told = [(line["kind"], line["text"]) for line in of_pieces(data)]
    assert told == [
        ("text-delta", "a"),
        ("text-delta", "b"),
        ("text-deltas", "cd"),
        ("reasoning-deltas", "ef"),
    ]
    numbered = [msgspec.structs.replace(each, seq=seq) for seq, each in enumerate(pieces, 3)]
    assert decode(data).entries[3:9] == numbered


@given(
    st.lists(
        st.tuples(
            st.sampled_from([text, thought]),
            st.text(alphabet="a é\n\u202e😀", max_size=3),
            st.sampled_from([0, 0, 1, 2**40]),
            st.sampled_from([1, 1, 2]),
        ),
        max_size=12,
    )
)
def test_any_pieces_are_read_as_they_were_written(drawn: list[tuple[Any, str, int, int]]) -> None:
    at_ns, pieces = 0, []
    for kind, piece, later_ns, number in drawn:
        at_ns += later_ns
        pieces.append(kind(piece, at_ns, number))
    data = written(*pieces)
    trace = decode(data)
    numbered = [msgspec.structs.replace(each, seq=seq) for seq, each in enumerate(pieces, 3)]
    assert trace.entries[3 : 3 + len(pieces)] == numbered
    assert encode(trace) == data
    kinds = [(line["kind"].removesuffix("s"), line["request"]) for line in of_pieces(data)]
    assert all(one != next_one for one, next_one in pairwise(kinds))


WHOLE = written(text("ab", 5), text("c", 7), text("de", 8))
PIECES = b'"text":"abcde","lengths":[2,1,2],"gaps_ns":[2,1]'


def refusal(data: bytes) -> str:
    with pytest.raises(ScenarioError) as refused:
        decode(data, "a.jsonl")
    return str(refused.value)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (b'"text":"abcd","lengths":[2,1,2]', "its pieces have 5 characters, and its text has 4"),
        (b'"text":"abcde","lengths":[2,1,2],"gaps_ns":[2]', "have 2 gaps between them, and it"),
        (b'"text":"abcde","lengths":[2,1,2],"gaps_ns":[2,-1]', "Expected `int` >= 0"),
        (b'"text":"abcde","lengths":[5]', "Expected `array` of length >= 2"),
        (b'"text":"abcde","lengths":[2,-1,4]', "Expected `int` >= 0"),
        (
            b'"text":"abcde","lengths":[2,1,2],"gaps_ns":%d' % (2**62),
            "its last piece comes after the end of time",
        ),
    ],
    ids=["text", "gaps", "gap", "one", "length", "time"],
)
def test_pieces_that_are_not_those_of_their_text_are_refused_with_their_line(
    changed: bytes, why: str
) -> None:
    assert WHOLE.count(PIECES) == 1
    refused = refusal(WHOLE.replace(PIECES, changed))
    assert refused.startswith("a.jsonl:5: this line of the trace cannot be read: ")
    assert why in refused


def test_more_pieces_than_a_run_can_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces without a text would need two bytes each in the file, and a hundred in memory."""
    monkeypatch.setattr(codec, "MAX_ENTRIES", 1)
    assert "there are more than 1 pieces up to it" in refusal(WHOLE)


def test_a_line_after_the_pieces_of_a_text_is_refused_with_its_own_number() -> None:
    finish = b'{"kind":"finish","seq":6,'
    assert finish in WHOLE.splitlines()[5]
    refused = refusal(WHOLE.replace(finish, finish.replace(b"6", b"9")))
    assert refused == (
        "a.jsonl:6: this line of the trace cannot be read: it is entry 9, in the place of entry 6"
    )
