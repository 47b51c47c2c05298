"""`simloop doctor --audit`: the gaps that a program uses, with their places."""

import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simloop.cli import main
from simloop.virtual.gaps import ALL, GAPS

PROGRAM = """
import asyncio, concurrent.futures, datetime, io, multiprocessing, os, queue, random, signal
import socket, sys, threading, time, uuid

def held(clock=time.monotonic): return clock()
class Bucket:
    clock = time.perf_counter
pair = socket.socketpair()
today = datetime.date.today
older = os.fdopen(os.pipe()[1], "w")
older_lock, older_queue = threading.Lock(), queue.SimpleQueue()

async def clean():
    await asyncio.sleep(time.time() % 2)
    random.random()

def clocks(): held()
def attribute(): Bucket.clock()
def held_random(draw=random.random): draw()
def locks(): threading.Event().wait(0.0001)
def files(): open(__file__).close()
def environment(): os.environ.get("HOME")
def machine(): os.getpid()
def identity(): id(main)
def zone():
    import zoneinfo
    zoneinfo.ZoneInfo.no_cache("UTC")
def zone_names(): time.tzname
def zone_offset():
    from time import timezone
def days(): datetime.datetime.now().strftime("%d of %B")
def days_in_text(): f"{datetime.date.today():%a}"
def day_read():
    try:
        datetime.datetime.strptime("Monday", "%A")
    except ValueError:
        pass
def local_time(): time.strftime("%x")
def plain_dates():
    datetime.datetime.strptime(datetime.date.today().strftime("%Y-%m-%d %%B"), "%Y-%m-%d %%B")
def number_format():
    import locale
    locale.localeconv()
def held_date(): today()
def held_id(draw=uuid.uuid1): draw()
def process_lock():
    held = multiprocessing.Lock()
    held.acquire()
    held.acquire(timeout=0.0001)
def file_lock():
    import fcntl
    with open(__file__) as file: fcntl.flock(file, fcntl.LOCK_SH)
def pipe_as_file(): older.write("x")
def typed():
    sys.stdin = io.StringIO("x")
    sys.stdin.readline()
def asked():
    sys.stdin = io.StringIO("x")
    input()
def handler(): signal.signal(signal.SIGUSR1, signal.SIG_DFL)
def version():
    import platform
    platform.python_version()
def variables(): list(os.environ)
def ports(): socket.getservbyname("http")
def sockets(): pair[0].send(b"x")
def pipes():
    reads, writes = os.pipe()
    os.write(writes, b"x")
    os.read(reads, 1)
    os.close(reads)
    os.close(writes)
def selects():
    import selectors
    with selectors.DefaultSelector() as selector:
        selector.select(0.0001)
def lock():
    older_lock.acquire()
    older_lock.acquire(timeout=0.0001)
def free_lock():
    threading.Lock().acquire()
    threading.RLock().acquire()
def prints():
    print("x", file=sys.stderr)
    sys.__stderr__.write("")
def memory():
    io.BytesIO(b"x").read()
    io.StringIO("x").readline()
def extension():
    import types
    sys.modules["fake_extension"] = types.ModuleType("fake_extension")
    sys.modules["fake_extension"].__spec__ = types.SimpleNamespace(origin="x.so")
def simple_queue():
    try:
        older_queue.get(timeout=0.0001)
    except queue.Empty:
        pass
def looks_for_a_file(): os.stat(".")
def library():
    import ctypes
    ctypes.CDLL(None).getpid()
def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
def thread_reads_clock(): in_thread(clocks)
async def worker_opens_file(): await asyncio.to_thread(files)
def pool_reads_variable():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(environment).result()
def loop_in_thread_reads_zone():
    async def zone_name():
        await asyncio.sleep(1)
        zone_names()
    in_thread(lambda: asyncio.run(zone_name()))
async def clean_threads():
    done, items = threading.Event(), queue.Queue()
    worker = threading.Thread(target=lambda: items.put(time.monotonic()))
    worker.start()
    await asyncio.to_thread(items.get)
    await asyncio.to_thread(in_thread, lambda: asyncio.run(asyncio.sleep(1)))
    threading.Timer(1, done.set).start()
    with threading.Lock():
        await asyncio.to_thread(done.wait)
    worker.join()
def refused():
    for port in 9, 10, 10:
        try:
            socket.create_connection(("localhost", port))
        except Exception:
            pass
def fails(): raise ValueError("broken")
def leaves(): raise SystemExit(5)
def needs(one): pass
main = 5
"""


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Result]]:
    (tmp_path / "audited.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "stdin", sys.stdin)  # some programs put another in its place

    def run(function: str) -> Result:
        return CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["doctor", "--audit", function])

    yield run
    sys.modules.pop("fake_extension", None)
    module = sys.modules.pop("audited", None)
    for end in (*getattr(module, "pair", ()), *filter(None, [getattr(module, "older", None)])):
        end.close()


def test_a_program_that_uses_no_gap_ends_with_0_and_every_gap_has_a_line(
    audit: Callable[[str], Result],
) -> None:
    result = audit("audited:clean")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines].count("unknown") == 3
    (others,) = [line for line in lines if line.startswith("not seen")]
    named = {line.split()[1].rstrip(":") for line in lines if line.startswith(("unk", "poss"))}
    assert {gap.name for gap in GAPS} == named | set(others.replace(",", "").split()[2:])
    assert not any(line.startswith("used") for line in lines)
    assert "a default argument of audited.held holds monotonic" in result.stdout
    assert "the attribute clock of audited.Bucket holds perf_counter" in result.stdout


