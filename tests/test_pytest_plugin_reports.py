"""The report of a failing test explains itself."""

import re
import sys

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
    result = project.runpytest_inprocess(*args)
    result.assert_outcomes(failed=1)
    lines = result.outlines
    start = next(index for index, line in enumerate(lines) if line.startswith("____"))
    end = next(index for index, line in enumerate(lines) if line.startswith("simloop: 1 run"))
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
    order = [
        "simloop: the last run of this test",
        "raised by the tool read:",
        "reproduce: pytest test_module.py::test_it --simloop-seed 3",
        "AssertionError: assert 'It says nothing.' == 'It says Hello.'",
    ]
    places = [lines.index(line) for line in order]
    assert places == sorted(places)


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


SDK = """
class ConnectError(Exception): ...
class APIError(Exception): ...

def create(question):
    return _post(question)

def _post(question):
    sdk_local = "a hundred lines"
    try:
        _connect()
    except ConnectError as error:
        raise APIError("Connection error.") from error

def _connect():
    raise ConnectError("All connection attempts failed")

def call(function):
    return function()
"""
BOT = """
import asyncio
import sdk

async def bot(question):
    return sdk.create(question)

def test_the_bot(simloop_run):
    simloop_run(Scenario(prompt="Hi", model=[]), loop=bot)

@pytest.mark.simloop
async def test_it(provider):
    assert await bot("Hello?") == "Hello."

def wrong():
    raise KeyError("x")

@pytest.mark.simloop
async def test_wrong_in_a_callback(provider):
    try:
        sdk.call(wrong)
    except KeyError as error:
        raise ValueError("y") from error

@pytest.mark.simloop
async def test_two_at_once(provider):
    async with asyncio.TaskGroup() as group:
        group.create_task(bot("one"))
        group.create_task(bot("two"))

@pytest.mark.simloop
async def test_from_nowhere(provider):
    raise ValueError("y") from KeyError("x")
"""


class TestTheFramesOfLibraries:
    """`sdk` is an installed package: its frames stand in no report of a failing test."""

    @pytest.fixture(autouse=True)
    def sdk(self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        installed = project.mkdir("site-packages")
        package = installed / "sdk"
        package.mkdir()
        (package / "__init__.py").write_text(SDK)
        monkeypatch.syspath_prepend(installed)
        monkeypatch.setenv("PYTHONPATH", str(installed))
        monkeypatch.delitem(sys.modules, "sdk", raising=False)
        project.makepyfile(test_bot=f"import pytest\nfrom simloop import Scenario\n{BOT}")

    def lines(self, project: pytest.Pytester, test: str, *args: str) -> list[str]:
        """Return the report of one failing test."""
        result = project.runpytest_inprocess(f"test_bot.py::{test}", *args)
        result.assert_outcomes(failed=1)
        start = result.outlines.index(next(line for line in result.outlines if test in line))
        end = next(n for n, line in enumerate(result.outlines) if line.startswith("simloop: 1 run"))
        return result.outlines[start:end]

    def test_are_folded_below_the_report_and_the_users_frames(
        self, project: pytest.Pytester
    ) -> None:
        lines = self.lines(project, "test_it")
        assert "sdk_local" not in "\n".join(lines)
        order = [
            "simloop: the last run of this test",
            "reproduce: pytest test_bot.py::test_it",
            "raised by sdk, __init__.py:13 in _post (--full-trace shows its frames)",
            "after ConnectError: All connection attempts failed",
            '>       assert await bot("Hello?") == "Hello."',
            ">       return sdk.create(question)",
            "E       sdk.APIError: Connection error.",
        ]
        places = [lines.index(line) for line in order]
        assert places == sorted(places)
        assert lines[-1] == "test_bot.py:8: APIError"

    def test_are_folded_in_the_traceback_of_an_agent(self, project: pytest.Pytester) -> None:
        lines = self.lines(project, "test_the_bot")
        text = "\n".join(lines)
        assert "sdk_local" not in text
        place = "the last __init__.py:16 in _connect"
        assert f"E         ... 2 frames of sdk, {place}" in lines
        assert "E           return sdk.create(question)" in text

    @pytest.mark.parametrize("style", ["short", "native", "long"])
    def test_are_folded_in_each_style(self, project: pytest.Pytester, style: str) -> None:
        text = "\n".join(self.lines(project, "test_it", f"--tb={style}"))
        assert "sdk_local" not in text
        assert "in _connect" not in text
        assert text.index("reproduce:") < text.index("return sdk.create(question)")

    @pytest.mark.slow
    def test_are_shown_with_the_full_trace(self, project: pytest.Pytester) -> None:
        lines = self.lines(project, "test_it", "--full-trace")
        assert '        sdk_local = "a hundred lines"' in "\n".join(lines)

    @pytest.mark.slow
    def test_are_folded_by_a_worker_of_xdist(self, project: pytest.Pytester) -> None:
        run = project.runpytest_subprocess("-p", "xdist", "-n1", "test_bot.py::test_it")
        text = run.stdout.str()
        assert text.index("simloop: the last run") < text.index("return sdk.create(question)")
        assert "sdk_local" not in text

    def test_between_frames_of_the_user_leave_these(self, project: pytest.Pytester) -> None:
        lines = self.lines(project, "test_wrong_in_a_callback")
        assert "return function()" not in "\n".join(lines)
        cause = "The above exception was the direct cause of the following exception:"
        places = [
            lines.index(line)
            for line in ("E       KeyError: 'x'", cause, "E           ValueError: y")
        ]
        assert places == sorted(places)

    def test_are_folded_in_each_exception_of_a_group(self, project: pytest.Pytester) -> None:
        text = "\n".join(self.lines(project, "test_two_at_once"))
        assert text.count("|     return sdk.create(question)") == 2
        assert "in _post\n" not in text
        assert "ConnectError\n" not in text

    def test_are_there_again_for_a_debugger(self, project: pytest.Pytester) -> None:
        project.makeconftest("""
            import traceback

            def pytest_exception_interact(call):
                error = call.excinfo.value
                for each in (error, error.__cause__):
                    print([frame.name for frame in traceback.extract_tb(each.__traceback__)][-2:])
        """)
        lines = project.runpytest_inprocess("-s", "-k", "test_it").outlines
        assert "['create', '_post']" in "\n".join(lines)
        assert "['_post', '_connect']" in "\n".join(lines)

    def test_are_those_of_the_user_if_the_source_is_in_the_project(
        self, project: pytest.Pytester
    ) -> None:
        source = project.mkdir("src") / "sdk"
        source.mkdir()
        (source / "__init__.py").write_text(SDK)
        assert "sdk_local" in "\n".join(self.lines(project, "test_it"))

    def test_are_not_needed_for_an_exception_that_nobody_raised(
        self, project: pytest.Pytester
    ) -> None:
        assert "after KeyError: 'x'" in self.lines(project, "test_from_nowhere")
