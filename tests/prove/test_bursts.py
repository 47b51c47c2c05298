"""A machine that takes notice of bursts does so at every count, and ends the run."""

from msgspec import structs
from test_explore import found

from simloop.kernel import effects
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import ModelReplied
from simloop.kernel.states import Compacting, ReplyFacts
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop

LIMITS = Limits(max_steps=5, max_error_count=2, max_compaction_attempts=1, max_steps_per_round=2)


def test_a_machine_that_takes_no_notice_of_bursts_breaks_no_rule() -> None:
    assert found(ReactLoop(LIMITS), LIMITS) == []


def test_a_burst_that_begins_later_once_there_was_an_error_is_found() -> None:
    class Later(ReferenceLoop):
        def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
            if run.error_count and signal.steps == LIMITS.max_steps_per_round + 1:
                after, asked = super()._take_reply(run, _plain(signal))
                return Run(after.state, after.error_count, run.total_steps + signal.steps), asked
            return super()._take_reply(run, signal)

    assert "3 steps of a reply are not taken for a burst" in found(Later(LIMITS), LIMITS)


def test_a_burst_that_goes_unnoticed_after_a_compaction_is_found() -> None:
    class Unnoticed(ReferenceLoop):
        def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
            if run.compaction_attempts:
                return super()._take_reply(run, _plain(signal))
            return super()._take_reply(run, signal)

    what = "calling-model takes notice of a burst at some counts, and not here"
    assert what in found(Unnoticed(LIMITS), LIMITS)


def test_a_burst_that_is_noticed_and_goes_on_is_found() -> None:
    class Careless(ReferenceLoop):
        def _follow(self, run: Run, reply: ReplyFacts, *, queued: bool) -> Transition:
            if reply.burst and reply.finish == "length" and not run.compaction_attempts:
                return run.to(Compacting(forced=True)), (effects.Compact(forced=True),)
            return super()._follow(run, reply, queued=queued)

    assert "a run asks for compact after a burst" in found(Careless(LIMITS), LIMITS)


def _plain(reply: ModelReplied) -> ModelReplied:
    """The reply as if it reported one step."""
    return structs.replace(reply, steps=1)
