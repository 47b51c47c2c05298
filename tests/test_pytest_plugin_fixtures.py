"""What tests written in Python get from the plugin."""

import pytest
from projects import module

GREETING = """\
prompt: Say hello.
model: [{say: Hello.}]
expect: {text: Hello.}
"""
SEED = """\
    def test_it(simloop_run):
        result = simloop_run("greeting.simloop.yaml"%s)
        print("seed", result.trace.header.seed)
"""


def play(project: pytest.Pytester, source: str, *args: str) -> pytest.RunResult:
    return module(project, source, "-rP", *args)


@pytest.fixture
def project(project: pytest.Pytester) -> pytest.Pytester:
    (project.path / "greeting.simloop.yaml").write_text(GREETING)
    return project


def test_simloop_run_takes_a_path_beside_the_test(project: pytest.Pytester) -> None:
    below = project.mkdir("below")
    (below / "near.simloop.yaml").write_text(GREETING)
    (below / "test_below.py").write_text(
        "from pathlib import Path\n"
        "def test_str(simloop_run): assert simloop_run('near.simloop.yaml').text == 'Hello.'\n"
        "def test_path(simloop_run): assert simloop_run(Path(__file__).parent.parent"
        " / 'greeting.simloop.yaml').text == 'Hello.'\n"
    )
    project.runpytest_inprocess("below/test_below.py").assert_outcomes(passed=2)


def test_simloop_run_takes_a_scenario_and_python_code(project: pytest.Pytester) -> None:
    source = """
        from simloop import Reply, Scenario

        def shout(word: str) -> str:
            return word.upper()

        def test_it(simloop_run):
            model = [Reply(call={"shout": {"word": "a"}}), Reply(say="A!")]
            result = simloop_run(Scenario(prompt="x", model=model), tools=[shout])
            assert result.calls == [("shout", {"word": "a"})]
    """
    play(project, source).assert_outcomes(passed=1)


def test_simloop_run_fails_the_test_at_the_line_that_called_it(project: pytest.Pytester) -> None:
    wrong = GREETING.replace("{text: Hello.}", "{text: Goodbye., requests: 1}")
    (project.path / "greeting.simloop.yaml").write_text(wrong)
    result = play(project, SEED % "")
    lines = result.outlines
    start = next(i for i, line in enumerate(lines) if line.startswith(">"))
    assert lines[start : start + 5] == [
        '>       result = simloop_run("greeting.simloop.yaml")',
        "                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "E       simloop.errors.ExpectationFailed: expect.text: expected 'Goodbye.', got 'Hello.'",
        "E       ",
        "E       the end of the run:",
    ]
    end = lines.index("test_module.py:2: ExpectationFailed")
    assert lines[end - 2 : end] == [
        "E       reproduce: simloop run greeting.simloop.yaml --seed 0",
        "",
    ]
    assert "simulation.py" not in result.stdout.str()


def test_simloop_run_only_looks_when_told_not_to_check(project: pytest.Pytester) -> None:
    (project.path / "greeting.simloop.yaml").write_text(GREETING.replace("{text: H", "{text: J"))
    source = """
        def test_it(simloop_run):
            assert not simloop_run("greeting.simloop.yaml", check=False).ok
    """
    play(project, source).assert_outcomes(passed=1)


def test_a_bad_file_shows_its_place_and_no_frame_of_ours(project: pytest.Pytester) -> None:
    (project.path / "greeting.simloop.yaml").write_text(GREETING.replace("say", "sya"))
    result = play(project, SEED % "")
    result.stdout.fnmatch_lines(["E *ScenarioError: greeting.simloop.yaml:2:10: model.0.sya: *"])
    assert "loader.py" not in result.stdout.str()
    assert "pydantic" not in result.stdout.str()


@pytest.mark.parametrize(
    ("mark", "flags", "call", "seed"),
    [
        ("", [], "", 0),
        ("@pytest.mark.simloop(seed=7)", [], "", 7),
        ("@pytest.mark.simloop(seed=7)", ["--simloop-seed=8"], "", 8),
        ("@pytest.mark.simloop(seed=7)", ["--simloop-seed=8"], ", seed=9", 9),
    ],
    ids=["the scenario's", "the marker's", "the flag's", "the call's"],
)
def test_a_seed_gives_way_to(
    project: pytest.Pytester, mark: str, flags: list[str], call: str, seed: int
) -> None:
    source = (
        f"import pytest\n{mark}\ndef test_it(simloop_run):\n" + (SEED % call).partition("\n")[2]
    )
    play(project, source, *flags).stdout.fnmatch_lines([f"seed {seed}"])


