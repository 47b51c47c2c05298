"""The contents of a recording, whatever its format: what was sent, what came back, and when.

A reader makes records in the order of the recording. `scenarios.py` makes a scenario of them. What
a reader leaves out it counts, with the reason.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from simloop.messages import AssistantMessage, Request, ToolSpec

NO_PROMPT = "(the recording has no prompt)"
NO_TOOLS = "the tools' definitions"


class Beginning(Sequence[Any]):  # noqa: PLW1641 - no set has one
    """The first items of a list that only grows. Requests share it: none has a copy."""

    def __init__(self, whole: list[Any], length: int) -> None:
        self._whole, self._length = whole, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: Any) -> Any:
        if not isinstance(place, slice):
            return self._whole[range(self._length)[place]]
        start, stop, _ = place.indices(self._length)
        return tuple(self._whole[start:stop]) if start else Beginning(self._whole, stop)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Beginning) and vars(self) == vars(other)


class Prompt(Struct):
    """A message of the user to the agent `party`; the main one has no name."""

    text: str
    party: str = ""
    at_ns: int | None = None
    begins: bool = False  # the recording says so, however the run before it ended


class Shortened(Struct):
    """A summary that took the place of all messages before it."""

    summary: str
    party: str = ""


class ModelCall(Struct):
    """One attempt to call the model: what was asked, if the recording has it, and what came."""

    reply: Mapping[str, Any]  # the keys of a reply of a script
    message: AssistantMessage | None = None  # as later requests have it; None if it failed
    request: Request | None = None
    party: str = ""
    began_ns: int | None = None
    ended_ns: int | None = None
    waited_ns: int | None = None


class ToolRun(Struct):
    """The result of one call, and the time that its tool took, if the recording has it."""

    call_id: str
    text: str
    is_error: bool = False
    took_ns: int | None = None
    party: str = ""


class ServiceCall(Struct):
    """A request to a service that is no model: its address, and the keys of a route for it."""

    address: str
    route: Mapping[str, Any]


Record = Prompt | Shortened | ModelCall | ToolRun | ServiceCall


class Recording(Struct):
    """One recording: its records, what its format does not hold, and the counts of the rest.

    `lacks` are nouns for the comment in the scenario. `skipped` counts what was left out, by
    reason, and `removed` the secrets, by kind. `hint` is for one without a call of a model.
    `system_prompt` and `tools` are those of a format that has them apart from requests. `loop` is
    the design that behaves as the program that has written it.
    """

    name: str
    format: str
    loop: str = ""
    records: list[Record] = field(default_factory=list)
    lacks: tuple[str, ...] = ()
    system_prompt: str = ""
    tools: tuple[ToolSpec, ...] = ()
    skipped: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    hint: str = "import a recording of the requests to a model"

    def leave_out(self, reason: str, times: int = 1) -> None:
        self.skipped[reason] += times

    def leave_out_type(self, what: str, kind: str) -> None:
        self.leave_out(f"{what} of the type {kind[:40] or '(none)'}")

    def counted(self) -> Iterator[str]:
        """Yield what was left out and what was removed, and how many times."""
        for word, counts in (("left out", self.skipped), ("removed", self.removed)):
            yield from (f"{word} {n} time{'s' * (n != 1)}: {why}" for why, n in counts.items())
