"""The detection of a run that makes no progress: nothing new is said in thousands of transitions.

Not here: the bound on transitions (machine_agent.py), and programs without a machine
(standstill.py). The rule to keep: a text, a call, a result or an error that was not there before is
progress, and so is anything that is used up: a reply of a script, a budget of the machine. A long
run that makes progress is never ended.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from simloop.kernel.names import NAMES
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.world.fake_model import Model

# 20,000 transitions take about a second.
STRIDE = 20_000
MARK = 5_000
_OFTEN = 10


class Repetition:
    """Looks at the record of a run at every `MARK` and judges it at every `STRIDE` transitions.

    `used` returns what the run has used up so far; it changes while the run makes progress.
    """

    def __init__(self, record: Sequence[AnyEntry], used: Callable[[], object]) -> None:
        self._record = record
        self._used = used
        self._since = 0
        self._used_before: object = None

    def found(self, transitions: int) -> str:
        """Return the signals of the round that the run repeats; empty if it makes progress."""
        left = transitions % STRIDE
        if left == MARK:
            self._since = len(self._record)
            self._used_before = self._used()
        if left or self._used_before != self._used():
            return ""
        said = Counter(filter(None, map(_what, self._record[self._since :])))
        if said and min(said.values()) < _OFTEN:
            return ""
        return _last_round(self._record) or "its model calls"  # an agent has no transitions


def spent_replies(model: Model) -> int:
    """Return the number of replies used from finite script entries; 0 without a script."""
    spent: Callable[[], int] | None = getattr(model, "spent", None)
    return 0 if spent is None else spent()


def _last_round(record: Sequence[AnyEntry]) -> str:
    """Return the signals of the transitions since the run was last at this place."""
    signals: list[str] = []
    last = None
    for entry in reversed(record):
        if isinstance(entry, entries.Transition):
            if (entry.signal, entry.state) == last:
                break
            last = last or (entry.signal, entry.state)
            signals.append(NAMES[type(entry.signal)])
    return ", ".join(reversed(signals))


def _what(entry: AnyEntry) -> tuple[Any, ...] | None:
    """Return the content of an entry without the numbers that rise in every round."""
    match entry:
        case entries.TextDelta() | entries.ReasoningDelta() | entries.Prompt():
            return type(entry), entry.text
        case entries.ToolCall():
            return type(entry), entry.name, entry.arguments
        case entries.Answered() | entries.ToolResult():
            return type(entry), entry.name, entry.text, entry.is_error
        case entries.Finish():
            return type(entry), entry.reason, entry.raw
        case entries.Error():
            return type(entry), repr(entry.fault)
        case entries.Classified():
            return type(entry), entry.error_class
        case entries.Hook():
            return type(entry), entry.point, entry.hook, entry.result, entry.detail
        case _:
            return None
