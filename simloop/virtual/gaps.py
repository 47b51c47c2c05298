"""The gaps: everything that the border of a simulation cannot cover, in one list.

Not here: how `simloop doctor --audit` looks for them in a program (cli/audit.py). The rule to keep:
a limit of the border is in this list, and documents and reports take it from here.
"""

from typing import NamedTuple


class Gap(NamedTuple):
    """One thing that stays real in a simulation.

    `visible` is false where no run of a program can show whether it depends on it.
    """

    name: str
    real: str
    instead: str
    visible: bool = True


GAPS = (
    Gap(
        "held-clocks",
        "a default argument, an attribute or a container that holds a clock or a random function",
        "look the function up when it is called: `time.monotonic()`",
    ),
    Gap(
        "c-extensions",
        "clocks, randomness and threads of extension modules, such as `numpy.random`",
        "seed such a module yourself, or put a fake in its place",
    ),
    Gap("ctypes", "calls through ctypes and cffi", "put a fake in its place"),
    Gap(
        "older-threads",
        "a thread that was started before the simulation, and work that is handed to it",
        "start threads with asyncio.to_thread, which runs inline",
    ),
    Gap(
        "locks",
        "waits for locks, events and queues of threads and for `selectors`, with their timeouts",
        "use those of asyncio",
    ),
    Gap(
        "older-sockets",
        "a socket, pipe or descriptor that was opened before the simulation; pairs of sockets; "
        "waits with `selectors` and `epoll`",
        "open no connection before, and put a fake transport in its place",
    ),
    Gap("files", "files, folders and names of temporary files", "give the program its own files"),
    Gap("input", "what a person types", "put a fake tool in its place"),
    Gap("environment", "environment variables", "set those that the program reads"),
    Gap(
        "machine",
        "host, user, process number, processors and versions, with the programs that `distro` runs",
        "keep them out of what the program decides",
    ),
    Gap("locale", "names of days and months, and number formats", "set the locale"),
    Gap(
        "time-zone",
        "the data of `zoneinfo`; `time.tzname` and its like (local time itself is UTC)",
        "install tzdata in one version",
    ),
    Gap("identity", "`id()`, and any order or text made of it", "number the objects"),
    Gap(
        "hash-order",
        "the order of sets of strings, and `hash()` of a string (PYTHONHASHSEED)",
        "sort a set before its order counts",
        visible=False,
    ),
    Gap(
        "garbage",
        "when garbage collection calls `__del__` and the callbacks of weak references",
        "close what is to be closed",
        visible=False,
    ),
    Gap(
        "busy-loops",
        "a computation: it takes no virtual time, and one that never ends cannot be stopped",
        "await something in every loop that may be endless",
        visible=False,
    ),
)
"""All of them; no name occurs twice."""
