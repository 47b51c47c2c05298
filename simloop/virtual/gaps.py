"""The gaps: everything that the border of a simulation cannot cover, in one list.

Not here: how `simloop doctor --audit` looks for them in a program (cli/audit.py). The rule to keep:
a limit of the border is in this list, with the part of it that the audit cannot see; documents and
reports take it from here.
"""

from typing import NamedTuple


class Gap(NamedTuple):
    """One thing that stays real in a simulation.

    `unseen` is the part of it that the audit does not see: `ALL` where no run of a program can show
    whether it depends on the gap, and empty where the audit sees every use.
    """

    name: str
    real: str
    instead: str
    unseen: str = ""

    @property
    def visible(self) -> bool:
        """Return whether the audit sees at least some uses."""
        return self.unseen != ALL


ALL = "any of it"

GAPS = (
    Gap(
        "held-clocks",
        "a default argument, an attribute or a container that holds a clock or a random function, "
        "and any name that holds a method such as `datetime.now`",
        "look the function up when it is called: `time.monotonic()`",
    ),
    Gap(
        "c-extensions",
        "clocks, randomness and threads of extension modules, such as `numpy.random`",
        "seed such a module yourself, or put a fake in its place",
        unseen="which of their functions are called",
    ),
    Gap(
        "ctypes",
        "calls through ctypes and cffi",
        "put a fake in its place",
        unseen="calls through cffi, and of functions that were looked up before",
    ),
    Gap(
        "older-threads",
        "a thread that was started before the simulation, and work that is handed to it",
        "start threads inside the simulation",
        unseen="threads that `threading` does not know",
    ),
    Gap(
        "locks",
        "waits for a `Lock`, `RLock` or `SimpleQueue` that was made before the simulation, and for "
        "those of processes",
        "make it inside the simulation, or use those of asyncio",
        unseen="`with` of a lock of `threading`",
    ),
    Gap(
        "pipes",
        "pipes, terminals and other descriptors: reads and writes, which may wait",
        "put a fake tool in its place",
        unseen="iteration over the lines of a pipe that was opened before",
    ),
    Gap(
        "files",
        "files, folders, names of temporary files and databases, with waits for their locks",
        "give the program its own files",
        unseen="a file that was opened before",
    ),
    Gap(
        "input",
        "what a person types",
        "put a fake tool in its place",
        unseen="iteration over the lines of `sys.stdin`",
    ),
    Gap(
        "signals",
        "a signal that arrives from outside, and the call of its handler",
        "call the handler itself, for instance with loop.call_later",
        unseen="a handler that was set before",
    ),
    Gap("environment", "environment variables", "set those that the program reads"),
    Gap(
        "machine",
        "host, user, process number, processors and versions, with the programs that `distro` runs",
        "keep them out of what the program decides",
        unseen="attributes such as `sys.platform`, and answers that a library keeps",
    ),
    Gap(
        "locale",
        "names of days and months, and number formats",
        "set the locale",
        unseen="the format `n` of a number",
    ),
    Gap(
        "time-zone",
        "the data of `zoneinfo`; `time.tzname` and its like (local time itself is UTC)",
        "install tzdata in one version",
        unseen="a value that was imported before, as by `from time import tzname`",
    ),
    Gap(
        "identity",
        "`id()`, and any order or text made of it",
        "number the objects",
        unseen="the address in the `repr` of an object, and the order of a set of objects",
    ),
    Gap(
        "hash-order",
        "the order of sets of strings, and `hash()` of a string (PYTHONHASHSEED)",
        "sort a set before its order counts",
        unseen=ALL,
    ),
    Gap(
        "garbage",
        "when garbage collection calls `__del__` and the callbacks of weak references",
        "close what is to be closed",
        unseen=ALL,
    ),
    Gap(
        "busy-loops",
        "a computation: it takes no virtual time, and one that never ends cannot be stopped",
        "await or sleep in every loop that may be endless",
        unseen=ALL,
    ),
)
"""All of them; no name occurs twice."""
