"""The asyncio operations that reach the real world: a simulation refuses or inlines them.

Not here: clocks and randomness (border.py). The rule to keep: an operation that would wait for the
real world is refused with advice, or runs inline; none is silently ignored.
"""

import asyncio
import contextlib
import contextvars
from collections.abc import Callable
from typing import Any

TRANSPORT = "put a fake transport (such as httpx.MockTransport) or a fake tool in its place"
PROCESS = "put a fake tool in its place"
THREAD = "use asyncio.to_thread, which runs inline; import anyio before the simulation starts"

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
    "give the coroutine to simloop.virtual.clock.run_virtual": "run_forever run_until_complete",
}


def run_anyio_threads_inline(virtual: type[asyncio.AbstractEventLoop]) -> None:
    """Make anyio's worker threads inline on loops of that class; only once.

    `anyio.from_thread` does not work in there: no thread is waiting for the loop.
    """
    from anyio._backends._asyncio import AsyncIOBackend  # noqa: PLC0415 - not everyone's dependency

    original = AsyncIOBackend.run_sync_in_worker_thread
    if hasattr(original, "runs_inline"):
        return

    async def run_sync_in_worker_thread(
        cls: type[AsyncIOBackend],
        func: Callable[..., Any],
        args: tuple[Any, ...],
        abandon_on_cancel: bool = False,  # noqa: FBT001, FBT002 - anyio's signature
        limiter: Any = None,
    ) -> Any:
        if not isinstance(asyncio.get_running_loop(), virtual):
            return await original(func, args, abandon_on_cancel, limiter)
        await cls.checkpoint()
        async with limiter or contextlib.nullcontext():
            return contextvars.copy_context().run(func, *args)

    run_sync_in_worker_thread.runs_inline = True  # type: ignore[attr-defined]
    patched: Any = classmethod(run_sync_in_worker_thread)
    AsyncIOBackend.run_sync_in_worker_thread = patched  # type: ignore[method-assign]
