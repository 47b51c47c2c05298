"""The bounds of a run. A limit that is reached ends the run with an outcome that says so."""

from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge

from simloop.kernel.checks import Checked
from simloop.kernel.durations import Lasting, Milliseconds

MAX_TRANSITIONS = 1_000_000
"""The highest `max_transitions` that a scenario can state."""
USUAL_MOVES, USUAL_REQUESTS = 100_000, 100
"""The moves of a machine, and the requests of an agent, after which a prompt is a runaway."""


class Usual(int):
    """The value of a limit that was not set. It equals the plain number."""

    __slots__ = ()

    def as_written(self) -> int:
        return int(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> Any:
        """Write the plain number in JSON: the JSON Schema shows the default of a limit by this."""
        from pydantic_core import core_schema  # noqa: PLC0415 - the kernel works without pydantic

        return core_schema.int_schema()


class DeclaredLimits(NamedTuple):
    """The bounds that an agent declares and counts itself; those that it does not set are none."""

    max_steps: float = inf
    max_steps_per_round: float = inf
    max_error_count: float = inf
    max_compaction_attempts: float = inf
    max_wall_clock_ms: float = inf

    @property
    def or_usual(self) -> "Limits":
        return Limits(**{name: int(n) for name, n in self._asdict().items() if n < inf})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Checked, at="limits"):
    """The bounds of a run. Raises ScenarioError for a value below its minimum."""

    max_steps: Annotated[int, Ge(1)] = Usual(100)
    """Steps of all replies together; tested with >= wherever the run would go on."""
    max_steps_per_round: Annotated[int, Ge(1)] = Usual(20)
    """Steps that one reply may report, beside the bound on the steps of all replies."""
    max_error_count: Annotated[int, Ge(1)] = Usual(3)
    """Failed or useless model calls; the last of them ends the run, so 3 means 2 retries."""
    max_compaction_attempts: Annotated[int, Ge(0)] = Usual(2)
    """Compactions tried, normal and forced together; 0 means never shorten the context."""
    max_wall_clock_ms: Annotated[int, Lasting(1)] | None = None
    """Virtual time for the whole run."""
    first_part_timeout_ms: Annotated[int, Lasting(1)] = Milliseconds(180_000)
    """Virtual time until the model's first part."""
    model_call_timeout_ms: Annotated[int, Lasting(1)] = Milliseconds(600_000)
    """Virtual time for one model call, stream included."""

    @property
    def declared(self) -> DeclaredLimits:
        """Return the bounds on a run that were set, also if they were set to the default."""
        values = ((name, getattr(self, name)) for name in DeclaredLimits._fields)
        is_set = {name: n for name, n in values if n is not None and not isinstance(n, Usual)}
        return DeclaredLimits(**is_set)
