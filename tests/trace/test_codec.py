import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop import (
    Reply,
    Scenario,
    ScenarioError,
    ScriptedTool,
    ToolResult,
    read_trace,
    run,
    simulate,
)
from simloop.runs.run import Simulation
from simloop.scenario.schema import Context
from simloop.trace import entries
from simloop.trace.codec import MAX_BYTES, decode, digest, encode
from simloop.trace.looptrace import LoopTrace


def a_trace(say: str = "Hello.") -> LoopTrace:
    scenario = Scenario(
        title="A run",
        prompt="Hi",
        tools={"look": ScriptedTool(returns=[1, 2], takes="120ms")},
        model=[Reply(call={"look": {}}), Reply(say=say)],
    )
    return run(scenario).trace


def refusal(data: bytes) -> str:
    with pytest.raises(ScenarioError) as refused:
        decode(data, "some.jsonl")
    return str(refused.value)


def test_the_first_line_is_the_header_and_the_last_one_the_footer() -> None:
    first, *_, last = encode(a_trace()).splitlines()
    assert msgspec.json.decode(first)["kind"] == "header"
    assert msgspec.json.decode(last)["kind"] == "footer"


def test_entries_are_numbered_from_zero_and_their_time_never_goes_back() -> None:
    made = a_trace().entries
    assert [entry.seq for entry in made] == list(range(len(made)))
    assert [entry.at_ns for entry in made] == sorted(entry.at_ns for entry in made)


def test_a_trace_grows_with_the_run_and_not_with_its_square() -> None:
    def size(rounds: int) -> int:
        calls = [Reply(say="word " * 20, call={"look": {}})] * rounds
        tools = {"look": ScriptedTool(returns="found")}
        scenario = Scenario(prompt="Hi", tools=tools, model=[*calls, Reply(say="Done.")])
        return len(encode(run(scenario).trace))

    per_round = (size(40) - size(20)) / 20
    assert (size(80) - size(40)) / 40 == pytest.approx(per_round, rel=0.05)


@given(cut=st.integers(min_value=1, max_value=3000))
def test_a_file_that_was_cut_loads_up_to_its_last_whole_line(cut: int) -> None:
    whole = a_trace()
    data = encode(whole)
    header_end = data.index(b"\n") + 1
    kept = data[: max(header_end, len(data) - cut)]
    loaded = decode(kept)
    assert loaded.entries == whole.entries[: len(loaded.entries)]
    if loaded.footer is None:
        assert f"after {len(loaded.entries)} whole entries" in loaded.truncated


def test_a_piece_of_a_line_is_told() -> None:
    assert "and a piece of one" in decode(encode(a_trace())[:-20]).truncated


def test_a_whole_trace_is_not_called_truncated() -> None:
    assert decode(encode(a_trace())).truncated == ""


@pytest.mark.parametrize("data", [b"", b"\n", b"hello", b"\xff\xfe", b"{}", b"[]\n"])
def test_what_is_no_trace_is_refused_with_how_to_record_one(data: bytes) -> None:
    assert refusal(data) == (
        "some.jsonl:1: this is not a simloop trace (record one with: simloop record SCENARIO)"
    )


@pytest.mark.parametrize(
    ("version", "hint"),
    [(99, "install a newer simloop"), (2, "record it again: simloop record SCENARIO")],
)
def test_another_version_is_refused_by_its_number(version: int, hint: str) -> None:
    data = encode(a_trace()).replace(b'"version":3', b'"version":%d' % version, 1)
    assert refusal(data) == (
        f"some.jsonl:1: this trace has the format of version {version}, "
        f"and this simloop reads version 3 ({hint})"
    )


def test_a_damaged_line_is_refused_with_its_number() -> None:
    lines = encode(a_trace()).splitlines(keepends=True)
    lines[3] = b'{"kind":"transition"}\n'
    assert refusal(b"".join(lines)).startswith(
        "some.jsonl:4: this line of the trace cannot be read"
    )


def test_a_line_after_the_footer_is_refused() -> None:
    data = encode(a_trace())
    assert "a line after the footer" in refusal(data + data.splitlines()[1] + b"\n")


def test_a_change_is_found_by_the_digest() -> None:
    data = encode(a_trace("Hello.")).replace(b'"text":"Hello."', b'"text":"Jello."', 1)
    assert refusal(data) == "some.jsonl: the digest does not match: the file was changed"


