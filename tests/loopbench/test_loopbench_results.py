from pathlib import Path

from arms import ARMS, Trial
from every import FAULTS
from measure import Line, Results, load
from results import markdown

HERE = Path(__file__).parent


def test_the_report_is_made_of_the_results() -> None:
    results = load()
    assert (HERE / "RESULTS.md").read_text(encoding="utf-8") == markdown(results, FAULTS)


def test_a_fault_is_solved_only_if_every_trial_finds_it() -> None:
    found, lost = Trial(5, 0.1, "a-rule"), Trial(900, 1.0)
    name = FAULTS[0].name
    solved = Results([Line(name, "search", 4, [found, found])])
    partly = Results([Line(name, "search", 4, [found, lost])])
    assert "| search | 2 of 4 s | 1 of 1 | 0 | 5 | 100 | 0.1 |" in markdown(solved, FAULTS)
    assert "| search | 2 of 4 s | 0 of 1 | 1 | 5 | 100 | 0.1 |" in markdown(partly, FAULTS)
    assert "| 1/2 |" in markdown(partly, FAULTS)


def test_the_arms_are_those_of_the_table() -> None:
    assert list(ARMS) == ["scenarios", "explore", "search", "hypothesis"]
