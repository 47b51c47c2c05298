"""The catalogue of faults: each failure of a model that simloop knows, stated once.

A fault is the keys of a reply in a script, so whatever plays a reply plays each of them.
`faults.json` has the faults, and the statuses, words, headers and bodies of failed calls.
"""

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from simloop.kernel.errorclass import ErrorClass

Keys = Mapping[str, Any]
"""The keys of a reply, or of a part of one, as a scenario file has them."""

FaultPlace = Literal["before-connect", "before-headers", "after-headers", "mid-output"]
"""Where a connection is lost, or where nothing more comes."""

FAILURES = ("http", "error", "lost", "stall", "unfinished", "raises")
REPLY_ENDS = ("finish", *FAILURES)
"""The keys of a reply that state its end; a reply has at most one of them."""
TOOL_ENDS = ("returns", "returns_chars", "raises", "cancels", "hangs")
"""The keys of a tool that state its end; a tool has at most one of them."""


class Stage(Enum):
    """The moment of a reply at which a fault shows."""

    INSTEAD = "instead"  # no reply comes
    LATE = "late"  # a whole reply comes after it
    AMID = "amid"  # the first parts of a reply come before it
    END = "end"  # a whole reply comes before it


class ReplyFault(Struct, frozen=True, eq=False):
    """One fault of a model's reply.

    `error` is the class of the failed call, if the call fails. `weight` is for the search: 0 keeps
    the fault out of it, because the search makes it from several axes. `words` are for a menu that
    inserts the fault. `site` is the name under which the fault comes by chance, and acts by default
    unless `named_only`: a scenario that lists no sites draws the faults that it always drew. Only a
    provider that breaks its contract causes a fault that `is_breach`.
    """

    name: str
    stage: Stage
    keys: Keys
    error: ErrorClass | None = None
    weight: int = 1
    words: str = ""
    site: str = ""
    named_only: bool = False
    is_breach: bool = False

    @property
    def reply(self) -> dict[str, Any]:
        """Return the keys of a whole reply with this fault: one that comes says a few words."""
        return ({} if self.stage is Stage.INSTEAD else {"say": "This reply"}) | {**self.keys}


class SiteFault(Struct, frozen=True, eq=False):
    """One fault of a party besides the model, with its keys in a script; it comes by chance."""

    site: str
    stage: Stage
    keys: Keys


class Body(Struct, frozen=True):
    """The body of a failed call, as keys of `http`, and the statuses that come with it."""

    keys: Keys
    statuses: tuple[int, ...] = ()
    is_of_openai: bool = False  # no other provider writes that code


class _Catalogue(Struct, frozen=True):
    faults: tuple[ReplyFault, ...]
    service_faults: tuple[SiteFault, ...]
    program_faults: tuple[SiteFault, ...]
    weathers: Mapping[str, tuple[str, ...]]
    statuses: tuple[int, ...]
    phrases: Mapping[int, str]
    waits: tuple[Keys, ...]
    bodies: tuple[Body, ...]


_DATA = msgspec.json.decode(Path(__file__).with_name("faults.json").read_bytes(), type=_Catalogue)
FAULTS = _DATA.faults
"""The faults of a model. Those that come by chance are asked in this order, on which each recorded
run with them depends."""
SERVICE_FAULTS = _DATA.service_faults
"""The faults of a service; one that is late may come with another."""
PROGRAM_FAULTS = _DATA.program_faults
"""The faults of a program, which dies after half of its output if it is killed."""
WEATHERS = _DATA.weathers
"""Sites that act together, under a short name."""
STATUSES = _DATA.statuses
"""The statuses of failed calls."""
WAITS = _DATA.waits
"""The keys of `http` by which a failed call requests a wait; a simulation begins with 2026."""
NO_SECONDS = re.compile(r"GMT|soon|1e400|\dms'")  # in those that are no whole numbers of seconds
BODIES = tuple(replace(each, statuses=each.statuses or STATUSES) for each in _DATA.bodies)
"""The bodies of a failed call: overflows in the words of providers, and similar words."""


def status_text(status: int) -> str:
    """Return a status such as `404 Not Found`, the same in all versions of Python."""
    return f"{status} {_DATA.phrases.get(status, 'Error')}"
