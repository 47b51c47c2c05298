"""Async tests that the marker runs on the virtual clock."""

import subprocess
import sys

import pytest
from projects import async_module as play


def test_a_marked_test_runs_on_the_virtual_clock_with_a_script(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop
async def test_it(provider, sim):
    provider.script(Reply(http=Http(status=429)), Reply(say="Hello."))
    assert await my_agent(provider, "Hi") == "Hello."
    provider.expect(requests=2, elapsed={"max": "15s"})
    assert [request.number for request in provider.requests] == [1, 2]
    assert (sim.now, sim.now_ns, sim.seed) == (7.0, 7 * 10**9, 0)
"""
    result = play(project, source)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["simloop: 1 run, 7.000s of virtual time in *"])


def test_the_exception_of_a_test_is_pytests_own_below_its_timeline(
    project: pytest.Pytester,
) -> None:
    source = """
@pytest.mark.simloop
async def test_it(provider):
    provider.script(Reply(say="Hello."))
    answer = await my_agent(provider, "Hi")
    simloop.note("before the assertion")
    assert answer == "Goodbye."
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*the last run of this test*",
            "*note * before the assertion",
            "*failed * AssertionError: *",
            "reproduce: pytest test_module.py::test_it",
            ">       assert answer == *Goodbye.*",
            "E       AssertionError: assert 'Hello.' == 'Goodbye.'",
            "test_module.py:8: AssertionError",
        ]
    )
    shown = result.stdout.str()
    assert "async_test.py" not in shown
    assert "simulated with" not in shown


def test_an_unfulfilled_expectation_fails_at_its_line(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop
async def test_it(provider):
    provider.script(Reply(say="Hello."))
    await my_agent(provider, "Hi")
    provider.expect(requests=2)
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       provider.expect(requests=2)",
            "*ExpectationFailed: expect.requests: expected 2, got 1",
            "*reproduce: pytest test_module.py::test_it",
            "test_module.py:7: ExpectationFailed",
        ]
    )


