"""The measurement of bug-finding power.

    python tests/loopbench/measure.py [--trials 10] [--seconds 10] [--jobs 2] [--arms A,B] [NAME...]
    python tests/loopbench/measure.py --clean 20000 [LOOP...]
    python tests/loopbench/measure.py --report

The first looks for each fault (or those named) with each arm, in so many trials with different
seeds and for so many seconds of computing each. It keeps the results in results.json beside this
file, in the place of earlier ones of the same fault and arm. After two trials in vain the rest are
not made, because a fault counts as solved only if every trial finds it. `--clean` makes so many
runs of each correct loop and keeps what they are wrongly accused of. Agents on SDKs are measured by
the Pythons of their environments, with the folders of this file and of the checkout on PYTHONPATH;
each one takes those that it can run. `--report` writes RESULTS.md from the results, as the others
also do in the end.
"""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec
from arms import ARMS, BY_CHANCE, Trial, rules_of, search_for
from every import FAULTS
from fault import Fault
from msgspec import Struct
from results import write_report

from simloop import add_invariants

sys.path.append(str(Path(__file__).resolve().parent.parent))
add_invariants("oracle")  # the faults of the engine are its rules to report

RESULTS = Path(__file__).with_name("results.json")
_IN_VAIN = 2


class Line(Struct):
    """The trials of one fault with one arm, each of at most `seconds` of computing."""

    fault: str
    arm: str
    seconds: float
    trials: list[Trial]


class Clean(Struct):
    """The runs of one correct loop, and the rules that they break."""

    loop: str
    runs: int
    cpu_s: float
    alarms: list[str]


class Results(Struct):
    """All results; a pair of fault and arm occurs once."""

    lines: list[Line] = []
    clean: list[Clean] = []


def measure(name: str, arm: str, trials: int, seconds: float) -> Line:
    """Look for one fault with one arm."""
    (fault,) = (each for each in FAULTS if each.name == name)
    made: list[Trial] = []
    for seed in range(trials if arm in BY_CHANCE else 1):
        made.append(ARMS[arm](fault, seed, seconds))
        if sum(not trial.rule for trial in made) >= _IN_VAIN:
            break
    return Line(name, arm, seconds, made)


def clean(name: str, runs: int) -> Clean:
    """Search worlds of one correct loop."""
    fault = next(each for each in FAULTS if each.loop == name)
    with rules_of(fault):
        search = search_for(fault, seed=1)
        for _ in search.run(runs=runs):
            pass
    alarms = [f"{each.name}: {each.failure.text}" for each in search.failures]
    return Clean(name, search.runs, round(search.cpu_s, 2), alarms)


def load() -> Results:
    """The results so far."""
    if not RESULTS.exists():
        return Results()
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results)


def save(results: Results) -> None:
    places = {fault.name: place for place, fault in enumerate(FAULTS)}
    arms = list(ARMS)
    results.lines = sorted(
        (line for line in results.lines if line.fault in places),
        key=lambda line: (places[line.fault], arms.index(line.arm)),
    )
    for line in results.lines:
        for trial in line.trials:
            trial.cpu_s, trial.shrink_s = round(trial.cpu_s, 3), round(trial.shrink_s, 3)
    text = msgspec.json.encode(results)
    RESULTS.write_bytes(
        text.replace(b'{"fault"', b'\n{"fault"').replace(b'{"loop"', b'\n{"loop"') + b"\n"
    )


def _measured(chosen: list[Fault], arms: list[str], options: argparse.Namespace) -> Iterator[Line]:
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = [
            pool.submit(measure, fault.name, arm, options.trials, options.seconds)
            for fault in chosen
            for arm in arms
        ]
        for done in as_completed(waiting):
            yield done.result()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--clean", type=int, default=0)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args(arguments)
    results = load()
    if options.clean:
        here = {each.loop: each.runs_here for each in FAULTS}
        loops = [loop for loop, runs in here.items() if runs and loop in (options.names or here)]
        with ProcessPoolExecutor(options.jobs) as pool:
            made = list(pool.map(clean, loops, [options.clean] * len(loops)))
        kept = {each.loop: each for each in (*results.clean, *made)}
        results.clean = [kept[loop] for loop in here if loop in kept]
        save(results)
    elif not options.report:
        chosen = [each for each in FAULTS if each.name in options.names or not options.names]
        chosen = [each for each in chosen if each.runs_here]
        for line in _measured(chosen, options.arms.split(","), options):
            found = [trial.runs for trial in line.trials if trial.rule]
            print(f"{line.fault} {line.arm}: {len(found)} of {len(line.trials)}, runs {found}")
            old = [each for each in results.lines
                   if (each.fault, each.arm) != (line.fault, line.arm)]  # fmt: skip
            results.lines = [*old, line]
            save(results)
    write_report(results, FAULTS)


if __name__ == "__main__":
    main(sys.argv[1:])
