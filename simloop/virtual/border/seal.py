"""The border of a simulation: the exchange of Python's clocks, randomness and threads."""

import contextlib
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from simloop.virtual.border import answers, certificates, refusals, thread_stand_ins
from simloop.virtual.border.answers import Answers, shared_draws
from simloop.virtual.border.exchange import NameExchange
from simloop.virtual.border.output import Output, enter_streams, leave_streams
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.real_world import LISTS, noted_interrupts
from simloop.virtual.seeds import Seeds

connected_for_runs: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
try:
    from simloop.virtual.border import databases
except ImportError:  # a Python without SQLite
    _OF_DATABASES = {}
else:
    _OF_DATABASES, connected_for_runs = databases.FUNCTIONS, databases.connected_for_runs


class _Border(NameExchange):
    def begin(self, *given: Seeds) -> None:
        refusals.watch_reaches()
        shared_draws.begin(*given)
        # Identifiers stay above the last stamp, which was a real one; `sealed` has the newer ones.
        vars(uuid).update(_last_timestamp=None)
        _forget_temporary_names()

    def end(self) -> None:
        shared_draws.end()
        _forget_temporary_names()


def _forget_temporary_names() -> None:
    """Let the names of temporary files begin anew: they go on for as long as the process lives."""
    tempfile.gettempdir()  # which draws a name in its first call of all
    tempfile._name_sequence = None  # type: ignore[attr-defined]  # noqa: SLF001


_FUNCTIONS = answers.FUNCTIONS | thread_stand_ins.FUNCTIONS | refusals.FUNCTIONS
_border = _Border(
    _FUNCTIONS | _OF_DATABASES,
    answers.METHODS + thread_stand_ins.METHODS + refusals.METHODS + certificates.METHODS,
    kept_by=LISTS.real_clocks,
    everywhere=refusals.FUNCTIONS | answers.OF_ASYNCIO,
)


@contextlib.contextmanager
def sealed(loop: VirtualLoop, seeds: Seeds) -> Iterator[None]:
    """Give code that runs on `loop` the clocks, dates and randomness of the simulation.

    Answered, wherever a module global holds them: the clocks of `time` and `time.sleep`, which
    moves virtual time; dates and local time, in UTC; `os.urandom`, `os.getrandom` and
    `ssl.RAND_bytes`, so `uuid4` and `secrets`; `uuid1`; `random`, with generators that are created
    unseeded. Threads, locks and event loops that are made inside are simulated. Hosts and programs
    are not there. Blocking sockets, forks and alarms are refused.
    """
    __tracebackhide__ = True
    outer, answers = loop.answers, Answers(loop, seeds)
    # These keep the time of their newest UUID: a clock that is set back would make the first one of
    # a run depend on the run before it (Python 3.14, pydantic-ai 2.31).
    for module in filter(None, map(sys.modules.get, ("uuid", "pydantic_ai._uuid"))):
        for name in ("_last_timestamp_v6", "_last_timestamp_v7"):
            if hasattr(module, name):
                setattr(module, name, None)
    _border.enter(seeds)
    streams = enter_streams()
    try:
        with noted_interrupts() as loop.interrupts:
            loop.answers, loop.output = answers, loop.output or Output()
            yield
    finally:
        loop.answers = outer
        try:
            leave_streams(streams)
        finally:
            _border.leave()


@contextlib.contextmanager
def kept_border() -> Iterator[None]:
    """Leave the stand-ins in place between simulations, for many short ones in a row.

    Between them, code of the program calls the originals through the stand-ins, as other threads
    do while a simulation runs. At the end the originals are back.
    """
    _border.keep()
    try:
        yield
    finally:
        _border.let_go()
