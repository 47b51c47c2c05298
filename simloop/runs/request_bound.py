"""The bound on the model calls of an agent that never ends.

Not here: the bound on the transitions of a machine (engine/machine_agent.py). The rule to keep: a
listener only sets a flag; the agent is ended at its next call at the boundary.
"""

from functools import partial

from simloop.engine.repetition import MARK, Repetition, spent_replies
from simloop.errors import RunawayRun
from simloop.trace.entries import AnyEntry, Request
from simloop.trace.recorder import Recorder
from simloop.world.fake_model import Model

# A round of a machine takes about four transitions, so both are judged after as much work.
_TRANSITIONS = 4


class RequestBound:
    """A listener that ends a run past `most` requests, or one whose requests bring nothing new."""

    def __init__(self, recorder: Recorder, model: Model, most: int) -> None:
        self._recorder = recorder
        self._most = most
        self._requests = 0
        self._repetition = Repetition(recorder.entries, partial(spent_replies, model))

    def __call__(self, entry: AnyEntry) -> None:
        """Count a request, and judge the run from time to time."""
        if type(entry) is not Request:
            return
        self._requests += 1
        count = self._requests
        if count > self._most:
            self._end(f"the run passed max_transitions={self._most} requests without an outcome")
        elif count * _TRANSITIONS % MARK == 0 and self._repetition.found(count * _TRANSITIONS):
            self._end(f"the run makes no progress: after {count} requests they bring nothing new")

    def _end(self, why: str) -> None:
        self._recorder.keep(RunawayRun(why))
