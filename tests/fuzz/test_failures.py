from simloop import Reply, Scenario
from simloop.check.trial import Failure
from simloop.fuzz.failures import FoundFailures, Group, shape_of

SMALL = Scenario(prompt="Go.", model=[Reply(say="Done.")])
LARGE = Scenario(prompt="Go.", model=[Reply(say="No."), Reply(say="Done.")])


def test_the_shape_of_a_text_has_no_numbers_and_no_names() -> None:
    one = "the tool of call 'call-1' started 2 times after 1.5 s"
    other = "the tool of call 'call-77' started 31 times after 12 s"
    assert shape_of(one) == shape_of(other)
    one = "request 5 does not hold the user's message 'And then?'"
    assert shape_of(one) == shape_of("request 4 does not hold the user's message 'Message 2.'")
    assert shape_of(one) != shape_of("the tool of call 'call-1' never started")


def test_failures_of_one_rule_and_one_shape_are_one_finding_with_the_first_scenario() -> None:
    failures = FoundFailures()
    first = failures.add(Failure("rule", "request 7 is wrong", ""), LARGE, 3, 0.5)
    assert first is not None
    assert failures.add(Failure("rule", "request 9 is wrong", ""), SMALL, 4, 0.6) is None
    (found,) = failures
    assert (found.count, found.run, found.cpu_s) == (2, 3, 0.5)
    assert found.scenario is LARGE
    assert found.failure.text == "request 7 is wrong"


def test_a_failure_of_a_known_group_is_counted_and_is_no_finding() -> None:
    failures = FoundFailures([Group.of("rule", "request 1 is wrong")])
    assert failures.add(Failure("rule", "request 7 is wrong", ""), SMALL, 3, 0.5) is None
    assert failures.add(Failure("other", "request 7 is wrong", ""), SMALL, 4, 0.5) is not None
    assert failures.counts == {
        ("rule", "request 0 is wrong"): 1,
        ("other", "request 0 is wrong"): 1,
    }
    assert len(failures) == 1


def test_another_rule_or_another_shape_is_another_finding() -> None:
    failures = FoundFailures()
    for name, text in (("a", "x 1"), ("b", "x 1"), ("a", "y 1")):
        assert failures.add(Failure(name, text, ""), SMALL, 1, 0.0) is not None
    assert len(failures) == 3
