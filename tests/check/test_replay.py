import itertools
import re
from typing import Any

import msgspec
import pytest

from simloop.check.replay import Setting, as_far_as, different_settings, recorded_scenario, rerun
from simloop.check.trial import Verdict, run_again, run_to_the_end, trial, verify
from simloop.engine.hooks import Hooks
from simloop.errors import InternalError, ReplayDiverged, ScenarioError
from simloop.kernel.retry import ExponentialBackoff
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation, run
from simloop.scenario.catalog import SUFFIX, bundled_folder
from simloop.scenario.loader import load_scenario, parse_scenario
from simloop.scenario.replies import Http, Reply
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.trace.diff import Divergence, first_difference
from simloop.trace.looptrace import LoopTrace

ANSWERS = "seed: 3\nprompt: Hi\nmodel: [{http: {status: 500}}, {say: Hello there.}]\n"
EXHAUSTED = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}]\n"


def read_back(trace: LoopTrace) -> LoopTrace:
    """As it is after a way through a file."""
    return decode(encode(trace))


def played(text: str, **given: Any) -> LoopTrace:
    return run(parse_scenario(text), **given).trace


def diverged(verdict: Verdict) -> ReplayDiverged:
    assert verdict.deterministic is False
    error = verdict.errors[-1]
    assert isinstance(error, ReplayDiverged)
    return error


def text_at(trace: LoopTrace) -> int:
    found = (seq for seq, one in enumerate(trace.entries) if isinstance(one, entries.TextDelta))
    return next(found)


def rewritten(trace: LoopTrace, text: str) -> LoopTrace:
    """A trace that says that the model said something else."""
    seq = text_at(trace)
    said = msgspec.structs.replace(trace.entries[seq], text=text)
    record = [*trace.entries[:seq], said, *trace.entries[seq + 1 :]]
    return read_back(msgspec.structs.replace(trace, entries=record))


def cut(trace: LoopTrace, count: int) -> LoopTrace:
    lines = encode(trace).splitlines(keepends=True)
    return decode(b"".join(lines[: count + 1]))


