"""The work of a tool in databases: what its statements find, keep and overwrite there."""

import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

_PASSING = ("BEGIN", "COMMIT", "END", "PRAGMA", "SAVEPOINT", "RELEASE", "ROLLBACK")
_READING, _FINDING = ("SELECT", "WITH"), ("UPDATE", "DELETE")
_SHOWN = 60  # characters of a statement
_TABLES = re.compile(r"(?i)\b(?:from|join|into|update)\s+(\w+)").findall
_NAME = re.compile(r"[^\W\d]").match  # no number and no date
_SET = re.compile(r"(?is)\bset\b(.*?)(?:\bwhere\b|$)").findall
_REPLACES = re.compile(r"^\s*(?:INSERT\s+OR\s+)?(REPLACE)\b").findall  # as a column: all of them
_COLUMNS = re.compile(r"(\w+)\s*=").findall
_RELATIVE = re.compile(r"(\w+)\s*=[^,]*\b\1\b")  # such as `n = n + 1`


class Work:
    """The statements of a tool that is called with `arguments`, beside `others` that run.

    `missed` is the last statement, if it names an argument and finds no row. `overwrote` is one
    that writes what it has from an older state of its table than another call has left, and `kept`
    those that are committed, if they name something.
    """

    def __init__(self, arguments: Iterable[Any], others: "list[Work]") -> None:
        self._arguments, self._others = _texts(arguments), others
        self._changed = False
        self._made = set[str]()  # the tables with rows of its own
        self.read = dict[str, set[str]]()  # by table, the values that were asked for
        self.stale = dict[str, set[str]]()  # by table, the columns that others have changed
        self.missed = self.overwrote = ""
        self.open = list[str]()  # changes that are not committed
        self.kept = list[str]()
        self.is_open = False  # a change waits for its commit

    def add(self, sql: str, given: Any, rows: int) -> None:
        if (verb := sql.split(maxsplit=1)[0].upper() if sql.strip() else "") in _PASSING:
            if verb == "ROLLBACK":
                self.open.clear()
            return
        values = _texts(given.values() if isinstance(given, Mapping) else given)
        tables, shown = {*_TABLES(sql)}, " ".join(sql.split())[:_SHOWN]
        if verb in _READING:
            self.read |= dict.fromkeys(tables, values)
            self.stale = {one: each for one, each in self.stale.items() if one not in tables}
        elif rows > 0:
            self.is_open = True
            self._made |= tables if verb == "INSERT" else set()
            is_undone = verb == "DELETE" and not self._made.isdisjoint(tables)
            if verb in _FINDING and any(map(_NAME, values)) and not is_undone:
                self.open.append(shown)
            is_own = values <= self._arguments or _RELATIVE.search(sql)
            is_of_one = "WHERE" in sql.upper() or verb != "UPDATE"
            columns = {*_COLUMNS("".join(_SET(sql)))} | {*_REPLACES(sql.upper())}
            if not is_own and any(columns & self.stale.get(each, set()) for each in tables):
                self.overwrote = shown
            for other in self._others:
                shared = (each for each in tables & other.read.keys() if other is not self)
                for each in shared:  # the same row, or the only one of its table
                    is_same = other.read[each] & values or not (other.read[each] or is_of_one)
                    other.stale.setdefault(each, set()).update(columns if is_same else ())
        self._changed = self._changed or rows > 0
        # What RETURNING finds is counted as it is fetched.
        is_counted = verb in _FINDING and "RETURNING" not in sql.upper()
        is_named = is_counted and not self._arguments.isdisjoint(values)
        self.missed = shown if is_named and not self._changed else ""


def _texts(values: Iterable[Any]) -> set[str]:
    return {str(each) for each in values if type(each) in (str, int, float)}


WORK: ContextVar[Work | None] = ContextVar("work", default=None)
"""The work of the tool that runs here."""


def end_here(*, keeps: bool) -> None:
    """End the open transaction of the tool that runs here."""
    if (work := WORK.get()) is not None:
        work.kept, work.open = [*work.kept, *(work.open if keeps else ())], []
        work.is_open = False
