"""The record of refusals: the hosts, programs and calls that an agent asked for and did not get.

A refusal is no failure. It is an entry of the trace, and reports list those that no scenario means.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from simloop.escape import writable
from simloop.trace import entries
from simloop.trace.recorder import Recorder


class Refusals:
    """The refusals of one conversation.

    `offline` and `absent` are patterns of the hosts and the programs that are meant not to be
    there: `*.example.com` is any host below that domain.
    """

    def __init__(
        self, recorder: Recorder, offline: Sequence[str] = (), absent: Sequence[str] = ()
    ) -> None:
        self._recorder = recorder
        self._meant = {"host": offline, "program": absent}

    def note(self, what: str, name: str, asked: str, place: str) -> None:
        """Record a refusal, unless the newest entry is an equal one: much is tried for ever."""
        patterns = self._meant.get(what, ())
        meant = any(fnmatchcase(name.lower(), each.lower()) for each in patterns)
        asked, recorder = writable(asked), self._recorder
        last = recorder.entries[-1] if recorder.entries else None
        if type(last) is entries.Refused and (last.what, last.asked) == (what, asked):
            return
        recorder.record(entries.Refused, what, asked, place, meant)
