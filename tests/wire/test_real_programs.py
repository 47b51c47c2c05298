"""Agent programs of others, unmodified, from scenario files: exact times, equal runs."""

import pytest
from environments import built, told_by
from publish_compare import PAGE
from publish_programs import PROGRAMS, rows, traces
from reported_faults import FAULTS, MENDED, check_of, missed, path_of

from simloop.trace.codec import encode

pytestmark = pytest.mark.programs


NAMES = sorted(PROGRAMS.keys() | FAULTS.keys() - {"frameworks"})


@pytest.mark.parametrize("name", NAMES)
def test_each_program_comes_to_what_its_scenarios_expect_twice_and_has_its_faults(
    name: str,
) -> None:
    checks = [("check", *one.scenarios, *one.options) for one in PROGRAMS.get(name, ())]
    mended = [("check", path_of(each)) for each in MENDED.get(name, ())]
    faulty = [check_of(name)] if name in FAULTS else []
    told = told_by(*checks, *mended, *faulty, python=built(name)).commands
    for code, printed in told[: len(checks) + len(mended)]:
        assert (code, " passed" in printed) == (0, True), printed
    assert not faulty or missed(name, told[-1]) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_hash_seed_changes_no_byte_and_the_table_says_what_was_run(name: str) -> None:
    found, again = ([*traces(name, built(name), seed)] for seed in ("1", "2"))
    assert [encode(each) for one in found for each in one] == [
        encode(each) for one in again for each in one
    ]
    for line in rows(name, found):
        assert line in PAGE.read_text("utf-8"), "run: publish_programs.py"
