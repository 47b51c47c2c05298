"""Two runs side by side: equal up to the first divergence, aligned after it."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from simloop.check.trial import run_to_the_end
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.rows import words_of
from simloop.scenario.loader import parse_scenario
from simloop.trace.entries import Sleep
from simloop_tui.comparison import align


def recorded(*replies: str) -> RecordedRun:
    model = "\n".join(f"  - {reply}" for reply in replies)
    text = f"prompt: Go.\ntools: {{look: {{returns: A}}}}\nmodel:\n{model}\n"
    return RecordedRun.of_trace(run_to_the_end(parse_scenario(text)))


CALL, DONE, ERROR = "{call: {look: {}}}", "{say: Done.}", "{http: {status: 500}}"


def test_equal_runs_have_no_divergence() -> None:
    found = align(recorded(CALL, DONE), recorded(CALL, DONE))
    assert found.first is None
    assert all(pair.same and pair.left == pair.right for pair in found.pairs)


def test_the_first_divergence_is_the_first_entry_that_differs() -> None:
    one, other = recorded(CALL, DONE), recorded(CALL, ERROR, DONE)
    found = align(one, other)
    assert found.first is not None
    pair = found.pairs[found.first]
    before = found.pairs[: found.first]
    assert all(one.entries[p.left] == other.entries[p.right] for p in before)  # type: ignore[index]
    assert pair.left is None or one.entries[pair.left] != other.entries[found.first]


def test_entries_after_an_insertion_stand_beside_their_equals() -> None:
    one, other = recorded(CALL, DONE), recorded(CALL, ERROR, DONE)
    again = [pair for pair in align(one, other).pairs if pair.same and pair.left != pair.right]
    assert again
    for pair in again:
        assert words_of(one.entries[pair.left]) == words_of(other.entries[pair.right])  # type: ignore[index]


def test_code_that_moved_to_another_line_is_no_divergence() -> None:
    trace = run_to_the_end(parse_scenario(f"prompt: Go.\nmodel: [{DONE}]\n"))

    def slept(line: int) -> RecordedRun:
        entry = Sleep(len(trace.entries), trace.elapsed_ns, 1, f"bot.py:{line} in bot")
        return RecordedRun.of_trace(structs.replace(trace, entries=[*trace.entries, entry]))

    one, other = slept(3), slept(4)
    assert align(one, other).first is None


_SCRIPTS = st.lists(st.sampled_from([CALL, ERROR]), max_size=2).map(lambda some: [*some, DONE])


@given(_SCRIPTS, _SCRIPTS)
def test_each_entry_of_both_runs_stands_in_one_pair_in_order(
    one: list[str], other: list[str]
) -> None:
    left, right = recorded(*one), recorded(*other)
    pairs = align(left, right).pairs
    assert [p.left for p in pairs if p.left is not None] == list(range(len(left.entries)))
    assert [p.right for p in pairs if p.right is not None] == list(range(len(right.entries)))
    assert all(p.left is not None and p.right is not None for p in pairs if p.same)
