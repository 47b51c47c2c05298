from simloop import Reply, Scenario, run
from simloop.fuzz.coverage import Coverage
from simloop.trace.entries import AnyEntry, TextDelta

SAY, CALL = Reply(say="Done."), Reply(call={"look": {}})
FAIL = Reply(http={"status": 500})


def record(*model: Reply) -> list[AnyEntry]:
    scenario = Scenario(prompt="Go.", model=list(model), tools={"look": {"returns": "seen"}})
    return run(scenario).trace.entries


def test_a_run_reaches_something_new_once() -> None:
    coverage = Coverage(has_engine=True)
    assert coverage.add(record(SAY))
    assert not coverage.add(record(SAY))
    assert coverage.add(record(CALL, SAY))
    assert all(isinstance(signal, type) for _, signal, _ in coverage.edges)


def test_one_pair_of_edges_counts_once_for_each_way_in_which_a_reply_ended() -> None:
    coverage = Coverage(has_engine=True)
    coverage.add(record(FAIL, SAY))
    edges = set(coverage.edges)
    assert coverage.add(record(Reply(http={"status": 503}), SAY))
    assert coverage.edges == edges


def test_for_an_agent_the_pairs_of_entries_at_the_boundary_count() -> None:
    coverage = Coverage(has_engine=False)
    assert coverage.add(record(SAY))
    assert not coverage.add(record(Reply(say="Many more words.")))
    assert coverage.add(record(FAIL, SAY))
    assert not coverage.edges
    assert (None, (TextDelta, None)) not in coverage.reached
    assert ((TextDelta, None), (TextDelta, None)) not in coverage.reached
