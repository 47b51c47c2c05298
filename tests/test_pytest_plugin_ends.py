"""Agents and tests that end or break more than their own run, in somebody's tests."""

from textwrap import dedent

import pytest
from projects import async_module as play

PLAIN = """
import os
import sys
import warnings

from simloop import Scenario, run

class Own(BaseException): pass

def agents(act):
    async def agent(prompt):
        act()
        return "Done."
    def plainly(prompt: str):
        act()
        return "Done."
    return agent, plainly

def end(error):
    raise error
"""


@pytest.mark.slow
def test_a_test_that_raises_what_ends_a_program_fails_and_the_others_run(
    project: pytest.Pytester,
) -> None:
    source = """
        pytestmark = pytest.mark.simloop

        class Own(BaseException): pass

        @pytest.mark.parametrize("error", [SystemExit, Own])
        async def test_at_once(error):
            raise error("enough")

        @pytest.mark.parametrize("error", [SystemExit, Own])
        async def test_in_a_task(error):
            async def work():
                raise error("enough")
            await asyncio.create_task(work())

        async def test_in_a_task_that_nobody_awaits():
            async def work():
                raise SystemExit("enough")
            asyncio.create_task(work())
            await asyncio.sleep(1)

        @pytest.mark.parametrize("error", [SystemExit, Own])
        def test_plainly(sim, error):
            raise error("enough")

        async def test_that_cancels_itself():
            raise asyncio.CancelledError

        async def test_last():
            pass
    """
    play(project, dedent(source)).assert_outcomes(failed=8, passed=1)


def test_an_agent_that_ends_its_program_ends_its_run_and_not_the_session(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(endings=PLAIN)
    source = """
        from endings import *

        @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Own])
        @pytest.mark.parametrize("form", [0, 1])
        def test_an_end(simloop_run, error, form):
            agent = agents(lambda: end(error("enough")))[form]
            result = simloop_run(Scenario(prompt="Go."), loop=agent, check=False)
            assert result.outcome == "failed"
            assert result.message == f"Error: {error.__name__}: enough"

        @pytest.mark.parametrize("form", [0, 1])
        def test_a_skip(simloop_run, form):
            simloop_run(Scenario(prompt="Go."), loop=agents(lambda: pytest.skip("no key"))[form])

        @pytest.mark.parametrize("form", [0, 1])
        def test_an_exit(simloop_run, form):
            with pytest.raises(simloop.ScenarioError, match="os._exit is not available"):
                simloop_run(Scenario(prompt="Go."), loop=agents(lambda: os._exit(0))[form])
    """
    play(project, dedent(source)).assert_outcomes(passed=8, skipped=2)


@pytest.mark.parametrize("capture", ["fd", "sys", "no"])
def test_the_capture_of_pytest_works_as_always(project: pytest.Pytester, capture: str) -> None:
    project.makepyfile(endings=PLAIN)
    source = """
        import logging
        from endings import *

        SAY = Scenario(prompt="Go.")

        def talk():
            print("said by the agent")
            print("complained by the agent", file=sys.stderr)
            logging.getLogger("bot").warning("logged by the agent")

        @pytest.mark.parametrize("form", [0, 1])
        def test_fails(simloop_run, form):
            simloop_run(SAY, loop=agents(talk)[form])
            assert False

        @pytest.mark.parametrize("form", [0, 1])
        def test_reads(simloop_run, capsys, caplog, form):
            simloop_run(SAY, loop=agents(talk)[form])
            assert capsys.readouterr().out == "said by the agent\\n"
            assert [record.message for record in caplog.records] == ["logged by the agent"]

        @pytest.mark.simloop
        async def test_reads_in_a_run(capsys):
            print("said by the test")
            assert capsys.readouterr().out == "said by the test\\n"
            with capsys.disabled():
                print("past the capture")

        @pytest.mark.parametrize("form", [0, 1])
        def test_closes(simloop_run, form):
            for name in ("stdout", "stderr"):
                simloop_run(SAY, loop=agents(lambda: getattr(sys, name).close())[form])
                simloop_run(SAY, loop=agents(lambda: delattr(sys, name))[form])
            print("said by the test")

        def test_last():
            print("said at last")
    """
    played = play(project, dedent(source), f"--capture={capture}")
    played.assert_outcomes(passed=6, failed=2)
    played.stdout.fnmatch_lines(["*past the capture*"])
    if capture != "no":
        played.stdout.fnmatch_lines([
            "*Captured stdout call*", "said by the agent",
            "*Captured stderr call*", "complained by the agent",
            "*Captured log call*", "WARNING *logged by the agent",
        ])  # fmt: skip


def test_what_an_agent_leaves_behind_fails_no_test_but_an_exception_that_nobody_sees(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(endings=PLAIN)
    source = """
        from endings import *

        class Session:
            def __init__(self):
                self.loop = asyncio.get_running_loop()

            def __del__(self):
                self.loop.call_exception_handler({"message": "Unclosed client session"})

        async def fails():
            raise ValueError("lost")

        async def work():
            Session()
            asyncio.create_task(asyncio.sleep(60), name="late")
            asyncio.create_task(fails())
            await asyncio.sleep(1)

        def test_an_agent(simloop_run):
            async def agent(prompt):
                await work()
            result = simloop_run(Scenario(prompt="Go."), loop=agent, check=False)
            left = [e.what for e in result.trace.entries if type(e).__name__ == "LeftBehind"]
            assert left == ["task", "exception"]

        @pytest.mark.simloop
        async def test_a_session():
            Session()

        @pytest.mark.simloop
        async def test_an_exception():
            await work()
    """
    played = play(project, dedent(source))
    played.assert_outcomes(passed=2, failed=1)
    played.stdout.fnmatch_lines(["E*ValueError: lost"])
