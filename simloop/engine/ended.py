"""The end of one run, as the driver returns it.

The rule to keep: it is complete; a report on the run needs nothing more from the driver.
"""

from dataclasses import dataclass

from simloop.kernel.machine import Run
from simloop.kernel.states import Finished
from simloop.messages import Message
from simloop.trace import entries


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run. `text` is the model's last text, `message` the message for the user.

    Steps and compactions are counted by the simulator, also for a machine that does not count them.
    """

    run: Run
    state: Finished
    total_steps: int
    compaction_attempts: int
    text: str
    message: str
    messages: tuple[Message, ...]
    elapsed_ns: int

    def entry(self, seq: int, at_ns: int) -> entries.Ended:
        """Return the trace entry for this end, written when another prompt follows."""
        run, state = self.run, self.state
        return entries.Ended(
            seq,
            at_ns,
            state.outcome,
            state.limit,
            self.message,
            self.text,
            run.error_count,
            self.total_steps,
            self.compaction_attempts,
            self.elapsed_ns,
        )
