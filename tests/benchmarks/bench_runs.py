"""The fixed cost of a run: one round, one reply, and an empty simulation.

python -m pytest tests/benchmarks/bench_runs.py
"""

import asyncio
import itertools

from pytest_benchmark.fixture import BenchmarkFixture

from simloop import Reply, Runner, Scenario, run, simulate

ONE_ROUND = [Reply(say="I look.", call={"look": {}}), Reply(say="Done.")]


def look() -> str:
    """The tool."""
    return "seen"


def test_runs_of_one_round(benchmark: BenchmarkFixture) -> None:
    scenario, seeds = Scenario(prompt="Go.", model=ONE_ROUND), itertools.count()
    benchmark(lambda: run(scenario, tools=[look], seed=next(seeds)))


def test_runs_of_one_round_of_new_scenarios(benchmark: BenchmarkFixture) -> None:
    scenario, seeds = Scenario(prompt="Go.", model=ONE_ROUND), itertools.count()
    benchmark(lambda: run(scenario.model_copy(), tools=[look], seed=next(seeds)))


def test_runs_of_one_round_by_a_runner(benchmark: BenchmarkFixture) -> None:
    seeds = itertools.count()
    with Runner(Scenario(prompt="Go.", model=ONE_ROUND), tools=[look]) as runner:
        benchmark(lambda: runner.run(next(seeds)))


def test_runs_of_a_script_without_python_code(benchmark: BenchmarkFixture) -> None:
    runner, seeds = Runner(Scenario(prompt="Go.", model=[Reply(say="Done.")])), itertools.count()
    benchmark(lambda: runner.run(next(seeds)))


def test_an_empty_simulation(benchmark: BenchmarkFixture) -> None:
    benchmark(lambda: simulate(asyncio.sleep(0)))
