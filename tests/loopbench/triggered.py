"""The share of generated worlds with the circumstances of a fault, and with a report of it.

    python tests/loopbench/triggered.py [--worlds 1000] [--jobs 2] [NAME...]

plays worlds on the correct and on the faulty loop. A fault is triggered by a world in which the
boundary differs, and detected if a rule is broken as well. So a fault that is seldom triggered
lacks circumstances, and one that is triggered and not detected lacks a rule.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from every import FAULTS
from fault import applied

from simloop.check.trial import Until, Verdict, trial
from simloop.fuzz.search import Search
from simloop.trace.entries import Boundary
from simloop.virtual.border.exchange import kept_border


class Triggered(NamedTuple):
    """The worlds of one fault: played, with another boundary, and reported."""

    fault: str
    worlds: int
    differ: int
    detected: int


def triggered(name: str, worlds: int) -> Triggered:
    """Play worlds on the correct and on the faulty loop."""
    (fault,) = (each for each in FAULTS if each.name == name)
    search = Search(fault.given_loop(), seed=1)
    differ = detected = 0
    with kept_border():
        for _ in range(worlds):
            plan, rules = search._next_world()
            clean = trial(plan, rules, Until.VIOLATION)
            if clean.failure() is not None:
                continue  # a false alarm
            right = _boundary(clean)
            with applied(fault):
                faulty = trial(plan, rules, Until.VIOLATION)
            is_found = faulty.failure() is not None
            if is_found or _boundary(faulty) != right:
                differ += 1
                detected += is_found
    return Triggered(name, worlds, differ, detected)


def _boundary(verdict: Verdict) -> list[object]:
    """What every agent leaves, without its places in the trace."""
    return [(type(e), e.at_ns, _told(e)) for e in verdict.entries if isinstance(e, Boundary)]


def _told(entry: Any) -> tuple[object, ...]:
    return tuple(getattr(entry, name) for name in entry.__struct_fields__ if name != "seq")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--worlds", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    names = [fault.name for fault in FAULTS if not options.names or fault.name in options.names]
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(triggered, names, [options.worlds] * len(names)):
            print(f"{found.fault}: triggered {found.differ}, detected {found.detected}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
