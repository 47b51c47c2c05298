"""Agent programs of others, unmodified, from scenario files: exact times, equal runs."""

import pytest
from environments import built, told_by
from publish_compare import PAGE
from publish_programs import PROGRAMS, rows, traces

from simloop.trace.codec import encode

pytestmark = pytest.mark.programs


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_comes_to_what_its_scenarios_expect_twice(name: str) -> None:
    checks = [("check", *one.scenarios, *one.options) for one in PROGRAMS[name]]
    for code, printed in told_by(*checks, python=built(name)).commands:
        assert (code, " passed" in printed) == (0, True), printed


@pytest.mark.parametrize("name", PROGRAMS)
def test_another_hash_seed_changes_no_byte_and_the_table_says_what_was_run(name: str) -> None:
    found, again = ([*traces(name, built(name), seed)] for seed in ("1", "2"))
    assert [encode(each) for one in found for each in one] == [
        encode(each) for one in again for each in one
    ]
    for line in rows(name, found):
        assert line in PAGE.read_text("utf-8"), "run: publish_programs.py"
