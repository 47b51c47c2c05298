"""An entry of the catalogue is all that a fault needs to be known wherever faults are."""

import pytest

from simloop import Limits, Reply, Scenario
from simloop.fuzz.alphabet import END_NAMES, ENDS
from simloop.fuzz.shrink import with_planned_faults
from simloop.kernel.errorclass import classify
from simloop.messages import StreamError
from simloop.runs.run import Simulation
from simloop.scenario.replies import parts_of_fault, reply_of_fault
from simloop.scenario.writing import content
from simloop.trace.entries import Error
from simloop.world.chance import SITES, USUAL_SITES, ChanceFaults
from simloop.world.faults import FAULTS, NO_SECONDS, WAITS, ReplyFault, Stage
from simloop_tui.runs import FAULTS_OF_MENU


def test_some_waits_are_no_whole_numbers_of_seconds() -> None:
    odd = [str(wait) for wait in WAITS if NO_SECONDS.search(str(wait))]
    assert [one for one in odd if "GMT" not in one and "headers" not in one] == [
        "{'retry_after': '250ms'}"
    ]
    assert len(odd) == 6


every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


def failures(fault: ReplyFault) -> list[StreamError]:
    return [part for _, part in parts_of_fault(fault) if isinstance(part, StreamError)]


@every_fault
def test_the_keys_of_a_fault_are_those_of_a_reply_in_a_file(fault: ReplyFault) -> None:
    reply = reply_of_fault(fault)
    assert Reply.model_validate_json(reply.model_dump_json(exclude_defaults=True)) == reply


@every_fault
def test_a_failed_call_has_the_class_that_the_catalogue_states(fault: ReplyFault) -> None:
    assert [classify(each.fault) for each in failures(fault)] == (
        [] if fault.error is None else [fault.error]
    )


@every_fault
def test_the_stage_says_how_much_of_a_reply_comes(fault: ReplyFault) -> None:
    outputs = [type(part).__name__ for _, part in parts_of_fault(fault)]
    assert ("TextDelta" in outputs) == (fault.stage is not Stage.INSTEAD)


def test_names_sites_and_words_are_of_one_fault_each() -> None:
    for names in ("name", "site", "words"):
        given = [name for fault in FAULTS if (name := getattr(fault, names))]
        assert len(given) == len(set(given))


def test_the_search_the_menu_and_chance_know_each_fault_that_says_so() -> None:
    assert [fault.name for fault in FAULTS if fault.weight] == list(END_NAMES[1:])
    assert [fault for fault in FAULTS if fault.words] == list(FAULTS_OF_MENU)
    assert {fault.site for fault in FAULTS if fault.site} <= set(SITES)


@pytest.mark.parametrize("key", ["lost", "stall"])
def test_a_connection_that_is_not_made_is_known_everywhere(key: str) -> None:
    (fault,) = [each for each in FAULTS if each.keys == {key: "before-connect"}]
    assert fault in ENDS
    assert fault in FAULTS_OF_MENU
    assert fault.site in SITES
    assert fault.site not in USUAL_SITES  # a scenario without a list draws what it always drew


def test_a_refused_connection_by_chance_is_one_in_the_script_made_of_its_trace() -> None:
    chances = ChanceFaults(activate=1.0, fire=0.8, sites=["model.refused"])
    script = [Reply(say="Hello.")]
    limits = Limits(max_error_count=30)
    scenario = Scenario(prompt="Hi.", seed=1, limits=limits, model=script, faults=chances)
    first = Simulation(scenario)
    first.run()
    faults = [each.fault for each in first.trace.entries if isinstance(each, Error)]
    assert {fault.message for fault in faults} == {"connection refused"}
    planned = with_planned_faults(content(scenario), first.trace.entries)["model"]
    assert planned.count({"lost": "before-connect"}) == len(faults) > 0
