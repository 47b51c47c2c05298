import pytest

PROJECT = """
    from simloop import BeforeToolCall, HookBenchmark

    def guard(given: BeforeToolCall) -> None:
        given.call.name

    def anywhere(given) -> None:
        pass

    def broken(given: BeforeToolCall) -> None:
        raise ValueError("no")

    def test_a_point_of_its_annotation(benchmark, hook_benchmark: HookBenchmark) -> None:
        hook_benchmark(guard, hooks=4, calls=250)
        assert benchmark.group == "before_tool_call"
        assert benchmark.extra_info == {"hooks": 4, "calls": 250}

    def test_a_point_that_is_named(benchmark, hook_benchmark: HookBenchmark) -> None:
        hook_benchmark(anywhere, at="after_llm_call")
        assert benchmark.group == "after_llm_call"

    def test_without_the_other_fixture(hook_benchmark: HookBenchmark) -> None:
        hook_benchmark(guard)

    def test_several_points(hook_benchmark: HookBenchmark) -> None:
        hook_benchmark(anywhere)

    def test_no_such_point(hook_benchmark: HookBenchmark) -> None:
        hook_benchmark(anywhere, at="before_lunch")

    def test_a_hook_that_fails(hook_benchmark: HookBenchmark) -> None:
        hook_benchmark(broken)
"""


@pytest.mark.slow
def test_a_hook_is_measured_at_its_point_and_a_wrong_use_is_named(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(test_hooks_of_a_user=PROJECT)
    run = project.runpytest("-p", "benchmark", "--benchmark-max-time=0.01")
    run.assert_outcomes(passed=3, failed=3)
    run.stdout.fnmatch_lines_random(
        [
            "*anywhere fits several points*",
            "*there is no point `before_lunch`*",
            "*the hook broken fails at before_tool_call*",
        ]
    )


@pytest.mark.slow
def test_without_pytest_benchmark_the_fixture_says_what_it_needs(project: pytest.Pytester) -> None:
    project.makepyfile(test_hooks_of_a_user=PROJECT)
    run = project.runpytest("-k", "other_fixture")
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["hook_benchmark needs pytest-benchmark to be installed"])
    run.stdout.no_fnmatch_line("*FixtureLookupError*")
