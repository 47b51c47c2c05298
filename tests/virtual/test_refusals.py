"""Whatever would leave a simulation without asyncio is refused, and names its place."""
# ruff: noqa: PLW0108 - a lambda looks the name up when it is asked

import _thread
import asyncio
import os
import re
import shutil
import signal
import socket
import ssl
import sys
import threading
import types
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from incases import in_cases

from simloop import ScenarioError, simulate
from simloop.virtual.border.refusals import watch_reaches
from simloop.virtual.real_world import noted_interrupts
from simloop.virtual.simulate import run_virtual, running_loop


def using(use: Callable[[socket.socket], object], kind: int = socket.SOCK_STREAM) -> object:
    with socket.socket(socket.AF_INET, kind) as one:
        return use(one)


def pair(use: Callable[[socket.socket], object]) -> object:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(0.01)
        return use(one)


def tls(use: Callable[[ssl.SSLSocket], object]) -> object:
    context = ssl.create_default_context()
    context.check_hostname = False
    one, other = socket.socketpair()
    one.settimeout(0.01)
    with other, context.wrap_socket(one, do_handshake_on_connect=False) as wrapped:
        return use(wrapped)


REACHES: dict[str, Callable[[], object]] = {
    "os.fork": lambda: os.fork(),
    "os.forkpty": lambda: os.forkpty(),
    "os.exec": lambda: os.execv("/nonexistent", ["x"]),
    "os.kill": lambda: os.kill(os.getpid(), 0),
    "os._exit": lambda: os._exit(0),
    "os.abort": lambda: os.abort(),
    "signal.raise_signal": lambda: signal.raise_signal(signal.SIGTERM),
    "_thread.interrupt_main": lambda: _thread.interrupt_main(signal.SIGTERM),
    "signal.alarm": lambda: signal.alarm(0),
    "signal.setitimer": lambda: signal.setitimer(signal.ITIMER_REAL, 0),
    "socket.listen": lambda: using(lambda one: one.listen()),
    "socket.accept": lambda: pair(lambda one: one.accept()),
    "socket.recv": lambda: pair(lambda one: one.recv(1)),
    "socket.recv_into": lambda: pair(lambda one: one.makefile("rb").read(1)),
    "socket.recvfrom": lambda: pair(lambda one: one.recvfrom(1)),
    "socket.recvfrom_into": lambda: pair(lambda one: one.recvfrom_into(bytearray(1))),
    "socket.recvmsg": lambda: pair(lambda one: one.recvmsg(1)),
    "socket.recvmsg_into": lambda: pair(lambda one: one.recvmsg_into([bytearray(1)])),
    "socket.send": lambda: pair(lambda one: one.send(b"x")),
    "socket.sendall": lambda: pair(lambda one: one.sendall(b"x")),
    "socket.do_handshake": lambda: tls(lambda one: one.do_handshake()),
    "socket.read": lambda: tls(lambda one: one.read(1)),
    "socket.write": lambda: tls(lambda one: one.write(b"x")),
    "os.sendfile": lambda: pair(lambda one: os.sendfile(one.fileno(), 0, 0, 0)),
}


@in_cases(REACHES)
def test_a_reach_is_refused_at_its_place_even_if_it_is_swallowed(what: str) -> None:
    reach = REACHES[what]
    went_on = False

    async def main() -> None:
        nonlocal went_on
        try:
            reach()
        except Exception:  # noqa: BLE001 - as much code swallows everything
            went_on = True

    with pytest.raises(ScenarioError, match=rf"^{what}(?!\w).* is not available in a ") as caught:
        simulate(main())
    place = re.search(r"; called at test_refusals.py:(\d+) in ", str(caught.value))
    assert place is not None
    assert 0 <= int(place[1]) - reach.__code__.co_firstlineno <= 3
    assert went_on


def test_a_file_is_copied(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "a").write_text("text")
        shutil.copytree(tmp_path, tmp_path / "copies")

    simulate(main())
    assert (tmp_path / "copies" / "a").read_text() == "text"


ASKS = """
import os
def ask(*given):
    return given[0](*given[1:]) if given else os.fork()
"""


