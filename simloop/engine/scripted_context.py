"""A context whose size comes from a script instead of a measurement.

For runs in which the sizes of real texts would be in the way, such as a loop that compacts for
ever. The rule to keep: it answers as a Compactor does, and takes nothing away.
"""

from dataclasses import dataclass

from simloop.engine.compaction import Compacted
from simloop.engine.context import History
from simloop.messages import UserMessage
from simloop.trace import entries
from simloop.trace.recorder import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextScript:
    """The results of measuring (`over`) and of compacting (`shrunk`), in order.

    The last value of each repeats. Without values, the context is not over and it shrinks.
    """

    over: tuple[bool, ...] = ()
    shrunk: tuple[bool, ...] = ()


class ScriptedContext:
    """Plays a ContextScript."""

    def __init__(self, script: ContextScript, history: History, recorder: Recorder) -> None:
        self._over = list(script.over) or [False]
        self._shrunk = list(script.shrunk) or [True]
        self._history = history
        self._recorder = recorder
        self.reported = False  # a script has no size that could be reported

    def over(self) -> bool:
        """Return whether the context is over the trigger."""
        return _next(self._over)

    async def shorten(self, *, forced: bool) -> Compacted:
        """Record a compaction that gained a token, or nothing."""
        shrunk, before = _next(self._shrunk), self._history.tokens
        after = before - shrunk
        strategy = "scripted" if shrunk else ""
        self._recorder.record(entries.Compaction, forced, strategy, before, after)
        return Compacted(before, after)

    async def restart(self, marker: str, otherwise: str) -> Compacted:  # noqa: ARG002 - as Compactor
        """Record a forced compaction; `otherwise` is added if it gained something."""
        done = await self.shorten(forced=True)
        if done.shrunk:
            self._history.append(UserMessage(otherwise))
        return done


def _next(words: list[bool]) -> bool:
    return words.pop(0) if len(words) > 1 else words[0]
