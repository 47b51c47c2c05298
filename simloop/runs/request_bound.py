"""The bound on the model calls of an agent that never ends.

Not here: the bound on the transitions of a machine (engine/machine_agent.py). The rule to keep: a
listener only sets a flag; the agent is ended at its next call at the boundary.
"""

from functools import partial

from simloop.engine.repetition import MARK, Repetition, spent_replies
from simloop.engine.settings import MAX_TRANSITIONS
from simloop.errors import RunawayRun
from simloop.trace.entries import AnyEntry, Request
from simloop.trace.recorder import Recorder
from simloop.world.fake_model import Model

# A machine is judged after 20,000 transitions, and an agent after 400 requests. Each of these has
# all messages again, and with an SDK that checks every one of them, 1,000 took minutes.
_TRANSITIONS = 50


class RequestBound:
    """A listener that ends a run past `most` requests, or one whose requests bring nothing new.

    A scenario that states its own `most` is not judged by what its requests bring.
    """

    def __init__(self, recorder: Recorder, model: Model, most: int) -> None:
        self._recorder = recorder
        self._most = most
        self._requests = 0
        self._repetition: Repetition | None = None
        if most == MAX_TRANSITIONS:
            self._repetition = Repetition(recorder.entries, partial(spent_replies, model))

    def __call__(self, entry: AnyEntry) -> None:
        """Count a request, and judge the run from time to time."""
        if type(entry) is not Request:
            return
        self._requests += 1
        count = self._requests
        if count > self._most:
            self._end(f"the run passed max_transitions={self._most} requests without an outcome")
        elif self._makes_no_progress():
            why = f"the run makes no progress: after {count} requests they bring nothing new"
            self._end(why, hint="if so many are right, set max_transitions to their bound")

    def _makes_no_progress(self) -> bool:
        transitions = self._requests * _TRANSITIONS
        if self._repetition is None or transitions % MARK:
            return False
        return bool(self._repetition.found(transitions))

    def _end(self, why: str, hint: str = "") -> None:
        self._recorder.keep(RunawayRun(why, hint=hint))
