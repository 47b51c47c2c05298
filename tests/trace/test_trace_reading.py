"""A line of a trace fits those before it, or is refused: views rely on that."""

from typing import Any

import msgspec
import pytest
from incases import in_cases

from simloop.errors import ScenarioError
from simloop.kernel.errorclass import ErrorClass
from simloop.messages import Fault, FinishReason, Outcome, UserMessage
from simloop.trace import entries
from simloop.trace.codec import FORMAT, VERSION, decode, encode
from simloop.trace.entries import AnyEntry, Footer, Header
from simloop.trace.looptrace import LoopTrace, calls
from simloop.trace.timeline import timeline

HEADER = Header(FORMAT, VERSION, "", "own", 0, "", msgspec.Raw(b"{}"))
PROMPT = entries.Prompt(0, 0, "Go.")
ENDED = entries.Ended(0, 0, Outcome.COMPLETED, "", "", "", 0)
GO = UserMessage("Go.")
FAULT = Fault("broken", status=500)


def request(number: int = 1, base: int = 0, kept: int = 0) -> AnyEntry:
    return entries.Request(0, 0, number, "main", "", base, kept, (GO,))


def call(call_id: str = "a", number: int = 1) -> AnyEntry:
    return entries.ToolCall(0, 0, number, call_id, "look", "{}")


def finish(number: int = 1) -> AnyEntry:
    return entries.Finish(0, 0, number, FinishReason.STOP, "stop")


def error(number: int = 1) -> AnyEntry:
    return entries.Error(0, 0, number, FAULT)


def classified(fault: Fault | None = None) -> AnyEntry:
    return entries.Classified(0, 0, ErrorClass.SERVER, True, fault)  # noqa: FBT003


def renamed(call_id: str = "a") -> AnyEntry:
    return entries.CallRenamed(0, 0, call_id, f"{call_id}#2", "look")


def begun(call_id: str = "a") -> AnyEntry:
    return entries.CallBegun(0, 0, call_id)


def started(arguments: str) -> AnyEntry:
    return entries.ToolStarted(0, 0, "a", "look", arguments)


def written(record: tuple[AnyEntry, ...], *, ended: bool) -> bytes:
    numbered = [msgspec.structs.replace(each, seq=seq) for seq, each in enumerate(record)]
    return encode(LoopTrace(HEADER, numbered, Footer(len(record), 0) if ended else None))


