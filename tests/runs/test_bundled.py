"""The bundled scenarios: each does what it says, on each loop that can express it."""

import contextlib
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from incases import check_each

from simloop.check.trial import Rules, Until, Verdict, trial, verify
from simloop.errors import CannotExpress, CheckFailed
from simloop.kernel.machine import Machine, checked_transition
from simloop.kernel.names import NAMES
from simloop.kernel.signals import AbortRequested, ModelFailed
from simloop.messages import (
    AssistantMessage,
    FinishReason,
    Message,
    Outcome,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.runs.loop import machine_for
from simloop.runs.plan import Plan, reasons_against
from simloop.runs.result import Result
from simloop.runs.run import Simulation, run
from simloop.scenario.catalog import SUFFIX, bundled_folder, find
from simloop.scenario.designs import names
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests

PATHS = sorted(bundled_folder().rglob(f"*{SUFFIX}"))
LARGE = [path for path in PATHS if "ten-megabytes" in path.name]
SMALL = [path for path in PATHS if path not in LARGE]


def judged(source: Scenario | Path, loop: str | None = None) -> Verdict:
    return verify(source, Until.END, loop=loop)


# Read and run once for all tests of this module: there are hundreds, and none changes them.
loaded = functools.cache(load_scenario)


@functools.cache
def ran(path: Path) -> Verdict:
    return judged(loaded(path))


def trace_of(path: Path) -> LoopTrace:
    trace = ran(path).trace
    assert trace is not None
    return trace


def ends_as_expected(scenario: Scenario, loop: str) -> bool:
    """Whether the run meets its expectations, which the invariants have no part in."""
    return not trial(Plan(scenario, {"loop": loop}), Rules(())).exit_code


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(SUFFIX)}"


def unpaired(messages: Iterable[Message]) -> list[str]:
    """The ids of calls that have not one result each right after them, and of results alone.

    The ids of calls that share one count too.
    """
    wrong, seen, open_ids = [], set[str](), list[str]()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in open_ids[:1]:
                wrong.append(message.call_id)
            del open_ids[:1]
            continue
        wrong += open_ids
        open_ids = [call.id for call in message.calls] if hasattr(message, "calls") else []
        wrong += [one for one in open_ids if one in seen or not one or open_ids.count(one) > 1]
        seen.update(open_ids)
    return wrong + open_ids


def each_scenario(test: Callable[[Path], None]) -> Callable[[list[Path]], None]:
    """Return a test of all scenarios; the large one is slow."""

    @pytest.mark.parametrize(
        "paths", [SMALL, pytest.param(LARGE, marks=pytest.mark.slow)], ids=["small", "large"]
    )
    @functools.wraps(test)
    def judges_each(paths: list[Path]) -> None:
        check_each(test, paths, name_of)

    del judges_each.__wrapped__  # pytest would take its parameter for a fixture
    return judges_each


@pytest.fixture(scope="module")
def traces() -> list[LoopTrace]:
    return [trace_of(path) for path in SMALL]


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [result for path in SMALL if (result := ran(path).result) is not None]


@each_scenario
def test_it_does_what_it_expects(path: Path) -> None:
    assert (ran(path).errors, ran(path).failures) == ([], ())


@pytest.mark.slow
@pytest.mark.parametrize("loop", names())
def test_on_each_loop_it_does_what_it_expects_or_the_loop_says_why_it_cannot(loop: str) -> None:
    """And the signals of its trace lead the machine of that loop to the same states."""

    def does(path: Path) -> None:
        scenario = loaded(path)
        machine = machine_for(loop, scenario.limits, scenario.loops)
        verdict = judged(scenario, loop)
        cannot = [str(error) for error in verdict.errors if isinstance(error, CannotExpress)]
        if cannot:
            assert loop not in scenario.expect_on
            reasons = reasons_against(machine.unsupported, scenario, {})
            assert reasons
            assert all(reason in cannot[0] for reason in reasons)
            return
        assert (verdict.errors, verdict.failures) == ([], ())
        assert verdict.trace is not None
        assert states_of(verdict.trace, machine) == recorded_states(verdict.trace)

    check_each(does, PATHS, name_of)


