"""The counters of a run that a machine made."""

from simloop import Result
from simloop.messages import Counters


def counters_of(result: Result) -> Counters:
    """The counters at the end; only an agent without a machine has none."""
    assert result.counters is not None
    return result.counters