USES = [
    ("clocks", "held-clocks", "monotonic"),
    ("attribute", "held-clocks", "perf_counter"),
    ("held_random", "held-clocks", "random"),
    ("files", "files", "audited.py"),
    ("environment", "environment", "HOME"),
    ("machine", "machine", "getpid"),
    ("identity", "identity", "id"),
    ("zone", "time-zone", "find_tzfile"),
    ("zone_names", "time-zone", "time.tzname"),
    ("zone_offset", "time-zone", "time.timezone"),
    ("days", "locale", "%d of %B"),
    ("days_in_text", "locale", "%a"),
    ("day_read", "locale", "%A"),
    ("local_time", "locale", "%x"),
    ("number_format", "locale", "localeconv"),
    ("held_date", "held-clocks", "today"),
    ("held_id", "held-clocks", "uuid1"),
    ("process_lock", "locks", "acquire"),
    ("file_lock", "files", "fcntl.flock"),
    ("pipes", "pipes", "pipe"),
    ("pipe_as_file", "pipes", "write"),
    ("typed", "input", "readline"),
    ("asked", "input", "builtins.input"),
    ("handler", "signals", "signal"),
    ("version", "machine", "_sys_version"),
    ("variables", "environment", "__iter__"),
    ("ports", "machine", "http"),
    ("lock", "locks", "acquire"),
    ("simple_queue", "locks", "get"),
    ("looks_for_a_file", "files", "stat"),
    ("library", "ctypes", "ctypes.dlopen"),
    ("thread_reads_clock", "held-clocks", "monotonic"),
    ("worker_opens_file", "files", "audited.py"),
    ("pool_reads_variable", "environment", "HOME"),
    ("loop_in_thread_reads_zone", "time-zone", "time.tzname"),
]


@pytest.mark.parametrize(("function", "gap", "subject"), USES)
def test_a_gap_that_a_program_uses_is_reported_with_its_place_and_subject(
    function: str, gap: str, subject: str, audit: Callable[[str], Result]
) -> None:
    result = audit(f"audited:{function}")
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    (first,) = [n for n, line in enumerate(lines) if line.startswith(f"used      {gap}: ")]
    place, _, subjects = lines[first + 1].partition(" time")
    assert place.startswith("          - audited.py:")
    assert subject in subjects


def test_every_gap_is_either_audited_or_declared_unseen() -> None:
    looked_up = {"c-extensions", "older-threads"}  # by name, as possible: the next two tests
    audited = {gap for _, gap, _ in USES} | looked_up
    assert audited == {gap.name for gap in GAPS if gap.unseen != ALL}


def test_an_extension_module_and_an_older_thread_are_possible_uses(
    audit: Callable[[str], Result],
) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="older", daemon=True)
    thread.start()
    try:
        result = audit("audited:extension")
    finally:
        done.set()
        thread.join()
    lines = result.stdout.splitlines()
    for gap, detail in ("c-extensions", "fake_extension"), ("older-threads", "older"):
        (first,) = [n for n, line in enumerate(lines) if line.startswith(f"possible  {gap}: ")]
        assert detail in lines[first + 1]


def test_the_part_of_a_gap_that_the_audit_does_not_see_is_in_the_report(
    audit: Callable[[str], Result],
) -> None:
    lines = audit("audited:clean").stdout.splitlines()
    for gap in GAPS:
        if gap.unseen not in {"", ALL}:
            assert f"unseen    {gap.name}: {gap.unseen}" in lines


@pytest.mark.parametrize("function", ["plain_dates", "prints", "memory", "clean_threads"])
def test_what_depends_on_no_gap_is_not_reported(
    function: str, audit: Callable[[str], Result]
) -> None:
    result = audit(f"audited:{function}")
    assert result.exit_code == 0, result.output


def test_the_audit_leaves_the_module_time_as_it_was(audit: Callable[[str], Result]) -> None:
    audit("audited:zone_names")
    assert type(time) is types.ModuleType


@pytest.mark.parametrize("function", ["sockets", "selects"])
def test_a_wait_that_is_refused_is_reported(function: str, audit: Callable[[str], Result]) -> None:
    result = audit(f"audited:{function}")
    assert result.exit_code == 1
    assert result.stdout.startswith("refused   ")


def test_a_lock_that_nobody_holds_is_no_gap(audit: Callable[[str], Result]) -> None:
    assert audit("audited:free_lock").exit_code == 0
    assert audit("audited:locks").exit_code == 0
    assert audit("audited:locks").exit_code == 0


def test_a_call_that_is_refused_is_reported_even_if_the_program_swallows_it(
    audit: Callable[[str], Result],
) -> None:
    result = audit("audited:refused")
    assert result.exit_code == 1
    first, second = [line for line in result.stdout.splitlines() if line.startswith("refused")]
    assert "socket.getaddrinfo of 'localhost', port 9 is not available" in first
    assert "port 10 " in second
    assert second.endswith(", 2 times")
    assert "3 of its calls are refused" in result.stdout


@pytest.mark.parametrize(
    ("function", "said"), [("fails", "ValueError: broken"), ("leaves", "it called sys.exit(5)")]
)
def test_a_program_that_fails_is_reported(
    function: str, said: str, audit: Callable[[str], Result]
) -> None:
    result = audit(f"audited:{function}")
    assert result.exit_code == 1
    assert said in result.stdout
    assert result.stdout.endswith("the program failed\n")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("audited", "is not of the form module:function"),
        ("audited:nothing", "has no attribute 'nothing'"),
        ("no_such_module:f", "No module named"),
        ("audited:main", "is not a function"),
        ("audited:needs", "name a function that can be called without arguments"),
    ],
)
def test_a_function_that_cannot_be_called_ends_with_2(
    target: str, said: str, audit: Callable[[str], Result]
) -> None:
    result = audit(target)
    assert result.exit_code == 2
    assert said in result.stderr