def replay(trace: LoopTrace) -> Divergence | None:
    """Where the recorded scenario, run again, first differs."""
    return first_difference(trace, rerun(trace))


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry policy that remembers: each wait is a nanosecond longer, also in the next run."""
    numbers = itertools.count(10**9)
    monkeypatch.setattr(ExponentialBackoff, "delay_ns", lambda *_, **__: next(numbers))


class TestAReplay:
    @pytest.mark.slow
    def test_of_every_bundled_scenario_is_the_same_run(self) -> None:
        for path in sorted(bundled_folder().rglob(f"*{SUFFIX}")):
            trace = run_to_the_end(load_scenario(path), seed=5, loop="reference")
            assert replay(read_back(trace)) is None, path

    def test_asks_nothing_of_the_scenario_file(self, tmp_path: Any) -> None:
        path = tmp_path / "a.simloop.yaml"
        path.write_text(ANSWERS, "utf-8")
        trace = read_back(run(load_scenario(path)).trace)
        path.unlink()
        assert replay(trace) is None

    def test_has_the_seed_and_the_loop_of_the_recorded_run(self) -> None:
        trace = read_back(played(f"loop: not.here:Loop\n{ANSWERS}", seed=9, loop="reference"))
        again = rerun(trace)
        assert (again.header.seed, again.header.loop) == (9, "reference")
        assert encode(again) == encode(trace)

    def test_that_goes_another_way_tells_where(self) -> None:
        trace = rewritten(played(ANSWERS), "Bye. ")
        found = replay(trace)
        assert found is not None
        assert (found.seq, found.field) == (text_at(trace), "text-delta.text")
        assert (found.expected, found.got) == ("Bye. ", "Hello")
        assert len(found.context) == 3

    def test_of_a_run_whose_script_did_not_fit_is_the_same(self) -> None:
        trace = run_to_the_end(parse_scenario(EXHAUSTED), seed=0, loop="reference")
        assert trace.footer is None
        assert replay(read_back(trace)) is None

    def test_of_a_run_that_needed_python_code_is_refused_with_a_way_out(self) -> None:
        def look() -> str:
            return "x"

        hooks = Hooks(before_llm_call=[lambda _: None])
        trace = read_back(played(ANSWERS, tools=[look], hooks=hooks))
        with pytest.raises(ScenarioError) as raised:
            replay(trace)
        assert raised.value.message.endswith("that a trace does not hold: tool look, hooks")
        assert "simloop diff" in raised.value.hint

    def test_of_a_scenario_that_this_simloop_cannot_read_names_the_key(self) -> None:
        trace = played(ANSWERS)
        whole = msgspec.Raw(b'{"prompt":"Hi","model":[{"times":0}]}')
        header = msgspec.structs.replace(trace.header, scenario=whole)
        with pytest.raises(ScenarioError, match="cannot be read") as raised:
            replay(msgspec.structs.replace(trace, header=header))
        assert raised.value.key.startswith("model.0.times")

    def test_of_a_loop_that_is_not_there_says_so(self) -> None:
        trace = played(ANSWERS)
        header = msgspec.structs.replace(trace.header, loop="gone")
        with pytest.raises(ScenarioError, match="there is no loop `gone`"):
            replay(msgspec.structs.replace(trace, header=header))

    def test_does_not_hide_that_simloop_is_wrong(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trace = played(ANSWERS)

        async def break_down(_: Simulation) -> None:
            raise InternalError("broken")

        monkeypatch.setattr(Simulation, "converse", break_down)
        with pytest.raises(InternalError):
            replay(trace)


class TestACutTrace:
    @pytest.mark.parametrize("count", [0, 1, 7])
    def test_is_compared_as_far_as_it_goes(self, count: int) -> None:
        short = cut(played(ANSWERS), count)
        assert short.truncated
        assert replay(short) is None
        assert len(rerun(short).entries) == count

    def test_of_a_longer_run_than_the_replay_has_diverged(self) -> None:
        trace = played(ANSWERS)
        longer = [*trace.entries, entries.TextDelta(len(trace.entries), 0, 1, "more")]
        found = replay(LoopTrace(trace.header, longer))
        assert found is not None
        assert (found.seq, found.got) == (len(trace.entries), None)

    def test_cuts_another_one_that_is_longer_and_leaves_a_shorter_one(self) -> None:
        trace = played(ANSWERS)
        short, shorter = cut(trace, 4), cut(trace, 2)
        assert as_far_as(short, trace).entries == trace.entries[:4]
        assert as_far_as(short, trace).footer is None
        assert as_far_as(short, shorter).entries == trace.entries[:2]
        assert as_far_as(trace, short) is short


def test_traces_of_which_only_one_is_whole_differ_in_that() -> None:
    trace = played(ANSWERS)
    endless = msgspec.structs.replace(trace, footer=None)
    for pair, sides in (
        ((trace, endless), ("an end", "no end")),
        ((endless, trace), ("no end", "an end")),
    ):
        found = first_difference(*pair)
        assert found is not None
        assert (found.seq, found.field, found.expected, found.got) == (None, "the trace", *sides)
    assert first_difference(endless, endless) is None


class TestDifferentSettings:
    def test_of_the_same_run_there_are_none(self) -> None:
        header = played(ANSWERS).header
        assert list(different_settings(header, header)) == []

    def test_are_named_one_by_one(self) -> None:
        one = played(ANSWERS).header
        other = played(f"limits: {{max_steps: 7}}\n{ANSWERS}", seed=9).header
        found = list(different_settings(one, other))
        assert found[0] == Setting("seed", "3", "9")
        assert [setting.name for setting in found] == [
            "seed",
            "scenario_digest",
            "limits.max_steps",
        ]
        assert found[-1].other == "7"

    def test_tell_a_limit_that_only_one_of_them_knows(self) -> None:
        one = played(ANSWERS).header
        other = msgspec.structs.replace(one, limits={**one.limits, "max_tea": 2})
        assert list(different_settings(one, other)) == [Setting("limits.max_tea", "none", "2")]


class TestDeterminism:
    def test_of_equal_runs_is_no_finding(self) -> None:
        scenario = parse_scenario(ANSWERS)
        assert verify(scenario, seed=4).deterministic

    @pytest.mark.usefixtures("counting")
    def test_that_is_missing_is_shown_where_the_runs_part(self) -> None:
        scenario = parse_scenario(ANSWERS, "a b.yaml")
        raised = diverged(verify(scenario))
        lines = str(raised).splitlines()
        assert lines[0] == "two runs of the same scenario with the same seed differ"
        assert lines[1].endswith("backoff.delay_ns:")
        assert lines[-3:] == [
            "  - first run   1000000000",
            "  + second run  1000000001",
            "reproduce: simloop check 'a b.yaml' --seed 3",
        ]

    @pytest.mark.usefixtures("counting")
    def test_that_is_missing_under_another_loop_is_reproduced_with_that_loop(self) -> None:
        scenario = parse_scenario(f"loop: not.here:Loop\n{ANSWERS}", "a.yaml")
        raised = diverged(verify(scenario, loop="reference"))
        assert raised.reproduce == "simloop check a.yaml --seed 3 --loop reference"

    @pytest.mark.usefixtures("counting")
    def test_of_a_scenario_without_a_file_is_reproduced_from_python(self) -> None:
        scenario = Scenario(prompt="Hi", model=[Reply(http=Http(status=500)), Reply(say="Hello")])
        raised = diverged(verify(scenario))
        assert re.fullmatch(r"simloop\.\S+verify\(scenario, seed=0\)", raised.reproduce)

    def test_sees_a_difference_that_no_entry_shows(self) -> None:
        scenario = parse_scenario(ANSWERS)
        verdict = trial(Plan(scenario, {}))
        assert verdict.trace is not None
        verdict.trace.header = msgspec.structs.replace(verdict.trace.header, title="Other")
        run_again(verdict)
        raised = diverged(verdict)
        assert raised.message == "two runs of the same scenario with the same seed differ"


def test_the_recorded_scenario_is_the_one_that_was_run() -> None:
    scenario = parse_scenario(ANSWERS)
    assert recorded_scenario(read_back(run(scenario).trace)) == scenario


def test_a_trace_keeps_options_of_a_version_that_are_the_defaults_of_its_class() -> None:
    """Left out, they would be completed with those of the version, and the run would differ."""
    trace = played(
        "loop: opencode@1.18.34\n"
        "loops: {opencode: {first_delay: 1s}}\n"
        "prompt: Hi\nmodel: [{http: {status: 500}, times: always}]\n"
        "expect: {outcomes: [...]}\n"
    )
    again = rerun(read_back(trace))
    assert first_difference(trace, again) is None


TWO_CALLS = """
prompt: Hi
tools: {read: {takes: 1s}}
model: [{call: [{read: {}}, {read: {}}]}, {say: Done.}]
"""
