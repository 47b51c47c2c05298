from simloop.kernel import effects
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Run
from simloop.kernel.states import CallingModel, Finished
from simloop.messages import Outcome
from simloop.prove.graph import Graph

ENDED = Finished(Outcome.COMPLETED)


def graph() -> Graph:
    """Three nodes, of which the first two ask for equal effects."""
    made = Graph()
    for state in (CallingModel(), CallingModel()):
        made.add(Run(state), (effects.CallModel(),), None)
    made.add(Run(ENDED), (effects.EndRun(),), None)
    return made


def test_a_value_of_what_each_node_has_asked_is_computed_once_for_equal_effects() -> None:
    seen = []

    def count(asked: tuple[Effect, ...]) -> int:
        seen.append(asked)
        return len(seen)

    assert graph().of_each_asked(count) == [1, 1, 2]
    assert seen == [(effects.CallModel(),), (effects.EndRun(),)]


def test_a_graph_knows_the_nodes_at_which_a_run_is_over() -> None:
    assert graph().ends == {2: ENDED}
