"""The report of a failing test explains itself."""

import re

import pytest

FAILING = """
    from simloop import Reply, Scenario

    def read(path):
        raise FileNotFoundError("no " + path)

    MODEL = [Reply(call={"read": {"path": "a.md"}}), Reply(say="It says nothing.")]

    def test_it(simloop_run):
        BODY
"""


def report(project: pytest.Pytester, body: str, *args: str) -> list[str]:
    project.makepyfile(test_module=FAILING.replace("BODY", body))
    # syrupy keeps its session in a global.
    result = project.runpytest_inprocess("-p", "no:syrupy", *args)
    result.assert_outcomes(failed=1)
    lines = result.outlines
    start = next(index for index, line in enumerate(lines) if line.startswith("____"))
    end = next(index for index, line in enumerate(lines) if line.startswith("simloop: "))
    return [line.removeprefix("E").strip() for line in lines[start:end]]


TEXT = "expect.text: expected 'It says Hello.', got 'It says nothing.'"
RUN = 'result = simloop_run(Scenario(prompt="Hi", model=MODEL), tools=[read]); '


def test_an_expectation_shows_the_run_the_traceback_and_the_command(
    project: pytest.Pytester,
) -> None:
    lines = report(project, f'{RUN}result.expect(text="It says Hello.")')
    order = [
        f"simloop.errors.ExpectationFailed: {TEXT}",
        "the end of the run:",
        "tool error    Error: no a.md [call-1]",
        "raised by the tool read:",
        "Traceback (most recent call last):",
        'raise FileNotFoundError("no " + path)',
        "FileNotFoundError: no a.md",
        "reproduce: pytest test_module.py::test_it",
    ]
    places = [lines.index(line) for line in order]
    assert places == sorted(places)


def test_an_assertion_of_the_test_shows_its_last_run(project: pytest.Pytester) -> None:
    lines = report(project, f'{RUN}assert result.text == "It says Hello."', "--simloop-seed", "3")
    assert "AssertionError: assert 'It says nothing.' == 'It says Hello.'" in lines
    title = next(n for n, line in enumerate(lines) if "simloop: the last run of this test" in line)
    assert "raised by the tool read:" in lines[title:]
    assert lines[-1] == "reproduce: pytest test_module.py::test_it --simloop-seed 3"


def test_a_run_that_ends_in_an_error_shows_how_far_it_came(project: pytest.Pytester) -> None:
    lines = report(project, 'simloop_run(Scenario(prompt="Hi", model=MODEL[1:] * 2))')
    assert "text          It says nothing." in lines
    assert "reproduce: pytest test_module.py::test_it" in lines


def test_a_run_that_does_not_complete_fails_without_any_expectation(
    project: pytest.Pytester,
) -> None:
    lines = report(project, 'simloop_run(Scenario(prompt="Hi"), model=lambda request: request.x)')
    assert any("expect.outcome: expected completed, got failed" in line for line in lines)
    assert "raised by the model:" in lines
    assert "AttributeError: 'Request' object has no attribute 'x'" in lines


@pytest.mark.parametrize(
    "program",
    ["assert 1 == 2", "await asyncio.Event().wait()", "socket.create_connection(('h', 9))"],
)
def test_a_test_that_fails_in_simulate_shows_no_frame_of_simloop(
    project: pytest.Pytester, program: str
) -> None:
    project.makepyfile(f"""
        import asyncio, socket
        from simloop import simulate

        async def main():
            {program}

        def test_it():
            simulate(main())
    """)
    result = project.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([">       simulate(main())"])
    assert not re.search("simloop/(engine|runs|virtual|world)/", result.stdout.str())
