"""The end of one run."""

from msgspec import Struct

from simloop.messages import Counters, Outcome


class Ending(Struct, frozen=True):
    """The end of a run. `text` is the model's last text, `message` the message to the user.

    `limit` names the limit that ended the run, if one did. `counters` are those of a machine.
    """

    outcome: Outcome
    limit: str = ""
    message: str = ""
    text: str = ""
    counters: Counters | None = None
