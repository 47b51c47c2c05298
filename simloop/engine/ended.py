"""How one run ended, as the driver hands it over.

The rule to keep: it is whole; whoever reports on the run asks the driver for nothing more.
"""

from dataclasses import dataclass

from simloop.kernel.machine import Run
from simloop.kernel.states import Finished
from simloop.messages import Message
from simloop.trace import entries


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. `text` is the model's last words, `message` what the user is told.

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
        """As it stands in the trace when another prompt follows."""
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
