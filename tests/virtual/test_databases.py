"""A lock of SQLite is waited for in virtual time, and as SQLite itself waits."""

import asyncio
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from simloop import Scenario, Simulation, World, simulate, traced
from simloop.trace.entries import LeftBehind, ToolResult
from simloop.virtual.border.statements import Work

LOCKED = "OperationalError: database is locked"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE t (x)")
    return path


def lock(database: Path, seconds: float) -> None:
    """Hold the database for that time, in a thread."""

    def hold() -> None:
        with closing(sqlite3.connect(database)) as other:
            other.execute("BEGIN EXCLUSIVE")
            time.sleep(seconds)

    threading.Thread(target=hold).start()
    time.sleep(0)


def told(call: Callable[[], object]) -> tuple[str, float]:
    """Return the result of a call, or its error, and how long it took."""
    began = time.monotonic()
    try:
        result = str(call())
    except sqlite3.Error as error:
        result = f"{type(error).__name__}: {error}"
    return result, round(time.monotonic() - began, 3)


WRITES: dict[str, Callable[[sqlite3.Connection], object]] = {
    "execute": lambda one: one.execute("INSERT INTO t VALUES (1)").rowcount,
    "cursor": lambda one: one.cursor().execute("INSERT INTO t VALUES (1)").rowcount,
    "executemany": lambda one: one.executemany("INSERT INTO t VALUES (?)", iter([[1]])).rowcount,
    "read": lambda one: len([*one.execute("SELECT * FROM t")]) + 1,
    "begin": lambda one: one.execute("begin immediate").rowcount + 2,
}


@pytest.mark.parametrize("how", WRITES)
def test_a_call_waits_until_a_lock_is_free_or_its_timeout_has_passed(
    how: str, database: Path
) -> None:
    def writes() -> list[tuple[str, float]]:
        with (
            closing(sqlite3.connect(database)) as first,
            closing(sqlite3.connect(database, timeout=2)) as second,
        ):
            lock(database, 3)
            found = [told(lambda: WRITES[how](second)), told(lambda: WRITES[how](first))]
            second.rollback()
        return found

    assert simulate(asyncio.to_thread(writes)) == [(LOCKED, 2.0), ("1", 1.028)]


def test_a_wait_in_a_coroutine_blocks_its_loop_and_lets_threads_run(database: Path) -> None:
    async def waits() -> tuple[str, float]:
        with closing(sqlite3.connect(database)) as one:
            lock(database, 3)
            return told(lambda: WRITES["execute"](one))

    assert simulate(waits()) == ("1", 3.028)


def test_a_commit_waits_for_readers_and_a_block_rolls_back(database: Path) -> None:
    def commits() -> list[object]:
        with closing(sqlite3.connect(database)) as reads, closing(sqlite3.connect(database)) as one:
            reads.execute("BEGIN")
            reads.execute("SELECT * FROM t").fetchall()
            one.execute("INSERT INTO t VALUES (1)")
            found = [told(one.commit), told(lambda: one.__exit__(None, None, None))]
            return [*found, one.in_transaction, told(lambda: WRITES["execute"](reads))]

    locked = (LOCKED, 5.0)
    assert simulate(asyncio.to_thread(commits)) == [locked, locked, False, ("1", 0.0)]


def test_who_reads_and_then_writes_beside_a_writer_is_refused_at_once(database: Path) -> None:
    def upgrades() -> tuple[str, float]:
        with closing(sqlite3.connect(database)) as one, closing(sqlite3.connect(database)) as other:
            one.execute("BEGIN")
            one.execute("SELECT * FROM t").fetchall()
            other.execute("INSERT INTO t VALUES (1)")
            return told(lambda: WRITES["execute"](one))

    assert simulate(asyncio.to_thread(upgrades)) == (LOCKED, 0.0)
    assert upgrades()[0] == LOCKED  # as it is in Python


def test_a_factory_of_the_program_makes_its_connection_and_its_cursor(database: Path) -> None:
    class Mine(sqlite3.Connection):
        pass

    class Own(sqlite3.Cursor):
        pass

    async def kinds() -> list[object]:
        with (
            closing(sqlite3.connect(database, factory=Mine)) as mine,
            closing(sqlite3.connect(database)) as one,
        ):
            return [type(mine), isinstance(one.cursor(factory=Own), Own)]

    assert simulate(kinds()) == [Mine, True]
    with closing(sqlite3.connect(database)) as outside:
        assert type(outside) is sqlite3.Connection


