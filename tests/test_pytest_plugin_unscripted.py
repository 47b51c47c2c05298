"""Hosts and programs that no scenario has, in tests: refused, and a failure where that is asked."""

import pytest
from projects import async_module as play

SOURCE = """
import contextlib, socket
def look_up():
    with contextlib.suppress(OSError):
        socket.create_connection(("telemetry.example", 443))

@pytest.mark.simloop{marked}
async def test_it():
    look_up()

@pytest.mark.simloop
def test_run(simloop_run):
    async def agent(prompt, world):
        look_up()
        return (await world.model.reply([simloop.UserMessage(prompt)])).message.text
    script = [Reply(say="Hello.")]
    simloop_run(simloop.Scenario(prompt="Hi", model=script, offline={offline}), loop=agent)
"""
FAILED = "*expect.refused: expected [[]], got [[]'host telemetry.example:443']"


def source(marked: str = "", offline: str = "[]") -> str:
    return SOURCE.replace("{marked}", marked).replace("{offline}", offline)


def test_a_refused_host_fails_no_test(project: pytest.Pytester) -> None:
    play(project, source()).assert_outcomes(passed=2)


@pytest.mark.slow
def test_it_fails_each_test_with_the_flag_except_where_it_is_meant(
    project: pytest.Pytester,
) -> None:
    result = play(project, source(), "--simloop-unscripted=fail")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([FAILED, "*host telemetry.example:443, asked at test_module.py:*"])
    meant = source(offline='["telemetry.example"]')
    play(project, meant, "--simloop-unscripted=fail", "-k", "test_run").assert_outcomes(passed=1)


def test_it_fails_the_test_whose_marker_says_so(project: pytest.Pytester) -> None:
    result = play(project, source('(unscripted="fail")'))
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines([FAILED])
