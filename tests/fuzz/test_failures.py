from simloop import Reply, Scenario
from simloop.fuzz.failures import Findings, shape_of
from simloop.fuzz.play import Breach

SMALL = Scenario(prompt="Go.", model=[Reply(say="Done.")])
LARGE = Scenario(prompt="Go.", model=[Reply(say="No."), Reply(say="Done.")])


def test_the_shape_of_a_text_has_no_numbers_and_no_names() -> None:
    one = "the tool of call 'call-1' started 2 times after 1.5 s"
    other = "the tool of call 'call-77' started 31 times after 12 s"
    assert shape_of(one) == shape_of(other)
    one = "request 5 does not hold the user's message 'And then?'"
    assert shape_of(one) == shape_of("request 4 does not hold the user's message 'Message 2.'")
    assert shape_of(one) != shape_of("the tool of call 'call-1' never started")


def test_failures_of_one_rule_and_one_shape_are_one_finding_with_the_smallest_scenario() -> None:
    findings = Findings()
    first = findings.add(Breach("rule", "request 7 is wrong", ""), LARGE, 3, 0.5)
    assert first is not None
    assert findings.add(Breach("rule", "request 9 is wrong", ""), SMALL, 4, 0.6) is None
    assert findings.add(Breach("rule", "request 5 is wrong", ""), LARGE, 5, 0.7) is None
    (found,) = findings
    assert (found.count, found.run, found.cpu_s) == (3, 3, 0.5)
    assert found.scenario is SMALL
    assert found.breach.text == "request 9 is wrong"


def test_another_rule_or_another_shape_is_another_finding() -> None:
    findings = Findings()
    for name, text in (("a", "x 1"), ("b", "x 1"), ("a", "y 1")):
        assert findings.add(Breach(name, text, ""), SMALL, 1, 0.0) is not None
    assert len(findings) == 3
