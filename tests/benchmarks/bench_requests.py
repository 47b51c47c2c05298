"""How the time to read the requests of a trace grows with the trace: in proportion.

python -m pytest tests/benchmarks/bench_requests.py
"""

from collections import deque

from growth import FACTOR, LINEAR, growth
from pytest_benchmark.fixture import BenchmarkFixture
from workload import w

from simloop.trace.requests import requests

ROUNDS = 250
_TRACES = {rounds: w(rounds) for rounds in (ROUNDS, FACTOR * ROUNDS)}


def read(rounds: int) -> None:
    """Read all requests of W(rounds), and keep none."""
    deque(requests(_TRACES[rounds].entries), maxlen=0)


def test_reading_requests_takes_time_in_proportion_to_the_trace(
    benchmark: BenchmarkFixture,
) -> None:
    ratio = growth(read, ROUNDS)
    benchmark.extra_info[f"time for {FACTOR} times the rounds"] = ratio
    print(f"\n{FACTOR} times the rounds take {ratio:.1f} times as long")
    benchmark(read, ROUNDS)
    assert ratio < LINEAR