@pytest.mark.slow
@each_scenario
def test_what_it_expects_elsewhere_is_not_so_on_the_loop_that_it_differs_from(path: Path) -> None:
    """A version differs from its design, where that is expected to differ, or else from home."""
    scenario = loaded(path)
    for loop in scenario.expect_on:
        assert loop != scenario.loop
        others = {name: each for name, each in scenario.expect_on.items() if name != loop}
        assert not ends_as_expected(scenario.model_copy(update={"expect_on": others}), loop), loop
        design = loop.partition("@")[0]
        other = design if design in others else scenario.loop
        moved = {"expect": scenario.expect_on[loop], "expect_on": {}}
        assert not ends_as_expected(scenario.model_copy(update=moved), other), loop


@each_scenario
def test_each_call_has_one_result_in_its_requests_and_at_its_end(path: Path) -> None:
    result = ran(path).result
    transcripts = [request.messages for request in requests(trace_of(path).entries)]
    if result is not None and not result.trace.header.loop.startswith("pi@"):
        transcripts.append(result.messages)  # a transcript of pi may have a call without a result
    assert [unpaired(messages) for messages in transcripts] == [[] for _ in transcripts]


@each_scenario
def test_it_gives_the_same_bytes_each_time(path: Path) -> None:
    again = Simulation(loaded(path))
    with contextlib.suppress(CheckFailed):  # some scenarios never end, and expect that
        again.run()
    assert encode(again.trace) == encode(trace_of(path))


@each_scenario
def test_its_trace_reads_back_as_it_was_written(path: Path) -> None:
    written = encode(trace_of(path))
    read = decode(written)
    assert read.entries == trace_of(path).entries
    assert encode(read) == written


def states_of(trace: LoopTrace, machine: Machine) -> list[tuple[str, int]]:
    """The states and error counts of `machine` when it is fed the signals of a trace, as a file.

    Where an abort is a flag, the trace notes it as a signal that leads nowhere.
    """
    flags_abort = machine.policies.abort_is_flag
    run_of_machine, states = machine.start(), list[tuple[str, int]]()
    for entry in decode(encode(trace)).entries:
        if isinstance(entry, entries.Prompt):
            run_of_machine = machine.start()
        elif isinstance(entry, entries.Transition):
            if not (flags_abort and type(entry.signal) is AbortRequested):
                run_of_machine, _ = checked_transition(machine, run_of_machine, entry.signal)
            states.append((NAMES[type(run_of_machine.state)], run_of_machine.error_count))
    return states


def recorded_states(trace: LoopTrace) -> list[tuple[str, int]]:
    moves = [entry for entry in trace.entries if isinstance(entry, entries.Transition)]
    return [(move.state, move.counters.error_count) for move in moves]


@each_scenario
def test_the_signals_of_its_trace_lead_its_machine_to_the_same_states_without_a_world(
    path: Path,
) -> None:
    scenario = loaded(path)
    machine = machine_for(scenario.loop, scenario.limits, scenario.loops)
    recorded = recorded_states(trace_of(path))
    assert recorded
    assert states_of(trace_of(path), machine) == recorded


def test_other_signals_lead_to_other_states() -> None:
    """Without its retry a run does not come to the states that were recorded."""
    trace = trace_of(find("retry/rate-limit"))
    failed = next(
        index
        for index, entry in enumerate(trace.entries)
        if isinstance(entry, entries.Transition) and isinstance(entry.signal, ModelFailed)
    )
    move = trace.entries[failed]
    assert isinstance(move, entries.Transition)
    assert isinstance(move.signal, ModelFailed)
    final = msgspec.structs.replace(
        move, signal=msgspec.structs.replace(move.signal, retryable=False)
    )
    changed = LoopTrace(trace.header, [*trace.entries[:failed], final])
    scenario = loaded(find("retry/rate-limit"))
    machine = machine_for(scenario.loop, scenario.limits)
    assert states_of(changed, machine) != recorded_states(changed)


