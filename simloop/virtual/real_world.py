"""The asyncio operations that reach the real world: a simulation refuses them.

Not here: clocks and randomness (border.py). The rule to keep: an operation that would wait for the
real world is refused with advice; none is silently ignored.
"""

import shlex
from collections.abc import Sequence
from typing import Any

TRANSPORT = "put a fake transport (such as httpx.MockTransport) or a fake tool in its place"
PROCESS = "put a fake tool in its place"
THREAD = (
    "start the thread inside the simulation, with threading.Thread, a pool of threads or "
    "asyncio.to_thread"
)

PROCESSES = "give it a pool of threads, or None for the loop's own pool"

# Advice -> the loop methods that it stands for.
REFUSED = {
    TRANSPORT: (
        "create_connection create_server create_unix_connection create_unix_server"
        " create_datagram_endpoint connect_accepted_socket start_tls sendfile"
        " getaddrinfo getnameinfo add_reader remove_reader add_writer remove_writer"
        " sock_recv sock_recv_into sock_recvfrom sock_recvfrom_into"
        " sock_sendall sock_sendto sock_connect sock_accept sock_sendfile"
    ),
    PROCESS: "subprocess_exec subprocess_shell connect_read_pipe connect_write_pipe",
    "call the handler itself, for instance with loop.call_later": (
        "add_signal_handler remove_signal_handler"
    ),
    "return from the main coroutine": "stop",
    "give the coroutine to simloop.virtual.simulate.run_virtual": "run_forever run_until_complete",
}

_LONGEST = 100


def with_command(what: str, command: Any) -> str:
    """Return the name of a call that starts a process, with the command that it starts.

    `command` is a text, a path or a sequence of them, as the call got it.
    """
    several = isinstance(command, Sequence) and not isinstance(command, str | bytes)
    words = [str(_text(word)) for word in (command if several else [command])]
    return f"{what} of {words[0] if len(words) == 1 else shlex.join(words)!r}"[:_LONGEST]


def _text(word: Any) -> Any:
    return word.decode(errors="replace") if isinstance(word, bytes) else word
