"""Servers of a program itself: plain sockets, threads, asyncio, and real clients of HTTP."""

import asyncio
import errno
import http.server
import select
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from simloop import ScenarioError, simulate

T = TypeVar("T")


def ran(function: Callable[..., T], *args: Any) -> T:
    async def main() -> T:
        return await asyncio.to_thread(function, *args)

    return simulate(main())


def listening(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def echo(server: socket.socket) -> None:
    one, _ = server.accept()
    with one:
        while data := one.recv(4096):
            time.sleep(1)
            one.sendall(data.upper())


def test_a_thread_answers_a_client_on_virtual_time() -> None:
    def talk() -> tuple[bytes, float]:
        with listening() as server:
            threading.Thread(target=echo, args=(server,)).start()
            with socket.create_connection(server.getsockname()) as client:
                client.sendall(b"hello")
                return client.recv(4096), time.monotonic()

    assert ran(talk) == (b"HELLO", 1.0)


def test_the_ports_are_the_same_in_each_run_and_none_of_the_machines() -> None:
    def ports() -> list[Any]:
        with listening() as one, listening() as other, listening(80) as third:
            return [each.getsockname() for each in (one, other, third)]

    expected = [("127.0.0.1", 49152), ("127.0.0.1", 49153), ("127.0.0.1", 80)]
    assert ran(ports) == expected == ran(ports)


def test_both_ends_know_each_other() -> None:
    def names() -> tuple[Any, ...]:
        with listening(80) as server, socket.create_connection(("localhost", 80)) as client:
            one, address = server.accept()
            with one:
                return address, client.getsockname(), one.getpeername(), client.getpeername()

    address, mine, seen, theirs = ran(names)
    assert address == mine == seen
    assert theirs == ("127.0.0.1", 80)


def test_a_port_is_taken_until_its_server_is_closed() -> None:
    def binds() -> int | None:
        with listening(80):
            try:
                listening(80)
            except OSError as error:
                taken = error.errno
        listening(80).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 80))
        return taken

    assert ran(binds) == errno.EADDRINUSE


def test_a_timeout_of_a_socket_is_virtual() -> None:
    def wait() -> tuple[float, str]:
        with listening() as server, socket.create_connection(server.getsockname()) as client:
            client.settimeout(30)
            with pytest.raises(TimeoutError, match="timed out"):
                client.recv(1)
            server.settimeout(0)
            server.accept()[0].close()
            with pytest.raises(BlockingIOError):
                server.accept()
            return time.monotonic(), str(client.recv(1))

    after_s, rest = ran(wait)
    assert 30 <= after_s < 30.001
    assert rest == "b''"


def test_a_server_that_closes_hangs_up_on_those_whom_it_has_not_accepted() -> None:
    def wait() -> bytes:
        with listening() as server:
            client = socket.create_connection(server.getsockname())
        with client:
            return client.recv(1)

    assert ran(wait) == b""


def test_more_than_the_kernel_holds_is_sent_as_it_is_read() -> None:
    size = 3_000_000

    def send() -> int:
        with listening() as server, socket.create_connection(server.getsockname()) as client:
            one, _ = server.accept()
            sending = threading.Thread(target=one.sendall, args=(b"x" * size,))
            sending.start()
            count = 0
            while count < size:
                count += len(client.recv(100_000))
            sending.join()
            one.close()
            return count

    assert ran(send) == size


def test_a_message_of_several_pieces_is_sent() -> None:
    def send() -> bytes:
        with listening() as server, socket.create_connection(server.getsockname()) as client:
            one, _ = server.accept()
            with one:
                one.sendmsg([b"ab", b"cd"])
                return client.recv(10)

    assert ran(send) == b"abcd"


def test_select_finds_the_connection_that_waits() -> None:
    def find() -> tuple[bool, bool]:
        with listening() as server:
            before = select.select([server], [], [], 5)[0]
            with socket.create_connection(server.getsockname()):
                return bool(before), bool(select.select([server], [], [], 5)[0])

    assert ran(find) == (False, True)


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"you asked for {self.path}".encode())

    def log_message(self, *_: Any) -> None:
        pass


def test_a_server_of_the_standard_library_answers_urllib() -> None:
    def ask() -> str:
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
            threading.Thread(target=server.serve_forever).start()
            url = f"http://127.0.0.1:{server.server_port}/a"
            with urllib.request.urlopen(url) as reply:
                said: str = reply.read().decode()
            server.shutdown()
            return said

    assert ran(ask) == "you asked for /a" == ran(ask)


def test_asyncio_serves_and_connects() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        await asyncio.sleep(2)
        writer.write(line * 50_000)
        await writer.drain()
        writer.close()

    async def main() -> tuple[int, float]:
        server = await asyncio.start_server(answer, "localhost", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello\n")
            found = await reader.read()
            writer.close()
            return len(found), asyncio.get_running_loop().time()

    assert simulate(main()) == (300_000, 2.0)


def test_a_program_that_leaves_its_server_open_leaves_nothing_for_the_next_run() -> None:
    kept: list[socket.socket] = []

    def leave() -> Any:
        kept.append(listening())
        kept.append(socket.create_connection(kept[-1].getsockname()))
        return kept[-2].getsockname()

    assert ran(leave) == ran(leave) == ("127.0.0.1", 49152)
    for each in kept:
        each.close()


def test_a_socket_of_a_pair_is_still_refused() -> None:
    def read() -> object:
        one, other = socket.socketpair()
        with one, other:
            return one.recv(1)

    with pytest.raises(ScenarioError, match=r"socket.recv is not available"):
        ran(read)


@pytest.mark.parametrize("address", [("192.168.0.7", 80), ("weather.example", 80)])
def test_only_the_machine_itself_can_be_bound(address: tuple[str, int]) -> None:
    def bind() -> None:
        with socket.socket() as one:
            one.bind(address)

    with pytest.raises(PermissionError):
        ran(bind)