def test_no_commit_waits_for_the_disk_and_what_cannot_be_opened_fails_where_it_is_used(
    database: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database" * 100)

    async def main() -> tuple[int, str]:
        with closing(sqlite3.connect(database)) as one, closing(sqlite3.connect(broken)) as other:
            (synchronous,) = one.execute("PRAGMA synchronous").fetchone()
            return synchronous, told(lambda: other.execute("SELECT 1 FROM t"))[0]

    assert simulate(main()) == (0, "DatabaseError: file is not a database")


def _commits(one: sqlite3.Connection) -> None:
    one.execute("INSERT INTO t VALUES (1)")
    one.commit()


def _begins_again(one: sqlite3.Connection) -> None:
    _commits(one)
    one.execute("UPDATE t SET x = 2 WHERE x = 3")  # no row


def _rolls_back(one: sqlite3.Connection) -> None:
    one.execute("INSERT INTO t VALUES (1)")
    one.rollback()


def _fails(one: sqlite3.Connection) -> None:
    one.execute("INSERT INTO t VALUES (1)")
    raise ValueError("it is not meant")


CLOSES: dict[str, tuple[Callable[[sqlite3.Connection], object], list[str]]] = {
    "open": (lambda one: one.execute("INSERT INTO t VALUES (1), (2)"), ["2 changed rows"]),
    "committed": (_commits, []),
    "no row": (_begins_again, []),
    "rolled back": (_rolls_back, []),
    "failed": (_fails, []),
}


@pytest.mark.parametrize("how", CLOSES)
def test_changes_are_lost_if_a_database_is_closed_without_a_commit(
    how: str, database: Path
) -> None:
    changes, lost = CLOSES[how]

    async def agent(_: str, world: World) -> str:
        with suppress(ValueError), closing(sqlite3.connect(database)) as one:
            changes(one)
        return "Done."

    found = Simulation(Scenario(prompt="Go."), loop=agent).run_unchecked().trace.entries
    left = [each for each in found if isinstance(each, LeftBehind)]
    assert [each.name for each in left if each.what == "transaction"] == lost


def _drops(one: sqlite3.Connection, loan: str) -> sqlite3.Cursor:
    return one.execute("DELETE FROM t WHERE x = ?", [loan])


def _drops_and(change: str) -> Callable[[sqlite3.Connection, str], object]:
    return lambda one, loan: (_drops(one, loan), one.execute(change))


MISSES: dict[str, tuple[Callable[[sqlite3.Connection, str], object], bool]] = {
    "dropped": (_drops, True),
    "dropped by name": (lambda one, x: one.execute("DELETE FROM t WHERE x = :x", {"x": x}), True),
    "kept": (_drops_and("COMMIT"), True),
    "counted": (lambda one, loan: _drops(one, loan).rowcount, False),
    "returned": (lambda one, x: one.execute(f"{DROP} RETURNING x", [x]).fetchone(), False),
    "read": (_drops_and("SELECT count(*) FROM t"), False),
    "something else": (_drops_and("INSERT INTO t VALUES (9)"), False),
    "behind a change": (
        lambda one, x: (one.execute("INSERT INTO t VALUES (9)"), _drops(one, x)),
        False,
    ),
    "not put in": (lambda one, x: one.execute("INSERT INTO t SELECT ? WHERE 0", [x]), False),
    "of no argument": (lambda one, _: _drops(one, "all"), False),
    "nothing": (lambda one, _: one.execute(""), False),
}


def test_an_argument_without_a_text_does_no_harm() -> None:
    class Session:
        def __str__(self) -> str:
            raise ValueError("it has none")

    work = Work([Session(), "a"], [])
    work.add("DELETE FROM t WHERE x = ? OR y = ?", ["a", b"\0"], 0)
    assert work.missed == "DELETE FROM t WHERE x = ? OR y = ?"


DROP = "DELETE FROM t WHERE x = ?"


@pytest.mark.parametrize(
    ("sql", "value", "end", "keeps"),
    [
        (DROP, "a", "commit", True),
        (DROP, "a", "a block", True),
        (DROP, "a", "each at once", True),
        (DROP, "a", "COMMIT", True),
        (DROP, "a", "ROLLBACK", False),
        (DROP, "a", "rollback", False),
        (DROP, "a", "a block that fails", False),
        (DROP, "a", "close", False),
        (DROP, 7, "commit", False),
        ("INSERT INTO t VALUES (?)", "c", "commit", False),
        ("INSERT INTO t VALUES (?)", "c", "undo", False),
        ("SELECT x FROM t WHERE x = ?", "a", "undo", True),
    ],
)
def test_a_result_names_a_change_that_its_tool_has_committed(
    sql: str, value: object, end: str, database: Path, *, keeps: bool
) -> None:
    with closing(sqlite3.connect(database)) as one, one:
        one.execute("INSERT INTO t VALUES ('a'), (7)")

    @traced
    def move(to: str) -> str:
        with closing(sqlite3.connect(database)) as one:
            if end == "each at once":
                one.isolation_level = None
            if "a block" in end:
                with suppress(ValueError), one:
                    one.execute(sql, [value])
                    if "fails" in end:
                        raise ValueError(to)
                with one:
                    one.execute("INSERT INTO t VALUES ('c')")
            else:
                one.execute(sql, [value])
            if end == "COMMIT":
                one.execute(sql, [value])
            if end == "undo":
                one.execute(DROP, [value])
                one.commit()
            if end.isupper():
                one.execute(end)
            elif end in {"commit", "rollback"}:
                getattr(one, end)()
        with closing(sqlite3.connect(database)) as one:
            one.execute("SELECT 1")
        if end == "commit":
            raise ValueError("the shelf is full")
        return "Error: the shelf is full"

    async def agent(_: str) -> str:
        with suppress(ValueError):
            move("b")
        return "Done."

    found = Simulation(Scenario(prompt="Go."), loop=agent).run_unchecked().trace.entries
    (result,) = [each for each in found if isinstance(each, ToolResult)]
    assert bool(result.kept) is keeps


READ_N, WRITE_N = "SELECT n FROM t WHERE x = ?", "UPDATE t SET n = ? WHERE x = ?"


@pytest.mark.parametrize(
    ("reads", "writes", "n", "calls", "undoes"),
    [
        (READ_N, WRITE_N, 5, "aa", True),
        (f"{READ_N} -- again", WRITE_N, 5, "aa", False),
        ("SELECT ?", WRITE_N, 5, "aa", False),
        (READ_N, "UPDATE t SET n = n + ? WHERE x = ?", 5, "aa", False),
        (READ_N, "INSERT INTO t (n, x) VALUES (?, ?)", 5, "aa", False),
        (READ_N, WRITE_N, "a", "aa", False),  # as the model has given it
        (READ_N, "UPDATE t SET n = ?, y = 1 WHERE x = ?", 5, "aa", True),
        ("SELECT n FROM t", "UPDATE t SET n = ?", 5, "aa", True),
        (READ_N, "INSERT OR REPLACE INTO t (n, x) VALUES (?, ?)", 5, "aa", True),
        (READ_N, "REPLACE INTO t (n, x) VALUES (?, ?)", 5, "aa", True),
        ("SELECT n FROM t", "REPLACE INTO t (n, x) VALUES (?, ?)", 5, "aa", False),
        ("SELECT n FROM t", WRITE_N, 5, "aa", False),
        (READ_N, "UPDATE t SET n = ?", 5, "aa", False),
        (READ_N, "UPDATE t SET {} = ? WHERE x = ?", 5, "aa", False),  # each another column
        (READ_N, WRITE_N, 5, "ab", False),
        (READ_N, WRITE_N, 5, "a", False),
    ],
)
def test_a_result_names_a_change_that_undoes_another_call(
    reads: str, writes: str, n: object, calls: str, database: Path, *, undoes: bool
) -> None:
    with closing(sqlite3.connect(database)) as one, one:
        one.execute("ALTER TABLE t ADD COLUMN n")
        one.execute("ALTER TABLE t ADD COLUMN y")
        one.execute("INSERT INTO t (x, n) VALUES ('a', 1), ('b', 1)")

    @traced
    async def add(x: str, seconds: int) -> str:
        with closing(sqlite3.connect(database, isolation_level=None)) as one:
            one.execute(reads, [x] * reads.count("?"))
            await asyncio.sleep(seconds + 1)
            if "again" in reads:
                one.execute(reads, [x])
            for _ in range(2):
                one.execute(writes.format("ny"[seconds]), [n, x][: writes.count("?")])
        return "done"

    async def agent(_: str) -> str:
        await asyncio.gather(*(add(x, seconds) for seconds, x in enumerate(calls)))
        return "Done."

    found = Simulation(Scenario(prompt="Go."), loop=agent).run_unchecked().trace.entries
    overwrote = [bool(each.overwrote) for each in found if isinstance(each, ToolResult)]
    assert overwrote == [False, undoes][: len(calls)]


@pytest.mark.parametrize("how", MISSES)
def test_a_result_names_the_last_statement_that_finds_no_row(how: str, database: Path) -> None:
    does, misses = MISSES[how]

    @traced
    def return_loan(loan: str) -> str:
        with closing(sqlite3.connect(database)) as one, one:
            does(one, loan)
        return "It is returned."

    async def agent(_: str) -> str:
        return return_loan("seven")

    found = Simulation(Scenario(prompt="Go."), loop=agent).run_unchecked().trace.entries
    (result,) = [each for each in found if isinstance(each, ToolResult)]
    assert bool(result.missed) is misses


def test_a_database_in_memory_needs_no_commit() -> None:
    async def agent(prompt: str) -> str:
        with closing(sqlite3.connect(":memory:")) as one:
            one.execute("CREATE TABLE t (x)")
            one.execute("INSERT INTO t VALUES (1)")
        return "Done."

    record = Simulation(Scenario(prompt="Go."), loop=agent).run().trace.entries
    assert not any(isinstance(each, LeftBehind) for each in record)


USES: dict[str, Callable[[sqlite3.Connection], object]] = {
    "execute": lambda one: one.execute("SELECT 1"),
    "commit": lambda one: one.commit(),
    "rollback": lambda one: one.rollback(),
    "cursor": lambda one: one.cursor(),
    "close": lambda one: one.close(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_an_agent_uses_what_it_opens_when_it_is_made_and_its_threads_cannot(
    use: Callable[[sqlite3.Connection], object],
) -> None:
    class Keeper:
        def __init__(self) -> None:
            self.one = sqlite3.connect(":memory:")
            self.found: list[str] = []

        def __call__(self, prompt: str) -> str:
            def told() -> None:
                try:
                    use(self.one)
                except sqlite3.ProgrammingError as error:
                    self.found.append(str(error))

            worker = threading.Thread(target=told, name="worker")
            worker.start()
            worker.join()
            use(self.one)
            self.one.close()
            return self.found[0]

    result = Simulation(Scenario(prompt="Go."), loop=Keeper).run()
    assert result.text.endswith("was created in thread MainThread and this is thread worker.")


def test_any_thread_uses_a_connection_that_says_so() -> None:
    async def main() -> int:
        with closing(sqlite3.connect(":memory:", check_same_thread=False)) as one:
            return int((await asyncio.to_thread(one.execute, "SELECT 7")).fetchone()[0])

    assert simulate(main()) == 7


MODULE = """
import sqlite3
from sqlite3 import connect

db = sqlite3.connect(DATABASE, timeout=0.02)
other = connect(DATABASE)
db.execute("CREATE TABLE t (x)")


def agent(prompt: str) -> str:
    with db:
        db.execute("INSERT INTO t VALUES (1)")
    return str(other.execute("SELECT x FROM t").fetchall())
"""


def test_an_agent_that_is_not_async_uses_the_connections_of_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = sqlite3.connect
    text = MODULE.replace("DATABASE", repr(str(tmp_path / "t.db")))
    (tmp_path / "bot_with_db.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    result = Simulation(Scenario(prompt="Go."), loop="bot_with_db:agent").run()
    assert (result.text, sqlite3.connect) == ("[(1,)]", opens)
    bot = sys.modules.pop("bot_with_db")
    with closing(opens(tmp_path / "t.db")) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):  # after 20 ms of real time
            bot.db.execute("DELETE FROM t")
    bot.db.close()
    bot.other.close()


def test_changes_without_a_commit_at_the_end_of_a_prompt_are_left_behind(database: Path) -> None:
    class Agent:
        def __init__(self) -> None:
            self.one = sqlite3.connect(database)

        async def __call__(self, prompt: str) -> str:
            if prompt == "Write.":
                self.one.execute("INSERT INTO t VALUES (1), (2)")
            elif prompt == "Keep.":
                self.one.commit()
            elif prompt == "Close.":
                self.one.close()
            return "Done."

    prompts = ["Keep.", "Write.", "Read.", "Write.", "Close."]
    run = Simulation(Scenario(prompt="Write.", then=prompts), loop=Agent).run_unchecked()
    left = [each for each in run.trace.entries if isinstance(each, LeftBehind)]
    assert [each.name for each in left] == [f"{n} changed rows" for n in (2, 2, 4, 4)]
    assert all("test_databases.py" in each.place for each in left)


@pytest.mark.parametrize(
    ("sql", "end", "is_open"),
    [
        ("UPDATE t SET x = 'b'", "", True),
        ("INSERT INTO t VALUES ('b')", "", True),
        ("UPDATE t SET x = 'b'", "commit", False),
        ("UPDATE t SET x = 'b'", "COMMIT", False),
        ("UPDATE t SET x = 'b'", "ROLLBACK", False),
        ("UPDATE t SET x = 'b' WHERE x = 'z'", "", False),
        ("SELECT x FROM t", "", False),
    ],
)
def test_a_result_names_a_change_that_waits_for_the_commit_of_its_caller(
    sql: str, end: str, database: Path, *, is_open: bool
) -> None:
    with closing(sqlite3.connect(database)) as one, one:
        one.execute("DELETE FROM t")
        one.execute("INSERT INTO t VALUES ('a')")

    async def agent(_: str) -> str:
        one = sqlite3.connect(database)

        @traced
        async def move() -> str:
            one.execute(sql)
            if end:
                one.commit() if end == "commit" else one.execute(end)
            return "moved"

        with closing(one), one:
            await move()
        return "Done."

    found = Simulation(Scenario(prompt="Go."), loop=agent).run_unchecked().trace.entries
    (result,) = [each for each in found if isinstance(each, ToolResult)]
    assert result.is_open is is_open