def installed(name: str) -> Callable[..., object]:
    """A function of an installed package of that name, which asks itself or calls another one."""
    package: Any = types.ModuleType(name)
    exec(compile(ASKS, f"/lib/site-packages/{name}.py", "exec"), vars(package))
    ask: Callable[..., object] = package.ask
    return ask


def test_the_place_is_that_of_the_package_that_asks_and_not_of_what_calls_it() -> None:
    async def main() -> None:
        installed("bots")(installed("httpx"))

    with pytest.raises(ScenarioError, match=r"called at bots.py:4 in ask$"):
        simulate(main())


def test_the_place_is_the_users_own_line_and_not_that_of_a_client() -> None:
    async def main() -> None:
        installed("openai")(installed("httpx"), installed("httpcore"))

    line = main.__code__.co_firstlineno + 1
    with pytest.raises(ScenarioError, match=rf"called at test_refusals.py:{line} in "):
        simulate(main())


def test_other_threads_and_code_outside_may_reach_for_everything() -> None:
    results: list[str] = []
    begin, done = threading.Event(), threading.Lock()
    done.acquire()  # a lock from outside is waited for in real time

    def reach() -> None:
        begin.wait(10)
        results.append(socket.gethostbyname("127.0.0.1"))
        done.release()

    worker = threading.Thread(target=reach)
    worker.start()

    async def main() -> None:
        begin.set()
        assert done.acquire(timeout=10)

    simulate(main())
    worker.join()
    assert results == ["127.0.0.1"] == [socket.gethostbyname("127.0.0.1")]


def test_files_can_be_read_and_modules_imported(tmp_path: Any) -> None:
    (tmp_path / "imported_now.py").write_text("VALUE = 5\n")

    async def main() -> int:
        sys.path.insert(0, str(tmp_path))
        try:
            import imported_now  # type: ignore[import-not-found]  # noqa: PLC0415 - in the simulation
        finally:
            sys.path.remove(str(tmp_path))
        assert isinstance(imported_now.VALUE, int)
        return imported_now.VALUE

    assert simulate(main()) == 5


MACHINE = """
import os, socket
def ask(): return os.system("true"), socket.gethostbyname("127.0.0.1")
"""


@pytest.mark.parametrize("name", ["distro", "platform.deeper", "pdb"])
def test_a_debugger_and_a_question_about_the_machine_may_reach_for_everything(name: str) -> None:
    asking: Any = types.ModuleType(name)  # as the SDK of OpenAI does at its first request
    exec(MACHINE, vars(asking))

    async def main() -> object:
        return asking.ask()

    assert simulate(main()) == (0, "127.0.0.1")


def test_the_audit_hook_is_added_once() -> None:
    watch_reaches()
    added: list[str] = []

    armed = True

    def note(event: str, _: object) -> None:
        if armed and event == "sys.addaudithook":
            added.append(event)

    sys.addaudithook(note)
    simulate(asyncio.sleep(1))
    simulate(asyncio.sleep(1))
    armed = False
    assert added == []


LOOP_REACHES: dict[str, Callable[[], Awaitable[object]]] = {
    "loop.add_signal_handler": lambda: soon(
        running_loop().add_signal_handler, signal.SIGINT, print
    ),
    "loop.add_reader": lambda: soon(running_loop().add_reader, 0, print),
    "loop.stop": lambda: soon(running_loop().stop),
}


async def soon(function: Callable[..., object], *args: object) -> None:
    function(*args)


@pytest.mark.parametrize("what", LOOP_REACHES)
def test_reaching_for_the_real_world_is_an_error_with_advice_even_if_swallowed(what: str) -> None:
    async def main() -> None:
        with pytest.raises(ScenarioError) as caught:
            await LOOP_REACHES[what]()
        assert running_loop().escapes == [caught.value]

    with pytest.raises(ScenarioError, match=rf"^{what} is not available in a simulation: \w+"):
        run_virtual(main())


def test_an_exception_of_the_code_is_no_ctrl_c() -> None:
    with noted_interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        raise KeyboardInterrupt
    assert not interrupts.pressed


def test_a_ctrl_c_is_noted_by_each_block_around_it_and_raised_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with noted_interrupts() as outer, noted_interrupts() as inner:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert (outer.pressed, inner.pressed) == (True, True)
    assert signal.getsignal(signal.SIGINT) is before