@each_scenario
def test_it_says_what_must_hold_as_one_sentence_without_a_full_stop(path: Path) -> None:
    title = loaded(path).title
    assert title[:1].isupper()
    assert not title.endswith((".", "!", "?", ":"))
    assert len(title) <= 90


@each_scenario
def test_it_expects_an_end_and_at_least_one_thing_more(path: Path) -> None:
    expect = loaded(path).expect
    assert len({"outcome", "outcomes", "error"} & expect.model_fields_set) == 1
    assert len(expect.model_fields_set) > 1


@each_scenario
def test_it_is_short_and_tells_editors_its_schema(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0] == "# yaml-language-server: $schema=../schema.json"
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


@each_scenario
def test_it_is_found_by_its_name_alone(path: Path) -> None:
    assert find(path.name.removesuffix(SUFFIX)) == path


def test_together_they_reach_every_outcome(results: list[Result]) -> None:
    assert {result.outcome for result in results} == set(Outcome)


def test_together_they_meet_every_finish_reason(traces: list[LoopTrace]) -> None:
    met = {
        entry.reason
        for trace in traces
        for entry in trace.entries
        if isinstance(entry, entries.Finish)
    }
    assert met == set(FinishReason)


def test_together_they_record_every_kind_of_entry_of_a_machine_but_a_failed_callback(
    traces: list[LoopTrace],
) -> None:
    recorded = {type(entry) for trace in traces for entry in trace.entries}
    kinds = set(get_args(entries.AnyEntry))
    of_agents = {
        *(entries.Sleep, entries.LoopBlocked, entries.LockHeld),
        *(entries.TaskCancelled, entries.LeftBehind),
    }
    of_http = {entries.Note, entries.RequestRefused}
    of_world = {
        *(entries.Refused, entries.ServiceRequest, entries.ServiceReply, entries.Restarted),
        *(entries.ProgramStarted, entries.ProgramInput, entries.ProgramOutput),
        *(entries.ProgramEnded, entries.Input, entries.Output),
    }
    assert kinds - recorded == {entries.Callback, *of_http, *of_agents, *of_world}


def test_together_they_reach_every_limit_that_can_end_a_run(results: list[Result]) -> None:
    assert {result.limit for result in results} >= {
        *("max_steps", "max_steps_per_round", "max_error_count", "max_compaction_attempts"),
        *("max_wall_clock", "max_rounds", "max_retries"),
    }


def test_pi_and_opencode_alone_have_scenarios_that_never_end() -> None:
    """A scenario that bounds its trace ends in RunawayRun on any loop, and does not count."""
    runaways = [s for s in map(loaded, PATHS) if s.expect.error == "RunawayRun"]
    bounded = {s.loop for s in runaways if "max_trace_chars" in s.model_fields_set}
    endless = {s.loop for s in runaways if "max_trace_chars" not in s.model_fields_set}
    assert bounded == {"reference"}
    assert endless == {"pi", "opencode@1.18.34"}


def test_pairing_is_seen_to_be_broken_where_it_is() -> None:
    call, answer = ToolCall("a", "x", "{}"), ToolMessage("a", "")
    said = AssistantMessage("", (call,))
    assert unpaired([said, answer]) == []
    assert unpaired([said]) == ["a"]
    assert unpaired([answer]) == ["a"]
    assert unpaired([said, UserMessage("?"), answer]) == ["a", "a"]
    assert unpaired([said, answer, said, answer]) == ["a"]
    assert unpaired([AssistantMessage("", (call, call)), answer, answer]) == ["a", "a"]


def result_on(name: str, loop: str | None = None) -> Result:
    return run(load_scenario(find(name)), loop=loop)


def test_the_quickstart_shows_a_retry_tools_a_compaction_and_an_answer() -> None:
    result = result_on("quickstart")
    kinds = {type(entry) for entry in result.trace.entries}
    assert {entries.Backoff, entries.ToolStarted, entries.Compaction} <= kinds
    assert (result.outcome, result.message) == (Outcome.COMPLETED, result.text)