def test_what_several_prompts_and_long_runs_add_to_a_trace_reads_back() -> None:
    scenario = Scenario(
        prompt="Hi",
        loop="pi",
        then=["Again"],
        tools={"look": ScriptedTool(details={"b": [1, None], "a": 10**30})},
        context=Context(over=[False]),
        model=[Reply(call={"look": {}}, times=51), Reply(say="Done."), Reply(say="Bye.")],
    )
    trace = run(scenario).trace
    kinds = {type(entry) for entry in trace.entries}
    assert {entries.Notice, entries.Ended, entries.Prompt} <= kinds
    assert decode(encode(trace)).entries == trace.entries


def test_details_of_equal_content_give_equal_bytes() -> None:
    def trace(details: dict[str, int]) -> bytes:
        def look() -> ToolResult:
            return ToolResult("", details=details)

        scenario = Scenario(prompt="Hi", model=[Reply(call={"look": {}}), Reply(say="Done.")])
        return encode(run(scenario, tools=[look]).trace)

    assert trace({"a": 1, "b": 2}) == trace({"b": 2, "a": 1})


def with_line(data: bytes, number: int, line: bytes) -> bytes:
    """`data` with another line of that number, and with the digest that fits."""
    lines = data.splitlines(keepends=True)
    lines[number - 1] = line
    body = b"".join(lines[:-1])
    footer = msgspec.json.decode(lines[-1]) | {"digest": digest(body)}
    return body + msgspec.json.encode(footer) + b"\n"


HEADS = b'{"kind":"notice","seq":1,"at_ns":0,'
RESULT = b'{"kind":"tool-result","seq":1,"at_ns":0,"call_id":"a","name":"a","text":"",'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (HEADS + b'"text":"\xff"}\n', "can't decode byte 0xff"),
        (HEADS + b'"text":NaN}\n', "invalid character"),
        (RESULT + b'"details":' + b"[" * 100_000 + b"}\n", "it is nested too deeply"),
        (HEADS.replace(b'"seq":1', b'"seq":-1') + b'"text":""}\n', "Expected `int` >= 0"),
        (
            HEADS.replace(b'"seq":1', b'"seq":' + b"9" * 5_000) + b'"text":""}\n',
            "Integer value out of range",
        ),
        (
            HEADS.replace(b'"seq":1', b'"seq":2') + b'"text":""}\n',
            "it is entry 2, in the place of entry 1",
        ),
        (b"\n", "Input data was truncated"),
        (b"\x00" * 10_000_000 + b"\n", "invalid character"),
    ],
    ids=["bytes", "NaN", "depth", "negative", "huge", "order", "empty", "long"],
)
def test_a_line_that_no_run_writes_is_refused_with_its_number(line: bytes, why: str) -> None:
    refused = refusal(with_line(encode(a_trace()), 3, line))
    assert refused.startswith("some.jsonl:3: this line of the trace cannot be read: ")
    assert why in refused


def test_a_line_that_goes_back_in_time_or_forgets_what_was_sent_is_refused() -> None:
    data = encode(a_trace())
    late = [line for line in data.splitlines() if b'"at_ns":0' not in line][1]
    number = data.splitlines().index(late) + 2
    back = data.splitlines()[number - 1].replace(b'"at_ns":1', b'"at_ns":', 1)
    assert "is before that of the last entry" in refusal(with_line(data, number, back + b"\n"))
    kept = next(line for line in data.splitlines() if b'"kept":1' in line)
    number = data.splitlines().index(kept) + 1
    more = kept.replace(b'"kept":1', b'"kept":9') + b"\n"
    assert "it keeps 9 messages of a request that had 1" in refusal(with_line(data, number, more))


def test_arguments_that_are_no_json_are_refused() -> None:
    data = encode(a_trace())
    started = next(line for line in data.splitlines() if b'"tool-started"' in line)
    number = data.splitlines().index(started) + 1
    wrong = started.replace(b'"arguments":"{}"', b'"arguments":"{"') + b"\n"
    assert "are no JSON" in refusal(with_line(data, number, wrong))


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 1_000)  # sparse: it takes no space
    with pytest.raises(ScenarioError, match="the file is over 1,073,741,824 bytes"):
        read_trace(path)


def test_what_is_recorded_after_the_end_of_the_last_prompt_is_in_the_file() -> None:
    simulation = Simulation(Scenario(prompt="Hi", model=[Reply(say="Hello.")]))

    async def main() -> None:
        await simulation.send("Hi")
        await asyncio.sleep(2)
        simulation.queue("And you?")

    simulate(main())
    read = decode(encode(simulation.trace))
    assert read.entries == simulation.trace.entries
    assert isinstance(read.entries[-1], entries.Queued)
    assert read.footer is not None
    assert (read.footer.entries, read.footer.elapsed_ns) == (len(read.entries), 2 * 10**9)
