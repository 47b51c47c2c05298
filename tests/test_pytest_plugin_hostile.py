"""Hostile scenarios and file names neither end a session nor reach a terminal as they are."""

import json
import xml.etree.ElementTree as ET
from itertools import islice

import pytest
from hostile import HOSTILE, hostile_scenarios, raw_in
from projects import session as play


@pytest.mark.slow
def test_no_text_of_a_scenario_is_reported_as_it_is(project: pytest.Pytester) -> None:
    for name, text in hostile_scenarios():
        (project.path / f"{name}.simloop.yaml").write_text(text)
    result = play(project, "--color=no", "-rA", "--simloop-trace=on", "--junitxml=results.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "FORGED" in result.stdout.str()
    assert raw_in(result.stdout.str() + result.stderr.str()) == []
    ET.parse(project.path / "results.xml")


@pytest.mark.slow
def test_no_text_of_a_scenario_is_shown_as_it_is_where_a_python_test_runs_it(
    project: pytest.Pytester,
) -> None:
    for number, (_, text) in enumerate(islice(hostile_scenarios(), None, None, 4)):
        (project.path / f"{number}.yaml").write_text(text)
    project.makepyfile("""
        from pathlib import Path
        import pytest

        @pytest.mark.parametrize("number", range(len(list(Path().glob("*.yaml")))))
        def test_it(simloop_run, number):
            simloop_run(f"{number}.yaml")
    """)
    result = play(project, "--tb=short")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "FORGED" in result.stdout.str()
    assert raw_in(result.stdout.str()) == []


def test_no_key_of_a_scenario_is_shown_as_it_is_where_a_python_test_reads_it(
    project: pytest.Pytester,
) -> None:
    """Without `--tb=short` pytest prints the cause of an error too, and whole functions."""
    (project.path / "a.yaml").write_text(json.dumps({"prompt": "Hi", HOSTILE: 1}))
    project.makepyfile("""
        from simloop import load_scenario

        def test_it():
            load_scenario("a.yaml")
    """)
    result = play(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "FORGED" in result.stdout.str()
    assert raw_in(result.stdout.str()) == []