CUT, TEXT = entries.StreamCut(0, 0, 1), entries.TextDelta(0, 0, 1, "Hi")
FITS: dict[str, tuple[AnyEntry, ...]] = {
    "a run": (PROMPT, request(), TEXT, finish(), ENDED),
    "two runs": (PROMPT, ENDED, PROMPT, ENDED),
    "two replies at once": (PROMPT, request(), request(2), finish(2), call(), finish(), ENDED),
    "a later base": (PROMPT, request(), request(2, 1, 1), request(3, 1, 1), finish(3), ENDED),
    "a cut": (PROMPT, request(), TEXT, CUT, ENDED),
    "an error": (PROMPT, request(), TEXT, error(), classified(), ENDED),
    "an error of the engine": (PROMPT, request(), classified(FAULT), ENDED),
    "a call that is renamed": (PROMPT, request(), call(), TEXT, renamed(), finish(), ENDED),
    "two calls of one id": (
        *(PROMPT, request(), call(), call(), renamed(), finish()),
        *(begun(), begun("a#2"), ENDED),
    ),
    "a message between two runs": (
        *(PROMPT, ENDED),
        *(entries.Queued(0, 0, "And?", "steering"), PROMPT, ENDED),  # type: ignore[arg-type]
    ),
}
WRONG: dict[str, tuple[tuple[AnyEntry, ...], str]] = {
    "base": ((PROMPT, request(2, 1)), "it is based on request 1, which is not in the trace"),
    "base of its own": ((PROMPT, request(1, 1)), "it is based on request 1, which is not"),
    "number": ((PROMPT, request(), request()), "there is a request 1 before it"),
    "number 0": ((PROMPT, request(0)), "there is a request 0 before it"),
    "kept": ((PROMPT, request(), request(2, 1, 2)), "it keeps 2 messages of a request that had 1"),
    "kept of nothing": ((PROMPT, request(1, 0, 1)), "it keeps 1 messages of a request that had 0"),
    "text of no request": ((PROMPT, TEXT), "request 1 is not in the trace before it"),
    "reasoning": ((PROMPT, entries.ReasoningDelta(0, 0, 7, "Hm")), "request 7 is not in"),
    "piece": ((PROMPT, entries.ToolCallDelta(0, 0, 7, "a", "look", "{")), "request 7 is not in"),
    "call of no request": ((PROMPT, request(), call(number=2)), "request 2 is not in"),
    "finish of no request": ((PROMPT, finish()), "request 1 is not in the trace before it"),
    "text after the finish": ((PROMPT, request(), finish(), TEXT), "or its reply has ended"),
    "call after the error": ((PROMPT, request(), error(), call()), "or its reply has ended"),
    "two finishes": ((PROMPT, request(), finish(), finish()), "or its reply has ended"),
    "cut after the finish": ((PROMPT, request(), finish(), CUT), "or its reply has ended"),
    "error after a cut": ((PROMPT, request(), CUT, error()), "or its reply has ended"),
    "no object": ((PROMPT, started("[1]")), "the arguments of the tool are no JSON object"),
    "no JSON": ((PROMPT, started("{")), "the arguments of the tool are no JSON object"),
    "depth": ((PROMPT, started("[" * 100_000)), "the arguments of the tool are no JSON object"),
    "two prompts": ((PROMPT, PROMPT), "a prompt and its end must follow each other"),
    "two ends": ((PROMPT, ENDED, ENDED), "a prompt and its end must follow each other"),
    "an end of nothing": ((ENDED,), "a prompt and its end must follow each other"),
}


def everything(trace: LoopTrace) -> list[Any]:
    """What the views make of a trace."""
    return [
        *timeline(trace),
        *calls(trace.entries),
    ]


@pytest.mark.parametrize("record", FITS.values(), ids=FITS)
def test_what_a_run_may_record_is_read_and_can_be_viewed(record: tuple[AnyEntry, ...]) -> None:
    trace = decode(written(record, ended=True))
    assert len(trace.entries) == len(record)
    assert everything(trace)


@in_cases(WRONG.values())
def test_an_entry_that_no_run_records_there_is_refused_with_its_line(
    record: tuple[AnyEntry, ...], why: str
) -> None:
    before = decode(written(record[:-1], ended=False))
    assert len(before.entries) == len(record) - 1
    with pytest.raises(ScenarioError) as refused:
        decode(written(record, ended=False), "a.jsonl")
    line = len(record) + 1
    assert str(refused.value).startswith(f"a.jsonl:{line}: this line of the trace cannot be read: ")
    assert why in str(refused.value)


@pytest.mark.parametrize("record", [(), (PROMPT,), (PROMPT, ENDED, PROMPT, request())], ids=len)
def test_a_footer_without_an_end_before_it_is_refused(record: tuple[AnyEntry, ...]) -> None:
    with pytest.raises(ScenarioError, match="the last prompt has no end before it"):
        decode(written(record, ended=True))


def test_a_footer_that_counts_other_entries_is_refused() -> None:
    whole = written((PROMPT, ENDED), ended=True)
    with pytest.raises(ScenarioError, match="it counts 3 entries, not 2"):
        decode(whole.replace(b'"entries":2', b'"entries":3'))


def test_a_second_header_is_refused() -> None:
    header = encode(LoopTrace(HEADER))
    with pytest.raises(ScenarioError, match="a header or a line after the footer"):
        decode(header + header)