@pytest.mark.parametrize("seed", ["x", "-1", str(2**63), "1.5"])
def test_a_flag_that_is_no_seed_is_a_usage_error(project: pytest.Pytester, seed: str) -> None:
    result = play(project, "", f"--simloop-seed={seed}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    wrong = f"ERROR: --simloop-seed is an integer from 0 to 2*63 - 1, not '{seed}'"
    result.stderr.fnmatch_lines([wrong])


def test_the_closest_marker_wins_key_by_key(project: pytest.Pytester) -> None:
    source = """
        import pytest

        pytestmark = pytest.mark.simloop(seed=1, loop="reference")

        @pytest.mark.simloop(seed=2)
        def test_it(simloop_run):
            header = simloop_run("greeting.simloop.yaml").trace.header
            assert (header.seed, header.loop) == (2, "reference")

        @pytest.mark.simloop(loop="nonsense")
        def test_other(simloop_run):
            simloop_run("greeting.simloop.yaml")
    """
    result = play(project, source)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *ScenarioError: greeting.simloop.yaml: loop: *nonsense*"])


def test_a_marker_with_something_else_says_what_it_takes(project: pytest.Pytester) -> None:
    source = """
        import pytest

        @pytest.mark.simloop(5, sede=6)
        def test_it(simloop_run):
            pass
    """
    result = play(project, source)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["the marker simloop takes seed=, loop=, judge_as=, loop_options=, *seeds=, *, not 5, sede"]
    )


def test_a_marker_gives_a_loop_of_the_users_own_its_options_and_its_judge(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        mine="""
        from simloop.loops.react import ReactLoop

        class Mine(ReactLoop):
            name = "mine"

            def __init__(self, limits, *, patience=0):
                super().__init__(limits)
                assert patience == 3
    """
    )
    source = """
        import pytest
        from simloop import Scenario

        SCENARIO = Scenario(
            prompt="Hi", model=[{"say": "Bye."}],
            expect={"text": "Hi."}, expect_on={"react": {"text": "Bye."}},
        )

        @pytest.mark.simloop(loop="mine:Mine", judge_as="react", loop_options={"patience": 3})
        def test_it(simloop_run):
            assert simloop_run(SCENARIO).trace.header.judge_as == "react"

        @pytest.mark.simloop(loop="mine:Mine", loop_options={"patience": 3})
        def test_other(simloop_run):
            simloop_run(SCENARIO)
    """
    result = play(project, source)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *expected 'Hi.', got 'Bye.'*"])


def test_virtual_clock_runs_a_coroutine_and_returns_what_it_returns(
    project: pytest.Pytester,
) -> None:
    source = """
        import asyncio, random, time
        import pytest

        async def agent():
            before = time.monotonic()
            await asyncio.sleep(3600)
            return time.monotonic() - before, random.random()

        def test_it(virtual_clock):
            assert virtual_clock(agent())[0] == 3600
            assert virtual_clock(agent()) == virtual_clock(agent(), seed=0)
            assert virtual_clock(agent()) != virtual_clock(agent(), seed=1)

        @pytest.mark.simloop(seed=1)
        def test_other(virtual_clock):
            assert virtual_clock(agent()) == virtual_clock(agent(), seed=1)

        def test_hangs(virtual_clock):
            virtual_clock(asyncio.Event().wait())
    """
    result = play(project, source)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["E *Deadlock: *"])
    result.stdout.fnmatch_lines(["simloop: 8 runs, 25,200.000s of virtual time in *"])


MODEL = """
    from simloop import Reply, Scenario

    def test_it(fake_model, simloop_run):
        model = fake_model(Reply(say="Hello."), %s)
        %s
        result = simloop_run(Scenario(prompt="x"), model=model)
        assert [request.messages[-1].text for request in model.requests] == ["x"]
"""


def test_fake_model_plays_replies_and_remembers_the_requests(project: pytest.Pytester) -> None:
    play(project, MODEL % ("", "")).assert_outcomes(passed=1)


def test_fake_model_fails_a_run_that_leaves_replies(project: pytest.Pytester) -> None:
    result = play(project, MODEL % ("Reply(say='Unheard.')", ""))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *ScriptUnused: model.1: the run made 1 request and did not use model.1*"]
    )


def test_fake_model_that_nobody_asked_is_an_error_on_one_line(project: pytest.Pytester) -> None:
    result = play(project, MODEL % ("summaries=(Reply(say='Short.'),)", "return"))
    result.assert_outcomes(passed=1, errors=1)
    assert "During handling" not in result.stdout.str()
    unheard = "model.0: the run made 0 requests and did not use model.0, summaries.0 (find out why*"
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_it*", unheard, "*= PASSES =*"])
