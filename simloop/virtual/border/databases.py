"""Databases of SQLite whose locks are waited for in virtual time.

SQLite itself sleeps until a lock is free or the timeout of its connection has passed, and no other
thread of a simulation could free the lock meanwhile. So a connection that is opened inside never
waits there, and a call that finds a lock is made again, at the times at which SQLite looks again.
"""

import _sqlite3  # `sqlite3` takes three times longer to import
import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from simloop.virtual.border.answers import answers_here, stand_in
from simloop.virtual.border.statements import WORK, end_here
from simloop.virtual.border.thread_stand_ins import home
from simloop.virtual.clock.listener import listener_of
from simloop.virtual.clock.loop import loop_here
from simloop.virtual.places import callers_place

_PAUSES_MS = (1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50)  # and then 100: sqliteDefaultBusyCallback
_LEGACY = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL
_BUSY = 5  # SQLITE_BUSY; no wait ends what its extended codes say
_IN_MEMORY = (":memory:", "")  # only its own connection can see such a database
_HOLDERS = ("_sqlite3", "sqlite3", "sqlite3.dbapi2")
_NAMES = (
    "timeout", "detect_types", "isolation_level", "check_same_thread", "factory",
    "cached_statements", "uri",
)  # fmt: skip
# In a tuple: the names of a module that hold originals are exchanged, in this one too.
_ORIGINAL: Any = (_sqlite3.connect,)
_SLEEP: Any = (time.sleep,)
_Connection: Any = _sqlite3.Connection


def _waited(connection: Any, call: Callable[[], Any]) -> Any:
    """Return what `call` does, when no lock is in its way. Raises OperationalError."""
    left_ms, tries = connection.timeout_ms, 0
    while True:
        try:
            return call()
        except _sqlite3.OperationalError as error:
            if error.sqlite_errorcode != _BUSY or left_ms <= 0:
                raise
        pause_ms = min(left_ms, _PAUSES_MS[tries] if tries < len(_PAUSES_MS) else 100)
        answers = answers_here()
        (_SLEEP[0] if answers is None else answers.sleep)(pause_ms / 1000)
        left_ms, tries = left_ms - pause_ms, tries + 1


class _WaitingConnection(_Connection):  # type: ignore[misc]
    has_read = False
    kept = 0  # of `total_changes`, those before the open transaction

    def __init__(
        self, database: Any, timeout: float = 5.0, *, check_same_thread: bool = True, **named: Any
    ) -> None:
        self.timeout_ms = round(timeout * 1000)
        self.home = home() if check_same_thread else None
        self.is_stored = database not in _IN_MEMORY
        # SQLite knows real threads only, and an agent that is not async has one for each prompt.
        super().__init__(database, timeout=0, check_same_thread=False, **named)
        with suppress(_sqlite3.Error):  # no run outlives its machine: no commit waits for the disk
            _sqlite3.Cursor(self).execute("PRAGMA synchronous = OFF")

    def check(self) -> None:
        if self.home not in (None, here := home()):
            made, uses = self.home or "MainThread", here or "MainThread"
            raise _sqlite3.ProgrammingError(
                "SQLite objects created in a thread can only be used in that same thread. The "
                f"object was created in thread {made} and this is thread {uses}."
            )

    def cursor(self, factory: Any = _sqlite3.Cursor) -> Any:
        self.check()
        return super().cursor(_waiting(factory) if isinstance(factory, type) else factory)

    def execute(self, *given: Any) -> Any:
        return self.cursor().execute(*given)

    def executemany(self, *given: Any) -> Any:
        return self.cursor().executemany(*given)

    def commit(self) -> None:
        self.check()
        _waited(self, super().commit)
        end_here(keeps=True)

    @property
    def uncommitted(self) -> int:
        """The changed rows that no commit has kept."""
        try:  # with `autocommit`, a transaction is open at all times
            is_open = self.in_transaction and getattr(self, "autocommit", _LEGACY) == _LEGACY
            return self.total_changes - self.kept if is_open and self.is_stored else 0
        except _sqlite3.Error:  # it is closed
            return 0

    def rollback(self) -> None:
        self.check()
        super().rollback()
        end_here(keeps=False)

    def close(self) -> None:
        self.check()
        if (listener := listener_of(loop_here())) is not None:
            rows = self.uncommitted
            if rows and sys.exc_info()[0] is None:  # after an exception it is meant
                listener.loses(rows, callers_place())
        end_here(keeps=False)
        super().close()

    def __exit__(self, *raised: object) -> Any:
        if raised[0] is not None:
            end_here(keeps=False)
        else:
            with suppress(_sqlite3.Error):  # the next line raises it again, and rolls back
                self.commit()
        return super().__exit__(*raised)


@functools.cache
def _waiting(cursor: Any) -> Any:
    class WaitingCursor(cursor):  # type: ignore[misc]
        def execute(self, sql: str, *given: Any) -> Any:
            done = self._waited(sql, lambda: super(WaitingCursor, self).execute(sql, *given))
            if (work := WORK.get()) is not None:
                work.add(sql, given[0] if given else (), super().rowcount)
                if not self.connection.in_transaction:
                    end_here(keeps=True)
            return done

        def executemany(self, sql: str, rows: Any) -> Any:
            every = [*rows]  # an iterator cannot be read again
            return self._waited(sql, lambda: super(WaitingCursor, self).executemany(sql, every))

        @property
        def rowcount(self) -> int:
            if (work := WORK.get()) is not None:
                work.missed = ""
            return super().rowcount  # type: ignore[no-any-return]

        def _waited(self, sql: str, call: Callable[[], Any]) -> Any:
            one = self.connection
            one.check()
            if not one.in_transaction:
                one.kept = one.total_changes
            # SQLite lets nobody wait who has read in this transaction: the other may wait for it.
            done = call() if one.in_transaction and one.has_read else _waited(one, call)
            one.has_read = one.in_transaction and not sql.lstrip().upper().startswith("BEGIN")
            if one.uncommitted and (listener := listener_of(loop_here())) is not None:
                listener.changes(one, callers_place())
            return done

    return WaitingCursor


def connect(database: Any, *given: Any, **named: Any) -> Any:
    """Connect as `sqlite3.connect`, for use in simulations too."""
    # By name: Python 3.12 warns of several arguments without.
    named = {"factory": _WaitingConnection, **dict(zip(_NAMES, given, strict=False)), **named}
    return _ORIGINAL[0](database, **named)


@contextmanager
def connected_for_runs() -> Iterator[None]:
    """Give a module that is imported here connections which its agent can use in its runs."""
    modules: Any = sys.modules
    before = {name: modules[name].connect for name in _HOLDERS if name in modules}
    try:
        for name in before:
            modules[name].connect = connect
        yield
    finally:  # `sqlite3` takes it over if it is imported meanwhile
        for name in _HOLDERS:
            if getattr(modules.get(name), "connect", None) is connect:
                modules[name].connect = before.get(name, before["_sqlite3"])


FUNCTIONS = {_sqlite3.connect: stand_in(_sqlite3.connect, lambda _, *a, **kw: connect(*a, **kw))}