def test_an_expectation_that_a_test_cannot_have_is_refused(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop
async def test_it(provider):
    provider.expect(text="Hello.")
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*text: an async test does not expect this *what your agent*"])


def test_an_unused_reply_fails_a_test_that_passed_and_no_other(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop
async def test_passes(provider):
    provider.script(Reply(say="Hello."))

@pytest.mark.simloop
async def test_fails(provider):
    provider.script(Reply(say="Hello."))
    raise ValueError("oops")
"""
    result = play(project, source)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["model.0: the run made 0 requests and did not use model.0 *"])
    result.stdout.fnmatch_lines(["FAILED *test_fails - ValueError: oops"])
    assert "_pytest/python.py" not in result.stdout.str()


def test_a_script_that_runs_out_fails_a_test_that_swallows_the_error(
    project: pytest.Pytester,
) -> None:
    source = """
@pytest.mark.simloop
async def test_it(provider):
    try:
        await my_agent(provider, "Hi")
    except BaseException:
        pass
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the script has no reply for request 1*"])


def test_the_fixtures_of_a_plain_test_say_what_they_need(project: pytest.Pytester) -> None:
    result = play(project, "def test_it(provider): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the fixture `provider` needs the marker `simloop`, *"])


def test_simloop_auto_takes_every_async_test(project: pytest.Pytester) -> None:
    source = """
async def test_it(sim):
    await asyncio.sleep(3600)
    assert sim.now == 3600
"""
    result = play(project, source, "-o", "simloop_auto=true")
    result.assert_outcomes(passed=1)
    assert play(project, source).ret != 0


def test_a_skip_and_an_expected_failure_stay_such(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop
async def test_skip():
    pytest.skip("not now")

@pytest.mark.xfail(raises=ValueError, strict=True)
@pytest.mark.simloop
async def test_xfail():
    raise ValueError("oops")

@pytest.mark.simloop
async def test_fail():
    pytest.fail("because")

@pytest.mark.simloop
async def test_returns():
    return 3
"""
    result = play(project, source)
    result.assert_outcomes(skipped=1, xfailed=1, failed=2)
    result.stdout.fnmatch_lines(["*Failed: because"])
    result.stdout.fnmatch_lines(["*a test returns None, not int"])


def test_a_deadlock_names_the_place_and_the_command(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop
async def test_it():
    await asyncio.Event().wait()
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*main: test_module.py:5 in test_it, awaiting Event.wait", "*reproduce: pytest *"]
    )


def test_parameters_and_methods_work(project: pytest.Pytester) -> None:
    source = """
class TestIt:
    @pytest.mark.simloop
    @pytest.mark.parametrize("wait", [1, 2])
    async def test_it(self, sim, wait, tmp_path):
        await asyncio.sleep(wait)
        assert sim.now == wait
"""
    play(project, source).assert_outcomes(passed=2)


@pytest.mark.slow
def test_the_trace_holds_the_script_and_is_shown(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop
async def test_it(provider):
    provider.script(Reply(say="Hello."))
    await my_agent(provider, "Hi")
    provider.script(Reply(say="Goodbye."))
    await my_agent(provider, "Hi again")
    assert 0
"""
    result = play(project, source, "--simloop-trace=retain-on-failure")
    result.assert_outcomes(failed=1)
    stem = "test-results/test_module.py.test_it"
    result.stdout.fnmatch_lines([f"simloop show {stem}.trace.jsonl"])
    command = [sys.executable, "-m", "simloop", "replay", f"{stem}.trace.jsonl"]
    refused = subprocess.run(
        command, check=False, cwd=project.path, capture_output=True, text=True
    ).stderr
    assert "run the test again with --simloop-seed 0 --simloop-trace=on" in refused
    lines = (project.path / f"{stem}.trace.jsonl").read_text("utf-8").splitlines()
    assert '"model":[{"say":"Hello."},{"say":"Goodbye."}]' in lines[0]
    assert '"loop":"test_module:test_it"' in lines[0]
    assert '"kind":"footer"' in lines[-1]


def test_a_run_that_breaks_an_invariant_fails_unless_the_test_says_why(
    project: pytest.Pytester,
) -> None:
    source = """
async def sends_half(provider):
    provider.script(Reply(call={"look": {}}), Reply(say="Hello."))
    message = (await provider.model.reply([UserMessage("Hi")])).message
    await provider.model.reply([UserMessage("Hi"), message, UserMessage("Well?")])

@pytest.mark.simloop
async def test_silent(provider):
    await sends_half(provider)

@pytest.mark.simloop
async def test_known(provider):
    await sends_half(provider)
    provider.expect(violates={"answered-calls": "a known fault"})
"""
    result = play(project, source)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED *test_silent - *"])


@pytest.mark.slow
def test_hypothesis_runs_each_example_in_a_simulation(project: pytest.Pytester) -> None:
    source = """
from hypothesis import given, settings, strategies as st

@pytest.mark.simloop
@settings(max_examples=10, database=None, derandomize=True)
@given(wait=st.integers(0, 100))
async def test_it(sim, wait):
    assert sim.now == 0
    await asyncio.sleep(wait)
    assert wait < 50
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*wait=50*"])


def test_a_plain_test_of_a_blocking_agent_runs_in_a_simulated_thread(
    project: pytest.Pytester,
) -> None:
    source = """
import time
import threading

def blocking_agent(question):
    time.sleep(100)
    return question.upper()

@pytest.mark.simloop(seeds=2)
def test_it(sim, tmp_path):
    assert blocking_agent("hi") == "HI"
    assert (sim.now, threading.current_thread().name) == (100, "test")

@pytest.mark.simloop
def test_fails(sim):
    assert blocking_agent("hi") == "hi"

@pytest.mark.simloop
def test_skips(sim):
    pytest.skip("not now")

@pytest.mark.simloop
def test_without_the_fixtures_it_is_a_plain_test():
    assert threading.current_thread() is threading.main_thread()
"""
    result = play(project, source)
    result.assert_outcomes(passed=2, failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*sleep * 100.000s at test_module.py:* in blocking_agent",
            "reproduce: pytest test_module.py::test_fails",
            "E       AssertionError: assert 'HI' == 'hi'",
        ]
    )
    assert "loop blocked" not in result.stdout.str()


@pytest.mark.slow
def test_a_test_scripts_programs_and_sees_their_calls(project: pytest.Pytester) -> None:
    source = """
import subprocess
from simloop import Program

@pytest.mark.simloop(seeds=2)
async def test_in_tasks(sim, provider):
    git = sim.program("git status", stdout=" M a.py\\n", takes="2s")
    upper = sim.program("upper", lambda args, stdin: stdin.upper())
    child = await asyncio.create_subprocess_exec("git", "status", "-s", stdout=-1)
    assert (await child.communicate(), sim.now) == ((b" M a.py\\n", None), 2.0)
    assert subprocess.run(["upper"], input=b"a", capture_output=True).stdout == b"A"
    assert [call.args for call in git.calls] == [("git", "status", "-s")]
    assert [call.stdin for call in upper.calls] == ["a"]
    sim.program("git", Program(exit=1), Program(exit=2))
    assert [subprocess.call(["git", "log"]) for _ in range(3)] == [1, 2, 2]
    provider.expect(programs=["git status -s", "upper", ...])

@pytest.mark.simloop
def test_in_a_thread(sim):
    sim.program("make", takes="1m")
    subprocess.run(["make", "all"], check=True)
    assert sim.now == 60.0

@pytest.mark.simloop
async def test_no_answer(sim):
    with pytest.raises(simloop.ScenarioError, match="no answer of a program"):
        sim.program("git", 5)
    with pytest.raises(FileNotFoundError):
        subprocess.run(["git"])

@pytest.fixture
def git(sim):
    return sim.program("git", exit=1)

@pytest.mark.simloop(seeds=2)
async def test_with_a_fixture(sim, git):
    assert git.calls == []
    assert subprocess.call(["git"]) == 1
    sim.program("git", exit=2)
    assert subprocess.call(["git"]) == 2
    assert [call.args for call in git.calls] == [("git",)]
"""
    play(project, source).assert_outcomes(passed=4)
