"""Hosts and programs that are not there: each call fails as Python fails without them."""

import asyncio
import errno
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from simloop import simulate
from simloop.virtual.simulate import running_loop

FAR = ("weather.example", 443)
REFUSED = (errno.ECONNREFUSED, "Connection refused")
ABSENT = (errno.ENOENT, "No such file or directory")


def using(use: Callable[[socket.socket], object], kind: int = socket.SOCK_STREAM) -> object:
    with socket.socket(socket.AF_INET, kind) as one:
        return use(one)


def noted(call: Callable[[], object]) -> tuple[Any, list[tuple[str, str, str, str]]]:
    """What a call returns or raises in a simulation, and what was refused meanwhile."""
    refused: list[tuple[str, str, str, str]] = []

    async def main() -> Any:
        running_loop().on_refusal = lambda *given: refused.append(given)
        try:
            found = call()
            return await found if asyncio.iscoroutine(found) else found
        except Exception as error:  # noqa: BLE001 - it is the result
            return error

    return simulate(main()), refused


HOSTS: dict[str, tuple[Callable[[], object], type[Exception], tuple[int, str]]] = {
    "connect": (lambda: using(lambda one: one.connect(FAR)), ConnectionRefusedError, REFUSED),
    "create_connection": (
        lambda: socket.create_connection(FAR), ConnectionRefusedError, REFUSED),
    "datagram": (
        lambda: using(lambda one: one.sendto(b"x", FAR), socket.SOCK_DGRAM),
        OSError, (errno.ENETUNREACH, "Network is unreachable")),
    "gethostbyname": (
        lambda: socket.gethostbyname(FAR[0]),
        socket.gaierror, (socket.EAI_NONAME, "Name or service not known")),
    "asyncio": (
        lambda: asyncio.open_connection(*FAR),
        ConnectionRefusedError,
        (errno.ECONNREFUSED, "Connect call failed ('192.0.2.1', 443)")),
}  # fmt: skip


@pytest.mark.parametrize("how", HOSTS)
def test_a_host_refuses_with_the_error_of_python_and_is_noted_with_its_name(how: str) -> None:
    call, kind, args = HOSTS[how]
    error, ((what, name, asked, place),) = noted(call)
    assert (type(error), error.args) == (kind, args)
    assert (what, name) == ("host", FAR[0])
    assert asked.startswith(FAR[0])
    assert place.startswith("test_absence.py:")


def test_urllib_says_it_as_it_says_a_refused_connection() -> None:
    error, noted_ones = noted(lambda: urllib.request.urlopen("http://weather.example/today"))
    assert isinstance(error, urllib.error.URLError)
    assert isinstance(error.reason, ConnectionRefusedError)
    assert [asked for _, _, asked, _ in noted_ones] == ["weather.example:80"]


def test_connect_ex_returns_the_number_of_the_error() -> None:
    found, _ = noted(lambda: using(lambda one: one.connect_ex(FAR)))
    assert found == errno.ECONNREFUSED


def test_a_socket_in_the_file_system_is_not_there() -> None:
    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect("/run/docker.sock")

    error, ((what, name, _, _),) = noted(connect)
    assert (type(error), error.args, what, name) == (
        *(FileNotFoundError, ABSENT, "host", "/run/docker.sock"),
    )
    again, _ = noted(lambda: asyncio.open_unix_connection("/run/docker.sock"))
    assert again.args == ABSENT


def test_a_server_in_the_file_system_is_not_permitted_and_its_path_is_in_no_trace() -> None:
    def bind() -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("/run/17.sock")

    error, ((what, _, asked, _),) = noted(bind)
    assert isinstance(error, PermissionError)
    assert (what, asked) == ("call", "socket.bind to a Unix socket")


def test_each_name_has_an_address_of_its_own_that_no_machine_has() -> None:
    def look_up() -> object:
        names = ("a.example", "b.example", "a.example", "localhost", "10.0.0.1")
        return [socket.getaddrinfo(name, 80, socket.AF_INET)[0][4][0] for name in names]

    found, refused = noted(look_up)
    assert found == ["192.0.2.1", "192.0.2.2", "192.0.2.1", "127.0.0.1", "10.0.0.1"]
    assert refused == []  # nobody has connected
    later, _ = noted(lambda: socket.getaddrinfo("a.example", 80, socket.AF_INET6)[0][4][0])
    assert later == "2001:db8::1"


def test_the_machine_has_a_name_that_is_the_same_on_each_machine() -> None:
    found, refused = noted(lambda: (socket.gethostname(), socket.getfqdn()))
    assert (found, refused) == (("localhost", "localhost"), [])


def exec_file() -> object:
    return os.posix_spawn("/bin/git", ["git", "status"], {})


PROGRAMS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "run": (lambda: subprocess.run(["git", "a b"], check=False), "git", "git 'a b'"),
    "bytes": (lambda: subprocess.run([b"/usr/bin/git"], check=False), "git", "/usr/bin/git"),
    "thread": (
        lambda: asyncio.to_thread(subprocess.run, ["git", "log"], check=False), "git", "git log"),
    "shell": (
        lambda: subprocess.run("ls -l | wc", shell=True, check=False), "ls", "ls -l | wc"),
    "exec": (lambda: asyncio.create_subprocess_exec("git", "log", "-1"), "git", "git log -1"),
    "shell of asyncio": (lambda: asyncio.create_subprocess_shell("ls | wc"), "ls", "ls | wc"),
    "spawn": (exec_file, "git", "git status"),
}  # fmt: skip


@pytest.mark.parametrize("how", PROGRAMS)
def test_a_program_is_not_found_and_is_noted_with_its_arguments(how: str) -> None:
    call, name, asked = PROGRAMS[how]
    error, (found,) = noted(call)
    assert type(error) is FileNotFoundError
    assert error.args[:2] == ABSENT
    assert found[:3] == ("program", name, asked)
    # A thread has no code of this file: its function is that of `subprocess`.
    assert found[3].startswith("test_absence.py:") or how == "thread"


def test_a_program_that_is_looked_for_is_not_there_and_nothing_is_noted() -> None:
    assert shutil.which("sh")
    assert noted(lambda: shutil.which("sh")) == (None, [])


def test_a_shell_of_the_system_returns_that_it_found_no_program() -> None:
    status, (found,) = noted(lambda: os.system("git log"))
    assert os.waitstatus_to_exitcode(status) == 127
    assert found[:3] == ("program", "git", "git log")


def test_what_is_no_address_is_still_an_error_of_the_call() -> None:
    error, refused = noted(lambda: using(lambda one: one.connect("weather.example")))
    assert (type(error), refused) == (TypeError, [])
